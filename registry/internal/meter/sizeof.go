// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"reflect"
	"time"
)

// Sizeof estimates the memory of objects in bytes, with all that they reference, without the allocator's rounding. It
// takes some microseconds for an object.
func Sizeof(objs ...any) int64 {
	var sum uintptr
	for _, obj := range objs {
		if v := reflect.ValueOf(obj); v.IsValid() {
			sum += v.Type().Size() + behind(v)
		}
	}
	return int64(sum) //nolint:gosec // No object has 2^63 bytes.
}

// behind returns what v references, without its own bytes.
func behind(v reflect.Value) uintptr {
	switch v.Kind() {
	case reflect.String:
		return uintptr(v.Len())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() || v.Type() == reflect.TypeFor[*time.Location]() {
			return 0 // time zones are shared
		}
		return v.Elem().Type().Size() + behind(v.Elem())
	case reflect.Struct:
		var sum uintptr
		for i := range v.NumField() {
			sum += behind(v.Field(i))
		}
		return sum
	case reflect.Slice:
		return uintptr(v.Cap())*v.Type().Elem().Size() + behindElements(v)
	case reflect.Array:
		return behindElements(v)
	case reflect.Map:
		return behindEntries(v)
	default:
		return 0
	}
}

func behindElements(v reflect.Value) uintptr {
	var sum uintptr
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return 0
	}
	for i := range v.Len() {
		sum += behind(v.Index(i))
	}
	return sum
}

func behindEntries(v reflect.Value) uintptr {
	if v.IsNil() {
		return 0
	}
	t := v.Type()
	sum := mapHeader + slots(v.Len())*(t.Key().Size()+t.Elem().Size()+1)
	for entries := v.MapRange(); entries.Next(); {
		sum += behind(entries.Key()) + behind(entries.Value())
	}
	return sum
}

const mapHeader = 48

// slots is the capacity of a map with n entries: zero, then eight, then a power of two of which seven eighths may be
// used.
func slots(n int) uintptr {
	if n == 0 {
		return 0
	}
	room := 8
	for n > 8 && room*7/8 < n {
		room *= 2
	}
	return uintptr(room)
}
