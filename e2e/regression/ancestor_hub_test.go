// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/fx"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// D1. In the ancestor the persisted observed generation guarded the start of a manager, which exists in memory only:
// after a restart of the process no cluster was started again.
func TestAncestor_RestartLosesEveryCluster(t *testing.T) {
	t.Parallel()
	h := newHub(t, nil)
	h.start()
	registered := map[string]string{unique("kept"): one, unique("kept"): two}
	generations := map[string]int64{}
	for name, where := range registered {
		h.register(name, clusterOf(t, where).Kubeconfig(), nil)
	}
	for name := range registered {
		c := h.expectReady(name)
		if generations[name] = c.Generation; c.Status.ObservedGeneration != c.Generation {
			t.Errorf("got generation %d and observed generation %d, want equal generations", c.Generation, c.Status.ObservedGeneration)
		}
	}
	for range times(2, 10) {
		h.stop()
		h.start()
		for name, where := range registered {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			eventually(t, func() error { return h.registry.WaitReady(ctx, registry.ClusterName(name)) })
			expectWorks(t, where, registry.ClusterName(name))
			if c := h.expectReady(name); c.Generation != generations[name] {
				t.Errorf("got generation %d, want %d", c.Generation, generations[name])
			}
		}
	}
}

// D3. The ancestor called os.Exit when the manager of a remote ended, as it does when the remote is unreachable for a
// while: one dead cluster ended the process for all clusters.
func TestAncestor_UnreachableRemoteEndsTheProcess(t *testing.T) {
	t.Parallel()
	h := sharedHub(t)
	aside := h.registerBystander(two)
	p, data := proxyTo(t, one)
	name := unique("unreachable")
	h.register(name, data, nil)
	h.expectReady(name)
	for cut, reason := range map[fault.Fault]string{fault.Refuse(): hubv1.ReasonUnreachable, fault.Blackhole(): hubv1.ReasonTimedOut} {
		set(t, p, cut)
		h.expectUnreachable(name, reason)
		set(t, p, fault.Pass())
		h.expectReady(name)
		expectWorks(t, one, registry.ClusterName(name))
	}
	ends := map[string]error{unique("ends-well"): nil, unique("ends-badly"): errBroken}
	for name, err := range ends {
		h.scripts.set(t, registry.ClusterName(name), script{run: func(context.Context) error { return err }})
		h.register(name, clusterOf(t, one).Kubeconfig(), nil)
	}
	for name, err := range ends {
		if err == nil {
			h.expectReady(name)
			continue
		}
		h.expect(name, hubv1.ConditionModulesReady, metav1.ConditionFalse, hubv1.ReasonModuleFailed)
	}
	h.expectRuns()
	aside.expectUnaware()
}

// D6. The ancestor never changed a known cluster: it did not watch the Secret, and used new credentials only after a
// restart of the process.
func TestAncestor_RotatedCredentialsAreIgnored(t *testing.T) {
	t.Parallel()
	h := sharedHub(t)
	name := unique("rotated")
	remote := registry.ClusterName(name)
	mint := func(user string) []byte {
		minted, err := clusterOf(t, one).MintCertificate(t.Context(), fleet.User{Name: user, Rules: everything})
		must(t, err)
		return minted.Kubeconfig()
	}
	h.register(name, mint(name+"-before"), nil)
	h.expectReady(name)
	if got := whoAmI(t, h.registry, remote); got != name+"-before" {
		t.Errorf("the hub acts as %s, want the user of the first certificate", got)
	}
	aside := newBystander(t, h.registry, one, remote) // The bystander is the rotated remote itself.
	h.putSecret(name, map[string][]byte{"kubeconfig": mint(name + "-after")})
	took := within(t, patience, func() error {
		if got := whoAmI(t, h.registry, remote); got != name+"-after" {
			return fmt.Errorf("the hub acts as %s, want the user of the second certificate", got)
		}
		return nil
	})
	t.Logf("the new certificate is in use after %s", took)
	aside.expectUnaware()

	// Another path to the same remote: a new app replaces the first app without a gap.
	_, through := proxyTo(t, one)
	before := h.epochOf(name)
	aside = newBystander(t, h.registry, one, remote)
	h.putSecret(name, map[string][]byte{"kubeconfig": through})
	eventually(t, func() error {
		if info, _ := h.registry.Status(remote); info.Epoch == before || info.State != state.StateReady {
			return fmt.Errorf("epoch %d is %s, want a new epoch that is Ready", info.Epoch, info.State)
		}
		return nil
	})
	aside.expectServed()
	expectWorks(t, one, remote)
}

// D15. The roles that the ancestor shipped were namespaced, and the object that registers a cluster was not: the
// controller could not list it, and reported that in its log only, forever.
func TestAncestor_NamespacedRightsCannotListClusters(t *testing.T) {
	t.Parallel()
	h := newHub(t, nil)
	configOf := func(user string, rules ...rbacv1.PolicyRule) *rest.Config {
		minted, err := h.cluster.MintCertificate(t.Context(), fleet.User{Name: user, Rules: rules})
		must(t, err)
		return minted.Config()
	}
	// A hub without the permission returns an error about it, and does not run.
	h.options.Config = configOf(unique("nobody"))
	err := app.Run(t.Context(), h.options)
	if err == nil || !strings.Contains(err.Error(), "denies the hub its permissions") {
		t.Errorf("a hub without permission to list Clusters returns %v, want an error about permissions", err)
	}
	// The cluster-wide permissions of a hub are for Clusters, and to read namespace kube-system.
	who := unique("narrow")
	h.options.Config = configOf(who,
		rbacv1.PolicyRule{
			APIGroups: []string{hubv1.GroupName}, Resources: []string{"clusters"},
			Verbs: []string{"get", "list", "watch", "create", "patch", "delete"},
		},
		rbacv1.PolicyRule{APIGroups: []string{hubv1.GroupName}, Resources: []string{"clusters/status"}, Verbs: []string{"patch"}},
		rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{metav1.NamespaceSystem},
			Verbs: []string{"get"},
		},
	)
	records := rbacv1.PolicyRule{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}}
	h.grantIn(hubv1.DefaultNamespace, who, records,
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create", "update"}})
	h.grantIn(metav1.NamespaceDefault, who, records)
	h.start()
	name := unique("narrow")
	h.register(name, clusterOf(t, one).Kubeconfig(), nil)
	h.expectReady(name)
	expectWorks(t, one, registry.ClusterName(name))
	h.remove(name)
	h.expectGone(name)
	denied, err := h.cluster.AuditEvents(func(e fleet.AuditEvent) bool { return e.User.Username == who && e.Response.Code == 403 })
	must(t, err)
	for _, e := range denied {
		t.Errorf("the API server denied a request of the hub: %s", e)
	}
}

// grantIn gives a user permissions in one namespace.
func (h *hub) grantIn(namespace, user string, rules ...rbacv1.PolicyRule) {
	h.t.Helper()
	name := metav1.ObjectMeta{Name: user, Namespace: namespace}
	must(h.t, h.Create(h.t.Context(), &rbacv1.Role{ObjectMeta: name, Rules: rules}))
	must(h.t, h.Create(h.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: name,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
	}))
}

// D17. The ancestor had no list of clusters, no notification of added and removed clusters, and its set of controllers
// was fixed at compile time.
func TestAncestor_NobodyHearsOfClusters(t *testing.T) {
	t.Parallel()
	h := sharedHub(t)
	name := unique("heard-of")
	remote := registry.ClusterName(name)
	h.register(name, clusterOf(t, one).Kubeconfig(), func(c *hubv1.Cluster) {
		c.Labels = map[string]string{"region": "eu"}
		c.Spec.Modules = []string{"inventory"}
	})
	h.expectReady(name)
	h.expectHeard(remote, registry.EventReady)
	at := slices.IndexFunc(h.registry.List(), func(i registry.Status) bool { return i.Name == remote && i.Labels["region"] == "eu" })
	if at < 0 {
		t.Errorf("%s with its label is not in %v", remote, h.registry.List())
	}
	h.change(name, func(c *hubv1.Cluster) { c.Spec.Modules = []string{markerName} })
	eventually(t, func() error {
		if info, _ := h.registry.Status(remote); len(info.Modules) != 1 || info.Modules[0].Name != markerName || info.State != state.StateReady {
			return fmt.Errorf("the remote is %s with the modules %v, want Ready with the marker", info.State, info.Modules)
		}
		return nil
	})
	expectWorks(t, one, remote)
	h.remove(name)
	h.expectGone(name)
	h.expectHeard(remote, registry.EventStopped)
	if _, known := h.registry.Status(remote); known {
		t.Errorf("the registry knows %s after its removal", remote)
	}
}

// expectHeard waits until a controller on the hub has received an event of a kind about a remote.
func (h *hub) expectHeard(name registry.ClusterName, kind registry.EventKind) {
	h.t.Helper()
	eventually(h.t, func() error {
		if !h.heard.has(name, kind) {
			return fmt.Errorf("the controller received no event of %s with kind %s", name, kind)
		}
		return nil
	})
}

// D18. The ancestor ran inside an invoke of its own app, so that the hooks of its parts never ran around it: resources
// that they should have closed at its end stayed open.
func TestAncestor_ProgramRunsInsideAnInvoke(t *testing.T) {
	t.Parallel()
	var order record
	brackets := registry.NewModule("brackets", registry.ModuleOptions{Hub: fx.Invoke(func(l fx.Lifecycle, m ctrl.Manager) error {
		l.Append(fx.StartStopHook(func() { order.add("hub opened") }, func() { order.add("hub closed") }))
		return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
			order.add("manager began")
			<-ctx.Done()
			order.add("manager ended")
			return nil
		}))
	})})
	h := newHub(t, nil)
	plain := h.options.Modules
	h.options.Modules = append(plain[:len(plain):len(plain)], brackets)
	name := unique("bracketed")
	h.scripts.set(t, registry.ClusterName(name), script{
		start: func(context.Context) error { order.add("app opened"); return nil },
		stop:  func(context.Context) error { order.add("app closed"); return nil },
	})
	h.start()
	h.register(name, clusterOf(t, one).Kubeconfig(), nil)
	h.expectReady(name)
	h.stop()
	order.expect(t, "hub opened", "manager began", "app opened", "app closed", "hub closed")
	order.expect(t, "manager began", "manager ended", "hub closed")

	// A hub part that requests a shutdown ends the hub, which returns the exit status.
	asks := fx.Invoke(func(m ctrl.Manager, s fx.Shutdowner) error {
		return m.Add(manager.RunnableFunc(func(context.Context) error { return s.Shutdown(fx.ExitCode(3)) }))
	})
	o := h.options
	o.Modules = append(plain[:len(plain):len(plain)], registry.NewModule("ending", registry.ModuleOptions{Hub: asks}))
	if err := runHub(t.Context(), o).wait(); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("the hub returns %v, want exit status 3", err)
	}
}
