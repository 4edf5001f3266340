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
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// apiRows are about remotes that answer, but not as their modules need it.
func apiRows() []row {
	return []row{
		{ids: "F11", name: "no right to list", run: missingRight},
		{ids: "F20, F21", name: "CRD missing, installed, removed and installed again", run: missingCRD},
		{ids: "F22", name: "aggregated API down", run: deadAggregatedAPI},
		{ids: "F48", name: "admission webhook that hangs", run: hangingWebhook},
	}
}

// allRights let a minted user do everything.
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
	_, err = r.on.MintCertificate(t.Context(), clerk)
	must(t, err)
	r.since = time.Now()
	// The informer asks again after half a minute at most, as client-go has it.
	r.expectReady(patience)
	r.expectWorking()
}

// widgetCRD is the definition of the kind that the module widgets watches, in one version.
func widgetCRD(version string) *apiextensionsv1.CustomResourceDefinition {
	anything := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + widgetKind.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: widgetKind.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Kind: widgetKind.Kind, ListKind: "WidgetList", Plural: "widgets", Singular: "widget",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &anything},
				},
			}},
		},
	}
}

// missingCRD is a module that needs an API which comes later, is taken away, and comes again.
func missingCRD(t *testing.T, s *stage) {
	t.Helper()
	r := s.remoteOf(t, s.cluster(calm))
	admin := s.clientFor(t, r.on.Config())
	r.register(runs(stopwatchName, widgets))
	r.expect(hubv1.ConditionModulesReady, metav1.ConditionFalse, hubv1.ReasonWaiting, patience)
	r.expectMessage(hubv1.ConditionModulesReady, widgetKind.Kind)
	r.expectMessage(hubv1.ConditionModulesReady, widgets)
	r.expectWorking() // The other module does not wait.

	must(t, admin.Create(t.Context(), widgetCRD(widgetKind.Version)))
	t.Cleanup(func() {
		_ = admin.Delete(context.WithoutCancel(t.Context()), widgetCRD(widgetKind.Version))
	})
	r.since = time.Now()
	r.expectReady(within(crdWithin))
	r.expectWidget(admin, "first")

	// What is taken away while the app runs keeps neither the other modules from working nor the remote
	// busy.
	epoch := r.epoch()
	must(t, admin.Delete(t.Context(), widgetCRD(widgetKind.Version)))
	r.since = time.Now()
	r.staysReady(epoch, goneFor)
	r.expectWorking()
	asked, err := r.on.AuditEvents(fleet.ByAgent(r.agent()), fleet.Since(r.since),
		func(e fleet.AuditEvent) bool { return e.Object.Resource == "widgets" })
	must(t, err)
	t.Logf("%d requests for a kind that is gone, in %s", len(asked), goneFor)
	if len(asked) > 3*int(goneFor/time.Second) {
		t.Errorf("the app asked %d times in %s for a kind that is gone", len(asked), goneFor)
	}
	eventually(t, func() error { return admin.Create(t.Context(), widgetCRD(widgetKind.Version)) })
	r.expectWidget(admin, "second")
}

// goneFor is how long a kind is not there that was.
const goneFor = 5 * time.Second

// crdWithin is how soon an app takes up a kind that its remote did not have.
const crdWithin = 30 * time.Second

// expectWidget checks that a widget that is created is reconciled.
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

// deadAggregatedAPI is a remote with an aggregated API that no server serves.
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
	r.expectReady(within(recovered))
	r.expectWorking()
}

// hangingWebhook is a remote in which writes are held up by a webhook that never answers.
func hangingWebhook(t *testing.T, s *stage) {
	t.Helper()
	r := s.remoteOf(t, s.cluster(calm))
	r.register(quick, func(c *hubv1.ClusterSpec) { c.Client.TimeoutSeconds = 2 })
	r.expectReady(patience)
	nobody, err := fault.New(r.on.Server())
	must(t, err)
	t.Cleanup(nobody.Close)
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
		if took := time.Since(began); took > within(4*time.Second) {
			t.Errorf("a write that the webhook holds up took %s", took)
		}
		return nil
	})
	if !errors.Is(write, context.DeadlineExceeded) && !apierrors.IsInternalError(write) {
		t.Errorf("the write ended with %v", write)
	}
	r.staysReady(epoch, 0)
	must(t, admin.Delete(t.Context(), webhook))
	eventually(t, func() error {
		return r.lease(func(ctx context.Context, c client.Client) error {
			return c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.name, GenerateName: "let-go-"}})
		})
	})
}

// webhookAt is asked about every ConfigMap that is created in a namespace.
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
