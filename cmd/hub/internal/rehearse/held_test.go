// SPDX-License-Identifier: Apache-2.0

package rehearse_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/rehearse"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

// writer writes the ConfigMap settings in its remote and a report in the hub, with permissions that lack get.
func writer() registry.Module {
	return module("writer", func(ctx context.Context, p registry.Remote) error {
		if err := p.HubClient.Create(ctx, configMap("report-"+string(p.Name), nil)); err != nil {
			return err
		}
		patch := client.RawPatch(types.MergePatchType, []byte(`{"data":{"size":"3"}}`))
		return p.Client.Patch(ctx, configMap("settings", nil), patch)
	}, rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"configmaps", "pods"}, Verbs: []string{"create", "patch", "delete", "deletecollection"},
	})
}

// Promise: the accounts of a rehearsal can change nothing, whatever the program does; without the policy it does not begin.
func TestRun_HeldByPolicy(t *testing.T) {
	t.Parallel()
	a := newAudited(t, "oslo")
	a.fill(t, "oslo")
	o := a.register(t, "", writer(), module("raw", raw, rawRules()...))
	a.expectHeld(t, as(t, a.remotes[0], "kube-system", "clusterfx-oslo-rehearsal"))
	report := run(t, o)
	testkit.Equal(t, changes(report, "writer"), []string{
		"oslo: create configmaps default/report-oslo", "oslo: change configmaps default/settings data.size=\"1\"->\"3\"",
	}, "changes")
	a.expectNoWrite(t)
	a.expectHeldAlone(t, o)

	asAdmin := o
	asAdmin.Hub.Config = a.hub.Config()
	_, err := rehearse.Run(t.Context(), asAdmin)
	testkit.ErrorHas(t, err, "may get the Secrets of the hub", "--trust-observe")

	// Without the policy of the remote, and then without that of the hub.
	kubeconfig := "--kubeconfig=" + testkit.File(t, "file", kubeconfigOf(t, o.Hub.Config))
	for place, name := range map[string]string{"oslo": "clusterfx-oslo-rehearsal", "hub": roles.RehearsalAccount} {
		must(t, a.client[place].Delete(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		eventually(t, func() error { // An API server takes a moment to notice.
			code, out, problems := execute(t, []registry.Module{writer()}, "rehearse", kubeconfig, "--quiet=1s", "--allow-cidr=127.0.0.0/8")
			if code != int(rehearse.Unheld) {
				return fmt.Errorf("%w in %s: %d %s%s", errStillHeld, place, code, out, problems)
			}
			return nil
		})
	}
}

// expectHeldAlone switches observe mode off, as if the program had an error: on the way to each API server a dry run becomes a write,
// but for the account's patches of itself. The policies alone hold all of it.
func (a *audited) expectHeldAlone(t *testing.T, o rehearse.Options) {
	t.Helper()
	hub, secret := a.client["hub"], &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: hubv1.RehearsalNamespace, Name: "oslo"}}
	must(t, hub.Get(t.Context(), client.ObjectKeyFromObject(secret), secret))
	server, authority := wet(t, a.remotes[0])
	secret.Data["server"], secret.Data["ca.crt"] = []byte(server), authority
	must(t, hub.Update(t.Context(), secret))
	o.Hub.Config = rest.CopyConfig(o.Hub.Config)
	o.Hub.Config.Host, o.Hub.Config.CAData = wet(t, a.hub)
	before, begin := a.objects(t), time.Now()
	report := run(t, o)
	testkit.Equal(t, len(report.Changes), 0, "changes")
	testkit.Equal(t, a.objects(t), before, "the objects of the clusters")
	for _, c := range append(a.remotes, a.hub) {
		events, err := c.AuditEvents(fleet.ByAgent("clusterfx/rehearsal"), fleet.Since(begin), fleet.AuditEvent.Writes)
		must(t, err)
		refused := 0
		for _, e := range events {
			switch isReview, code := strings.HasSuffix(e.Object.Resource, "reviews"), e.Response.Code; {
			case code == http.StatusForbidden, code == http.StatusUnprocessableEntity:
				refused++
			case !isReview:
				t.Errorf("%s: %s", c.Name(), e)
			}
		}
		t.Logf("%s refuses %d writes", c.Name(), refused)
		if refused == 0 {
			t.Errorf("%s: nothing was tried", c.Name())
		}
	}
}

// wet returns the address and the authority of a proxy to an API server that makes each dry run a write, but for ServiceAccounts.
func wet(t *testing.T, c *fleet.Cluster) (address string, authority []byte) {
	t.Helper()
	target, err := url.Parse(c.Server())
	must(t, err)
	quiet := log.New(io.Discard, "", 0)
	server := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Transport: transportOf(t, rest.AnonymousClientConfig(c.Config())), ErrorLog: quiet,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if query := r.Out.URL.Query(); !strings.Contains(r.In.URL.Path, "/serviceaccounts/") {
				query.Del("dryRun")
				r.Out.URL.RawQuery = query.Encode()
			}
			if r.Out.Method == http.MethodDelete { // Its body has the options, too.
				r.Out.Body, r.Out.ContentLength = http.NoBody, 0
			}
		},
	})
	server.Config.ErrorLog = quiet
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func kubeconfigOf(t *testing.T, c *rest.Config) []byte {
	t.Helper()
	text := clientcmdapi.NewConfig()
	text.Clusters["c"] = &clientcmdapi.Cluster{Server: c.Host, CertificateAuthorityData: c.CAData}
	text.AuthInfos["c"] = &clientcmdapi.AuthInfo{Token: c.BearerToken}
	text.Contexts["c"], text.CurrentContext = &clientcmdapi.Context{Cluster: "c", AuthInfo: "c"}, "c"
	written, err := clientcmd.Write(*text)
	must(t, err)
	return written
}

var (
	errStillHeld  = errors.New("the policy is still in force")
	errNotAllowed = errors.New("the account has no permissions")
	errNotCounted = errors.New("the Pod is not counted")
)

// expectHeld sends writes of all kinds, with and without a dry run, as the account of a rehearsal that has every permission: the policy
// alone holds them. It cannot hold what is about policies themselves, to which the account has no permission.
func (a *audited) expectHeld(t *testing.T, config *rest.Config) {
	t.Helper()
	clients, err := kubernetes.NewForConfig(config)
	must(t, err)
	send := func(verb, path, body, query string) (code int) {
		r := clients.CoreV1().RESTClient().Verb(verb).AbsPath(path).SetHeader("Content-Type", "application/json")
		if verb == "PATCH" {
			r = r.SetHeader("Content-Type", "application/merge-patch+json")
		}
		if query != "" {
			r = r.Param("dryRun", query)
		}
		if body != "" {
			r = r.Body([]byte(body))
		}
		r.Do(t.Context()).StatusCode(&code)
		return code
	}
	const policies = "/apis/admissionregistration.k8s.io/v1/"
	for path, verb := range map[string]string{
		policies + "validatingadmissionpolicybindings/clusterfx-oslo-rehearsal": "DELETE",
		policies + "validatingadmissionpolicies/clusterfx-oslo-rehearsal":       "PATCH",
	} {
		testkit.Equal(t, send(verb, path, "{}", ""), 403, verb+" "+path)
	}
	everything := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "rehearsals-may-do-everything"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "kube-system", Name: "clusterfx-oslo-rehearsal"}},
	}
	must(t, a.client["oslo"].Create(t.Context(), everything))
	defer func() { must(t, a.client["oslo"].Delete(t.Context(), everything)) }()
	const inDefault = "/api/v1/namespaces/default/"
	eventually(t, func() error { // An API server takes a moment to know a permission.
		if send("GET", inDefault+"secrets", "", "") != 200 {
			return errNotAllowed
		}
		return nil
	})
	for _, row := range []struct {
		verb, path, body string
		dry              bool // a dry run is accepted
	}{
		{"POST", inDefault + "configmaps", `{"metadata":{"name":"new"}}`, true},
		{"PATCH", inDefault + "configmaps/settings", `{"data":{"a":"b"}}`, true},
		{"DELETE", inDefault + "configmaps/settings", ``, true},
		{"DELETE", inDefault + "configmaps", ``, true},
		{"PATCH", inDefault + "pods/web", `{"metadata":{"labels":{"a":"b"}}}`, true},
		{"PATCH", inDefault + "pods/web/status", `{"status":{"message":"changed"}}`, true},
		{"PATCH", "/apis/apps/v1/namespaces/default/deployments/web/scale", `{"spec":{"replicas":7}}`, true},
		{"POST", inDefault + "pods/web/eviction", `{"kind":"Eviction","apiVersion":"policy/v1","metadata":{"name":"web"}}`, true},
		{"POST", inDefault + "pods/web/binding", `{"kind":"Binding","apiVersion":"v1","metadata":{"name":"web"},"target":{"kind":"Node","name":"n1"}}`, true},
		{"POST", inDefault + "serviceaccounts/web/token", `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","spec":{}}`, false},
		{"POST", inDefault + "pods/web/exec", ``, false},
		{"GET", inDefault + "pods/web/exec", ``, false},
		{"POST", inDefault + "pods/web/portforward", ``, false},
		{"GET", inDefault + "pods/web/portforward", ``, false},
		{"POST", inDefault + "pods/web/proxy/x", ``, false},
		{"GET", inDefault + "services/web/proxy/x", ``, false},
		{"GET", "/api/v1/nodes/n1/proxy/run", ``, false},
	} {
		if code := send(row.verb, row.path, row.body, ""); code != 403 && code != 422 {
			t.Errorf("%s %s: got status %d, and must be refused", row.verb, row.path, code)
		}
		if code := send(row.verb, row.path, row.body, "All"); (code < 300) != row.dry {
			t.Errorf("%s %s as a dry run: got status %d, want success %t", row.verb, row.path, code, row.dry)
		}
	}
}

// Promise: the exit status of hub rehearse says whether a version agrees, differs, or cannot be told; the report in JSON is
// what -o json prints.
func TestRehearse_ExitStatus(t *testing.T) {
	t.Parallel()
	a := newAudited(t, "oslo", "rome")
	a.fill(t, "oslo")
	rests := module("rests", func(context.Context, registry.Remote) error { return nil })
	hangs := module("hangs", func(ctx context.Context, _ registry.Remote) error {
		<-ctx.Done()
		return nil
	})
	hoards := module("hoards", func(ctx context.Context, p registry.Remote) error { return p.Client.List(ctx, &corev1.ConfigMapList{}) })
	for _, row := range []struct {
		module registry.Module
		args   []string
		want   rehearse.Verdict
		says   string
	}{
		{rests, []string{"--trust-observe"}, rehearse.Agrees, "nothing would change"},
		{writer(), []string{"--trust-observe"}, rehearse.Differs, "It differs: 2 changes"},
		{hangs, []string{"--trust-observe", "--for=3s"}, rehearse.Unknown, "could not be told"},
		{hoards, []string{"--trust-observe", "--max-objects-per-cluster=100"}, rehearse.Unknown, "oslo: OverBudget: module \"hoards\": the cache would hold more than 100 objects"},
		{rests, nil, rehearse.Unknown, "may get the Secrets of the hub"},
	} {
		args := append([]string{"rehearse", "-l", "name=oslo", "--quiet=1s", "--allow-cidr=127.0.0.0/8"}, row.args...)
		code, out, problems := a.execute(t, []registry.Module{row.module}, args...)
		testkit.Equal(t, code, int(row.want), strings.Join(args, " ")+": "+out+problems)
		if !strings.Contains(out+problems, row.says) {
			t.Errorf("%q is not in %s%s", row.says, out, problems)
		}
	}
	code, out, problems := a.execute(t, []registry.Module{writer()}, "rehearse", "--max=1", "--quiet=1s", "--allow-cidr=127.0.0.0/8", "--trust-observe", "-o", "json")
	var report rehearse.Report
	must(t, json.Unmarshal([]byte(out), &report))
	testkit.Equal(t, code, int(rehearse.Differs), problems)
	testkit.Equal(t, len(report.Changes), 2, "changes")
	testkit.Equal(t, report.Clusters, []string{"oslo"}, "Clusters")
	a.expectNoWrite(t)
	t.Run("unsettled", a.expectUnsettled)
	t.Run("interrupted", a.expectInterrupted)
	t.Run("deregistered", a.expectDeregistered)
}

// The command deregister removes the account of rehearsals with all that belongs to it, and its policy last.
func (a *audited) expectDeregistered(t *testing.T) {
	remote, tokens := "--cluster-kubeconfig="+testkit.File(t, "file", a.remotes[0].Kubeconfig()), []int(nil)
	for _, args := range [][]string{
		{"register", "bergen", "--yes", "--wait=false", remote}, {"register", "bergen", "--rehearsal", "--yes", remote}, {"deregister", "bergen", "--yes", remote},
	} {
		code, out, problems := a.execute(t, nil, args...)
		testkit.Equal(t, code, 0, strings.Join(args, " ")+": "+out+problems)
		tokens = append(tokens, a.tokensOf(t, "bergen"))
	}
	testkit.Equal(t, tokens, []int{1, 2, 0}, "how many tokens there are in the remote: no account revokes those of the other")
	for _, list := range []client.ObjectList{
		&corev1.ServiceAccountList{}, &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
		&admissionv1.ValidatingAdmissionPolicyList{}, &admissionv1.ValidatingAdmissionPolicyBindingList{},
	} {
		must(t, a.client["oslo"].List(t.Context(), list))
		must(t, eachItem(list, func(o client.Object) {
			if strings.Contains(o.GetName(), "bergen") {
				t.Errorf("%T %s is left in the remote", o, o.GetName())
			}
		}))
	}
	var last string
	events, err := a.remotes[0].AuditEvents(fleet.AuditEvent.Writes)
	must(t, err)
	for _, e := range events {
		if e.Verb == "delete" && strings.Contains(e.Object.Name, "bergen-rehearsal") {
			last = e.Object.Resource
		}
	}
	testkit.Equal(t, last, "validatingadmissionpolicies", "what was deleted last")
}

// tokensOf counts the Secrets in the remote whose deletion revokes a token.
func (a *audited) tokensOf(t *testing.T, cluster string) (n int) {
	t.Helper()
	all := &corev1.SecretList{}
	must(t, a.client["oslo"].List(t.Context(), all, client.InNamespace("kube-system")))
	for _, one := range all.Items {
		if strings.HasPrefix(one.Name, "clusterfx-"+cluster+"-") {
			n++
		}
	}
	return n
}
