// Prints the types of the built-in kinds as the JSON decoder of the server sees them:
// fields, their Go types, what is left out when empty, and the tags of strategic merge patches.
//
// OpenAPI does not say which fields are pointers, so it cannot tell whether a zero that a client
// sent is kept or left out. Reflection over the published types can.
package main

import (
	"encoding"
	"encoding/json"
	"os"
	"path"
	"reflect"
	"regexp"
	"sort"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	builtin "k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

type field struct {
	Name     string   `json:"n"`
	Type     int      `json:"t"`
	Omit     bool     `json:"o,omitempty"`
	OmitZero bool     `json:"z,omitempty"`
	Via      []string `json:"v,omitempty"`
	Strategy string   `json:"s,omitempty"`
	MergeKey string   `json:"k,omitempty"`
}

type node struct {
	Kind    string  `json:"k"`
	Go      string  `json:"g,omitempty"`
	Package string  `json:"p,omitempty"`
	Elem    *int    `json:"e,omitempty"`
	Fields  []field `json:"f,omitempty"`
}

var (
	stable      = regexp.MustCompile(`^v[0-9]+$`)
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	text        = reflect.TypeFor[encoding.TextUnmarshaler]()
	nodes       []node
	index       = map[reflect.Type]int{}
)

func visit(t reflect.Type) int {
	if at, ok := index[t]; ok {
		return at
	}
	at := len(nodes)
	index[t] = at
	nodes = append(nodes, node{})
	n := node{Go: t.String()}
	elem := func(of reflect.Type) *int { at := visit(of); return &at }
	switch {
	case t.Kind() == reflect.Pointer:
		n.Kind, n.Elem = "pointer", elem(t.Elem())
	case reflect.PointerTo(t).Implements(unmarshaler), reflect.PointerTo(t).Implements(text):
		n.Kind = "custom"
		if t.Kind() == reflect.Struct { // JSONSchemaPropsOrBool and the like hold a schema
			for i := range t.NumField() {
				if of := t.Field(i).Type; of.Kind() == reflect.Pointer && of.Elem().Name() == "JSONSchemaProps" {
					n.Elem = elem(of.Elem())
				}
			}
		}
	case t.Kind() == reflect.Struct:
		n.Kind, n.Fields = "struct", fields(t, nil)
		n.Package = path.Base(path.Dir(t.PkgPath())) + "/" + path.Base(t.PkgPath())
		sort.Slice(n.Fields, func(i, j int) bool { return n.Fields[i].Name < n.Fields[j].Name })
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		n.Kind = "bytes"
	case t.Kind() == reflect.Slice:
		n.Kind, n.Elem = "slice", elem(t.Elem())
	case t.Kind() == reflect.Map:
		n.Kind, n.Elem = "map", elem(t.Elem())
	default:
		n.Kind = t.Kind().String()
	}
	nodes[at] = n
	return at
}

func fields(t reflect.Type, via []string) []field {
	var all []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
			continue
		case f.Anonymous && name == "":
			of := f.Type
			if of.Kind() == reflect.Pointer {
				of = of.Elem()
			}
			all = append(all, fields(of, append(append([]string{}, via...), f.Name))...)
			continue
		case name == "":
			name = f.Name
		}
		has := func(option string) bool {
			for _, each := range strings.Split(options, ",") {
				if each == option {
					return true
				}
			}
			return false
		}
		all = append(all, field{
			Name: name, Type: visit(f.Type), Omit: has("omitempty"), OmitZero: has("omitzero"), Via: via,
			Strategy: f.Tag.Get("patchStrategy"), MergeKey: f.Tag.Get("patchMergeKey"),
		})
	}
	return all
}

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		builtin.AddToScheme, apiextensions.AddToScheme, apiregistration.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	known := scheme.AllKnownTypes()
	var names []string
	types := map[string]reflect.Type{}
	for gvk, t := range known {
		if stable.MatchString(gvk.Version) && !strings.HasSuffix(gvk.Kind, "List") {
			name := gvk.GroupVersion().String() + " " + gvk.Kind
			names = append(names, name)
			types[name] = t
		}
	}
	sort.Strings(names)
	roots := map[string]int{}
	for _, name := range names {
		roots[name] = visit(types[name])
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(map[string]any{"roots": roots, "types": nodes}); err != nil {
		panic(err)
	}
}
