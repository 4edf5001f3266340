// SPDX-License-Identifier: Apache-2.0

package syncing_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writer is a person, or a controller, that writes on both sides. Requests that fail are not repeated.
type writer struct {
	*world
	random *rand.Rand
}

// action is something that a writer does.
type action func(ctx context.Context) error

func (w *writer) run(ctx context.Context) {
	actions := []action{ // An action that is more frequent is listed more than once.
		w.create, w.create, w.create, w.create, w.edit, w.edit, w.remove, w.createAgain, w.relabel, w.marksOntoUpstream,
		w.editBelow, w.editBelow, w.removeBelow, w.removeBelow, w.removeBelow, w.relabelBelow, w.createBelow, w.copyBelow, w.marksBelow,
	}
	pace := time.NewTicker(10 * time.Millisecond) // The API servers have other clients, too.
	defer pace.Stop()
	for ctx.Err() == nil {
		_ = actions[w.random.IntN(len(actions))](ctx) // Another writer may have been faster.
		select {
		case <-ctx.Done():
		case <-pace.C:
		}
	}
}

// some returns a random element, or the zero value of an empty list.
func some[T any](r *rand.Rand, all []T) (one T) {
	if len(all) > 0 {
		one = all[r.IntN(len(all))]
	}
	return one
}

func (w *writer) key() string   { return some(w.random, []string{"k", "l", "m"}) }
func (w *writer) value() string { return strconv.Itoa(w.random.IntN(5)) }

// name returns the name of an original, which may not exist.
func (w *writer) name() types.NamespacedName {
	names := []string{"a", "b", "c.d", "a-x-" + w.identity.Tenant, "long-name-that-is-cut-and-gets-a-hash-at-its-end-because-it-is-long"}
	return types.NamespacedName{Namespace: some(w.random, w.namespaces), Name: some(w.random, names)}
}

func (w *writer) get(ctx context.Context, side int, key types.NamespacedName) (*corev1.ConfigMap, error) {
	var one corev1.ConfigMap
	return &one, w.people[side].Get(ctx, key, &one)
}

// below returns an object downstream.
func (w *writer) below(ctx context.Context) (*corev1.ConfigMap, error) {
	var all corev1.ConfigMapList
	if err := w.people[below].List(ctx, &all, client.InNamespace(w.target)); err != nil {
		return nil, err
	}
	if len(all.Items) == 0 {
		return nil, errors.New("there is no object")
	}
	return &all.Items[w.random.IntN(len(all.Items))], nil
}

func (w *writer) fresh(key types.NamespacedName) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Data:       map[string]string{w.key(): w.value(), w.key(): w.value()},
	}
}

func (w *writer) create(ctx context.Context) error {
	return w.people[above].Create(ctx, w.fresh(w.name()))
}

func (w *writer) edit(ctx context.Context) error {
	one, err := w.get(ctx, above, w.name())
	if err != nil {
		return err
	}
	w.editData(one)
	return w.people[above].Update(ctx, one)
}

func (w *writer) editData(one *corev1.ConfigMap) {
	if one.Data == nil {
		one.Data = map[string]string{}
	}
	if key := w.key(); w.random.IntN(3) == 0 {
		delete(one.Data, key)
	} else {
		one.Data[key] = w.value()
	}
}

func (w *writer) remove(ctx context.Context) error {
	return w.people[above].Delete(ctx, w.fresh(w.name()))
}

func (w *writer) createAgain(ctx context.Context) error {
	one := w.fresh(w.name())
	if err := w.people[above].Delete(ctx, one.DeepCopy()); err != nil {
		return err
	}
	return w.people[above].Create(ctx, one)
}

// relabel changes a label of an original, which may select it or not.
func (w *writer) relabel(ctx context.Context) error {
	one, err := w.get(ctx, above, w.name())
	if err != nil {
		return err
	}
	w.toggle(one, some(w.random, []string{unselected, w.identity.Keys().ControlledBy, "example.com/other", "app"}))
	return w.people[above].Update(ctx, one)
}

func (w *writer) toggle(one *corev1.ConfigMap, key string) {
	if one.Labels == nil {
		one.Labels = map[string]string{}
	}
	if _, ok := one.Labels[key]; ok {
		delete(one.Labels, key)
	} else {
		one.Labels[key] = w.value()
	}
}

// marksOntoUpstream gives an original the metadata of a copy.
func (w *writer) marksOntoUpstream(ctx context.Context) error {
	from, err := w.below(ctx)
	if err != nil {
		return err
	}
	one, err := w.get(ctx, above, w.name())
	if err != nil {
		return err
	}
	add(one, from)
	return w.people[above].Update(ctx, one)
}

func add(to, from *corev1.ConfigMap) {
	to.Labels, to.Annotations = merged(to.Labels, from.Labels), merged(to.Annotations, from.Annotations)
}

func merged(all, more map[string]string) map[string]string {
	all = maps.Clone(all)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, more)
	return all
}

func (w *writer) editBelow(ctx context.Context) error {
	one, err := w.below(ctx)
	if err != nil {
		return err
	}
	w.editData(one)
	one.Data["theirs"] = w.value()
	return w.people[below].Update(ctx, one)
}

func (w *writer) removeBelow(ctx context.Context) error {
	one, err := w.below(ctx)
	if err != nil {
		return err
	}
	return w.people[below].Delete(ctx, one)
}

// relabelBelow changes a label or an annotation of an object downstream, which may be a mark.
func (w *writer) relabelBelow(ctx context.Context) error {
	one, err := w.below(ctx)
	if err != nil {
		return err
	}
	keys := w.identity.Keys()
	switch w.random.IntN(3) {
	case 0:
		w.toggle(one, some(w.random, []string{"app", "example.com/theirs", keys.ManagedBy, keys.Namespace}))
	case 1:
		if key := some(w.random, slices.Sorted(maps.Keys(one.Annotations))); key != "" {
			delete(one.Annotations, key)
		}
	default:
		if key := some(w.random, slices.Sorted(maps.Keys(one.Annotations))); key != "" {
			one.Annotations[key] = w.value()
		}
	}
	return w.people[below].Update(ctx, one)
}

// nameBelow returns a name that a copy may have, or another one.
func (w *writer) nameBelow() types.NamespacedName {
	if w.random.IntN(4) == 0 {
		return types.NamespacedName{Namespace: w.target, Name: "other-" + w.value()}
	}
	return some(w.random, w.translator.ToDownstream(w.name()))
}

// createBelow creates an object of another owner.
func (w *writer) createBelow(ctx context.Context) error {
	return w.people[below].Create(ctx, w.fresh(w.nameBelow()))
}

// copyBelow copies an object downstream, with all its metadata, to another name.
func (w *writer) copyBelow(ctx context.Context) error {
	from, err := w.below(ctx)
	if err != nil {
		return err
	}
	to := w.fresh(w.nameBelow())
	to.Labels, to.Annotations, to.Data = from.Labels, from.Annotations, from.Data
	return w.people[below].Create(ctx, to)
}

// marksBelow gives an object downstream the metadata of another one.
func (w *writer) marksBelow(ctx context.Context) error {
	from, err := w.below(ctx)
	if err != nil {
		return err
	}
	to, err := w.below(ctx)
	if err != nil {
		return err
	}
	add(to, from)
	return w.people[below].Update(ctx, to)
}
