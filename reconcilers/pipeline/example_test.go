// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
	"github.com/clusterfx/clusterfx/registry"
)

// zone is an external DNS server, for the examples.
type zone map[string]string

// record is a resource: the DNS record of a Cluster. One zone has all records.
type record struct{ zone zone }

func (r record) Name() string { return "record" }

func (r record) EnsureCreated(_ context.Context, c *hubv1.Cluster) error {
	r.zone[c.Name] = c.Spec.Server
	return nil
}

func (r record) EnsureDeleted(_ context.Context, c *hubv1.Cluster) error {
	delete(r.zone, c.Name)
	return nil
}

// A module contributes a set of resources to a pipeline. Its constructor may have any parameter that the App provides.
// The same lines go into the hub part of a module and, for objects in the remotes, into its remote part.
func Example() {
	newSet := func(z zone) (pipeline.Set[*hubv1.Cluster], error) {
		return pipeline.Set[*hubv1.Cluster]{
			Name:      "dns",
			Handles:   func(c *hubv1.Cluster) bool { return c.Spec.Server != "" },
			Resources: pipeline.WithRetry([]pipeline.Resource[*hubv1.Cluster]{record{z}}, wait.Backoff{}),
		}, nil
	}
	dns := fx.Options(
		pipeline.Module(pipeline.Options[*hubv1.Cluster]{
			Name:            "dns",
			Conditions:      func(c *hubv1.Cluster) []metav1.Condition { return c.Status.Conditions },
			ConditionPrefix: "DNS", // the hub sets Ready
		}),
		pipeline.AsSet[*hubv1.Cluster]("dns", newSet),
	)
	hub := fx.Options(
		fx.NopLogger,
		fx.Provide(func() (ctrl.Manager, error) { return ctrl.NewManager(nil, ctrl.Options{}) }),
		fx.Supply(zone{}),
	)
	fmt.Println("what is missing:", fx.ValidateApp(hub, dns))
	// Output: what is missing: <nil>
}

// A custom wrapper wraps each operation of a CRUD resource, and both operations of any other resource.
func ExampleWithWrapper() {
	audited := func(ctx context.Context, c pipeline.Call[*corev1.Service], next func(context.Context) error) error {
		err := next(ctx)
		fmt.Println(c.Resource, c.Operation, c.Object.Name, err)
		return err
	}
	var log []string
	resource, err := pipeline.NewCRUDResource(addresses{map[string]string{}, &log}, pipeline.CreateDeleteUpdate)
	if err != nil {
		fmt.Println(err)
		return
	}
	resources, err := pipeline.WithWrapper([]pipeline.Resource[*corev1.Service]{resource}, audited)
	if err != nil {
		fmt.Println(err)
		return
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	service.Spec.ClusterIP = "10.0.0.1"
	_ = pipeline.ProcessUpdate(context.Background(), service, resources)
	// Output:
	// addresses GetCurrentState web <nil>
	// addresses GetDesiredState web <nil>
	// addresses NewUpdatePatch web <nil>
	// addresses ApplyCreateChange web <nil>
}

// A custom controller runs a pipeline, for instance with its own predicates and queue.
func ExampleNewReconciler() {
	setup := func(mgr ctrl.Manager, router *pipeline.Router[*hubv1.Cluster]) error {
		r, err := pipeline.NewReconciler(mgr.GetClient(), router, pipeline.Options[*hubv1.Cluster]{
			Name:            "dns",
			Conditions:      func(c *hubv1.Cluster) []metav1.Condition { return c.Status.Conditions },
			ConditionPrefix: "DNS",
			Events:          mgr.GetEventRecorder("dns"),
		})
		if err != nil {
			return err
		}
		return registry.ControllerManagedBy(mgr).Named("dns").
			For(&hubv1.Cluster{}, builder.WithPredicates(r.Predicate())). // otherwise each report triggers another pass
			Complete(r)
	}
	_ = setup
}

// Any reconciler can run a list of resources.
func ExampleProcessUpdate() {
	z := zone{}
	resources := []pipeline.Resource[*hubv1.Cluster]{record{z}}
	cluster := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}
	cluster.Spec.Server = "https://10.4.0.11:6443"

	reconcile := func(ctx context.Context) error {
		if cluster.DeletionTimestamp == nil {
			return pipeline.ProcessUpdate(ctx, cluster, resources)
		}
		keep, err := pipeline.ProcessDelete(ctx, cluster, resources)
		if err == nil && !keep {
			fmt.Println("remove the finalizer")
		}
		return err
	}
	ctx := context.Background()
	fmt.Println(reconcile(ctx), z)
	cluster.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	fmt.Println(reconcile(ctx), z)
	// Output:
	// <nil> map[edge:https://10.4.0.11:6443]
	// remove the finalizer
	// <nil> map[]
}

// addresses is a CRUD resource: the addresses of Services in an external list.
type addresses struct {
	list map[string]string
	log  *[]string
}

func (a addresses) Name() string { return "addresses" }

func (a addresses) GetCurrentState(_ context.Context, s *corev1.Service) (string, error) {
	return a.list[s.Name], nil
}

func (a addresses) GetDesiredState(_ context.Context, s *corev1.Service) (string, error) {
	return s.Spec.ClusterIP, nil
}

func (a addresses) NewUpdatePatch(
	_ context.Context, _ *corev1.Service, current, desired string,
) (*pipeline.Patch[string], error) {
	patch := &pipeline.Patch[string]{}
	switch current {
	case desired:
		return nil, nil //nolint:nilnil // nothing to do
	case "":
		patch.SetCreateChange(desired)
	default:
		patch.SetUpdateChange(desired)
	}
	return patch, nil
}

func (a addresses) NewDeletePatch(
	_ context.Context, _ *corev1.Service, current, _ string,
) (*pipeline.Patch[string], error) {
	patch := &pipeline.Patch[string]{}
	if current != "" {
		patch.SetDeleteChange(current)
	}
	return patch, nil
}

func (a addresses) ApplyCreateChange(_ context.Context, s *corev1.Service, address string) error {
	*a.log = append(*a.log, "create "+address)
	a.list[s.Name] = address
	return nil
}

func (a addresses) ApplyUpdateChange(_ context.Context, s *corev1.Service, address string) error {
	*a.log = append(*a.log, "update to "+address)
	a.list[s.Name] = address
	return nil
}

func (a addresses) ApplyDeleteChange(_ context.Context, s *corev1.Service, address string) error {
	*a.log = append(*a.log, "delete "+address)
	delete(a.list, s.Name)
	return nil
}

// Decisions are separate from changes: each part is small, and can be retried by itself.
func ExampleNewCRUDResource() {
	var log []string
	resource, err := pipeline.NewCRUDResource(addresses{map[string]string{}, &log}, pipeline.CreateDeleteUpdate)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	for _, address := range []string{"10.0.0.1", "10.0.0.1", "10.0.0.2"} {
		service.Spec.ClusterIP = address
		_ = resource.EnsureCreated(ctx, service)
	}
	_ = resource.EnsureDeleted(ctx, service)
	fmt.Println(strings.Join(log, "\n"))
	// Output:
	// create 10.0.0.1
	// update to 10.0.0.2
	// delete 10.0.0.2
}

// A resource that waits for a condition does not block: it cancels, and is called again.
func ExampleFlow_CancelReconciliation() {
	waitForAddress := step{"wait", func(ctx context.Context, s *corev1.Service) error {
		if s.Spec.ClusterIP == "" {
			pipeline.FlowFrom(ctx).CancelReconciliation("the Service has no address yet")
		}
		return nil
	}}
	publish := step{"publish", func(_ context.Context, s *corev1.Service) error {
		fmt.Println("publish", s.Spec.ClusterIP)
		return nil
	}}
	resources := []pipeline.Resource[*corev1.Service]{waitForAddress, publish}

	ctx := context.Background()
	service := &corev1.Service{}
	fmt.Println(pipeline.ProcessUpdate(ctx, service, resources))
	service.Spec.ClusterIP = "10.0.0.1"
	fmt.Println(pipeline.ProcessUpdate(ctx, service, resources))
	// Output:
	// <nil>
	// publish 10.0.0.1
	// <nil>
}

// step is a resource that is a function, and has nothing to delete.
type step struct {
	name   string
	ensure func(context.Context, *corev1.Service) error
}

func (s step) Name() string                                               { return s.name }
func (s step) EnsureCreated(ctx context.Context, o *corev1.Service) error { return s.ensure(ctx, o) }
func (s step) EnsureDeleted(context.Context, *corev1.Service) error       { return nil }

// Versions with different values of one label cannot overlap, which is known before the first object exists.
func ExampleNewRouter() {
	version := func(v string) pipeline.Set[*corev1.Service] {
		return pipeline.Set[*corev1.Service]{
			Name: "v" + v, Labels: map[string]string{"example.com/version": v},
			Resources: []pipeline.Resource[*corev1.Service]{step{name: "web"}},
		}
	}
	router, err := pipeline.NewRouter(version("1"), version("2"))
	fmt.Println(err)

	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"example.com/version": "2"}}}
	set, err := router.Route(service)
	fmt.Println(set.Name, err)

	_, err = pipeline.NewRouter(version("1"), pipeline.Set[*corev1.Service]{
		Name: "web", Labels: map[string]string{"example.com/web": "true"}, Resources: set.Resources,
	})
	fmt.Println(errors.Is(err, pipeline.ErrAmbiguousResourceSet))
	// Output:
	// <nil>
	// v2 <nil>
	// true
}

// Decorators return new resources, so one resource can be used with and without metrics. Applied in this order they
// measure calls with all their tries.
func ExampleWithMetrics() {
	tries := 0
	web := step{"web", func(context.Context, *corev1.Service) error {
		if tries++; tries < 3 {
			return errors.New("not now")
		}
		return nil
	}}
	metrics := prometheus.NewRegistry() // in a remote's app: registry.Remote's Metrics
	resources := pipeline.WithRetry([]pipeline.Resource[*corev1.Service]{web},
		wait.Backoff{Steps: 5, Duration: time.Millisecond, Factor: 2, Jitter: 0.1})
	resources, err := pipeline.WithMetrics(resources, metrics, "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	fmt.Println(pipeline.ProcessUpdate(ctx, &corev1.Service{}, resources), "after", tries, "tries")
	// Output: <nil> after 3 tries
}
