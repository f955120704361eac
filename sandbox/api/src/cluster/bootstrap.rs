//! Initial objects of every cluster.

use kopf_sandbox_kinds::services::pool::RANGE;
use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::{Cluster, collection, parents};
use crate::store::{Expect, Key};

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

impl Cluster {
    /// Creates the objects of a new cluster.
    pub fn bootstrap(&self) {
        for name in NAMESPACES {
            self.establish("", "namespaces", namespace(name));
        }
        let now = self.clock.seconds();
        self.establish("networking.k8s.io", "servicecidrs", service_cidr(&now));
        for class in priority_classes() {
            self.establish("scheduling.k8s.io", "priorityclasses", class);
        }
        self.establish("", "services", service());
        for status in component_statuses() {
            self.establish("", "componentstatuses", status);
        }
        if self.rbac {
            self.establish_roles();
        }
    }

    /// Publishes the certificate authority to clients, which can change after a restart.
    pub fn publish_authority(&self, certificate: &str) {
        let Some(kind) = self.built_in("", "configmaps") else {
            return;
        };
        let key = Key::new(Some("kube-system"), AUTHENTICATION);
        let data = json!({ "client-ca-file": certificate });
        match self.store.get(&collection(&kind), &key) {
            None => self.establish("", "configmaps", authentication(&data)),
            Some(stored) => {
                let mut object = stored.value();
                object["data"] = data;
                // If another client writes it at the same time, its content is kept.
                let _ = self.put(&kind, &key, Expect::Revision(stored.revision), object);
            }
        }
        if let Some(workloads) = &self.workloads {
            workloads.reconcile_namespaces(self);
        }
    }

    /// Returns the certificate authority, unless it is not needed yet.
    pub fn published_authority(&self) -> Option<String> {
        let authority = self.authority.lock();
        Some(authority.as_ref()?.pem().to_owned())
    }

    /// Stores an initial object of the server.
    pub fn establish(&self, group: &str, plural: &str, mut object: Value) {
        let Some(kind) = self.built_in(group, plural) else {
            return;
        };
        let now = self.clock.seconds();
        if let Some(entries) = object.pointer_mut("/metadata/managedFields") {
            for entry in entries.as_array_mut().into_iter().flatten() {
                entry["time"] = json!(now);
                entry["fieldsType"] = json!("FieldsV1");
                entry["apiVersion"] = json!(kind.api_version(&kind.storage_version));
            }
        }
        meta::set(&mut object, "uid", self.ids.uid());
        meta::set(&mut object, "creationTimestamp", now);
        let key = Key::new(meta::namespace(&object), meta::name(&object));
        if self.store.get(&collection(&kind), &key).is_some() {
            return; // restored from a data folder
        }
        // These objects affect only rights, which are computed once at the end.
        let parents = parents(&kind, key.namespace());
        // Fails only in a namespace that has been terminating since before the restart.
        let _ = self.store.put(
            &collection(&kind),
            &key,
            Expect::Absent,
            &kind,
            object,
            &parents,
        );
        self.hold_addresses(&kind, &key);
    }
}

/// The ConfigMap by which extension servers authenticate requests.
const AUTHENTICATION: &str = "extension-apiserver-authentication";

fn authentication(data: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": AUTHENTICATION,
            "namespace": "kube-system",
            "managedFields": [{
                "manager": "kube-apiserver",
                "operation": "Update",
                "fieldsV1": { "f:data": { ".": {}, "f:client-ca-file": {} } },
            }],
        },
        "data": data,
    })
}

pub(super) fn namespace(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": { "kubernetes.io/metadata.name": name },
            "managedFields": [{
                "manager": "kube-apiserver",
                "operation": "Update",
                "fieldsV1": {
                    "f:metadata": {
                        "f:labels": { ".": {}, "f:kubernetes.io/metadata.name": {} },
                    },
                },
            }],
        },
        "spec": { "finalizers": ["kubernetes"] },
        "status": { "phase": "Active" },
    })
}

/// Returns the ServiceCIDR of the cluster IPs.
fn service_cidr(now: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {
            "name": "kubernetes",
            "managedFields": [
                {
                    "manager": "kubernetes-service-cidr-controller",
                    "operation": "Apply",
                    "subresource": "status",
                    "fieldsV1": {
                        "f:status": {
                            "f:conditions": {
                                "k:{\"type\":\"Ready\"}": {
                                    ".": {},
                                    "f:lastTransitionTime": {},
                                    "f:message": {},
                                    "f:status": {},
                                    "f:type": {},
                                },
                            },
                        },
                    },
                },
                {
                    "manager": "kube-apiserver",
                    "operation": "Update",
                    "fieldsV1": { "f:spec": { "f:cidrs": {} } },
                },
            ],
        },
        "spec": { "cidrs": [RANGE] },
        "status": {
            "conditions": [{
                "type": "Ready",
                "status": "True",
                "reason": "",
                "message": "Kubernetes default Service CIDR is ready",
                "lastTransitionTime": now,
            }],
        },
    })
}

fn priority_classes() -> [Value; 2] {
    let class = |name: &str, value: i64, description: &str| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {
                "name": name,
                "generation": 1,
                "managedFields": [{
                    "manager": "kube-apiserver",
                    "operation": "Update",
                    "fieldsV1": { "f:description": {}, "f:preemptionPolicy": {}, "f:value": {} },
                }],
            },
            "value": value,
            "preemptionPolicy": "PreemptLowerPriority",
            "description": description,
        })
    };
    [
        class(
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        class(
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
    ]
}

/// Returns the components of a control plane. There is no scheduler here.
fn component_statuses() -> [Value; 3] {
    let component = |name: &str, status: &str, message: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "ComponentStatus",
            "metadata": { "name": name },
            "conditions": [{ "type": "Healthy", "status": status, "message": message }],
        })
    };
    [
        component("controller-manager", "True", "ok"),
        component("etcd-0", "True", "ok"),
        component("scheduler", "False", "a sandbox has no scheduler"),
    ]
}

/// Returns the Service by which pods would reach the API.
fn service() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": { "component": "apiserver", "provider": "kubernetes" },
            "managedFields": [{
                "manager": "kube-apiserver",
                "operation": "Update",
                "fieldsV1": {
                    "f:metadata": {
                        "f:labels": { ".": {}, "f:component": {}, "f:provider": {} },
                    },
                    "f:spec": {
                        "f:clusterIP": {},
                        "f:internalTrafficPolicy": {},
                        "f:ipFamilyPolicy": {},
                        "f:ports": {
                            ".": {},
                            "k:{\"port\":443,\"protocol\":\"TCP\"}": {
                                ".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {},
                            },
                        },
                        "f:sessionAffinity": {},
                        "f:type": {},
                    },
                },
            }],
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "10.0.0.1",
            "clusterIPs": ["10.0.0.1"],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
            "sessionAffinity": "None",
            "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443 }],
        },
        "status": { "loadBalancer": {} },
    })
}
