// SPDX-License-Identifier: Apache-2.0

package guard_test

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/guard"
	"github.com/clusterfx/clusterfx/reconcilers/guard/lock"
	"github.com/clusterfx/clusterfx/reconcilers/internal/servertest"
)

func TestModule_CollectsFactories(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	mgr := s.Manager()
	var one, two cloud
	company := func(name string, c *cloud) func() (factory, error) {
		return func() (factory, error) {
			f := digs(&process{}, c)
			f.Name, f.Handles = name, func(o *Tunnel) bool { return o.Spec.Company == name }
			return f, nil
		}
	}
	must(t, fx.New(
		fx.NopLogger,
		fx.Provide(func() ctrl.Manager { return mgr }),
		guard.Module(inStatus()),
		fx.Module("one", guard.AsFactory[*Tunnel](name, company("one", &one))), // modules that are independent of each other
		fx.Module("two", guard.AsFactory[*Tunnel](name, company("two", &two))),
	).Err())
	s.Run(mgr)
	s.Make("a", func(o *Tunnel) { o.Spec.Company = "one" })
	s.Make("b", func(o *Tunnel) { o.Spec.Company = "two" })
	s.expectSoon("a", metav1.ConditionTrue, "Completed")
	s.expectSoon("b", metav1.ConditionTrue, "Completed")
	if one.everMade() != 1 || two.everMade() != 1 {
		t.Errorf("tunnels created: got %d and %d, want 1 and 1", one.everMade(), two.everMade())
	}
}

// Any invoke may add a kind to the scheme, before or after the guard.
func TestModule_KindsAreAddedByAnInvoke(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	kinds := fx.Invoke(func(mgr ctrl.Manager) error { return addTunnels(mgr.GetScheme()) })
	digging := fx.Options(guard.Module(inStatus()), guard.AsFactory[*Tunnel](name, func() factory { return digs(&process{}, &cloud{}) }))
	err := servertest.ExpectKindsInAnyOrder(t, s.Manager().GetConfig(), kinds, digging)
	testkit.ErrorIs(t, err, guard.ErrInvalidConfig, "kind that no invoke adds")
}

func TestAsFactory_RefusesOtherConstructors(t *testing.T) {
	t.Parallel()
	for what, constructor := range map[string]any{
		"nothing": nil, "no function": 1, "a function of nothing": func() {}, "of something else": func() int { return 1 },
		"of another object": func() guard.Factory[*corev1.Pod] { return guard.Factory[*corev1.Pod]{} },
	} {
		err := fx.New(fx.NopLogger, guard.AsFactory[*Tunnel](name, constructor)).Err()
		testkit.ErrorIs(t, err, guard.ErrInvalidConfig, what)
	}
}

func TestConfig_MistakesAreFoundBeforeAnythingRuns(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	digger := digs(&process{}, &cloud{})
	for what, change := range map[string]func(*options){
		"no name":                  func(o *options) { o.Name = "" },
		"a long name":              func(o *options) { o.Name = strings.Repeat("a", 33) },
		"locks without conditions": func(o *options) { o.Conditions = nil },
		"half a second":            func(o *options) { o.TTL = 500_000_000 },
		"a day":                    func(o *options) { o.TTL = 24 * ttl },
		"a long holder":            func(o *options) { o.Holder = strings.Repeat("a", 201) },
		"a negative timeout":       func(o *options) { o.Timeout = -1 },
	} {
		o := inStatus()
		change(&o)
		testkit.ErrorIs(t, guard.AddTo(s.Manager(), o, digger), guard.ErrInvalidConfig, what)
	}
	nameless, typeless, empty := digger, digger, digger
	nameless.Name, typeless.ConditionType, empty.New = "", "", nil
	for what, factories := range map[string][]factory{
		"none": {}, "twice the same": {digger, digger}, "no name": {nameless}, "no type": {typeless}, "no New": {empty},
	} {
		testkit.ErrorIs(t, guard.AddTo(s.Manager(), inStatus(), factories...), guard.ErrInvalidConfig, "factories", what)
	}
	if _, err := guard.NewHost[client.Object](s, s, guard.Options[client.Object]{Name: name}); !errors.Is(err, guard.ErrInvalidConfig) {
		t.Errorf("interface type: got %v, want ErrInvalidConfig", err)
	}
	_, err := guard.NewHost[*unstructured.Unstructured](s, s, guard.Options[*unstructured.Unstructured]{Name: name})
	if !errors.Is(err, guard.ErrInvalidConfig) || !strings.Contains(err.Error(), "write a Go type") {
		t.Errorf("unstructured objects: got %v, want ErrInvalidConfig with advice", err)
	}
	type stranger struct{ *corev1.Pod }
	if _, err := guard.NewHost[*stranger](s, s, guard.Options[*stranger]{Name: name}); !errors.Is(err, guard.ErrInvalidConfig) {
		t.Errorf("kind that is missing in the scheme: got %v, want ErrInvalidConfig", err)
	}
	prose := digger
	prose.ConditionType = "in prose"
	for what, err := range map[string]error{
		"no client":        second(guard.NewHost(nil, s, inStatus())),
		"no live reader":   second(guard.NewHost(s, nil, inStatus())),
		"no manager":       guard.AddTo(nil, inStatus(), digger),
		"a factory's type": guard.AddTo(s.Manager(), inStatus(), prose),
		"neither":          second(guard.NewHost(nil, nil, inStatus())),
	} {
		testkit.ErrorIs(t, err, guard.ErrInvalidConfig, what)
	}
	h := s.host(inStatus())
	testkit.ErrorIs(t, testkit.Err(h.Controller(t.Context(), &Tunnel{}, "in prose")), guard.ErrInvalidConfig, "invalid condition type")
}

func second[T any](_ T, err error) error { return err }

func TestRecord_DeepCopy(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	a := lock.State{Type: "T", AcquiredAt: &now, RenewedAt: &now}
	var b lock.State
	a.DeepCopyInto(&b)
	if b.AcquiredAt == a.AcquiredAt || b.RenewedAt == a.RenewedAt || !b.RenewedAt.Equal(a.RenewedAt) || b.Type != "T" {
		t.Errorf("copy shares times with the original or differs: %+v", b)
	}
}
