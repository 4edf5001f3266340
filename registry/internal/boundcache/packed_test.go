// SPDX-License-Identifier: Apache-2.0

package boundcache

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/meta"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/clusterfx/clusterfx/registry/internal/compact"
	"github.com/clusterfx/clusterfx/registry/internal/meter"
)

// lists is an API server with random objects. Its watches have no events.
type lists map[string][]client.Object // by resource

func newLists(t *testing.T, kinds ...client.Object) lists {
	t.Helper()
	random := rand.New(rand.NewSource(1)) //nolint:gosec // The same objects in each run.
	filler := fuzzer.FuzzerFor(metafuzzer.Funcs, random, serializer.NewCodecFactory(scheme.Scheme))
	all := lists{}
	for _, kind := range kinds {
		gvk, err := apiutil.GVKForObject(kind, scheme.Scheme)
		if err != nil {
			t.Fatal(err)
		}
		resource, _ := meta.UnsafeGuessKindToResource(gvk)
		for i := range 12 {
			obj, _ := kind.DeepCopyObject().(client.Object)
			filler.Fill(obj)
			obj = stored(t, obj)
			obj.GetObjectKind().SetGroupVersionKind(gvk)
			obj.SetName(fmt.Sprintf("object-%d", i))
			obj.SetNamespace([]string{"blue", "green"}[i%2])
			obj.SetLabels([]map[string]string{nil, {"app": "web"}, {"app": "db", "tier": "1"}}[i%3])
			obj.SetManagedFields(nil)
			obj.SetDeletionTimestamp(nil)
			all[resource.Resource] = append(all[resource.Resource], obj)
		}
	}
	return all
}

// stored returns an object as API servers have it, which store protobuf: without lists that have no elements.
func stored(t *testing.T, obj client.Object) client.Object {
	t.Helper()
	one, _ := compact.NewTypes().Pack(obj).(*compact.Object)
	again, ok := one.DeepCopyObject().(client.Object)
	if !ok {
		t.Fatalf("%T is not packed", obj)
	}
	return again
}

// RoundTrip implements http.RoundTripper.
func (l lists) RoundTrip(r *http.Request) (*http.Response, error) {
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}
	if r.URL.Query().Get("watch") != "" {
		if r.URL.Query().Get("sendInitialEvents") != "" {
			response.StatusCode, response.Body = http.StatusUnprocessableEntity, io.NopCloser(strings.NewReader("{}"))
			return response, nil
		}
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	path := strings.Split(r.URL.Path, "/")
	items := l[path[len(path)-1]]
	gvk := items[0].GetObjectKind().GroupVersionKind()
	body, err := json.Marshal(map[string]any{
		"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind + "List", "metadata": map[string]any{"resourceVersion": "1"}, "items": items,
	})
	if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
		body, err = partial(items)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, err
}

// partial returns the metadata of objects.
func partial(items []client.Object) ([]byte, error) {
	list := metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	list.APIVersion, list.Kind = "meta.k8s.io/v1", "PartialObjectMetadataList"
	for _, one := range items {
		bytes, err := json.Marshal(one)
		if err != nil {
			return nil, err
		}
		var all metav1.PartialObjectMetadata
		if err := json.Unmarshal(bytes, &all); err != nil {
			return nil, err
		}
		list.Items = append(list.Items, all)
	}
	return json.Marshal(&list)
}

// newCache returns a running cache of the objects of a server.
func (l lists) newCache(t testing.TB, packing *compact.Types) *Cache {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	o := someOptions(ctx, scheme.Scheme, meter.NewLimiter(nil, 1<<30))
	o.Packing, o.Timeout, o.Reader = packing, time.Minute, func(context.Context) string { return filteringModule }
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, all := range l {
		mapper.Add(all[0].GetObjectKind().GroupVersionKind(), meta.RESTScopeNamespace)
	}
	c, err := New(&rest.Config{Transport: l}, cache.Options{Scheme: scheme.Scheme, Mapper: mapper, HTTPClient: &http.Client{Transport: l}}, o)
	if err != nil {
		t.Fatal(err)
	}
	filter := Filter{Object: &corev1.Secret{}, Transform: func(obj client.Object) { obj.SetAnnotations(map[string]string{"transformed": "yes"}) }}
	if err := c.AddFilters(filteringModule, []Filter{filter}, func(f func()) { f() }); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = c.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return c
}

const filteringModule = "dns"

// Reads of a cache of packed objects return what reads of decoded objects do: through get and list, by namespace, labels
// and an index, with a limit, of metadata, of untyped objects and behind a transform; and whatever readers do with the
// objects that they got.
func TestCache_PackedReads(t *testing.T) {
	t.Parallel()
	kinds := []client.Object{
		&corev1.Pod{}, &corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Service{}, &appsv1.Deployment{}, &appsv1.StatefulSet{},
		&coordinationv1.Lease{}, &discoveryv1.EndpointSlice{}, &rbacv1.Role{},
	}
	server := newLists(t, kinds...)
	decoded, packed := server.newCache(t, nil), server.newCache(t, compact.NewTypes())
	for _, kind := range kinds {
		gvk, _ := apiutil.GVKForObject(kind, scheme.Scheme)
		t.Run(gvk.Kind, func(t *testing.T) {
			t.Parallel()
			untyped, metadata := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
			untyped.SetGroupVersionKind(gvk)
			metadata.SetGroupVersionKind(gvk)
			for _, as := range []client.Object{kind, untyped, metadata} {
				for _, c := range []*Cache{decoded, packed} {
					index := func(obj client.Object) []string { return []string{obj.GetLabels()["app"]} }
					if err := c.For(filteringModule, as).IndexField(t.Context(), as, "app", index); err != nil {
						t.Fatal(err)
					}
				}
				for range 2 { // The second time, after the readers have changed what they got.
					expectEqualReads(t, as, decoded.ReaderFor(filteringModule), packed.ReaderFor(filteringModule))
				}
			}
		})
	}
}

// expectEqualReads compares reads of a kind. It changes the objects afterwards.
func expectEqualReads(t *testing.T, kind client.Object, decoded, packed client.Reader) {
	t.Helper()
	for _, key := range []client.ObjectKey{{Namespace: "blue", Name: "object-0"}, {Namespace: "green", Name: "object-1"}, {Name: "none"}} {
		want, _ := kind.DeepCopyObject().(client.Object)
		got, _ := kind.DeepCopyObject().(client.Object)
		wantErr, gotErr := decoded.Get(t.Context(), key, want), packed.Get(t.Context(), key, got, client.UnsafeDisableDeepCopy)
		if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
			t.Errorf("get %s: got %v, want %v", key, gotErr, wantErr)
		}
		if diff := cmp.Diff(inJSON(t, want), inJSON(t, got)); diff != "" {
			t.Errorf("get %s (-want +got):\n%s", key, diff)
		}
		got.SetLabels(map[string]string{"app": "changed"})
	}
	for name, options := range map[string][]client.ListOption{
		"all": {}, "namespace": {client.InNamespace("blue")}, "labels": {client.MatchingLabels{"app": "web"}},
		"no labels": {client.HasLabels{"none"}}, "index": {client.MatchingFields{"app": "db"}},
		"index in a namespace": {client.MatchingFields{"app": "db"}, client.InNamespace("green")},
		"labels and index":     {client.MatchingFields{"app": "db"}, client.MatchingLabels{"tier": "1"}},
		"without copies":       {client.UnsafeDisableDeepCopy},
	} {
		want, got := read(t, kind, decoded, options[:len(options):len(options)]), read(t, kind, packed, options)
		if name == "without copies" { // of which the cache of decoded objects has not set the kind
			want = read(t, kind, decoded, nil)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("list, %s (-want +got):\n%s", name, diff)
		}
	}
	if few := read(t, kind, packed, []client.ListOption{client.Limit(3)}); len(few) != 3 {
		t.Errorf("a list of three has %d objects", len(few))
	}
}

// read returns the objects of a list, sorted.
func read(t *testing.T, kind client.Object, from client.Reader, options []client.ListOption) (all []string) {
	t.Helper()
	gvk, err := apiutil.GVKForObject(kind, scheme.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	gvk.Kind += "List"
	var list client.ObjectList
	switch kind.(type) {
	case *unstructured.Unstructured:
		list = &unstructured.UnstructuredList{}
	case *metav1.PartialObjectMetadata:
		list = &metav1.PartialObjectMetadataList{}
	default:
		typed, _ := scheme.Scheme.New(gvk)
		list, _ = typed.(client.ObjectList)
	}
	list.GetObjectKind().SetGroupVersionKind(gvk)
	if err := from.List(t.Context(), list, options...); err != nil {
		t.Fatalf("list: %v", err)
	}
	if err := meta.EachListItem(list, func(obj runtime.Object) error {
		all = append(all, inJSON(t, obj))
		if one, ok := obj.(client.Object); ok && !slices.Contains(options, client.ListOption(client.UnsafeDisableDeepCopy)) {
			one.SetName("changed")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

func inJSON(t *testing.T, obj runtime.Object) string {
	t.Helper()
	text, err := json.MarshalIndent(obj, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The objects of a cache take up in its budget what they take up in memory.
func TestInformer_MeasuresPackedObjects(t *testing.T) {
	t.Parallel()
	o := someOptions(t.Context(), scheme.Scheme, meter.NewLimiter(nil, 1<<30))
	o.Packing = compact.NewTypes()
	i := newInformer(newBudget(o), &corev1.ConfigMap{})
	want := Amount{}
	for n := range 2 * sampleStored {
		one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(n)}, Data: map[string]string{"text": strings.Repeat("x", n)}}
		packed, _ := o.Packing.Pack(one).(*compact.Object)
		want = want.plus(Amount{1, packed.Size()})
		if err := i.GetStore().Add(packed); err != nil {
			t.Fatal(err)
		}
	}
	if got := i.measure(); got != want {
		t.Errorf("the amount is %+v, want %+v", got, want)
	}
}
