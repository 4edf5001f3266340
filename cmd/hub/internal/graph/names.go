// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
)

// authorType returns the name of a type as authors write it.
func authorType(text string) string {
	return strings.ReplaceAll(text, "internal.EventRecorder", "events.EventRecorder")
}

// Names as Go prints them.
var (
	function = regexp.MustCompile(`^(\w+)\..*\bfunc\d+(?:\.\d+)*\(\)$`)
	place    = regexp.MustCompile(`([^/ (]+\.go:\d+)\)?$`)
)

// ofRegistry returns, for a function literal of the registry, the exported names by which authors of modules know it. It
// finds the literal by the function that contains it.
func ofRegistry(name string, invoked bool) (known string, found bool) {
	in := func(outer string) bool { return strings.HasPrefix(name, "registry."+outer+".func") }
	switch {
	case in("appOptions") && invoked:
		return "registry.AsCleanup", true
	case in("appOptions"):
		return "registry.Remote", true
	case in("hubPartOptions") && invoked:
		return "registry.Share, registry.WithMiddleware", true
	case in("hubPartOptions"):
		return "registry.HubPart", true
	case strings.HasPrefix(name, "registry.Share["):
		return "registry.Share", true
	}
	return "", false
}

// authorName returns the name of a function for a picture. A function without a name is known by its place, if that is
// known.
func authorName(name, location string, invoked bool) string {
	if known, found := ofRegistry(name, invoked); found {
		return known
	}
	name = strings.Replace(plainName(name), "-fm()", "()", 1)
	parts, at := function.FindStringSubmatch(name), place.FindStringSubmatch(location)
	if parts == nil || at == nil {
		return name
	}
	return fmt.Sprintf("%s: func at %s", parts[1], at[1])
}

// plainName returns the name of the function that fx.Annotate has wrapped.
func plainName(name string) string {
	if inner, annotated := strings.CutPrefix(name, "fx.Annotate("); annotated {
		name, _, _ = strings.Cut(inner, ",")
	}
	return name
}

// locationOfTarget returns the file and the line of a function, also if fx.Annotate has wrapped it.
func locationOfTarget(target reflect.Value) string {
	for target.Kind() == reflect.Interface {
		target = target.Elem()
	}
	if target.Kind() == reflect.Struct {
		if target = target.FieldByName("Target"); target.Kind() == reflect.Interface {
			target = target.Elem()
		}
	}
	if target.Kind() != reflect.Func {
		return ""
	}
	f := runtime.FuncForPC(target.Pointer())
	if f == nil {
		return ""
	}
	file, line := f.FileLine(target.Pointer())
	return fmt.Sprintf("%s:%d", filepath.Base(file), line)
}
