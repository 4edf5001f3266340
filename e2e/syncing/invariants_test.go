// SPDX-License-Identifier: Apache-2.0

package syncing_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

// state is everything in the namespaces of a world.
type state struct {
	ups       map[types.NamespacedName]*corev1.ConfigMap
	downs     map[types.NamespacedName]*corev1.ConfigMap
	copies    map[types.NamespacedName][]*corev1.ConfigMap // by the original that their marks name
	conflicts map[types.UID]bool                           // originals with an event NameConflict
}

func (w *world) read() (*state, error) {
	s := &state{
		ups: map[types.NamespacedName]*corev1.ConfigMap{}, downs: map[types.NamespacedName]*corev1.ConfigMap{},
		copies: map[types.NamespacedName][]*corev1.ConfigMap{}, conflicts: map[types.UID]bool{},
	}
	for _, name := range w.namespaces {
		var all corev1.ConfigMapList
		var events eventsv1.EventList
		if err := errors.Join(w.people[above].List(w.t.Context(), &all, client.InNamespace(name)),
			w.people[above].List(w.t.Context(), &events, client.InNamespace(name))); err != nil {
			return nil, err
		}
		for i := range all.Items {
			s.ups[client.ObjectKeyFromObject(&all.Items[i])] = &all.Items[i]
		}
		for _, e := range events.Items {
			if e.Reason == syncer.ReasonNameConflict {
				s.conflicts[e.Regarding.UID] = true
			}
		}
	}
	var all corev1.ConfigMapList
	if err := w.people[below].List(w.t.Context(), &all, client.InNamespace(w.target)); err != nil {
		return nil, err
	}
	for i := range all.Items {
		one := &all.Items[i]
		s.downs[client.ObjectKeyFromObject(one)] = one
		if up, ours := w.translator.ToUpstream(one); ours {
			s.copies[up] = append(s.copies[up], one)
		}
	}
	return s, nil
}

// check returns an error while the clusters are not in step.
func (w *world) check() error {
	s, err := w.read()
	if err != nil {
		return err
	}
	for key, copies := range s.copies {
		up := s.ups[key]
		switch {
		case len(copies) > 1:
			err = errors.Join(err, fmt.Errorf("%s has %d copies", key, len(copies)))
		case up == nil || !w.isWanted(up):
			err = errors.Join(err, fmt.Errorf("there is a copy of %s, which does not exist or is not selected: %s", key, short(copies[0])))
		}
	}
	for key, up := range s.ups {
		if problem := w.checkUp(s, up); problem != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w: %s", key, problem, short(up)))
		}
	}
	return err
}

func (w *world) isWanted(up *corev1.ConfigMap) bool {
	return isSelected(up) && up.Labels[w.identity.Keys().ControlledBy] == ""
}

func (w *world) checkUp(s *state, up *corev1.ConfigMap) error {
	key := client.ObjectKeyFromObject(up)
	held := slices.Contains(up.Finalizers, syncer.FinalizerOf(w.identity))
	copies := s.copies[key]
	switch {
	case up.DeletionTimestamp != nil:
		return errors.New("the original has not gone")
	case !w.isWanted(up):
		if held {
			return errors.New("the original has a finalizer, although it has no copy")
		}
		return nil
	case len(copies) == 0:
		return w.checkConflict(s, up)
	case w.oneToOne && !held:
		return errors.New("the original has no finalizer")
	case copies[0].Annotations[w.identity.Keys().ObjectUID] != string(up.UID):
		return fmt.Errorf("the copy belongs to an earlier object: %s", short(copies[0]))
	}
	return w.compare(up, copies[0])
}

// checkConflict expects that the name of the copy belongs to somebody else, and that an event says so.
func (w *world) checkConflict(s *state, up *corev1.ConfigMap) error {
	taken := false
	for _, name := range w.translator.ToDownstream(client.ObjectKeyFromObject(up)) {
		if one := s.downs[name]; one != nil {
			_, ours := w.translator.ToUpstream(one)
			taken = taken || !ours
		}
	}
	switch {
	case !taken:
		return errors.New("the original has no copy, and its name is free")
	case !s.conflicts[up.UID]:
		return errors.New("the original has no copy, and no event says so")
	}
	return nil
}

// compare compares an original with its copy. The copy may have more fields, unless the pair owns them.
func (w *world) compare(up, down *corev1.ConfigMap) error {
	owned, err := w.ownedBy(down)
	if err != nil {
		return err
	}
	isMark := w.identity.Keys().Has
	for what, maps := range map[string]struct{ up, down, owned map[string]string }{
		"data":        {up.Data, down.Data, owned.data},
		"labels":      {without(up.Labels, isMark), without(down.Labels, isMark), without(owned.labels, isMark)},
		"annotations": {without(up.Annotations, isMark), without(down.Annotations, isMark), without(owned.annotations, isMark)},
	} {
		for key, value := range maps.up {
			if maps.down[key] != value {
				return fmt.Errorf("%s %s of the copy is %q", what, key, maps.down[key])
			}
		}
		for key := range maps.owned {
			if _, ok := maps.up[key]; !ok {
				return fmt.Errorf("%s of the copy has %s, which the pair owns", what, key)
			}
		}
	}
	return nil
}

func without(all map[string]string, drop func(string) bool) map[string]string {
	all = maps.Clone(all)
	maps.DeleteFunc(all, func(key, _ string) bool { return drop(key) })
	return all
}

// ownership is the keys of the fields of a copy that the pair owns.
type ownership struct{ data, labels, annotations map[string]string }

func (w *world) ownedBy(down *corev1.ConfigMap) (o ownership, err error) {
	for _, entry := range down.ManagedFields {
		if entry.Manager != w.identity.KeyPrefix+"/"+w.identity.Tenant+"/down" || entry.Operation != metav1.ManagedFieldsOperationApply {
			continue
		}
		var fields struct {
			Data     map[string]json.RawMessage `json:"f:data"`
			Metadata struct {
				Labels      map[string]json.RawMessage `json:"f:labels"`
				Annotations map[string]json.RawMessage `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			return o, err
		}
		return ownership{keysOf(fields.Data), keysOf(fields.Metadata.Labels), keysOf(fields.Metadata.Annotations)}, nil
	}
	return o, errors.New("the pair owns no field of the copy")
}

func keysOf(fields map[string]json.RawMessage) map[string]string {
	all := map[string]string{}
	for key := range fields {
		if len(key) > 2 {
			all[key[2:]] = ""
		}
	}
	return all
}
