// Prints how the kinds of Kubernetes are written as protobuf, as JSON: what the sandbox needs to
// read the bodies which Go clients send. It is taken from the tags of the published Go types:
//
//	go run ./protobuf >../../crates/kopf-sandbox/data/protobuf.json
//
// "kinds" leads from apiVersion and kind to a type. "types" has the fields of each type:
//
//	[number, name in JSON, form, flags]
//
// The form is one of: s (string), i (integer), b (boolean), f (float), y (bytes), the name of a
// type, or one of those after "[]" (repeated) or "{}" (a map with strings as keys).
// The flags: z — absent in JSON when it is zero or empty; ~ — its fields belong to the parent.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// Types which have a form of their own in JSON; the sandbox knows them by these names.
var special = map[string]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":                                             "Time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":                                        "MicroTime",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":                                         "Duration",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":                                         "Raw",
	"k8s.io/apimachinery/pkg/api/resource.Quantity":                                         "Quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":                                       "IntOrString",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":                                          "Raw",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":                         "Raw",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool":        "SchemaOrBool",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray":       "SchemaOrArray",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "SchemaOrStrings",
}

// What clients never send as a body.
var skipped = map[string]bool{
	"WatchEvent": true, "Status": true, "APIGroup": true, "APIGroupList": true, "APIVersions": true,
	"APIResourceList": true, "ListOptions": true, "GetOptions": true, "CreateOptions": true,
	"UpdateOptions": true, "PatchOptions": true,
}

type field []any

var types = map[string][]field{}

func main() {
	if err := apiextensions.AddToScheme(scheme.Scheme); err != nil {
		fail("%v", err)
	}
	kinds := map[string]string{}
	for gvk, goType := range scheme.Scheme.AllKnownTypes() {
		// Only what is stable, as the sandbox serves it.
		stable := gvk.Version == "v1" || gvk.Version == "v2"
		options := strings.HasSuffix(gvk.Kind, "Options") && gvk.Kind != "DeleteOptions"
		if !stable || skipped[gvk.Kind] || options || strings.HasSuffix(gvk.Kind, "List") {
			continue
		}
		if gvk.Kind == "DeleteOptions" {
			// Every group has it, and it is the same one.
			kinds["*/DeleteOptions"] = visit(goType)
			continue
		}
		apiVersion, _ := gvk.ToAPIVersionAndKind()
		kinds[apiVersion+"/"+gvk.Kind] = visit(goType)
	}
	output, err := json.Marshal(map[string]any{"kinds": kinds, "types": types})
	if err != nil {
		fail("%v", err)
	}
	// A line per type, so that changes can be read.
	text := strings.ReplaceAll(string(output), "]],\"", "]],\n\"")
	text = strings.ReplaceAll(text, "\"types\":{", "\n\"types\":{\n")
	fmt.Println(text)
}

// visit records a type with all that it needs, and returns its name.
func visit(goType reflect.Type) string {
	if name, ok := special[fullName(goType)]; ok {
		if strings.HasPrefix(name, "Schema") {
			visit(reflect.TypeOf(apiextensions.JSONSchemaProps{}))
		}
		return name
	}
	name := shortName(goType)
	if _, ok := types[name]; ok {
		return name
	}
	types[name] = nil // a type can contain itself
	fields := []field{}
	if goType.Kind() == reflect.Slice {
		// A named list is a message of its own.
		fields = append(fields, field{1, "", "[]" + form(goType.Elem()), ""})
	} else {
		for i := 0; i < goType.NumField(); i++ {
			fields = append(fields, fieldsOf(goType.Field(i))...)
		}
	}
	sort.Slice(fields, func(i, j int) bool { return fields[i][0].(int) < fields[j][0].(int) })
	types[name] = fields
	return name
}

func fieldsOf(goField reflect.StructField) []field {
	tag, ok := goField.Tag.Lookup("protobuf")
	if !ok || tag == "-" {
		// TypeMeta is in the envelope.
		return nil
	}
	parts := strings.Split(tag, ",")
	number, err := strconv.Atoi(parts[1])
	if err != nil {
		fail("%s: %v", tag, err)
	}
	jsonParts := strings.Split(goField.Tag.Get("json"), ",")
	name, flags := jsonParts[0], ""
	for _, part := range jsonParts[1:] {
		switch part {
		case "inline":
			flags = "~"
		case "omitempty", "omitzero":
			if goField.Type.Kind() != reflect.Pointer && flags == "" {
				flags = "z"
			}
		}
	}
	if name == "" && flags != "~" {
		fail("%s has no name in JSON", tag)
	}
	return []field{{number, name, form(goField.Type), flags}}
}

func form(goType reflect.Type) string {
	if goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
	}
	if _, ok := special[fullName(goType)]; ok {
		return visit(goType)
	}
	if isMessage(goType) {
		return visit(goType)
	}
	switch goType.Kind() {
	case reflect.String:
		return "s"
	case reflect.Bool:
		return "b"
	case reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64, reflect.Int, reflect.Uint8:
		return "i"
	case reflect.Float64:
		return "f"
	case reflect.Slice:
		if goType.Elem().Kind() == reflect.Uint8 {
			return "y"
		}
		return "[]" + form(goType.Elem())
	case reflect.Map:
		if goType.Key().Kind() != reflect.String {
			fail("%s has keys which are not strings", goType)
		}
		return "{}" + form(goType.Elem())
	}
	fail("%s is of an unknown form", goType)
	return ""
}

// Messages know how to read themselves.
func isMessage(goType reflect.Type) bool {
	if goType.Name() == "" {
		return false
	}
	_, ok := reflect.PointerTo(goType).MethodByName("Unmarshal")
	return ok
}

func fullName(goType reflect.Type) string { return goType.PkgPath() + "." + goType.Name() }

// shortName is unique for the published types: the last parts of the package and the name.
func shortName(goType reflect.Type) string {
	parts := strings.Split(goType.PkgPath(), "/")
	return strings.Join(parts[len(parts)-2:], ".") + "." + goType.Name()
}

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}
