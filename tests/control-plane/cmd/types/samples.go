package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializers "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// sample is an object as sent by a Go client, and as decoded by the server.
type sample struct {
	Name     string          `json:"name"`
	Protobuf []byte          `json:"protobuf"`
	JSON     json.RawMessage `json:"json"`
}

// encoded returns all kinds with all fields set, all kinds with zeros behind all pointers, and the
// objects of written.
func encoded(scheme *runtime.Scheme, names []string) []sample {
	var all []sample
	binary := protobuf.NewSerializer(scheme, scheme)
	text := serializers.NewSerializerWithOptions(
		serializers.DefaultMetaFactory, scheme, scheme, serializers.SerializerOptions{Strict: true},
	)
	add := func(name string, object runtime.Object) {
		var body bytes.Buffer
		must(binary.Encode(object, &body))
		// Protobuf does not distinguish empty from missing values.
		back, kind, err := binary.Decode(body.Bytes(), nil, nil)
		must(err)
		back.GetObjectKind().SetGroupVersionKind(*kind)
		printed, err := json.Marshal(back)
		must(err)
		all = append(all, sample{Name: name, Protobuf: body.Bytes(), JSON: printed})
	}
	for _, name := range names {
		version, kind, _ := strings.Cut(name, " ")
		group, err := schema.ParseGroupVersion(version)
		must(err)
		if !sent(group, kind) {
			continue
		}
		for _, how := range []*filler{{zeros: true}, {pods: kind == "Pod"}} {
			object, err := scheme.New(group.WithKind(kind))
			must(err)
			how.fill(object)
			object.GetObjectKind().SetGroupVersionKind(group.WithKind(kind))
			title := "all of " + name
			if how.zeros {
				title = "zeros of " + name
			}
			add(title, object)
		}
	}
	for _, each := range written {
		object, _, err := text.Decode([]byte(each), nil, nil)
		must(err)
		named, _ := object.(metav1.Object)
		add(named.GetName(), object)
	}
	return all
}

// show prints one line per sample, for readable diffs.
func show(samples []sample) {
	lines := make([]string, len(samples))
	for i, each := range samples {
		line, err := json.Marshal(each)
		must(err)
		lines[i] = string(line)
	}
	fmt.Println("[\n" + strings.Join(lines, ",\n") + "\n]")
}

// sent returns true for kinds that can be the body of a request.
func sent(group schema.GroupVersion, kind string) bool {
	switch kind {
	case "DeleteOptions":
		return group.Group == "apps" // the same in all groups
	case "WatchEvent", "Status", "APIGroup", "APIVersions", "ConversionReview", "SerializedReference":
		return false
	}
	return !strings.HasSuffix(kind, "Options")
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// written has values with several forms.
var written = []string{
	`{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "deployment", "labels": {"app": "Käse 🧀", "": ""},
	  "creationTimestamp": "2024-02-29T10:11:12Z", "generation": 9007199254740993,
	  "managedFields": [{"manager": "m", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]},
	  "spec": {"replicas": 0, "selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", ""]}]},
	  "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
	  "template": {"metadata": {}, "spec": {"containers": [{"name": "c", "image": "i",
	    "resources": {"limits": {"cpu": "1500m", "memory": "1.5Gi", "hugepages-2Mi": "0"}, "requests": {"cpu": "0.1", "memory": "1e3"}},
	    "livenessProbe": {"httpGet": {"port": "web", "path": "/"}, "terminationGracePeriodSeconds": 0},
	    "readinessProbe": {"tcpSocket": {"port": 8080}},
	    "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": false}}}],
	    "securityContext": {"runAsUser": -1, "runAsNonRoot": false, "capabilities": {"drop": ["ALL"]}}}],
	    "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "projected": {"defaultMode": 0, "sources": [{"configMap": {"name": "c"}}]}}],
	    "ephemeralContainers": [{"name": "e", "image": "j", "targetContainerName": "c"}],
	    "automountServiceAccountToken": false, "priority": -2147483648}}}}`,
	`{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "event", "namespace": "n"}, "count": 2147483647,
	  "eventTime": "1969-12-31T23:59:59.999999Z", "firstTimestamp": "1970-01-01T00:00:00Z", "lastTimestamp": null, "involvedObject": {}}`,
	`{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "lease"},
	  "spec": {"holderIdentity": "", "leaseDurationSeconds": 15, "renewTime": "2024-01-01T00:00:00.000001Z", "acquireTime": "2024-01-01T00:00:00.000000Z"}}`,
	`{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "secret"}, "immutable": false, "data": {"a": "AP/+gA==", "b": ""}, "type": "Opaque"}`,
	`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "configmap", "deletionGracePeriodSeconds": 0}, "data": {"a": "1\n2", "b": ""}, "binaryData": {"c": "AA=="}}`,
	`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "service"}, "spec": {"ports": [{"port": 80, "targetPort": "web"}, {"port": 81, "targetPort": 8081}, {"port": 82, "targetPort": 0}]}}`,
	`{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {"name": "review"},
	  "spec": {"user": "u", "groups": ["g", "h"], "extra": {"one": ["1"], "two": ["1", "2"], "none": []}, "resourceAttributes": {"verb": "get"}}}`,
	`{"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "revision"}, "revision": -1, "data": {"spec": [1, 2.5, null, "x"]}}`,
	`{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}, "spec": {"parallelism": 0, "suspend": true,
	  "podFailurePolicy": {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1, 200, 70000, -1]}}]},
	  "template": {"spec": {"containers": null}}}}`,
	`{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "webhooks"},
	  "webhooks": [{"name": "w", "clientConfig": {"caBundle": "Cg==", "service": {"namespace": "n", "name": "s", "port": 443}},
	    "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "scope": "*"}],
	    "sideEffects": "None", "timeoutSeconds": 1, "admissionReviewVersions": ["v1"]}]}`,
	`{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "autoscaler"}, "spec": {"minReplicas": 0, "maxReplicas": 3,
	  "scaleTargetRef": {"kind": "Deployment", "name": "d"}, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}},
	  {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "100k"}}}]}}`,
	`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "definition"}, "spec": {"group": "g", "scope": "Cluster",
	  "names": {"plural": "ps", "kind": "P"}, "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.r", "statusReplicasPath": ".status.r"}},
	  "schema": {"openAPIV3Schema": {"type": "object", "properties": {
	    "number": {"type": "number", "minimum": -0.5, "maximum": 1e300, "multipleOf": 0, "default": 0, "enum": [1, "a", null, {"b": []}]},
	    "text": {"type": "string", "minLength": 0, "maxLength": 64, "pattern": "^a$", "default": ""},
	    "open": {"type": "object", "additionalProperties": true}, "closed": {"type": "object", "additionalProperties": false},
	    "typed": {"type": "object", "additionalProperties": {"type": "integer", "format": "int64"}},
	    "list": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}, "tuple": {"type": "array", "items": [{"type": "string"}, {}]},
	    "kept": {"x-kubernetes-preserve-unknown-fields": true, "nullable": true, "dependencies": {"a": ["b"], "c": {"type": "object"}}},
	    "either": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "default": null}},
	    "x-kubernetes-validations": [{"rule": "true", "optionalOldSelf": false}]}}}]}}`,
}
