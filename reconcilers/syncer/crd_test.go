// SPDX-License-Identifier: Apache-2.0

package syncer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

// definition returns a CustomResourceDefinition of widgets in a group of the test.
func (b *bench) definition(status bool, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	crd := fleettest.CRD(b.tb, schema.GroupVersionKind{Group: b.upNS + ".example.com", Kind: "Widget"}, "")
	crd.TypeMeta = metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}
	crd.Labels = map[string]string{"l": "1"}
	template := crd.Spec.Versions[0]
	if !status {
		template.Subresources = nil
	}
	crd.Spec.Versions = nil
	for i, version := range versions {
		template.Name, template.Storage = version, i == 0
		crd.Spec.Versions = append(crd.Spec.Versions, template)
	}
	return crd
}

func install(t *testing.T, c client.Client, crd *apiextensionsv1.CustomResourceDefinition) schema.GroupVersionKind {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	must(t, err)
	must(t, c.Create(t.Context(), &unstructured.Unstructured{Object: object}))
	kind := schema.GroupVersionKind{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name, Kind: crd.Spec.Names.Kind}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	eventually(t, func() error { return c.List(t.Context(), list) })
	return kind
}

func read(t *testing.T, c client.Client, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	if err := c.Get(t.Context(), client.ObjectKey{Name: name}, u); err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	return crd, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, crd)
}

// A status comes back to the original, whether the kind has a status subresource or not.
// Promise: kinds without a status subresource: the status is brought back.
func TestApplyStatus(t *testing.T) {
	t.Parallel()
	for _, subresource := range []bool{true, false} {
		t.Run(fmt.Sprint("subresource ", subresource), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			var statuses atomic.Int64
			b.between = func(r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/w/status") {
					statuses.Add(1)
				}
			}
			b.begin(t, nil)
			crd := b.definition(subresource, "v1")
			kind := install(t, b.up, crd.DeepCopy())
			install(t, b.down, crd.DeepCopy())
			c := &syncer.Copy[*unstructured.Unstructured]{Called: "widgets", Status: true}
			translator := syncer.NewMirror[*unstructured.Unstructured](b.pair.Identity(), syncer.TranslatorOptions{})
			must(t, syncer.Register(b.pair, c, translator, syncer.Options[*unstructured.Unstructured]{Kind: kind}))
			b.run(t)
			up := widget(kind, b.upNS, map[string]any{"size": int64(1)})
			must(t, b.up.Create(t.Context(), up))
			down := widget(kind, b.downNS, nil)
			eventually(t, func() error { return b.down.Get(t.Context(), client.ObjectKeyFromObject(down), down) })
			for _, state := range []string{"Starting", "Ready"} {
				b.setStatus(t, down, subresource, state)
				eventually(t, func() error {
					if err := b.up.Get(t.Context(), client.ObjectKeyFromObject(up), up); err != nil {
						return err
					}
					got, _, _ := unstructured.NestedMap(up.Object, "status")
					if diff := cmp.Diff(map[string]any{"state": state}, got); diff != "" {
						return errors.New(diff)
					}
					return nil
				})
			}
			if size, _, _ := unstructured.NestedInt64(up.Object, "spec", "size"); size != 1 || len(up.GetFinalizers()) != 1 {
				t.Errorf("the original has lost something: %v", up.Object)
			}
			must(t, b.up.Delete(t.Context(), up))
			fleettest.Gone(t, b.down, down)
			fleettest.Gone(t, b.up, up)
			if n := statuses.Load(); subresource != (n > 1) { // A subresource that does not exist is tried once.
				t.Errorf("%d requests to the subresource for two statuses", n)
			}
		})
	}
}

func widget(kind schema.GroupVersionKind, ns string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(kind)
	u.SetNamespace(ns)
	u.SetName("w")
	return u
}

func (b *bench) setStatus(t *testing.T, obj *unstructured.Unstructured, subresource bool, state string) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"state":"`+state+`"}}`))
	if subresource {
		must(t, b.down.Status().Patch(t.Context(), obj, patch))
		return
	}
	must(t, b.down.Patch(t.Context(), obj, patch))
}

// A status with a field that the upstream schema lacks is brought back without it, once; and it keeps the spec from nothing.
func TestApplyStatus_UndeclaredField(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	b := newBench(t, func(o *syncer.PairOptions) { o.Metrics = metrics })
	crd := b.definition(true, "v1")
	kind := install(t, b.down, crd.DeepCopy())
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{
		Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"spec":   {Type: "object", XPreserveUnknownFields: new(true)},
			"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"state": text}},
		},
	}
	install(t, b.up, crd.DeepCopy())
	c := &syncer.Copy[*unstructured.Unstructured]{Called: "widgets", Status: true}
	translator := syncer.NewMirror[*unstructured.Unstructured](b.pair.Identity(), syncer.TranslatorOptions{})
	must(t, syncer.Register(b.pair, c, translator, syncer.Options[*unstructured.Unstructured]{Kind: kind}))
	b.run(t)
	up, down := widget(kind, b.upNS, map[string]any{"size": int64(0)}), widget(kind, b.downNS, nil)
	must(t, b.up.Create(t.Context(), up))
	eventually(t, func() error { return b.down.Get(t.Context(), client.ObjectKeyFromObject(down), down) })
	must(t, b.down.Status().Patch(t.Context(), down, client.RawPatch(types.MergePatchType, []byte(`{"status":{"state":"Ready","more":"x"}}`))))
	eventually(t, func() error { // A cache that is behind for a second would be a reason to write again.
		known := widget(kind, b.upNS, nil)
		if err := b.upHost.GetCache().Get(t.Context(), client.ObjectKeyFromObject(known), known); err != nil || known.Object["status"] != nil {
			return err
		}
		return errors.New("the pair does not know the status of the original yet")
	})
	// Each edit is reconciled before the next one, the last ones when the status may be written again.
	for size, began := int64(0), time.Now(); size < 10 || time.Since(began) < 2*time.Second; size++ {
		must(t, b.up.Patch(t.Context(), up, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"size":%d}}`, size+1))))
		eventually(t, func() error {
			if err := b.down.Get(t.Context(), client.ObjectKeyFromObject(down), down); err != nil {
				return err
			}
			if got, _, _ := unstructured.NestedInt64(down.Object, "spec", "size"); got != size+1 {
				return fmt.Errorf("size %d, want %d", got, size+1)
			}
			return nil
		})
	}
	must(t, b.up.Get(t.Context(), client.ObjectKeyFromObject(up), up))
	if state, _, _ := unstructured.NestedString(up.Object, "status", "state"); state != "Ready" {
		t.Errorf("the status is %v", up.Object["status"])
	}
	// Of the finalizer and the status. Conflicts are possible as well: the cache may be behind for a moment.
	testkit.Equal(t, sum(t, metrics, writesTotal, "up", "ok"), 2, "writes upstream")
	b.expectEvent(t, "w", syncer.ReasonStatusReduced, "Widget")
	if all := b.events(t, "w", syncer.ReasonContended); len(all) > 0 {
		t.Errorf("got %v", all)
	}
}

// An object with a field that the downstream schema lacks is rejected with an event, and is not written repeatedly.
// Promise: the schemas of a kind may differ: an object with a field that the downstream schema lacks is rejected with an event; of a status the fields that the upstream schema has are brought back.
func TestApply_UndeclaredField(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	b := newBench(t, func(o *syncer.PairOptions) { o.Metrics = metrics })
	crd := b.definition(true, "v1")
	kind := install(t, b.up, crd.DeepCopy())
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{
		Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"other": {Type: "string"}}},
		},
	}
	install(t, b.down, crd)
	c := &syncer.Copy[*unstructured.Unstructured]{Called: "widgets"}
	translator := syncer.NewMirror[*unstructured.Unstructured](b.pair.Identity(), syncer.TranslatorOptions{})
	must(t, syncer.Register(b.pair, c, translator, syncer.Options[*unstructured.Unstructured]{Kind: kind}))
	b.run(t)
	must(t, b.up.Create(t.Context(), widget(kind, b.upNS, map[string]any{"size": int64(1)})))
	b.expectEvent(t, "w", syncer.ReasonRejected, "lacks a field")
	if n := sum(t, metrics, "clusterfx_sync_writes_total", "down"); n > 3 { // one for each event of the original
		t.Errorf("%v writes downstream", n)
	}
}

// A kind that only the upstream cluster serves is brought downstream with the wanted version and nothing else.
// Promise: CRDs: the wanted version is brought downstream and waited for, also while a cluster does not respond; never upstream; a definition without the wanted version is not changed.
func TestEnsureCRD_BringsTheWantedVersion(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	crd := b.definition(true, "v2", "v1")
	kind := install(t, b.up, crd)
	kind.Version = "v1"
	source, err := read(t, b.up, crd.Name)
	must(t, err)
	must(t, syncer.EnsureCRD(t.Context(), b.pair, kind))
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	must(t, b.down.List(t.Context(), list)) // It is served when EnsureCRD returns.
	found, err := read(t, b.down, crd.Name)
	must(t, err)
	if len(found.Spec.Versions) != 1 || found.Spec.Versions[0].Name != "v1" || !found.Spec.Versions[0].Storage || found.Labels["l"] != "" {
		t.Errorf("downstream: %v", found)
	}
	must(t, syncer.EnsureCRD(t.Context(), b.pair, kind)) // There is nothing to do.
	again, err := read(t, b.down, crd.Name)
	must(t, err)
	after, err := read(t, b.up, crd.Name)
	must(t, err)
	if again.ResourceVersion != found.ResourceVersion || after.ResourceVersion != source.ResourceVersion {
		t.Error("a definition that exists is written")
	}
}

// A definition goes down only; a kind that the upstream cluster does not serve is an error.
func TestEnsureCRD_NeverUpwards(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	crd := b.definition(true, "v1")
	kind := install(t, b.down, crd)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	testkit.Fails(t, syncer.EnsureCRD(ctx, b.pair, kind), "a kind that the upstream cluster does not serve")
	if _, err := read(t, b.up, crd.Name); !apierrors.IsNotFound(err) {
		t.Errorf("the definition upstream: %v", err)
	}
}

// A definition without the wanted version belongs to somebody else, and is not changed.
func TestEnsureCRD_AnotherVersionExists(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	kind := install(t, b.up, b.definition(true, "v1"))
	install(t, b.down, b.definition(true, "v9"))
	before, err := read(t, b.down, "widgets."+kind.Group)
	must(t, err)
	testkit.Fails(t, syncer.EnsureCRD(t.Context(), b.pair, kind), "a definition without the version is accepted")
	after, err := read(t, b.down, "widgets."+kind.Group)
	must(t, err)
	testkit.Equal(t, before.ResourceVersion, after.ResourceVersion, "resourceVersion of the definition")
}

// unavailable answers some requests in place of an API server.
type unavailable struct {
	left atomic.Int32
	next http.RoundTripper
	mark int32 // calls f when so many are left
	f    func()
}

func (u *unavailable) after(left int32, f func()) { u.mark, u.f = left, f }

func (u *unavailable) RoundTrip(r *http.Request) (*http.Response, error) {
	left := u.left.Add(-1)
	if u.f != nil && left == u.mark {
		u.f()
	}
	switch {
	case left < 0:
		return u.next.RoundTrip(r)
	case left%2 == 0:
		return nil, errors.New("the network is down")
	}
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// EnsureCRD waits for a cluster that does not respond, and says why it has not succeeded when its context ends.
func TestEnsureCRD_WaitsForACluster(t *testing.T) {
	t.Parallel()
	broken := &unavailable{}
	b := newBench(t, func(o *syncer.PairOptions) {
		config := rest.CopyConfig(fleettest.Clusters(t, "up", "down")[1].Config())
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			broken.next = next
			return broken
		})
		host, err := cluster.New(config)
		must(t, err)
		o.Downstream = syncer.InProcess(host)
	})
	crd := b.definition(true, "v1")
	kind := install(t, b.up, crd)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	broken.after(math.MaxInt32-8, cancel) // Several tries have failed by then.
	broken.left.Store(math.MaxInt32)
	if err := syncer.EnsureCRD(ctx, b.pair, kind); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "network is down") && !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a cluster that is away: %v", err)
	}
	broken.left.Store(3)
	must(t, syncer.EnsureCRD(t.Context(), b.pair, kind))
	must(t, testkit.Err(read(t, b.down, crd.Name)))
}
