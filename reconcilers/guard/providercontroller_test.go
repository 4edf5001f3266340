// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/guard"
)

// The tests of this file, and D6 and D12 in reconciler_test.go, are named after the known flaws of the
// ProviderController that this package follows.

// D1: after an accidental rename, calls of Create reached an embedded Create that sets no owner, label and namespace.
func TestD1_WhatIsCreatedBelongsToTheObject(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	long := strings.Repeat("a", 100)
	s.Make(long)
	c := s.controller(s.host(inStatus()), long)
	belongs := func(obj client.Object) {
		t.Helper()
		must(t, s.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: obj.GetName()}, obj))
		owners := obj.GetOwnerReferences()
		if len(owners) != 1 || owners[0].UID != c.Object().UID || owners[0].Kind != "Tunnel" || !*owners[0].Controller {
			t.Errorf("got owners %+v", owners)
		}
		instance := obj.GetLabels()[guard.InstanceLabel]
		if instance != guard.InstanceOf(c.Object()) || len(instance) > 63 || !strings.HasPrefix(long, instance[:50]) {
			t.Errorf("got labels %v", obj.GetLabels())
		}
	}
	stranger := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}}
	created := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "created", Namespace: "default", OwnerReferences: stranger}}
	must(t, c.Create(t.Context(), created))
	belongs(created)
	must(t, c.Apply(t.Context(), corev1ac.ConfigMap("applied", "default").WithData(map[string]string{"a": "b"})))
	applied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "applied"}}
	belongs(applied)
	testkit.Equal(t, applied.Data["a"], "b", "data", applied.Data)
	must(t, c.Delete(t.Context(), applied))
	if err := c.Delete(t.Context(), applied); !apierrors.IsNotFound(err) {
		t.Errorf("Delete of a deleted object: got %v, want NotFound", err)
	}
	t.Run("nothing is promoted", func(t *testing.T) {
		for f := range reflect.TypeFor[controller]().Fields() {
			if f.Anonymous {
				t.Errorf("%s is embedded", f.Name)
			}
		}
		for _, raw := range []string{"Update", "Patch", "DeleteAllOf", "Status"} {
			if _, ok := reflect.TypeFor[*controller]().MethodByName(raw); ok {
				t.Errorf("Controller has a method %s", raw)
			}
		}
	})
}

// D2: after a crash in a task, or a failed write, the condition stayed locked forever.
func TestD2_LocksDoNotOutliveTheirHolders(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		s.Make("a")
		var p process
		doomed := newHost(t, p.client(s), o)
		ctx, cancel := context.WithCancel(t.Context())
		p.bury = cancel
		doomed.SetClock(ctx)
		var first guard.Attempt
		err := s.controller(doomed, "a").Guard(t.Context(), "dig", func(_ context.Context, a guard.Attempt) (guard.Outcome, error) {
			first = a
			p.kill()
			return done, nil
		})
		testkit.Fails(t, err, "outcome was written after the kill")
		s.expect("a", metav1.ConditionUnknown, guard.ReasonLocked)
		heir := s.host(o)
		clock := heir.SetClock(t.Context())
		for _, wait := range []time.Duration{0, ttl - time.Minute} {
			clock.Skip(wait)
			testkit.ErrorIs(t, s.controller(heir, "a").Guard(t.Context(), "other", noTask(t)), guard.ErrLocked, "after", wait)
		}
		clock.Skip(2 * time.Minute)
		again := s.guard(heir, "a", done, nil)
		if again.ID != first.ID || again.Number != 1 || !again.Recovering || again.Intent != "dig" {
			t.Errorf("got attempts %+v and %+v", first, again)
		}
		s.expect("a", metav1.ConditionTrue, "Done")
	})
}

// D3: a reason that the API server refused left the condition locked.
func TestD3_OutcomesAreMadeFit(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		s.Make("a")
		events := &recorder{}
		o.Events = events
		h := s.host(o)
		s.controller(h, "a").Eventf("Normal", "Dug", "Dig", "%s", strings.Repeat("deep ", 500))
		for _, bad := range []guard.Outcome{
			{},
			{Status: "Completed", Reason: "in prose, with a full stop."},
			{Status: metav1.ConditionTrue, Reason: strings.Repeat("R", 2000), Message: strings.Repeat("ü", 40_000)},
			{Status: metav1.ConditionTrue, Reason: "R", Message: "\xff\x00"},
		} {
			s.guard(h, "a", bad, nil)
			has := *meta.FindStatusCondition(s.Read("a").Status.Conditions, kind)
			if has.Reason == guard.ReasonLocked || has.Reason == "" {
				t.Errorf("got condition %+v", has)
			}
		}
		s.guard(h, "a", guard.Outcome{}, errors.New(strings.Repeat("long ", 20_000)))
		if has := s.expect("a", metav1.ConditionFalse, guard.ReasonFailed); !strings.HasPrefix(has.Message, "long long") {
			t.Errorf("got condition %+v", has)
		}
		if last := events.all(); len(last) != 1 || len(last[0]) != len("Normal Dug Dig: ")+1024 {
			t.Errorf("got events %q", last) // The API server accepts 1024 bytes.
		}
		must(t, s.controller(h, "a").UpdateCondition(t.Context(), "Fine", "of course", ""))
		s.expect("a", metav1.ConditionUnknown, guard.ReasonNone)
	})
}

// D4: when the outcome could not be written, the next reconcile repeated the whole change.
func TestD4_TheIntentIsKnownBeforeAnythingIsDone(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		s.Make("a")
		var c cloud
		create := func(_ context.Context, a guard.Attempt) (guard.Outcome, error) {
			c.create(a.ID)
			return done, nil
		}
		var p process
		doomed := newHost(t, p.client(s), o)
		ctx, cancel := context.WithCancel(t.Context())
		p.bury = cancel
		doomed.SetClock(ctx)
		err := s.controller(doomed, "a").Guard(t.Context(), "dig", func(ctx context.Context, a guard.Attempt) (guard.Outcome, error) {
			s.expectIntent(o, "a", "dig", a.ID)
			defer p.kill()
			return create(ctx, a)
		})
		if err == nil || c.everMade() != 1 {
			t.Errorf("Guard: got %v, %d tunnels created", err, c.everMade())
		}
		heir := s.host(o)
		clock := heir.SetClock(t.Context())
		testkit.ErrorIs(t, s.controller(heir, "a").Guard(t.Context(), "dig", noTask(t)), guard.ErrLocked, "Guard")
		clock.Skip(ttl)
		must(t, s.controller(heir, "a").Guard(t.Context(), "dig", create))
		testkit.Equal(t, c.everMade(), 1, "created tunnels")
	})
}

func (s *server) expectIntent(o options, name, intent, id string) {
	s.T.Helper()
	text := ""
	if o.Locks != nil {
		has := s.Read(name).Status.Locks
		text = marshaled(s.T, has)
	} else {
		text = marshaled(s.T, s.leases())
	}
	if !strings.Contains(text, intent) || !strings.Contains(text, id) {
		s.T.Errorf("no intent %s of attempt %s in %s", intent, id, text)
	}
}

func (s *server) leases() []coordinationv1.Lease {
	s.T.Helper()
	var all coordinationv1.LeaseList
	must(s.T, s.List(s.T.Context(), &all, client.InNamespace("default")))
	return slices.DeleteFunc(all.Items, func(l coordinationv1.Lease) bool {
		return !strings.Contains(l.Annotations["guard.clusterfx.dev/object"], " "+s.Namespace+"/")
	})
}

func marshaled[T any](t testing.TB, v T) string {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)
	return string(text)
}

// D5: the task removed the finalizer; then the object was deleted, and the outcome could not be written.
func TestD5_TheFinalizerIsRemovedLast(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		const own = "example.com/own"
		s.Make("a", func(o *Tunnel) { o.Finalizers = []string{own} })
		s.Remove("a")
		c := s.controller(s.host(o), "a")
		failing := c.Guard(t.Context(), "fill in", func(ctx context.Context, _ guard.Attempt) (guard.Outcome, error) {
			must(t, c.RemoveFinalizer(ctx, own))
			return done, errBroken
		})
		if !errors.Is(failing, errBroken) || !slices.Contains(s.Read("a").Finalizers, own) {
			t.Errorf("after a failed task: got error %v, finalizers %v", failing, s.Read("a").Finalizers)
		}
		must(t, c.Guard(t.Context(), "fill in", func(ctx context.Context, _ guard.Attempt) (guard.Outcome, error) {
			must(t, c.RemoveFinalizer(ctx, own))
			if !slices.Contains(s.Read("a").Finalizers, own) {
				t.Error("finalizer is removed before the outcome is written")
			}
			return guard.Outcome{Status: metav1.ConditionFalse, Reason: "Terminated"}, nil
		}))
		s.ExpectGone("a")
		must(t, c.UpdateCondition(t.Context(), "False", "Terminated", "again"))
		must(t, c.UpdateStatus(t.Context(), func(*Tunnel) error { return errBroken }))
		must(t, c.RemoveFinalizer(t.Context(), own))
		if left := s.leases(); len(left) > 0 {
			t.Errorf("got Leases %+v, want none", left)
		}
		testkit.ErrorIs(t, c.Guard(t.Context(), "dig", noTask(t)), guard.ErrStale, "Guard")
	})
}

// D7: a change of finalizers wrote the whole object, and a change of the status the whole status.
func TestD7_OnlyWhatIsMeantIsWritten(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		s.Make("a")
		c := s.controller(s.host(o), "a")
		s.Change("a", func(o *Tunnel) {
			o.Spec.Company = "of somebody else"
			o.Finalizers = []string{"example.com/theirs"}
		})
		must(t, c.SetFinalizer(t.Context(), "example.com/ours"))
		has := s.Read("a")
		if has.Spec.Company != "of somebody else" || !slices.Equal(has.Finalizers, []string{"example.com/theirs", "example.com/ours"}) {
			t.Errorf("after SetFinalizer: got %+v", has)
		}
		must(t, c.RemoveFinalizer(t.Context(), "example.com/ours"))
		before := s.Read("a")
		testkit.Equal(t, before.Finalizers, []string{"example.com/theirs"}, "after RemoveFinalizer")
		must(t, c.RemoveFinalizer(t.Context(), "example.com/ours"))
		testkit.Equal(t, s.Read("a").ResourceVersion, before.ResourceVersion, "RemoveFinalizer writes the object although nothing changes")
		c = s.controller(s.host(o), "a")
		must(t, c.Guard(t.Context(), "dig", func(ctx context.Context, _ guard.Attempt) (guard.Outcome, error) {
			theirs := s.Read("a")
			theirs.Status.Hosts = []string{"theirs"}
			meta.SetStatusCondition(&theirs.Status.Conditions, metav1.Condition{Type: "Theirs", Status: "True", Reason: "R"})
			must(t, s.Status().Update(ctx, theirs))
			return done, c.UpdateStatus(ctx, func(o *Tunnel) error {
				o.Status.TunnelID = "ours"
				return nil
			})
		}))
		status := s.Read("a").Status
		if status.TunnelID != "ours" || !slices.Equal(status.Hosts, []string{"theirs"}) || len(status.Conditions) != 2 {
			t.Errorf("got status %+v", status)
		}
	})
}

// D8: conditions did not follow the Kubernetes conventions.
func TestD8_ConditionsAreStandard(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		s.Make("a")
		s.Change("a", func(o *Tunnel) { o.Spec.Company = "second generation" })
		h := s.host(o)
		s.guard(h, "a", done, nil)
		first := s.expect("a", metav1.ConditionTrue, "Done")
		if first.ObservedGeneration != 2 || first.Message != "It is done" || first.LastTransitionTime.IsZero() {
			t.Errorf("got condition %+v", first)
		}
		must(t, s.controller(h, "a").UpdateCondition(t.Context(), "True", "StillDone", "It is still done"))
		second := s.expect("a", metav1.ConditionTrue, "StillDone")
		if !second.LastTransitionTime.Equal(&first.LastTransitionTime) {
			t.Errorf("transition time moves without a transition: %+v", second)
		}
		version := s.Read("a").ResourceVersion
		must(t, s.controller(h, "a").UpdateCondition(t.Context(), "True", "StillDone", "It is still done"))
		testkit.Equal(t, s.Read("a").ResourceVersion, version, "UpdateCondition writes the object although nothing changes")
	})
}

// D9: the token of a tunnel was in the status.
func TestD9_SecretsAreInSecrets(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		var c cloud
		events := &recorder{}
		o.Events = events
		s.Make("a")
		p := &process{}
		must(t, s.byHand(o, p, digs(p, &c)).settle("a"))
		var secrets corev1.SecretList
		must(t, s.List(t.Context(), &secrets, client.InNamespace(s.Namespace)))
		if len(secrets.Items) != 1 || string(secrets.Items[0].Data["token"]) != secretToken {
			t.Errorf("got Secrets %+v", secrets.Items)
		}
		seen := marshaled(t, s.Read("a")) + marshaled(t, s.leases()) + strings.Join(events.all(), "\n")
		if strings.Contains(seen, secretToken) {
			t.Errorf("status, Leases or events contain the token: %s", seen)
		}
	})
}

// D10: a write by one condition's controller was a conflict for another condition's.
func TestD10_ConditionsDoNotGetInEachOthersWay(t *testing.T) {
	t.Parallel()
	inBoth(t, func(t *testing.T, s *server, o options) {
		s.Make("a")
		stale, h := s.Read("a"), s.host(o)
		one := s.controllerOf(h, stale.DeepCopyObject().(*Tunnel), "One")
		two := s.controllerOf(s.host(o), stale, "Two")
		must(t, one.Guard(t.Context(), "dig one", func(ctx context.Context, _ guard.Attempt) (guard.Outcome, error) {
			return done, two.Guard(ctx, "dig two", func(context.Context, guard.Attempt) (guard.Outcome, error) { return done, nil })
		}))
		must(t, two.Guard(t.Context(), "dig two again", func(context.Context, guard.Attempt) (guard.Outcome, error) { return done, nil }))
		status := s.Read("a").Status
		if !meta.IsStatusConditionTrue(status.Conditions, "One") || !meta.IsStatusConditionTrue(status.Conditions, "Two") {
			t.Errorf("got status %+v", status)
		}
	})
}

// D11: a repeated reconcile created an object with a generated name again.
func TestD11_GeneratedNamesAreAlwaysTheSame(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.Make("a")
	s.Make("b")
	h := s.host(inStatus())
	create := func(tunnel, conditionType, prefix string) *corev1.ConfigMap {
		t.Helper()
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
		must(t, s.controllerOf(h, s.Read(tunnel), conditionType).Create(t.Context(), cm))
		return cm
	}
	first := create("a", kind, "record-")
	if again := create("a", kind, "record-"); again.UID != first.UID || !strings.HasPrefix(again.Name, "record-") {
		t.Errorf("object was created twice: %s and %s", first.Name, again.Name)
	}
	names := []string{first.Name}
	for _, other := range []*corev1.ConfigMap{
		create("b", kind, "record-"), create("a", "Other", "record-"), create("a", kind, "entry-"),
	} {
		if slices.Contains(names, other.Name) {
			t.Errorf("two objects have the name %s", other.Name)
		}
		names = append(names, other.Name)
	}
	t.Run("an existing object of another owner keeps its owner", func(t *testing.T) {
		must(t, s.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Namespace: s.Namespace}}))
		err := s.controller(h, "a").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}})
		if !apierrors.IsAlreadyExists(err) {
			t.Errorf("got error %v, want AlreadyExists", err)
		}
	})
}
