// SPDX-License-Identifier: Apache-2.0

package syncing_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lastWrite is more writes than the story has.
const lastWrite = 30

// everyWrite ends the process of a pair before and after each of its writes, in a story that has each kind of write.
func everyWrite(t *testing.T, begin func(t *testing.T, id string) *world) {
	t.Helper()
	for at := int64(1); at <= lastWrite; at++ {
		for i, after := range []bool{false, true} {
			oneToOne := at%2 == int64(i) // Both ways take turns, with and without finalizers.
			id := fmt.Sprintf("n%d-%d", at, i)
			t.Run(fmt.Sprintf("write=%d,after=%t,finalizer=%t", at, after, oneToOne), func(t *testing.T) {
				t.Parallel()
				w := begin(t, id)
				w.oneToOne = oneToOne
				stop := w.keepRunning(t, moment{write: at, after: after})
				w.story(t)
				if ended := stop(); at == lastWrite && ended {
					t.Errorf("the story has %d writes or more", lastWrite)
				}
				w.checkWrites()
			})
		}
	}
}

// keepRunning runs processes of the pair: the first one ends at a moment, and another one follows it. stop ends them, and
// reports whether the moment has come.
func (w *world) keepRunning(t *testing.T, first moment) (stop func() bool) {
	t.Helper()
	current := w.begin(t, first)
	restarted := false
	over := make(chan struct{})
	var supervising sync.WaitGroup
	supervising.Go(func() {
		select {
		case <-current.ended:
			current.kill()
			restarted = true
			current = w.begin(t, moment{})
			<-over
		case <-over:
		}
	})
	return func() bool {
		close(over)
		supervising.Wait()
		current.kill()
		return restarted
	}
}

// story creates, edits, deletes and recreates two objects on both sides, and waits after each step until both clusters are in step.
func (w *world) story(t *testing.T) {
	t.Helper()
	ctx, up, down := t.Context(), w.people[above], w.people[below]
	a, b := w.original(0, "a"), w.original(1, "a-x-"+w.identity.Tenant)
	nameOf := func(c *corev1.ConfigMap) *corev1.ConfigMap {
		name := w.translator.ToDownstream(client.ObjectKeyFromObject(c))[0]
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	}
	foreign := nameOf(b)
	foreign.Data = map[string]string{"precious": "yes"}
	for i, do := range []func() error{
		func() error { return up.Create(ctx, a.DeepCopy()) },
		func() error {
			return up.Patch(ctx, a.DeepCopy(), merge(`{"data":{"k":"2","l":null},"metadata":{"labels":{"x":"1"}}}`))
		},
		func() error { return down.Patch(ctx, nameOf(a), merge(`{"data":{"k":"theirs","extra":"3"}}`)) },
		func() error { return down.Delete(ctx, nameOf(a)) },
		func() error { return up.Delete(ctx, a.DeepCopy()) },
		func() error { return w.createAgain(a) },
		func() error {
			return up.Patch(ctx, a.DeepCopy(), merge(`{"metadata":{"labels":{"`+unselected+`":"yes"}}}`))
		},
		func() error {
			return up.Patch(ctx, a.DeepCopy(), merge(`{"metadata":{"labels":{"`+unselected+`":null}}}`))
		},
		func() error { return down.Create(ctx, foreign.DeepCopy()) },
		func() error { return up.Create(ctx, b.DeepCopy()) },
		func() error { return down.Delete(ctx, foreign.DeepCopy()) },
		func() error { return w.copyMarks(nameOf(a), nameOf(b)) },
		func() error { return down.Delete(ctx, nameOf(b)) },
		func() error { // A person takes the copy over. It stays, although the cache may have it with its mark.
			unmark := merge(`{"metadata":{"labels":{"` + w.identity.Keys().ManagedBy + `":null}}}`)
			return errors.Join(down.Patch(ctx, nameOf(a), unmark), up.Delete(ctx, a.DeepCopy()))
		},
		func() error { return errors.Join(down.Delete(ctx, nameOf(a)), up.Delete(ctx, b.DeepCopy())) },
	} {
		if err := do(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		eventually(t, w.check)
	}
	s, err := w.read()
	must(t, err)
	if len(s.ups)+len(s.downs) > 0 {
		t.Errorf("there are %d originals and %d objects downstream, want none", len(s.ups), len(s.downs))
	}
}

func merge(patch string) client.Patch {
	return client.RawPatch("application/merge-patch+json", []byte(patch))
}

func (w *world) original(namespace int, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespaces[namespace], Name: name},
		Data:       map[string]string{"k": "1", "l": "1"},
	}
}

// createAgain creates an original of which an earlier one may not have gone.
func (w *world) createAgain(up *corev1.ConfigMap) error {
	var err error
	eventually(w.t, func() error {
		if err = w.people[above].Create(w.t.Context(), up.DeepCopy()); apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	})
	return err
}

// copyMarks gives an object the labels and annotations of another one, as a person does who edits a copy of its YAML.
func (w *world) copyMarks(from, to *corev1.ConfigMap) error {
	c := w.people[below]
	var source, target corev1.ConfigMap
	if err := errors.Join(c.Get(w.t.Context(), client.ObjectKeyFromObject(from), &source),
		c.Get(w.t.Context(), client.ObjectKeyFromObject(to), &target)); err != nil {
		return err
	}
	target.Labels, target.Annotations = source.Labels, source.Annotations
	return c.Update(w.t.Context(), &target)
}
