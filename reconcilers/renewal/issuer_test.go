// SPDX-License-Identifier: Apache-2.0

package renewal_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// issuer is a remote that issues the tokens of a script, and accepts any token. Otherwise it is a real API server.
type issuer struct {
	*httptest.Server
	issue     func(asked time.Duration) string
	conflicts atomic.Int64 // the number of requests for a token that get a conflict
}

func newIssuer(t *testing.T, issue func(asked time.Duration) string) *issuer {
	t.Helper()
	config := fleettest.Cluster(t, "one").Config()
	upstream, err := rest.TransportFor(config)
	must(t, err)
	target, err := url.Parse(config.Host)
	must(t, err)
	proxy := &httputil.ReverseProxy{Transport: upstream, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Del("Authorization")
	}}
	i := &issuer{issue: issue}
	i.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/token") {
			i.serveToken(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	i.EnableHTTP2 = true
	i.StartTLS()
	t.Cleanup(i.Close)
	t.Cleanup(i.CloseClientConnections)
	return i
}

func (i *issuer) serveToken(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if i.conflicts.Add(-1) >= 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}`)
		return
	}
	obj, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	request, ok := obj.(*authenticationv1.TokenRequest)
	if err != nil || !ok {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	request.TypeMeta = metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"}
	request.Status.Token = i.issue(time.Duration(*request.Spec.ExpirationSeconds) * time.Second)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(request)
}

func (i *issuer) register(t *testing.T, s *management, name, token string) *corev1.Secret {
	t.Helper()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: s.namespace, Annotations: map[string]string{hubv1.AnnotationRenewToken: "kube-system/" + name},
		},
		Data: map[string][]byte{"token": []byte(token), "server": []byte(i.URL), "ca.crt": authority},
	}
	cluster := &hubv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labelsOf(s.namespace)},
		Spec:       hubv1.ClusterSpec{KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: name}},
	}
	must(t, s.Create(t.Context(), secret))
	must(t, s.Create(t.Context(), cluster))
	t.Cleanup(func() { _ = s.Delete(context.WithoutCancel(t.Context()), cluster) })
	return secret
}

// jwt returns a token that was issued and expires at times from now, with a number of extra bytes in its claims.
func jwt(issued, expires time.Duration, more int) string {
	now := time.Now()
	claims := fmt.Sprintf(`{"iat":%d,"exp":%d,"more":%q}`, now.Add(issued).Unix(), now.Add(expires).Unix(), strings.Repeat("x", more))
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

// dueNow returns a token of 3 hours that is due.
func dueNow() string { return jwt(-150*time.Minute, 30*time.Minute, 0) }

// touch changes the Secret until the controllers of the hub have read it six times. Package cluster reads it once in
// two seconds, so most of these reads are reads of this package.
func (s *management) touch(t *testing.T, name string) {
	t.Helper()
	before := s.count(http.MethodGet, name).Load()
	eventually(t, func() error {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":"%d"}}}`, time.Now().UnixNano())
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
		must(t, s.Patch(t.Context(), secret, client.RawPatch("application/merge-patch+json", patch)))
		if n := s.count(http.MethodGet, name).Load() - before; n < 6 {
			return fmt.Errorf("the Secret was read %d times, want 6", n)
		}
		return nil
	})
}

// A token with any times is stored once: neither the write that stores it nor a restart of the hub causes another
// write.
func TestFloor(t *testing.T) {
	t.Parallel()
	s := newManagement(t)
	stop := s.start(t)
	defer func() { stop() }()
	cases := map[string]func(asked time.Duration) string{
		"issued-long-ago":      func(asked time.Duration) string { return jwt(-1000*time.Hour, asked, 0) },
		"issued-in-the-future": func(asked time.Duration) string { return jwt(asked, 2*asked, 0) },
		"clock-behind":         func(asked time.Duration) string { return jwt(-asked*9/10, asked/10, 0) },
		"half-as-long":         func(asked time.Duration) string { return jwt(0, asked/2+time.Minute, 0) },
		"third-life":           func(asked time.Duration) string { return jwt(0, asked/3, 0) },
		"expires-much-later":   func(asked time.Duration) string { return jwt(0, 10000*asked, 0) },
		"ends-before-old-one":  func(asked time.Duration) string { return jwt(-asked+20*time.Minute, 20*time.Minute, 0) },
	}
	names := map[string]string{}
	for about, issue := range cases {
		names[about] = s.namespace + "-" + about
		newIssuer(t, issue).register(t, s, names[about], dueNow())
	}
	for about, name := range names {
		expectEvent(t, s, name, "TokenRenewed", "expires at")
		s.touch(t, name)
		testkit.Equal(t, s.count(http.MethodPatch, name).Load(), 1, about, "the hub's writes of the Secret")
	}
	stop()
	stop = s.start(t)
	for about, name := range names {
		s.touch(t, name)
		testkit.Equal(t, s.count(http.MethodPatch, name).Load(), 1, about, "the hub's writes of the Secret after a restart")
	}
}

// Removing the record of a renewal does not cause an earlier renewal.
func TestFloor_RemovedRecord(t *testing.T) {
	t.Parallel()
	s := newManagement(t)
	t.Cleanup(s.start(t))
	name := s.namespace + "-removed"
	isDue := func(asked time.Duration) string { return jwt(-asked*9/10, asked/10, 0) }
	secret := newIssuer(t, isDue).register(t, s, name, dueNow())
	expectEvent(t, s, name, "TokenRenewed", "expires at")
	remove := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, hubv1.AnnotationTokenRenewal)
	must(t, s.Patch(t.Context(), secret, client.RawPatch("application/merge-patch+json", remove)))
	s.touch(t, name)
	testkit.Equal(t, s.count(http.MethodPatch, name).Load(), 1, "the hub's writes of the Secret")
}

// An unusable token does not replace the old token, and an event states the reason.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := newManagement(t)
	t.Cleanup(s.start(t))
	cases := map[string]struct {
		issue func(asked time.Duration) string
		why   string
	}{
		"50-kib":     {func(asked time.Duration) string { return jwt(0, asked, 37<<10) }, "larger than 16 KiB"},
		"900-kib":    {func(asked time.Duration) string { return jwt(0, asked, 675<<10) }, "larger than 16 KiB"},
		"alphabet":   {func(asked time.Duration) string { return jwt(0, asked, 0) + "\r\nX-Evil: 1" }, "not a JWT"},
		"opaque":     {func(time.Duration) string { return "opaque" }, "not a JWT"},
		"empty":      {func(time.Duration) string { return "" }, "not a JWT"},
		"no-times":   {func(time.Duration) string { return "e30.e30.c2ln" }, "does not state"},
		"ends-soon":  {func(asked time.Duration) string { return jwt(-asked, 5*time.Minute, 0) }, "less than 10m0s from now"},
		"expired":    {func(asked time.Duration) string { return jwt(-2*asked, -asked, 0) }, "less than 10m0s from now"},
		"tenth-life": {func(asked time.Duration) string { return jwt(0, asked/10, 0) }, "lives for 18m0s, but the hub requested 3h0m0s"},
	}
	for about, c := range cases {
		name := s.namespace + "-" + about
		before := newIssuer(t, c.issue).register(t, s, name, dueNow())
		expectEvent(t, s, name, "TokenRefused", c.why)
		var after corev1.Secret
		must(t, s.Get(t.Context(), client.ObjectKeyFromObject(before), &after))
		if after.ResourceVersion != before.ResourceVersion || s.count(http.MethodPatch, name).Load() != 0 {
			t.Errorf("%s: the hub wrote the Secret, want no write", about)
		}
	}
}

// A token of an allowed size is refused if it makes the Secret too large to read.
func TestRefused_SecretTooLarge(t *testing.T) {
	t.Parallel()
	s := newManagement(t)
	remote := newIssuer(t, func(asked time.Duration) string { return jwt(0, asked, 11<<10) })
	name := s.namespace + "-large"
	secret := remote.register(t, s, name, dueNow())
	secret.Data["ca.crt"] = append(secret.Data["ca.crt"], bytes.Repeat([]byte("\n"), 60<<10)...)
	must(t, s.Update(t.Context(), secret))
	t.Cleanup(s.start(t))
	expectEvent(t, s, name, "TokenRefused", "larger than the hub accepts")
	testkit.Equal(t, s.count(http.MethodPatch, name).Load(), 0, "the hub's writes of the Secret")
}

// A remote that responds with a conflict does not end the renewal: an event shows the failure, and the hub retries.
func TestRenewal_ConflictOfTheRemote(t *testing.T) {
	t.Parallel()
	s := newManagement(t)
	t.Cleanup(s.start(t))
	remote := newIssuer(t, func(asked time.Duration) string { return jwt(0, asked, 0) })
	remote.conflicts.Store(2)
	name := s.namespace + "-conflict"
	remote.register(t, s, name, dueNow())
	expectEvent(t, s, name, "RenewalFailed", "409")
	expectEvent(t, s, name, "TokenRenewed", "expires at")
}
