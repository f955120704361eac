// Prints the types of the built-in kinds for decoders: fields, their Go types, omission of empty
// values, protobuf numbers, and the tags of strategic merge patches.
//
// OpenAPI does not contain which fields are pointers, and therefore whether a zero sent by a client
// is stored or omitted. Reflection over the published types does.
//
// With -samples, it prints objects instead, as protobuf and as JSON.
package main

import (
	"encoding"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path"
	"reflect"
	"regexp"
	"sort"
	"strconv"
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
	Numbers  []int    `json:"b,omitempty"`
	Strategy string   `json:"s,omitempty"`
	MergeKey string   `json:"k,omitempty"`
}

type node struct {
	Kind    string  `json:"k"`
	Go      string  `json:"g,omitempty"`
	Package string  `json:"p,omitempty"`
	Wrapped bool    `json:"w,omitempty"`
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
		if t.Kind() == reflect.Struct { // JSONSchemaPropsOrBool and similar types contain a schema
			for i := range t.NumField() {
				if of := t.Field(i).Type; of.Kind() == reflect.Pointer && of.Elem().Name() == "JSONSchemaProps" {
					n.Elem = elem(of.Elem())
				}
			}
		}
	case t.Kind() == reflect.Struct:
		n.Kind, n.Fields = "struct", fields(t, nil, []int{})
		n.Package = path.Base(path.Dir(t.PkgPath())) + "/" + path.Base(t.PkgPath())
		sort.Slice(n.Fields, func(i, j int) bool { return n.Fields[i].Name < n.Fields[j].Name })
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		n.Kind = "bytes"
	case t.Kind() == reflect.Slice:
		n.Kind, n.Elem = "slice", elem(t.Elem())
		// A list with its own decoder is a separate message in protobuf, with the items as field 1.
		_, n.Wrapped = reflect.PointerTo(t).MethodByName("Unmarshal")
	case t.Kind() == reflect.Map:
		if t.Key().Kind() != reflect.String {
			panic(t.String() + " has keys that are not strings")
		}
		n.Kind, n.Elem = "map", elem(t.Elem())
	default:
		n.Kind = t.Kind().String()
	}
	nodes[at] = n
	return at
}

// numbers returns the protobuf path to a field through the messages of embedded structs.
// Only the number of the tag is reliable: its type can be "bytes" for numbers. The Go type is used.
func numbers(within []int, f reflect.StructField) []int {
	_, after, _ := strings.Cut(f.Tag.Get("protobuf"), ",")
	tagged, _, _ := strings.Cut(after, ",")
	if tagged == "" || within == nil {
		return nil // fields of the envelope: apiVersion and kind
	}
	number, err := strconv.Atoi(tagged)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", f.Tag, err))
	}
	return append(append([]int{}, within...), number)
}

func fields(t reflect.Type, via []string, within []int) []field {
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
			all = append(all, fields(of, append(append([]string{}, via...), f.Name), numbers(within, f))...)
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
			Numbers: numbers(within, f), Strategy: f.Tag.Get("patchStrategy"), MergeKey: f.Tag.Get("patchMergeKey"),
		})
	}
	return all
}

func main() {
	samples := flag.Bool("samples", false, "print sample objects instead of the types")
	flag.Parse()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		builtin.AddToScheme, apiextensions.AddToScheme, apiregistration.AddToScheme,
	} {
		must(add(scheme))
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
	if *samples {
		show(encoded(scheme, names))
		return
	}
	roots := map[string]int{}
	for _, name := range names {
		roots[name] = visit(types[name])
	}
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{"roots": roots, "types": nodes}))
}
