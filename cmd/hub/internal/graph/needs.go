// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"reflect"
	"strings"

	"go.uber.org/fx"
)

// signaturesOf returns the needs and the location of each function that an option invokes, in the order of invokesOf.
// fx keeps the functions in fields that have no accessors. If these fields differ from the version of fx for which this
// was written, signaturesOf returns nothing, and the graph has fewer arrows.
func signaturesOf(option reflect.Value) []Invoke {
	for option.Kind() == reflect.Interface || option.Kind() == reflect.Pointer {
		option = option.Elem()
	}
	var all []Invoke
	switch option.Kind() {
	case reflect.Slice: // fx.Options
		for i := range option.Len() {
			all = append(all, signaturesOf(option.Index(i))...)
		}
	case reflect.Struct:
		if inner := option.FieldByName("options"); inner.IsValid() { // fx.Module
			return signaturesOf(inner)
		}
		if option.Type().Name() != "invokeOption" {
			return nil
		}
		targets := option.FieldByName("Targets")
		if targets.Kind() != reflect.Slice {
			return nil
		}
		for i := range targets.Len() {
			all = append(all, Invoke{Needs: needsOf(targets.Index(i)), Location: locationOfTarget(targets.Index(i))})
		}
	}
	return all
}

// needsOf returns the parameters of a function, also if fx.Annotate has wrapped it.
func needsOf(target reflect.Value) []Need {
	var tags []string
	for target.Kind() == reflect.Interface {
		target = target.Elem()
	}
	if target.Kind() == reflect.Struct {
		list := target.FieldByName("ParamTags")
		for i := 0; list.Kind() == reflect.Slice && i < list.Len(); i++ {
			tags = append(tags, list.Index(i).String())
		}
		if target = target.FieldByName("Target"); target.Kind() == reflect.Interface {
			target = target.Elem()
		}
	}
	if target.Kind() != reflect.Func {
		return nil
	}
	var needs []Need
	for i := range target.Type().NumIn() {
		tag := reflect.StructTag("")
		if i < len(tags) {
			tag = reflect.StructTag(tags[i])
		}
		needs = append(needs, needsOfParameter(target.Type().In(i), tag)...)
	}
	return needs
}

// needsOfParameter returns the types of a parameter: for a struct with fx.In, the types of its fields.
func needsOfParameter(kind reflect.Type, tag reflect.StructTag) []Need {
	if kind.Kind() == reflect.Struct && embedsIn(kind) {
		var needs []Need
		for i := range kind.NumField() {
			if field := kind.Field(i); field.Type != reflect.TypeFor[fx.In]() {
				needs = append(needs, needsOfParameter(field.Type, field.Tag)...)
			}
		}
		return needs
	}
	one := Need{Type: normalType(kind.String()), Optional: tag.Get("optional") == "true"}
	if group, _, _ := strings.Cut(tag.Get("group"), ","); group != "" && kind.Kind() == reflect.Slice {
		one.Type = normalType(kind.Elem().String()) + "[group=" + group + "]"
	} else if name := tag.Get("name"); name != "" {
		one.Type += "[name=" + name + "]"
	}
	return []Need{one}
}

func embedsIn(kind reflect.Type) bool {
	for i := range kind.NumField() {
		if field := kind.Field(i); field.Anonymous && (field.Type == reflect.TypeFor[fx.In]() ||
			field.Type.Kind() == reflect.Struct && embedsIn(field.Type)) {
			return true
		}
	}
	return false
}

// invoked returns the functions that an option invokes, and their parameters.
func invoked(option fx.Option) []Invoke {
	all := invokesOf(option.String())
	if found := signaturesOf(reflect.ValueOf(option)); len(found) == len(all) {
		for i := range all {
			all[i].Needs, all[i].Location = found[i].Needs, found[i].Location
		}
	}
	return all
}
