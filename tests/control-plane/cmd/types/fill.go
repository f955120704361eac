package main

import (
	"fmt"
	"reflect"
	"time"

	core "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A filler deterministically sets all fields of an object to different values.
type filler struct {
	zeros bool // allocate pointers to zero values only
	pods  bool // fill pod specs; they are large, so templates are not filled
	count int
	outer []reflect.Type
}

func (f *filler) fill(object runtime.Object) { f.value(reflect.ValueOf(object).Elem()) }

func (f *filler) next() int64 { f.count++; return int64(f.count) }

func (f *filler) value(v reflect.Value) {
	t := v.Type()
	for _, outer := range f.outer {
		if outer == t { // a type that contains itself
			return
		}
	}
	if t == reflect.TypeFor[core.PodSpec]() && !f.pods {
		return
	}
	if !f.zeros && f.special(v) {
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		for _, outer := range f.outer {
			if outer == t.Elem() {
				return
			}
		}
		v.Set(reflect.New(t.Elem()))
		f.value(v.Elem())
	case reflect.Struct:
		switch v.Interface().(type) {
		case metav1.Time, metav1.MicroTime, resource.Quantity, intstr.IntOrString, metav1.TypeMeta:
			return // opaque
		}
		f.outer = append(f.outer, t)
		for i := range t.NumField() {
			if t.Field(i).Tag.Get("protobuf") != "" {
				f.value(v.Field(i))
			}
		}
		f.outer = f.outer[:len(f.outer)-1]
	default:
		if !f.zeros {
			f.plain(v)
		}
	}
}

// special sets types with custom encodings.
func (f *filler) special(v reflect.Value) bool {
	moment := time.Unix(1700000000+f.next(), 123456789)
	switch at := v.Addr().Interface().(type) {
	case *metav1.Time:
		at.Time = moment
	case *metav1.MicroTime:
		at.Time = moment
	case *resource.Quantity:
		*at = *resource.NewMilliQuantity(f.next(), resource.DecimalSI)
	case *intstr.IntOrString:
		*at = intstr.FromInt32(int32(f.next()))
	case *runtime.RawExtension:
		at.Raw = fmt.Appendf(nil, `{"raw":%d}`, f.next())
	case *metav1.FieldsV1:
		at.SetRawBytes(fmt.Appendf(nil, `{"f:raw%d":{}}`, f.next()))
	case *apiextensions.JSON:
		at.Raw = fmt.Appendf(nil, `[%d]`, f.next())
	case *apiextensions.JSONSchemaPropsOrBool:
		at.Allows = true
	case *apiextensions.JSONSchemaPropsOrArray:
		at.Schema = &apiextensions.JSONSchemaProps{ID: fmt.Sprint(f.next())}
	case *apiextensions.JSONSchemaPropsOrStringArray:
		at.Property = []string{fmt.Sprint(f.next())}
	default:
		return false
	}
	return true
}

func (f *filler) plain(v reflect.Value) {
	t := v.Type()
	switch t.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", f.next()))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(f.next())
	case reflect.Float64:
		v.SetFloat(float64(f.next()) + 0.5)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			v.SetBytes(fmt.Appendf(nil, "bytes %d", f.next()))
			return
		}
		item := reflect.New(t.Elem()).Elem()
		f.value(item)
		v.Set(reflect.Append(reflect.MakeSlice(t, 0, 1), item))
	case reflect.Map:
		key, item := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		f.value(key)
		f.value(item)
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(key, item)
	default:
		panic("no value for " + t.String())
	}
}
