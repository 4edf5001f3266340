// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// commandEchoes are more ways to echo a token: in responses whose content commands print or register writes.
func commandEchoes() map[string]echoing {
	posts := func(end string) func(*http.Request) bool {
		return func(r *http.Request) bool { return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, end) }
	}
	whole := func(form string) echoing { return object(form, 1<<20) }
	lower := func(form string) echoing {
		return func(w http.ResponseWriter, r *http.Request, token string) bool {
			return object(form, 40)(w, r, strings.ToLower(token))
		}
	}
	return map[string]echoing{
		"username": when(posts("/selfsubjectreviews"), whole(`{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1",`+
			`"status":{"userInfo":{"username":%q}}}`)),
		"reason": when(posts("/selfsubjectaccessreviews"), whole(`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1",`+
			`"status":{"allowed":false,"reason":%[1]q,"evaluationError":%[1]q}}`)),
		"time": when(posts("/token"), whole(`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1",`+
			`"status":{"token":"e30.e30.e30","expirationTimestamp":%q}}`)),
		"minted": when(posts("/token"), whole(`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1",`+
			`"status":{"token":%q,"expirationTimestamp":"2050-01-01T00:00:00Z"}}`)),
		"anchor": when(posts("/secrets"), lower(`{"kind":"Secret","apiVersion":"v1","metadata":{"name":%q}}`)),
		"owner": when(func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/serviceaccounts/") }, whole(
			`{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"name":%[1]q,"annotations":{"clusterfx.dev/owner":%[1]q}}}`)),
		"refused": inStatus(http.StatusForbidden, posts("/clusterroles")),
		"unkind":  when(posts("/clusterroles"), whole(`{"kind":%[1]q,"apiVersion":%[1]q}`)),
		"failed":  when(posts("/clusterroles"), whole(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"code":500}`)),
		"typed":   when(posts("/clusterroles"), inType),
	}
}

// kubeconfig writes a kubeconfig of the remote's administrator with the token, and returns its path.
func (e *echo) kubeconfig(t *testing.T) string {
	t.Helper()
	config, data := clientcmdapi.NewConfig(), e.data()
	config.Clusters["echo"] = &clientcmdapi.Cluster{Server: string(data["server"]), CertificateAuthorityData: data["ca.crt"]}
	config.AuthInfos["echo"] = &clientcmdapi.AuthInfo{Token: e.token}
	config.Contexts["echo"] = &clientcmdapi.Context{Cluster: "echo", AuthInfo: "echo"}
	config.CurrentContext = "echo"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*config, path))
	return path
}

// command runs a command of the program hub, and returns its whole output.
func command(t *testing.T, args ...string) string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), self, args...)
	cmd.Env = append(os.Environ(), asHub+"=stock")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	printed, err := cmd.CombinedOutput()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return string(printed)
}

// A remote that echoes the token of its administrator or of the hub gets it neither into the output of hub register and
// hub check nor into the objects that are written to the hub.
func TestCanary_Commands(t *testing.T) {
	fleettest.Slow(t, "./registry/kubeconfig TestDiscreet_Status")
	t.Parallel()
	hub := takeHub(t)
	direct, path := fleettest.Client(t, hub, hubv1.AddToScheme), filepath.Join(t.TempDir(), "hub")
	must(t, os.WriteFile(path, hub.Kubeconfig(), 0o600))
	scripts, shared := commandEchoes(), echoes()
	for _, about := range []string{"probe", "redirect", "malformed", "renewal"} {
		scripts[about] = shared[about]
	}
	for _, about := range slices.Sorted(maps.Keys(scripts)) {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			e, name := newEcho(t, one, scripts[about]), unique("command-"+about)
			remote := []string{"--kubeconfig", path, "--cluster-kubeconfig", e.kubeconfig(t)}
			texts := map[string]string{
				"check of a context": command(t, append(remote, "check", "--allow-cidr=127.0.0.0/8")...),
				"register":           command(t, append(remote, "register", name, "--yes", "--wait=false")...),
			}
			texts["what is in the hub"] = written(t, direct, name)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name + "-own", Namespace: hubv1.DefaultNamespace}, Data: e.data()}
			must(t, direct.Create(t.Context(), secret))
			t.Cleanup(func() { must(t, direct.Delete(context.WithoutCancel(t.Context()), secret)) })
			texts["check of a Secret"] = command(t, "check", "secret/"+secret.Name, "--kubeconfig", path, "--allow-cidr=127.0.0.0/8", "-o", "json")
			for where, text := range texts {
				testkit.Equal(t, e.leaks(text), "", where, "contains the token")
				if where != "what is in the hub" && text == "" {
					t.Errorf("%s prints nothing", where)
				}
			}
			if e.echoed.Load() == 0 {
				t.Errorf("the server never echoed the token: %s", texts)
			}
		})
	}
}

// written returns the objects that hub register wrote to the hub, and deletes them.
func written(t *testing.T, direct client.Client, name string) string {
	t.Helper()
	var text strings.Builder
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: hubv1.DefaultNamespace}}
	for _, o := range []client.Object{&hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, secret} {
		if err := direct.Get(t.Context(), client.ObjectKeyFromObject(o), o); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		text.WriteString(indented(t, o))
		must(t, client.IgnoreNotFound(direct.Delete(t.Context(), o)))
	}
	fmt.Fprintf(&text, "%s", secret.Data["token"])
	return text.String()
}
