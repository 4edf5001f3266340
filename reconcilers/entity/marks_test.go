// SPDX-License-Identifier: Apache-2.0

package entity_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
)

func marks(hub, kind, prefix string) entity.Marks {
	return entity.Marks{Hub: hub, Kind: kind, Prefix: prefix}
}

// D6: the prefix is an option, and marks that contradict each other, or are those of another hub, kind or prefix, are foreign.
// Promise: marks that are changed or copied are foreign.
func TestD6_MarksThatContradictEachOther(t *testing.T) {
	t.Parallel()
	ours := marks("hub", "Order", entity.DefaultPrefix)
	owner := entity.Owner{Kind: "Order", Key: "acme/web." + strings.Repeat("x", 100), Life: bucket.Birth{Revision: 7, Time: time.Unix(1, 2).UTC()}}
	made := &corev1.ConfigMap{}
	ours.SetOwner(made, owner)
	if got, ok := ours.OwnerOf(made); !ok || got != owner {
		t.Fatalf("got %v, %t, want %v", got, ok, owner)
	}
	for name, other := range map[string]entity.Marks{
		"another hub":    marks("another", "Order", entity.DefaultPrefix),
		"another kind":   marks("hub", "Device", entity.DefaultPrefix),
		"another prefix": marks("hub", "Order", "example.com"),
		"another bucket": {Hub: "hub", Kind: "Order", Prefix: entity.DefaultPrefix, Bucket: "others"},
	} {
		if got, ok := other.OwnerOf(made); ok {
			t.Errorf("%s: it is a secondary of %v", name, got)
		}
	}
	for note := range made.Annotations {
		for text, change := range map[string]func(map[string]string){
			"changed": func(m map[string]string) { m[note] += "x" },
			"removed": func(m map[string]string) { delete(m, note) },
		} {
			edited := made.DeepCopy()
			change(edited.Annotations)
			if got, ok := ours.OwnerOf(edited); ok {
				t.Errorf("annotation %s is %s, and it is a secondary of %v", note, text, got)
			}
		}
	}
	for name, copied := range map[string]*corev1.ConfigMap{
		"name":      {ObjectMeta: metav1.ObjectMeta{Name: "another"}},
		"namespace": {ObjectMeta: metav1.ObjectMeta{Namespace: "another"}},
	} {
		copied.Labels, copied.Annotations = made.Labels, made.Annotations
		if got, ok := ours.OwnerOf(copied); ok {
			t.Errorf("the marks are copied to an object of another %s, and it is a secondary of %v", name, got)
		}
	}
	for label := range made.Labels {
		edited := made.DeepCopy()
		edited.Labels = maps.Clone(made.Labels)
		edited.Labels[label] = "x"
		if got, ok := ours.OwnerOf(edited); ok {
			t.Errorf("label %s is changed, and it is a secondary of %v", label, got)
		}
	}
}

// DecomposeKubeSecondaryResource returns the primary of a secondary, also of one that has gone, and no primary of other objects.
func TestMarks_Decompose(t *testing.T) {
	t.Parallel()
	ours := marks("hub", "Order", entity.DefaultPrefix)
	made := &corev1.ConfigMap{}
	made.Name = "made"
	ours.SetOwner(made, entity.Owner{Kind: "Order", Key: "a.x", Life: bucket.Birth{Revision: 7, Time: time.Unix(1, 2).UTC()}})
	for name, c := range map[string]struct {
		event any
		want  string
		fails bool
	}{
		"a secondary":              {event: made, want: "a.x"},
		"a secondary that is gone": {event: cache.DeletedFinalStateUnknown{Key: "made", Obj: made}, want: "a.x"},
		"another object":           {event: &corev1.ConfigMap{}},
		"no object":                {event: "made", fails: true},
		"nothing that is gone":     {event: cache.DeletedFinalStateUnknown{Key: "made"}, fails: true},
	} {
		object, key, err := ours.DecomposeKubeSecondaryResource(c.event)
		if key != c.want || (err != nil) != c.fails || (object == nil) != c.fails {
			t.Errorf("%s: got %v, %q, %v", name, object, key, err)
		}
	}
}

// Marks without a hub or a kind, or with a prefix that is none, are refused before anything starts.
func TestMarks_Invalid(t *testing.T) {
	t.Parallel()
	for _, m := range []entity.Marks{marks("", "Order", ""), marks("hub", "", ""), marks("hub", "an order", ""), marks("hub", "Order", "A B")} {
		testkit.ErrorIs(t, testkit.Err(entity.Add[order](nil, nil, entity.Options{Marks: m})), entity.ErrInvalidMarks, m)
	}
}
