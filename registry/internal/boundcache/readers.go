// SPDX-License-Identifier: Apache-2.0

package boundcache

import (
	"maps"
	"reflect"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

type reader struct {
	module string
	of     reflect.Type
	kind   schema.GroupVersionKind // only if the Go type does not determine it
}

func readerOf(module string, obj runtime.Object) reader {
	r := reader{module: module, of: reflect.TypeOf(obj)}
	switch obj.(type) {
	case runtime.Unstructured, *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		r.kind = obj.GetObjectKind().GroupVersionKind()
	}
	return r
}

// readers is looked up by each read, so that takes no lock and no memory.
type readers struct {
	known atomic.Pointer[map[reader]struct{}]
	mu    sync.Mutex // held while known is replaced
}

func (r *readers) add(one reader) bool {
	if r.has(one) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.has(one) {
		return false
	}
	more := map[reader]struct{}{one: {}}
	if known := r.known.Load(); known != nil {
		maps.Copy(more, *known)
	}
	r.known.Store(&more)
	return true
}

func (r *readers) has(one reader) bool {
	known := r.known.Load()
	if known == nil {
		return false
	}
	_, has := (*known)[one]
	return has
}
