// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// apiRows are about remotes that respond, but whose API does not work as their modules need it.
func apiRows() []row {
	return []row{
		{name: "no right to list", run: missingRight},
		{name: "CRD missing, installed, removed and installed again", run: missingCRD},
		{name: "aggregated API down", run: deadAggregatedAPI},
		{name: "admission webhook that hangs", run: hangingWebhook},
	}
}

// allRights grant a minted user all permissions.
var allRights = []rbacv1.PolicyRule{
	{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
	{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}},
}

func missingRight(t *testing.T, s *stage) {
	t.Helper()
	r := s.remoteOf(t, s.cluster(calm))
	clerk := fleet.User{Name: r.name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
	}}
	minted, err := r.on.MintCertificate(t.Context(), clerk)
	must(t, err)
	r.registerAs(minted.Kubeconfig())
	r.expect(hubv1.ConditionModulesReady, metav1.ConditionFalse, hubv1.ReasonForbidden, patience)
	r.expectMessage(hubv1.ConditionModulesReady, "configmaps")
	r.expectMessage(hubv1.ConditionModulesReady, stopwatchName)
	r.expect(hubv1.ConditionReachable, metav1.ConditionTrue, hubv1.ReasonProbeSucceeded, patience)
	clerk.Rules = allRights
	must(t, testkit.Err(r.on.MintCertificate(t.Context(), clerk)))
	r.since = time.Now()
	// The informer retries within half a minute, the maximum backoff of client-go.
	r.expectReady(patience)
	r.expectWorking()
}

// missingCRD is a remote whose module needs an API that is installed later, removed, and installed again.
func missingCRD(t *testing.T, s *stage) {
	t.Helper()
	r := s.remoteOf(t, s.cluster(calm))
	admin := s.clientFor(t, r.on.Config())
	r.register(runs(stopwatchName, widgets))
	r.expect(hubv1.ConditionModulesReady, metav1.ConditionFalse, hubv1.ReasonWaiting, patience)
	r.expectMessage(hubv1.ConditionModulesReady, widgetKind.Kind)
	r.expectMessage(hubv1.ConditionModulesReady, widgets)
	r.expectWorking() // The other module does not wait.

	must(t, admin.Create(t.Context(), fleettest.CRD(t, widgetKind, "")))
	t.Cleanup(func() {
		_ = admin.Delete(context.WithoutCancel(t.Context()), fleettest.CRD(t, widgetKind, ""))
	})
	r.since = time.Now()
	r.expectReady(crdWithin)
	r.expectWidget(admin, "first")

	// An API that is removed while the app runs does not stop the other modules, and does not cause many requests to
	// the remote.
	epoch := r.epoch()
	must(t, admin.Delete(t.Context(), fleettest.CRD(t, widgetKind, "")))
	r.since = time.Now()
	r.staysReady(epoch, goneFor)
	r.expectWorking()
	asked, err := r.on.AuditEvents(fleet.ByAgent(r.agent()), fleet.Since(r.since),
		func(e fleet.AuditEvent) bool { return e.Object.Resource == "widgets" })
	must(t, err)
	t.Logf("%d requests for a removed kind in %s", len(asked), goneFor)
	if len(asked) > 3*int(goneFor/time.Second) {
		t.Errorf("the app sent %d requests in %s for a removed kind, want at most 3 per second", len(asked), goneFor)
	}
	eventually(t, func() error { return admin.Create(t.Context(), fleettest.CRD(t, widgetKind, "")) })
	r.expectWidget(admin, "second")
}

// goneFor is the time for which the kind is removed.
const goneFor = 5 * time.Second

// crdWithin is the bound from the installation of a kind until the remote is Ready.
const crdWithin = 30 * time.Second

// expectWidget creates a widget and waits until it is reconciled.
func (r *remote) expectWidget(admin client.Client, name string) {
	r.t.Helper()
	began := time.Now()
	eventually(r.t, func() error {
		one := newWidget()
		one.SetNamespace(r.name)
		one.SetName(name)
		return client.IgnoreAlreadyExists(admin.Create(r.t.Context(), one))
	})
	eventually(r.t, func() error {
		if r.stage.stopwatch.reconciles(r.name, name) == 0 {
			return errors.New("the widget " + name + " was not reconciled")
		}
		return nil
	})
	r.t.Logf("%s: a widget was reconciled after %s", r.name, short(time.Since(began)))
}

func deadAggregatedAPI(t *testing.T, s *stage) {
	t.Helper()
	r := s.remoteOf(t, s.cluster(calm))
	admin := s.clientFor(t, r.on.Config())
	dead := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": "v1.dead.example.com"},
		"spec": map[string]any{
			"group": "dead.example.com", "version": "v1", "groupPriorityMinimum": int64(1), "versionPriority": int64(1),
			"insecureSkipTLSVerify": true,
			"service":               map[string]any{"name": "nobody", "namespace": metav1.NamespaceDefault},
		},
	}}
	must(t, admin.Create(t.Context(), dead))
	t.Cleanup(func() { _ = admin.Delete(context.WithoutCancel(t.Context()), dead) })
	r.register()
	r.expectReady(recovered)
	r.expectWorking()
}

// hangingWebhook is a remote whose writes are blocked by an admission webhook that never responds.
func hangingWebhook(t *testing.T, s *stage) {
	t.Helper()
	r := s.remoteOf(t, s.cluster(calm))
	r.register(quick, func(c *hubv1.ClusterSpec) { c.Client.TimeoutSeconds = 2 })
	r.expectReady(patience)
	nobody := fleettest.Proxy(t, r.on.Server())
	must(t, nobody.Set(fault.NeverRead()))
	webhook := webhookAt("https://"+nobody.Addr()+"/", authorityOf(t, r.on.Kubeconfig()), r.name)
	admin := s.clientFor(t, r.on.Config())
	must(t, admin.Create(t.Context(), webhook))
	t.Cleanup(func() {
		_ = admin.Delete(context.WithoutCancel(t.Context()), webhook)
	})
	epoch := r.epoch()
	r.since = time.Now()
	var write error
	eventually(t, func() error {
		began := time.Now()
		write = r.lease(func(ctx context.Context, c client.Client) error {
			return c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.name, GenerateName: "held-"}})
		})
		if write == nil {
			return errors.New("the webhook is not in effect")
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("a write that the webhook blocks took %s, want the timeout of the client", took)
		}
		return nil
	})
	if !errors.Is(write, context.DeadlineExceeded) && !apierrors.IsInternalError(write) {
		t.Errorf("write: got error %v, want DeadlineExceeded or InternalError", write)
	}
	r.staysReady(epoch, 0)
	must(t, admin.Delete(t.Context(), webhook))
	eventually(t, func() error {
		return r.lease(func(ctx context.Context, c client.Client) error {
			return c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.name, GenerateName: "let-go-"}})
		})
	})
}

// webhookAt returns the configuration of an admission webhook for every ConfigMap that is created in a namespace.
func webhookAt(url string, ca []byte, namespace string) *admissionv1.ValidatingWebhookConfiguration {
	fail, none, patient := admissionv1.Fail, admissionv1.SideEffectClassNone, int32(30)
	return &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "hang.faults.example.com", AdmissionReviewVersions: []string{"v1"},
			ClientConfig:  admissionv1.WebhookClientConfig{URL: &url, CABundle: ca},
			FailurePolicy: &fail, SideEffects: &none, TimeoutSeconds: &patient,
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}
}
