// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/app"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/registry"
)

// D1. There the generation that had been observed, which is kept, guarded the start of what is in memory
// alone: after a restart of the process nothing was ever started again.
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
			t.Errorf("generation %d, observed %d: not the situation that is meant", c.Generation, c.Status.ObservedGeneration)
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
				t.Errorf("generation %d, was %d", c.Generation, generations[name])
			}
		}
	}
}

// D3. There os.Exit followed when the manager of a remote ended, as it does when the remote cannot be
// reached for a while: one dead cluster, and the process for all of them was gone.
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

// D6. There a name that was known stayed what it was: a Secret with new credentials was not watched, and
// not used until the process was restarted.
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
		t.Errorf("the hub acts as %s", got)
	}
	aside := newBystander(t, h.registry, one, remote) // The rotated remote itself notices nothing.
	h.putSecret(name, map[string][]byte{"kubeconfig": mint(name + "-after")})
	took := within(t, patience, func() error {
		if got := whoAmI(t, h.registry, remote); got != name+"-after" {
			return fmt.Errorf("the hub acts as %s", got)
		}
		return nil
	})
	t.Logf("the new certificate was in use after %s", took)
	aside.expectUnaware()

	// Another way to the same remote: another app, which takes the place of the first without a gap.
	_, through := proxyTo(t, one)
	before := h.epochOf(name)
	aside = newBystander(t, h.registry, one, remote)
	h.putSecret(name, map[string][]byte{"kubeconfig": through})
	eventually(t, func() error {
		if info, _ := h.registry.Info(remote); info.Epoch == before || info.State != registry.StateReady {
			return fmt.Errorf("epoch %d is %s", info.Epoch, info.State)
		}
		return nil
	})
	aside.expectServed()
	expectWorks(t, one, remote)
}

// D8. There a kubeconfig was used as it came: plugins ran in the controller, files of the controller were
// read and sent to whatever server the kubeconfig named, and certificates were not verified.
func TestAncestor_KubeconfigActsInTheHub(t *testing.T) {
	t.Parallel()
	h := sharedHub(t)
	aside := h.registerBystander(one)
	attacker, contacts := newAttacker(t)
	dir := t.TempDir()
	canary, fifo := filepath.Join(dir, "canary"), filepath.Join(dir, "fifo")
	must(t, syscall.Mkfifo(fifo, 0o600))
	const secret = "c4n4ry-that-nobody-may-see"
	type entry struct {
		cluster *clientcmdapi.Cluster
		user    *clientcmdapi.AuthInfo
	}
	cases := map[string]func(entry){
		hubv1.ReasonExecNotAllowed: func(e entry) {
			e.user.Exec = &clientcmdapi.ExecConfig{
				APIVersion: "client.authentication.k8s.io/v1", Command: "/bin/sh", Args: []string{"-c", "touch " + canary},
				InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
			}
		},
		hubv1.ReasonAuthProviderNotAllowed: func(e entry) {
			e.user.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "gcp", Config: map[string]string{"cmd-path": "/bin/sh"}}
		},
		hubv1.ReasonFilePathNotAllowed: func(e entry) { // which would never be read to its end
			e.user.Token, e.user.TokenFile = "", fifo
		},
		hubv1.ReasonFilePathNotAllowed + "/key":  func(e entry) { e.user.ClientCertificate, e.user.ClientKey = canary, canary },
		hubv1.ReasonFilePathNotAllowed + "/ca":   func(e entry) { e.cluster.CertificateAuthority = "/etc/hosts" },
		hubv1.ReasonInsecureTLSNotAllowed:        func(e entry) { e.cluster.InsecureSkipTLSVerify, e.cluster.CertificateAuthorityData = true, nil },
		hubv1.ReasonImpersonationNotAllowed:      func(e entry) { e.user.Impersonate = "system:admin" },
		hubv1.ReasonBasicAuthNotAllowed:          func(e entry) { e.user.Token, e.user.Username, e.user.Password = "", "admin", secret },
		hubv1.ReasonSchemeNotAllowed:             func(e entry) { e.cluster.Server = "http://" + attacker },
		hubv1.ReasonProxyNotAllowed:              func(e entry) { e.cluster.ProxyURL = "http://" + attacker },
		hubv1.ReasonAddressNotAllowed:            func(e entry) { e.cluster.Server = "https://169.254.169.254" },
		hubv1.ReasonInvalidKubeconfig + "/empty": func(e entry) { e.user.Token = "" },
	}
	names := map[string]string{}
	for reason, spoil := range cases {
		c, err := clientcmd.Load(clusterOf(t, one).Kubeconfig())
		must(t, err)
		for _, one := range c.Clusters {
			one.Server = "https://" + attacker
			for name := range c.AuthInfos {
				c.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: secret}
				spoil(entry{one, c.AuthInfos[name]})
			}
		}
		data, err := clientcmd.Write(*c)
		must(t, err)
		name := unique("spoilt")
		h.register(name, data, nil)
		names[name], _, _ = strings.Cut(reason, "/")
	}
	for name, reason := range names {
		kind := hubv1.ConditionCredentialsValid
		c := h.expect(name, kind, metav1.ConditionFalse, reason)
		shown, err := json.Marshal(c)
		must(t, err)
		if strings.Contains(string(shown), secret) {
			t.Errorf("%s shows its credentials", name)
		}
	}
	var events eventsv1.EventList
	must(t, h.List(t.Context(), &events))
	for _, e := range events.Items {
		if strings.Contains(e.Note, secret) {
			t.Errorf("an event of %s shows its credentials", e.Regarding.Name)
		}
	}
	if _, err := os.Stat(canary); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a command of a kubeconfig ran: %v", err)
	}
	if n := contacts(); n != 0 {
		t.Errorf("the server of a kubeconfig that was refused was contacted %d times", n)
	}
	aside.expectUnaware()
}

// newAttacker listens, and counts who comes.
func newAttacker(t *testing.T) (address string, contacts func() int64) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	var count atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			connection, err := l.Accept()
			if err != nil {
				return
			}
			count.Add(1)
			_ = connection.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String(), count.Load
}

// D9. There the Secret was read before it was looked at whether the object was being deleted: where the
// Secret had gone first the object could never be deleted any more.
func TestAncestor_ClusterWithoutSecretCannotBeDeleted(t *testing.T) {
	t.Parallel()
	h := newHub(t, nil)
	h.start()
	p, data := proxyTo(t, one)
	silent, silentData := proxyTo(t, one)
	set(t, silent, fault.Blackhole())
	alive, dead, never := unique("alive"), unique("dead"), unique("never")
	unknown, known := unique("unknown"), unique("known") // to the process that is to delete them
	h.register(alive, clusterOf(t, one).Kubeconfig(), nil)
	h.register(dead, data, nil)
	h.register(never, silentData, nil)
	h.register(unknown, data, nil)
	h.register(known, data, nil)
	for _, name := range []string{alive, dead, unknown, known} {
		h.expectReady(name)
	}
	h.expectUnreachable(never, hubv1.ReasonTimedOut)
	set(t, p, fault.Blackhole())
	h.expectUnreachable(dead, hubv1.ReasonTimedOut)
	for _, name := range []string{alive, dead, never, unknown} {
		h.deleteSecret(name)
		h.expect(name, hubv1.ConditionCredentialsValid, metav1.ConditionFalse, hubv1.ReasonSecretNotFound)
	}
	gone := func(name, what string) {
		h.remove(name)
		took := h.expectGone(name)
		t.Logf("%s was gone after %s", what, took)
		if took > soon {
			t.Errorf("%s was gone after %s", what, took)
		}
	}
	gone(alive, "a Cluster whose remote is well")
	gone(dead, "a Cluster whose remote is dead")
	gone(never, "a Cluster whose remote was never seen")
	h.stop()
	h.start()
	h.expect(unknown, hubv1.ConditionCredentialsValid, metav1.ConditionFalse, hubv1.ReasonSecretNotFound)
	gone(unknown, "a Cluster of which the process knows nothing")
	eventually(t, func() error {
		if info, _ := h.registry.Info(registry.ClusterName(known)); info.State != registry.StateUnreachable {
			return fmt.Errorf("it is %s", info.State)
		}
		return nil
	})
	h.deleteSecret(known)
	gone(known, "a Cluster whose remote is dead since before the process began")
	h.expectRuns()
}

// D10. There the list of finalizers was replaced and emptied, those of others with it, and conditions were
// made of a map: they came in another order each time, and each time the object was written.
func TestAncestor_FinalizersAndConditionsAreOverwritten(t *testing.T) {
	t.Parallel()
	const (
		foreign  = "example.com/theirs"
		theirs   = "example.com/Theirs"
		byOthers = "somebody-else"
	)
	h := sharedHub(t)
	p, data := proxyTo(t, one)
	name := unique("shared")
	h.register(name, data, func(c *hubv1.Cluster) { controllerutil.AddFinalizer(c, foreign) })
	h.expectReady(name)
	must(t, h.Status().Patch(t.Context(), &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}},
		client.RawPatch(types.ApplyPatchType, fmt.Appendf(nil,
			`{"apiVersion":%q,"kind":"Cluster","metadata":{"name":%q},"status":{"conditions":[{"type":%q,"status":"True",`+
				`"reason":"Theirs","message":"","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`,
			hubv1.GroupVersion.String(), name, theirs)),
		client.FieldOwner(byOthers), client.ForceOwnership))
	ours := func(c *hubv1.Cluster) (conditions []metav1.Condition, order []string) {
		for _, one := range c.Status.Conditions {
			if one.Type != theirs && one.Type != hubv1.ConditionReconciling && one.Type != hubv1.ConditionStalled {
				conditions, order = append(conditions, one), append(order, one.Type)
			}
		}
		return conditions, order
	}
	conditions, order := ours(h.get(name))
	writes := h.statusWrites(name)
	for i := range 10 { // Each has the Cluster reconciled, and changes nothing that is reported.
		h.change(name, func(c *hubv1.Cluster) { metav1.SetMetaDataLabel(&c.ObjectMeta, "regression/touch", fmt.Sprint(i)) })
	}
	eventually(t, func() error {
		if info, _ := h.registry.Info(registry.ClusterName(name)); info.Labels["regression/touch"] != "9" {
			return errors.New("the last change has not been seen")
		}
		return nil
	})
	if now, _ := ours(h.get(name)); !slices.Equal(now, conditions) {
		t.Errorf("conditions are %v, were %v", now, conditions)
	}
	if n := h.statusWrites(name) - writes; n != 0 {
		t.Errorf("the status was written %d times though nothing had changed", n)
	}
	confirmed := meta.FindStatusCondition(conditions, hubv1.ConditionCredentialsValid).LastTransitionTime
	set(t, p, fault.Refuse())
	h.expectUnreachable(name, hubv1.ReasonUnreachable)
	set(t, p, fault.Pass())
	c := h.expectReady(name)
	if _, now := ours(c); !slices.Equal(now, order) {
		t.Errorf("the order of conditions is %v, was %v", now, order)
	}
	if got := meta.FindStatusCondition(c.Status.Conditions, hubv1.ConditionCredentialsValid).LastTransitionTime; !got.Equal(&confirmed) {
		t.Errorf("a condition that stayed True has changed at %s, before at %s", got, confirmed)
	}
	if !meta.IsStatusConditionTrue(c.Status.Conditions, theirs) {
		t.Errorf("the condition of somebody else is gone:%s", summary(c))
	}
	h.remove(name)
	eventually(t, func() error {
		if left := h.get(name).Finalizers; !slices.Equal(left, []string{foreign}) {
			return fmt.Errorf("finalizers: %v", left)
		}
		return nil
	})
	h.change(name, func(c *hubv1.Cluster) { controllerutil.RemoveFinalizer(c, foreign) })
	h.expectGone(name)
}

// statusWrites counts how often the status of a Cluster was written, other than by an app.
func (h *hub) statusWrites(name string) int {
	h.t.Helper()
	events, err := h.cluster.AuditEvents(fleet.AuditEvent.Writes, func(e fleet.AuditEvent) bool {
		_, _, ofApp := agentOf(e)
		return e.Object.Name == name && e.Object.Subresource == "status" && !ofApp
	})
	must(h.t, err)
	return len(events)
}

// D11. There a monitor deleted every remote object without a counterpart on the hub, also those that users
// had made, and deleted the hub's object when the remote one was missing for a moment.
func TestAncestor_MonitorDeletesWhatOthersMade(t *testing.T) {
	t.Parallel()
	h := sharedHub(t)
	direct := clientFor(t, clusterOf(t, two))
	name := unique("monitored")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{hubv1.LabelCluster: name}}}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: name, Labels: map[string]string{"app.kubernetes.io/managed-by": "clusterfx"},
	}}
	must(t, direct.Create(t.Context(), namespace))
	must(t, direct.Create(t.Context(), object))

	p, data := proxyTo(t, two)
	h.register(name, data, func(c *hubv1.Cluster) { c.Spec.Modules = []string{"inventory"} })
	uid := h.expectReady(name).UID
	set(t, p, fault.Refuse())
	h.expectUnreachable(name, hubv1.ReasonUnreachable)
	if c := h.get(name); c.UID != uid || !c.DeletionTimestamp.IsZero() || c.Status.Inventory.Nodes == nil {
		t.Errorf("an outage of the remote has changed what the hub has of it: %+v", c)
	}
	set(t, p, fault.Pass())
	h.expectReady(name)
	h.remove(name)
	h.expectGone(name)

	for _, made := range []client.Object{namespace, object} {
		version := made.GetResourceVersion()
		if err := direct.Get(t.Context(), client.ObjectKeyFromObject(made), made); err != nil || made.GetResourceVersion() != version {
			t.Errorf("what a user has made is at version %s, was at %s: %v", made.GetResourceVersion(), version, err)
		}
	}
	writes, err := clusterOf(t, two).AuditEvents(ofRemote(registry.ClusterName(name)), fleet.AuditEvent.Writes)
	must(t, err)
	for _, e := range writes {
		t.Errorf("the hub has written to the remote: %s", e)
	}
}

// D13. There the status of what ran in a remote did not come back to the hub for a year.
func TestAncestor_StatusDoesNotComeBack(t *testing.T) {
	t.Parallel()
	h := sharedHub(t)
	direct := clientFor(t, clusterOf(t, one))
	addNode := func() {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: unique("node")}}
		must(t, direct.Create(t.Context(), node))
		t.Cleanup(func() { must(t, direct.Delete(context.WithoutCancel(t.Context()), node)) })
	}
	addNode()
	addNode()
	name := unique("mirrored")
	h.register(name, clusterOf(t, one).Kubeconfig(), nil)
	c := h.expectReady(name)
	if c.Status.Version != fleet.KubernetesVersion || c.Status.ID != idOf(t, one) || c.Status.ModuleSummary == "" {
		t.Errorf("status: %+v", c.Status)
	}
	for _, want := range []int32{2, 3} {
		eventually(t, func() error { // An inventory is written every ten seconds at most.
			if got := h.get(name).Status.Inventory.Nodes; got == nil || *got != want {
				return fmt.Errorf("the hub knows of %v nodes, want %d", got, want)
			}
			return nil
		})
		if want == 2 {
			addNode()
		}
	}
}

// D14. There registering a cluster was installing a chart into it, which failed where it was there
// already, or could not be fetched, or was not allowed.
func TestAncestor_RegistrationInstallsSomething(t *testing.T) {
	t.Parallel()
	h := sharedHub(t)
	name := unique("untouched")
	viewer, err := clusterOf(t, two).MintCertificate(t.Context(), fleet.User{Name: name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces", "nodes"}, Verbs: []string{"get", "list", "watch"}},
		{NonResourceURLs: []string{"/readyz"}, Verbs: []string{"get"}},
	}})
	must(t, err)
	h.register(name, viewer.Kubeconfig(), func(c *hubv1.Cluster) { c.Spec.Modules = []string{"inventory"} })
	h.expectReady(name)
	h.remove(name)
	h.expectGone(name)
	asked, err := clusterOf(t, two).AuditEvents(func(e fleet.AuditEvent) bool { return e.User.Username == name })
	must(t, err)
	for _, e := range asked {
		if e.Writes() || e.Response.Code == 403 {
			t.Errorf("a registration has asked for what it does not need: %s", e)
		}
	}
	if len(asked) == 0 {
		t.Error("the remote was not asked for anything")
	}
}

// D15. There the roles that were shipped were of a namespace, and the object that registers a cluster was
// not in any: the controller could not list it, and said so for ever in its log alone.
func TestAncestor_NamespacedRightsCannotListClusters(t *testing.T) {
	t.Parallel()
	h := newHub(t, nil)
	configOf := func(user string, rules ...rbacv1.PolicyRule) *rest.Config {
		minted, err := h.cluster.MintCertificate(t.Context(), fleet.User{Name: user, Rules: rules})
		must(t, err)
		return minted.Config()
	}
	// A hub that lacks the right says so, and does not run.
	h.options.Config = configOf(unique("nobody"))
	err := app.Run(t.Context(), h.options)
	if err == nil || !strings.Contains(err.Error(), "denies the hub what it needs") {
		t.Errorf("a hub that may not list Clusters: %v", err)
	}
	// What it needs beyond namespaces is about Clusters.
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
		t.Errorf("the hub has tried what it may not do: %s", e)
	}
}

// grantIn gives a user rights in one namespace.
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

// D17. There nobody could ask which clusters there were, nobody heard of those that came and went, and
// what ran in them was fixed when the program was compiled.
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
	at := slices.IndexFunc(h.registry.List(), func(i registry.Info) bool { return i.Name == remote && i.Labels["region"] == "eu" })
	if at < 0 {
		t.Errorf("%s is not in %v", remote, h.registry.List())
	}
	h.change(name, func(c *hubv1.Cluster) { c.Spec.Modules = []string{markerName} })
	eventually(t, func() error {
		if info, _ := h.registry.Info(remote); len(info.Modules) != 1 || info.Modules[0].Name != markerName || info.State != registry.StateReady {
			return fmt.Errorf("%s runs %v", info.State, info.Modules)
		}
		return nil
	})
	expectWorks(t, one, remote)
	h.remove(name)
	h.expectGone(name)
	h.expectHeard(remote, registry.EventStopped)
	if _, known := h.registry.Info(remote); known {
		t.Errorf("%s is known though it is gone", remote)
	}
}

// expectHeard waits until a controller on the hub was told of something.
func (h *hub) expectHeard(name registry.ClusterName, kind registry.EventKind) {
	h.t.Helper()
	eventually(h.t, func() error {
		if !h.heard.has(name, kind) {
			return fmt.Errorf("nobody was told that %s is %s", name, kind)
		}
		return nil
	})
}

// D18. There the program ran inside of an invoke of its own app, so that the hooks of what was in it never
// ran around its life: what they should have closed at its end was not closed.
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

	// A part that asks for the end, or cannot go on, ends the program, which says why.
	for what, tc := range map[string]struct {
		part fx.Option
		says string
	}{
		"a part asks for the end": {fx.Invoke(func(m ctrl.Manager, s fx.Shutdowner) error {
			return m.Add(manager.RunnableFunc(func(context.Context) error { return s.Shutdown(fx.ExitCode(3)) }))
		}), "exit status 3"},
		"a part fails": {fx.Invoke(func(m ctrl.Manager) error {
			return m.Add(manager.RunnableFunc(func(context.Context) error { return errBroken }))
		}), errBroken.Error()},
	} {
		o := h.options
		o.Modules = append(plain[:len(plain):len(plain)], registry.NewModule("ending", registry.ModuleOptions{Hub: tc.part}))
		p := runHub(t.Context(), o)
		if err := p.wait(); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: the hub returns %v", what, err)
		}
	}
}
