// SPDX-License-Identifier: Apache-2.0

package syncer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

// The copy of an original that is deleted and made again while no process watches is replaced if the content differs, and marked again
// with one write if it does not, as in a hub that was restored.
// Promise: an original with another UID gets a new copy, or the copy is marked again if its content is right.
func TestD4_ARecreatedOriginal(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"other content": "2", "the same content": "1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recreated(t, content)
		})
	}
}

func recreated(t *testing.T, content string) {
	t.Helper()
	b := newBench(t, nil)
	b.copies(t, syncer.Options[*corev1.ConfigMap]{})
	b.run(t)
	up := b.original("a", map[string]string{"k": "1"})
	must(t, b.up.Create(t.Context(), up))
	before := b.wait(t, "a", map[string]string{"k": "1"})
	b.label(t, b.down, before, "theirs", "1")
	b.stop()

	must(t, b.up.Patch(t.Context(), up, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	must(t, b.up.Delete(t.Context(), up))
	again := b.original("a", map[string]string{"k": content})
	must(t, b.up.Create(t.Context(), again))
	b.begin(t, nil)
	b.copies(t, syncer.Options[*corev1.ConfigMap]{})
	b.run(t)
	var after corev1.ConfigMap
	eventually(t, func() error {
		err := b.down.Get(t.Context(), client.ObjectKeyFromObject(before), &after)
		if got := after.Annotations[b.pair.Identity().Keys().ObjectUID]; err == nil && got != string(again.UID) {
			err = fmt.Errorf("the copy has the mark of %s, want %s", got, again.UID)
		}
		return err
	})
	if isKept := after.UID == before.UID; isKept != (content == "1") || after.Data["k"] != content {
		t.Errorf("the copy is kept: %t, with %v", isKept, after.Data)
	}
	testkit.Equal(t, after.Labels["theirs"] == "1", (content == "1"), "the label of others is kept")
}

// The copy of an original that is being deleted is deleted and not made again, and the finalizer of the pair stays until the
// copy has gone.
// Promise: objects that are being deleted: the copy goes first; nothing is made again.
func TestD5_ATerminatingOriginal(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.copies(t, syncer.Options[*corev1.ConfigMap]{})
	b.run(t)
	up := b.original("a", map[string]string{"k": "1"})
	up.Finalizers = []string{"example.com/other"}
	must(t, b.up.Create(t.Context(), up))
	found := b.wait(t, "a", map[string]string{"k": "1"})
	must(t, b.down.Patch(t.Context(), found, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/slow"]}}`))))
	must(t, b.up.Delete(t.Context(), up))

	ours := syncer.FinalizerOf(b.pair.Identity())
	eventually(t, func() error {
		if err := b.down.Get(t.Context(), client.ObjectKeyFromObject(found), found); err != nil {
			return err
		}
		if found.DeletionTimestamp.IsZero() {
			return errors.New("the copy is not being deleted")
		}
		return nil
	})
	b.barrier(t, "waits")
	must(t, b.up.Get(t.Context(), client.ObjectKeyFromObject(up), up))
	if !slices.Contains(up.Finalizers, ours) {
		t.Fatalf("the finalizer is removed while the copy exists: %v", up.Finalizers)
	}

	must(t, b.down.Patch(t.Context(), found, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	eventually(t, func() error {
		if err := b.up.Get(t.Context(), client.ObjectKeyFromObject(up), up); err != nil {
			return err
		}
		if slices.Contains(up.Finalizers, ours) {
			return errors.New("the finalizer is still there")
		}
		return nil
	})
	b.label(t, b.up, up, "edited", "1")
	b.barrier(t, "released")
	if err := b.down.Get(t.Context(), client.ObjectKeyFromObject(found), found); !apierrors.IsNotFound(err) {
		t.Errorf("the copy of an object that is being deleted is made again: %v", err)
	}
	must(t, b.up.Patch(t.Context(), up, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
}

// A finalizer that another client adds when the pair has read an original, and has not yet added its own, stays.
func TestD5_AFinalizerOfAnotherClient(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	const theirs = "example.com/theirs"
	var once atomic.Bool
	b.copies(t, syncer.Options[*corev1.ConfigMap]{Hooks: []syncer.ClientHook[*corev1.ConfigMap]{{
		Name: "another client", Upstream: syncer.Mutators[*corev1.ConfigMap]{
			Get: func(ctx context.Context, read *corev1.ConfigMap) (*corev1.ConfigMap, error) {
				if !b.inTest(read) || !once.CompareAndSwap(false, true) {
					return read, nil
				}
				add := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["`+theirs+`"]}}`))
				return read, b.up.Patch(ctx, read.DeepCopy(), add)
			},
		},
	}}})
	b.run(t)
	up := b.original("a", map[string]string{"k": "1"})
	must(t, b.up.Create(t.Context(), up))
	b.wait(t, "a", map[string]string{"k": "1"})
	must(t, b.up.Get(t.Context(), client.ObjectKeyFromObject(up), up))
	testkit.Equal(t, up.Finalizers, []string{theirs, syncer.FinalizerOf(b.pair.Identity())}, "finalizers")
	must(t, b.up.Patch(t.Context(), up, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
}

// What happens when somebody else deletes a copy is a policy.
// Promise: what the deletion of a copy means is an option of the syncer, and holds for deletions of others only.
func TestD6_DeletedCopies(t *testing.T) {
	t.Parallel()
	for _, policy := range []syncer.DeletionPolicy{syncer.Recreate, syncer.Propagate} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			b.copies(t, syncer.Options[*corev1.ConfigMap]{OnDownstreamDeletion: policy})
			b.run(t)
			up := b.original("a", map[string]string{"k": "1"})
			must(t, b.up.Create(t.Context(), up))
			before := b.wait(t, "a", map[string]string{"k": "1"})
			must(t, b.down.Delete(t.Context(), b.copyOf("a")))
			if policy == syncer.Propagate {
				fleettest.Gone(t, b.up, up)
				fleettest.Gone(t, b.down, b.copyOf("a"))
				return
			}
			if after := b.wait(t, "a", map[string]string{"k": "1"}); after.UID == before.UID {
				eventually(t, func() error {
					if b.wait(t, "a", map[string]string{"k": "1"}).UID == before.UID {
						return errors.New("the copy is not deleted yet")
					}
					return nil
				})
			}
			must(t, b.up.Get(t.Context(), client.ObjectKeyFromObject(up), up))
		})
	}
}

// A copy that the pair itself deletes, because its original is not selected for a while, deletes no original.
func TestD6_PropagateIsForDeletionsOfOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.copies(t, syncer.Options[*corev1.ConfigMap]{OnDownstreamDeletion: syncer.Propagate, Select: func(up *corev1.ConfigMap) bool {
		return up.Namespace == b.upNS && up.Labels["off"] != "yes" && up.Name != "kube-root-ca.crt"
	}})
	b.run(t)
	up := b.original("a", nil)
	must(t, b.up.Create(t.Context(), up))
	b.wait(t, "a", nil)
	b.label(t, b.up, up, "off", "yes")
	fleettest.Gone(t, b.down, b.copyOf("a"))
	b.label(t, b.up, up, "off", "no")
	b.wait(t, "a", nil)
	must(t, b.up.Get(t.Context(), client.ObjectKeyFromObject(up), up))
	if !up.DeletionTimestamp.IsZero() {
		t.Error("the original is deleted because the pair has deleted the copy")
	}
}

// A deletion of a copy is propagated, also if the original is reconciled between the cache and the report of the deletion.
func TestD6_PropagateWhileTheOriginalIsEdited(t *testing.T) {
	t.Parallel()
	fleettest.Slow(t, "nothing: TestAwaited shows how long a report is awaited; the race of the edit with the report takes many real deletions")
	b := newBench(t, nil)
	b.copies(t, syncer.Options[*corev1.ConfigMap]{OnDownstreamDeletion: syncer.Propagate})
	b.run(t)
	const objects = 40
	names := make([]string, 0, objects)
	for i := range objects {
		names = append(names, fmt.Sprintf("a%d", i))
		must(t, b.up.Create(t.Context(), b.original(names[i], nil)))
	}
	for _, name := range names {
		b.wait(t, name, nil)
	}
	for _, name := range names {
		edited := make(chan struct{})
		go func() {
			defer close(edited)
			for i := range 5 {
				patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"edit":"%d"}}}`, i))
				if b.up.Patch(t.Context(), b.original(name, nil), patch) != nil {
					return // The original is gone.
				}
			}
		}()
		must(t, b.down.Delete(t.Context(), b.copyOf(name)))
		<-edited
		fleettest.Gone(t, b.up, b.original(name, nil))
		fleettest.Gone(t, b.down, b.copyOf(name))
	}
}
