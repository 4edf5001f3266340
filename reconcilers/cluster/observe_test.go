// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

// undo is a middleware that turns a dry run into a write.
func undo() registry.Middleware {
	return registry.Middleware{Name: "undo", Order: 1 << 30, Transport: func(_ registry.ClusterName, next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			query := r.URL.Query()
			query.Del("dryRun")
			r.URL.RawQuery = query.Encode()
			return next.RoundTrip(r)
		})
	}}
}

// roundTrip is a function that is a transport.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An app cannot change an observed remote with any kind of write, even if another middleware turns dry runs into
// writes, and the Cluster's events name the attempts. Without the annotation the same writes of the same app take
// effect.
func TestObserve(t *testing.T) {
	t.Parallel()
	apps := make(chan registry.Remote, 1)
	h := newHub(t, func(o *hubOptions) {
		o.modules = []registry.Module{registry.NewModule("writer", registry.ModuleOptions{
			Remote:  fx.Invoke(func(p registry.Remote) { apps <- p }),
			HubRuns: registry.WithRemotes,
			Hub:     registry.WithMiddleware(undo()),
		})}
	})
	remote := fleettest.Cluster(t, "one")
	direct := clientFor(t, remote)
	name := h.name("a")
	h.putKubeconfig(name, remote.Kubeconfig())
	h.newCluster(name, func(c *hubv1.Cluster) {
		c.Annotations = map[string]string{hubv1.AnnotationObserve: "true"}
	})
	if c := h.expectReady(name); !strings.Contains(summary(c), hubv1.AnnotationObserve) {
		t.Errorf("the status does not report that the remote is observed: %s", summary(c))
	}
	app := <-apps
	pod := newPod(t, direct)

	for _, observed := range []bool{true, false} {
		for what, w := range writes() {
			existing := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "observe-", Namespace: "default"}}
			h.must(direct.Create(t.Context(), existing))
			h.eventually(func() error { // The change of the annotation takes effect later.
				err := w(t.Context(), app, h.registry, existing.DeepCopy())
				if err != nil {
					return fmt.Errorf("%s, observed %t: %w", what, observed, err)
				}
				var after corev1.ConfigMap
				err = direct.Get(t.Context(), client.ObjectKeyFromObject(existing), &after)
				created := direct.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: existing.Name + "-new"}, &corev1.ConfigMap{})
				if same := err == nil && after.ResourceVersion == existing.ResourceVersion && apierrors.IsNotFound(created); same != observed {
					return fmt.Errorf("%s, observed %t: got a change of the remote: %t", what, observed, !same)
				}
				return nil
			})
		}
		h.must(client.IgnoreNotFound(app.Client.SubResource("eviction").Create(t.Context(), pod, &policyv1.Eviction{})))
		if err := direct.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); (err == nil && pod.DeletionTimestamp.IsZero()) != observed {
			t.Errorf("after an eviction, observed %t, the Pod is %+v, %v", observed, pod.ObjectMeta, err)
		}
		if observed {
			h.expectObserved(name, "Would DELETE configmaps default/observe-")
			h.expectObserved(name, "Would DELETE configmaps default/* (a collection)")
			h.change(name, func(c *hubv1.Cluster) { delete(c.Annotations, hubv1.AnnotationObserve) })
		}
	}
	if info := h.info(name); info.Epoch != app.Status.Epoch {
		t.Errorf("the running app was replaced")
	}
}

// newPod creates a Pod that no node has.
func newPod(t *testing.T, c client.Client) *corev1.Pod {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "default"}}
	testkit.Must(t, client.IgnoreAlreadyExists(c.Create(t.Context(), account)))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "observe-", Namespace: "default"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "none"}}},
	}
	testkit.Must(t, c.Create(t.Context(), pod))
	return pod
}

// write changes an existing ConfigMap or creates a new ConfigMap.
type write func(context.Context, registry.Remote, *registry.Registry, *corev1.ConfigMap) error

// writes are the ways in which an app can write.
func writes() map[string]write {
	type app = registry.Remote
	typed := func(contentType string, do func(context.Context, kubernetes.Interface, *corev1.ConfigMap) error) write {
		return func(ctx context.Context, p app, _ *registry.Registry, one *corev1.ConfigMap) error {
			config := rest.CopyConfig(p.Config)
			config.ContentType = contentType
			set, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			return do(ctx, set, one)
		}
	}
	deletion := func(ctx context.Context, set kubernetes.Interface, one *corev1.ConfigMap) error {
		options := *metav1.NewPreconditionDeleteOptions(string(one.UID))
		err := set.CoreV1().ConfigMaps("default").Delete(ctx, one.Name, options)
		return client.IgnoreNotFound(err)
	}
	return map[string]write{
		"create": func(ctx context.Context, p app, _ *registry.Registry, one *corev1.ConfigMap) error {
			another := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: one.Name + "-new", Namespace: "default"}}
			return client.IgnoreAlreadyExists(p.Client.Create(ctx, another))
		},
		"update": func(ctx context.Context, p app, _ *registry.Registry, one *corev1.ConfigMap) error {
			one.Data, one.ResourceVersion = map[string]string{"a": "b"}, ""
			return p.Client.Update(ctx, one)
		},
		"patch": func(ctx context.Context, p app, _ *registry.Registry, one *corev1.ConfigMap) error {
			return p.Client.Patch(ctx, one, client.RawPatch(types.MergePatchType, []byte(`{"data":{"a":"b"}}`)))
		},
		"apply": func(ctx context.Context, p app, _ *registry.Registry, one *corev1.ConfigMap) error {
			config := corev1ac.ConfigMap(one.Name, "default").WithData(map[string]string{"a": "b"})
			return p.Client.Apply(ctx, config, client.FieldOwner("test"))
		},
		"delete with controller-runtime": func(ctx context.Context, p app, _ *registry.Registry, one *corev1.ConfigMap) error {
			return client.IgnoreNotFound(p.Client.Delete(ctx, one, client.PropagationPolicy(metav1.DeletePropagationForeground)))
		},
		"delete through WithClient": func(ctx context.Context, p app, r *registry.Registry, one *corev1.ConfigMap) error {
			return r.WithClient(ctx, p.Name, func(ctx context.Context, c client.Client) error {
				return client.IgnoreNotFound(c.Delete(ctx, one))
			})
		},
		"delete in JSON":     typed("application/json", deletion),
		"delete in protobuf": typed("application/vnd.kubernetes.protobuf", deletion),
		"delete a collection": typed("application/json", func(ctx context.Context, set kubernetes.Interface, one *corev1.ConfigMap) error {
			which := metav1.ListOptions{FieldSelector: "metadata.name=" + one.Name}
			return set.CoreV1().ConfigMaps("default").DeleteCollection(ctx, metav1.DeleteOptions{}, which)
		}),
	}
}

// Each object has an event that names it, in every encoding of the request, and the number of events has a limit.
func TestObserve_NamesTheObjects(t *testing.T) {
	t.Parallel()
	apps := make(chan registry.Remote, 1)
	h := newHub(t, func(o *hubOptions) {
		o.modules = []registry.Module{registry.NewModule("writer", registry.ModuleOptions{
			Remote: fx.Invoke(func(p registry.Remote) { apps <- p }),
		})}
	})
	name := h.name("a")
	h.putKubeconfig(name, fleettest.Cluster(t, "one").Kubeconfig())
	h.newCluster(name, func(c *hubv1.Cluster) { c.Annotations = map[string]string{hubv1.AnnotationObserve: "true"} })
	h.expectReady(name)
	app := <-apps
	for _, form := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		config := rest.CopyConfig(app.Config)
		config.ContentType = form
		set, err := kubernetes.NewForConfig(config)
		h.must(err)
		short := form[len(form)-4:]
		for _, one := range []metav1.ObjectMeta{{Name: "named-" + short}, {Name: "other-" + short}, {GenerateName: "web-" + short + "-"}} {
			_, err := set.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: one}, metav1.CreateOptions{})
			h.must(err)
		}
		h.expectObserved(name, "Would POST configmaps default/named-"+short+",")
		h.expectObserved(name, "Would POST configmaps default/other-"+short+",")
		h.expectObserved(name, "Would POST configmaps default/web-"+short+"-* (generated name),")
	}
	_, err := kubernetes.NewForConfigOrDie(app.Config).CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "observed"}}, metav1.CreateOptions{})
	h.must(err)
	h.expectObserved(name, "Would POST namespaces observed,")
	for i := range 110 {
		one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("many-", i), Namespace: "default"}}
		h.must(app.Client.Create(t.Context(), one))
	}
	h.expectObserved(name, "Would write more than 100 objects")
	var all eventsv1.EventList
	h.must(h.List(t.Context(), &all, client.InNamespace("default")))
	n := 0
	for _, e := range all.Items {
		if e.Regarding.Name == name && e.Reason == "Observed" {
			n++
		}
	}
	if n > 101 {
		t.Errorf("got %d events of observed objects, want 101 at most", n)
	}
}

// An operator can add the annotation while the Secret is missing: a running app stops writing.
func TestObserve_WithoutSecret(t *testing.T) {
	t.Parallel()
	apps := make(chan registry.Remote, 1)
	h := newHub(t, func(o *hubOptions) {
		o.modules = []registry.Module{registry.NewModule("writer", registry.ModuleOptions{
			Remote: fx.Invoke(func(p registry.Remote) { apps <- p }),
		})}
	})
	remote := fleettest.Cluster(t, "one")
	name := h.name("a")
	h.putKubeconfig(name, remote.Kubeconfig())
	h.newCluster(name, nil)
	h.expectReady(name)
	h.deleteSecret(name)
	h.expect(name, hubv1.ConditionCredentialsValid, metav1.ConditionFalse, hubv1.ReasonSecretNotFound)
	h.change(name, func(c *hubv1.Cluster) { c.Annotations[hubv1.AnnotationObserve] = "true" })
	app := <-apps
	h.eventually(func() error {
		one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "observe-", Namespace: "default"}}
		if err := app.Client.Create(t.Context(), one); err != nil {
			return err
		}
		err := clientFor(t, remote).Get(t.Context(), client.ObjectKeyFromObject(one), one)
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the app still writes: %w", err)
		}
		return nil
	})
}

// The condition names the permissions that the credentials lack, and is removed when no module declares permissions.
func TestCluster_Authorized(t *testing.T) {
	t.Parallel()
	needs := registry.NewModule("needs", registry.ModuleOptions{
		Remote: fx.Invoke(func(registry.Remote) {}),
		Rules:  []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"nodes"}}},
	})
	h := newHub(t, func(o *hubOptions) { o.modules = []registry.Module{needs, idle("free")} })
	remote := fleettest.Cluster(t, "one")
	name := h.name("a")
	user, err := remote.MintCertificate(t.Context(), fleet.User{Name: name})
	h.must(err)
	h.putKubeconfig(name, user.Kubeconfig())
	h.newCluster(name, nil)
	c := h.expect(name, hubv1.ConditionAuthorized, metav1.ConditionFalse, hubv1.ReasonRightsMissing)
	if !strings.Contains(summary(c), "module needs: list nodes") {
		t.Errorf("the condition does not name the permission: %s", summary(c))
	}
	c = h.expectReady(name)
	if c.Status.ModuleSummary != "1/2" {
		t.Errorf("got %s modules, want 1/2", c.Status.ModuleSummary)
	}
	h.expectEvents(name, "RightsMissing", "Ready")

	h.change(name, func(c *hubv1.Cluster) { c.Spec.Modules = []string{"free"} })
	h.eventually(func() error {
		if c := h.get(name); c.Status.ModuleSummary != "1/1" || strings.Contains(summary(c), hubv1.ConditionAuthorized) {
			return errors.New(summary(c))
		}
		return nil
	})
	h.change(name, func(c *hubv1.Cluster) { c.Spec.Modules = nil })
	h.putKubeconfig(name, remote.Kubeconfig())
	h.expect(name, hubv1.ConditionAuthorized, metav1.ConditionTrue, hubv1.ReasonAllowed)
}

// expectObserved waits for an event of a Cluster that starts with a text.
func (h *hub) expectObserved(name, text string) {
	h.t.Helper()
	h.eventually(func() error {
		var all eventsv1.EventList
		if err := h.List(h.t.Context(), &all, client.InNamespace("default")); err != nil {
			return err
		}
		for _, e := range all.Items {
			if e.Regarding.Name == name && e.Reason == "Observed" && strings.HasPrefix(e.Note, text) {
				return nil
			}
		}
		return fmt.Errorf("no event of %s starts with %q", name, text)
	})
}
