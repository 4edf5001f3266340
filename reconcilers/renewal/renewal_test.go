// SPDX-License-Identifier: Apache-2.0

package renewal_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"github.com/go-logr/logr"
	"go.uber.org/fx"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/reconcilers/renewal"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(fleettest.Main(m, fleettest.NoLeaks(
		goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*filteredWatch).loop"))))
}

func newHub(t *testing.T) (client.WithWatch, string) {
	t.Helper()
	s := newManagement(t)
	t.Cleanup(s.start(t))
	return s.WithWatch, s.namespace
}

// management is a management cluster in which hubs run one after the other.
type management struct {
	client.WithWatch
	config    *rest.Config // of the hubs
	namespace string
	requests  sync.Map      // by the hubs for Secrets: method and name to *atomic.Int64
	share     cluster.Share // of the hubs; nil is everything
}

func newManagement(t *testing.T) *management {
	t.Helper()
	config := fleettest.Cluster(t, "hub").Config()
	fleettest.InstallCRDs(t, config)
	direct := fleettest.ClientFor(t, config, hubv1.AddToScheme)
	namespace := fleettest.Namespace(t, direct, "renewal-")
	s := &management{WithWatch: direct, config: config, namespace: namespace}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return testkit.RoundTrip(func(r *http.Request) (*http.Response, error) {
			if before, name, found := strings.Cut(r.URL.Path, "/secrets/"); found && strings.HasSuffix(before, s.namespace) {
				s.count(r.Method, name).Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	return s
}

// count returns the number of requests for a Secret that the hubs have sent.
func (s *management) count(method, secret string) *atomic.Int64 {
	n, _ := s.requests.LoadOrStore(method+" "+secret, &atomic.Int64{})
	return n.(*atomic.Int64)
}

// start starts a hub, and returns the function that stops it.
func (s *management) start(t *testing.T) func() {
	t.Helper()
	options := cluster.ManagerOptions(s.namespace)
	options.Cache.ByObject[&hubv1.Cluster{}] = cache.ByObject{Label: labels.SelectorFromSet(labelsOf(s.namespace))}
	options.Scheme, options.Logger, options.Metrics.BindAddress = s.Scheme(), logr.Discard(), "0"
	mgr, err := ctrl.NewManager(s.config, options)
	must(t, err)
	policy := kubeconfig.Policy{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	must(t, fx.New(fx.NopLogger, fx.Provide(func() ctrl.Manager { return mgr }, logr.Discard),
		fx.Supply(cluster.Settings{Namespace: s.namespace, Policy: policy}, renewal.Settings{Namespace: s.namespace}),
		fx.Supply(registry.Options{Policy: policy, AllowDuplicates: true}),
		registry.FX, cluster.Module, renewal.Module, s.shared(),
	).Err())
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		testkit.NoError(t, mgr.Start(ctx), "the hub ended")
	}()
	return func() {
		cancel()
		<-done
	}
}

// labelsOf returns the labels of the Clusters of one management. They share an API server, and the hubs of one see no
// other Clusters.
func labelsOf(namespace string) map[string]string { return map[string]string{"test": namespace} }

var must, eventually = testkit.Must, testkit.Eventually

// register creates a Secret with a token that is due within seconds, and a Cluster of the same name.
func register(t *testing.T, hub client.Client, namespace, name string, rules ...rbacv1.PolicyRule) *corev1.Secret {
	t.Helper()
	remote := fleettest.Cluster(t, "one")
	minted, err := remote.MintToken(t.Context(), fleet.User{Name: name, Rules: rules, Lifetime: 12 * time.Second})
	must(t, err)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, Annotations: map[string]string{hubv1.AnnotationRenewToken: "kube-system/" + name},
		},
		Data: map[string][]byte{
			"token": []byte(minted.Config().BearerToken), "server": []byte(remote.Server()), "ca.crt": minted.Config().CAData,
		},
	}
	cluster := &hubv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labelsOf(namespace)},
		Spec: hubv1.ClusterSpec{
			KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: name},
			Probe:               hubv1.ProbeSpec{PeriodSeconds: 20, TimeoutSeconds: 20}, // A busy machine fails no probe.
		},
	}
	for _, object := range []client.Object{secret, cluster} {
		must(t, hub.Create(t.Context(), object))
	}
	t.Cleanup(func() { _ = hub.Delete(context.WithoutCancel(t.Context()), cluster) })
	return secret
}

// mayRenew is the permission that a ServiceAccount needs to renew its own token.
func mayRenew(name string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{name}, Verbs: []string{"create"},
	}
}

// A token is replaced before it expires, in the Secret and in the app, and the remote stays Ready.
func TestRenewal(t *testing.T) {
	t.Parallel()
	hub, namespace := newHub(t)
	name := namespace + "-a"
	versions := versionsOf(t, hub, name)
	before := register(t, hub, namespace, name, mayRenew(name))
	var fingerprint string
	eventually(t, func() error {
		var c hubv1.Cluster
		if err := hub.Get(t.Context(), client.ObjectKey{Name: name}, &c); err != nil {
			return err
		}
		if fingerprint = c.Status.Credentials.Fingerprint; fingerprint == "" {
			return errors.New("the Secret was not read yet")
		}
		return nil
	})
	eventually(t, func() error {
		var after corev1.Secret
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(before), &after); err != nil {
			return err
		}
		if bytes.Equal(after.Data["token"], before.Data["token"]) || !bytes.Equal(after.Data["server"], before.Data["server"]) {
			return errors.New("the Secret has its old token")
		}
		return nil
	})
	eventually(t, func() error {
		var c hubv1.Cluster
		if err := hub.Get(t.Context(), client.ObjectKey{Name: name}, &c); err != nil {
			return err
		}
		if c.Status.Credentials.Fingerprint == fingerprint || time.Until(c.Status.Credentials.ExpirationTime.Time) < 8*time.Minute {
			return fmt.Errorf("the new token is not in use: %+v", c.Status.Credentials)
		}
		return nil
	})
	expectEvent(t, hub, name, "TokenRenewed", "expires at")
	wasReady := false
	for _, c := range versions() {
		isReady := meta.IsStatusConditionTrue(c.Status.Conditions, hubv1.ConditionReady)
		if wasReady && !isReady {
			t.Fatalf("the renewal makes the remote unready: %+v", c.Status.Conditions)
		}
		wasReady = wasReady || isReady
	}
	if !wasReady {
		t.Error("the remote was never Ready")
	}
}

// versionsOf watches a Cluster, and returns a function that ends the watch and returns the versions.
func versionsOf(t *testing.T, hub client.WithWatch, name string) func() []hubv1.Cluster {
	t.Helper()
	var seen []hubv1.Cluster
	stop := fleettest.Watch(t, fleettest.Watched{
		Client: hub, List: &hubv1.ClusterList{}, Options: []client.ListOption{client.MatchingFields{"metadata.name": name}},
	}, func(o client.Object) {
		if c, ok := o.(*hubv1.Cluster); ok {
			seen = append(seen, *c)
		}
	})
	return func() []hubv1.Cluster {
		stop()
		return seen
	}
}

// If the ServiceAccount lacks the permission to renew its token, an event names the permission, and the token stays.
func TestRenewal_Forbidden(t *testing.T) {
	t.Parallel()
	s := newManagement(t)
	t.Cleanup(s.start(t))
	name := s.namespace + "-a"
	before := register(t, s, s.namespace, name)
	expectEvent(t, s, name, "RenewalFailed", "serviceaccounts/token")
	var after corev1.Secret
	must(t, s.Get(t.Context(), client.ObjectKeyFromObject(before), &after))
	if after.ResourceVersion != before.ResourceVersion || !bytes.Equal(after.Data["token"], before.Data["token"]) {
		t.Errorf("got the Secret at version %s, want the version %s with the old token", after.ResourceVersion, before.ResourceVersion)
	}
}

// The renewal of an opaque token fails with one event that names the reason, however often the Secret is read, and the
// hub requests no token.
func TestRenewal_NoToken(t *testing.T) {
	t.Parallel()
	s := newManagement(t)
	t.Cleanup(s.start(t))
	name := s.namespace + "-a"
	var requests atomic.Int64
	remote := newIssuer(t, func(asked time.Duration) string {
		requests.Add(1)
		return jwt(0, asked, 0)
	})
	remote.register(t, s, name, "opaque")
	expectEvent(t, s, name, "RenewalFailed", "does not state when it was issued")
	s.touch(t, name)
	var all eventsv1.EventList
	must(t, s.List(t.Context(), &all, client.InNamespace("default")))
	all.Items = slices.DeleteFunc(all.Items, func(e eventsv1.Event) bool {
		return e.Regarding.Name != name || e.Reason != "RenewalFailed"
	})
	if len(all.Items) != 1 || requests.Load() > 0 || s.count(http.MethodPatch, name).Load() > 0 {
		t.Errorf("got %d requests for a token, %d writes of the Secret and the events %+v, want one event only",
			requests.Load(), s.count(http.MethodPatch, name).Load(), all.Items)
	}
}

// A new token is bound to the Secret of the remote that the annotation names.
func TestRenewal_Bound(t *testing.T) {
	t.Parallel()
	hub, namespace := newHub(t)
	name := namespace + "-a"
	remote := fleettest.Client(t, fleettest.Cluster(t, "one"))
	anchor := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name + "-anchor"}}
	must(t, remote.Create(t.Context(), anchor))
	secret := register(t, hub, namespace, name, mayRenew(name))
	secret.Annotations[hubv1.AnnotationTokenSecret] = anchor.Name
	must(t, hub.Update(t.Context(), secret))
	eventually(t, func() error {
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
			return err
		}
		payload, err := base64.RawURLEncoding.DecodeString(strings.Split(string(secret.Data["token"]), ".")[1])
		if err == nil && !strings.Contains(string(payload), `"name":"`+anchor.Name+`"`) {
			err = fmt.Errorf("got a token with the claims %s, want the name of the Secret", payload)
		}
		return err
	})
}

func expectEvent(t *testing.T, hub client.Client, about, reason, text string) {
	t.Helper()
	eventually(t, func() error {
		var all eventsv1.EventList
		if err := hub.List(t.Context(), &all, client.InNamespace("default")); err != nil {
			return err
		}
		for _, e := range all.Items {
			if e.Regarding.Name == about && e.Reason == reason && strings.Contains(e.Note, text) {
				return nil
			}
		}
		return fmt.Errorf("no event %s of %s contains %q", reason, about, text)
	})
}

// The token of a Secret that a Cluster names later is renewed, although the app of the remote keeps its client.
func TestRenewal_AnotherSecret(t *testing.T) {
	t.Parallel()
	s := newManagement(t)
	t.Cleanup(s.start(t))
	name, later := s.namespace+"-first", s.namespace+"-later"
	remote := newIssuer(t, func(asked time.Duration) string { return jwt(0, asked, 0) })
	first := remote.register(t, s, name, jwt(0, 3*time.Hour, 0))
	c := &hubv1.Cluster{}
	eventually(t, func() error {
		if err := s.Get(t.Context(), client.ObjectKey{Name: name}, c); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(c.Status.Conditions, hubv1.ConditionReady) {
			return fmt.Errorf("the Cluster is not Ready: %+v", c.Status.Conditions)
		}
		return nil
	})
	second := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: later, Annotations: first.Annotations}, Data: first.Data,
	}
	second.Data["token"] = []byte(dueNow())
	must(t, s.Create(t.Context(), second))
	eventually(t, func() error { // so that only the change of the Cluster can cause the renewal
		if s.count(http.MethodGet, later).Load() == 0 {
			return errors.New("the Secret was not read yet")
		}
		return nil
	})
	patch := fmt.Appendf(nil, `{"spec":{"kubeconfigSecretRef":{"name":%q}}}`, later)
	must(t, s.Patch(t.Context(), c, client.RawPatch("application/merge-patch+json", patch)))
	expectEvent(t, s, name, "TokenRenewed", "expires at")
	testkit.Equal(t, s.count(http.MethodPatch, later).Load(), 1, "the hub's writes of the Secret")
}
