// SPDX-License-Identifier: Apache-2.0

package syncer_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

// What others have in an empty field of a copy costs one request, and another one after a restart, however often the copy is reconciled.
func TestApply_WhatOthersHave(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	var sent atomic.Int64
	b.between = func(r *http.Request) {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/"+b.downNS+"/widgets/w") {
			sent.Add(1)
		}
	}
	crd := b.definition(true, "v1")
	kind := install(t, b.up, crd.DeepCopy())
	install(t, b.down, crd.DeepCopy())
	process := func() {
		b.begin(t, nil)
		must(t, syncer.Register(b.pair, &syncer.Copy[*unstructured.Unstructured]{Called: "widgets"},
			syncer.NewMirror[*unstructured.Unstructured](b.pair.Identity(), syncer.TranslatorOptions{}),
			syncer.Options[*unstructured.Unstructured]{Kind: kind, Concurrency: 1}))
		b.run(t)
	}
	change := func(obj *unstructured.Unstructured, patch string) {
		t.Helper()
		must(t, b.down.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch))))
	}
	process()
	must(t, b.up.Create(t.Context(), widget(kind, b.upNS, map[string]any{"extra": map[string]any{}})))
	next := widget(kind, b.upNS, map[string]any{"size": int64(1)})
	next.SetName("next")
	must(t, b.up.Create(t.Context(), next))
	down, last := widget(kind, b.downNS, nil), widget(kind, b.downNS, nil)
	last.SetName("next")
	for _, one := range []*unstructured.Unstructured{down, last} {
		eventually(t, func() error { return b.down.Get(t.Context(), client.ObjectKeyFromObject(one), one) })
	}
	pass := func() { // What is under way for the other one is over then.
		t.Helper()
		change(last, `{"spec":{"size":2}}`)
		eventually(t, func() error {
			err := b.down.Get(t.Context(), client.ObjectKeyFromObject(last), last)
			if size, _, _ := unstructured.NestedInt64(last.Object, "spec", "size"); err == nil && size != 1 {
				err = fmt.Errorf("the size is %d", size)
			}
			return err
		})
	}
	rounds := func(want int64) {
		t.Helper()
		eventually(t, func() error {
			if n := sent.Load(); n < want {
				return fmt.Errorf("%d requests, want %d", n, want)
			}
			return nil
		})
		pass()
		for round := range 3 {
			change(down, fmt.Sprintf(`{"metadata":{"labels":{"round":"%d-%d"}}}`, want, round))
			pass()
			testkit.Equal(t, sent.Load(), want, "requests in round", round)
		}
	}
	change(down, `{"spec":{"extra":{"theirs":"1"}}}`)
	rounds(2) // The first request has made the copy.
	b.stop()
	process()
	rounds(3)
}
