// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// echo is a remote that echoes the credentials of a request to its sender, for the requests of its script. Otherwise it
// is a real API server that accepts any token.
type echo struct {
	*httptest.Server
	token  string // of the hub
	canary string // a part of the token that occurs nowhere else
	echoed atomic.Int64
}

// echoing echoes the token in the response to a request, or returns false without a response.
type echoing func(w http.ResponseWriter, r *http.Request, token string) bool

func newEcho(t *testing.T, where string, script echoing) *echo {
	t.Helper()
	config := fleettest.Cluster(t, where).Config()
	upstream, err := rest.TransportFor(config)
	must(t, err)
	target, err := url.Parse(config.Host)
	must(t, err)
	proxy := &httputil.ReverseProxy{
		Transport: upstream, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Authorization")
		},
	}
	now := time.Now()
	claims := fmt.Sprintf(`{"iat":%d,"exp":%d}`, now.Add(-time.Hour).Unix(), now.Add(20*time.Minute).Unix()) // due
	e := &echo{canary: rand.Text() + rand.Text()}
	e.token = "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + "." + e.canary
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if script(w, r, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")) {
			e.echoed.Add(1)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	e.Config.ErrorLog = log.New(io.Discard, "", 0)
	e.StartTLS()
	t.Cleanup(e.Close)
	t.Cleanup(e.CloseClientConnections)
	return e
}

// data returns the data of a Secret for the server.
func (e *echo) data() map[string][]byte {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.Certificate().Raw})
	return map[string][]byte{"token": []byte(e.token), "server": []byte(e.URL), "ca.crt": authority}
}

// leaks returns the text around a part of the token, or an empty string.
func (e *echo) leaks(text string) string {
	lower := strings.ToLower(text)
	for i := range len(e.canary) - 16 {
		part := strings.ToLower(e.canary[i : i+16])
		if at := strings.Index(lower, part); at >= 0 {
			return text[max(0, at-300):min(len(text), at+100)]
		}
	}
	return ""
}

// echoes are ways to echo a token, by subject: one for each component that reads a response. registry/kubeconfig and
// registry/internal/cache have the tests of all forms of a response.
func echoes() map[string]echoing {
	everything := func(*http.Request) bool { return true }
	maps := func(method string) func(*http.Request) bool {
		return func(r *http.Request) bool { return r.Method == method && strings.HasSuffix(r.URL.Path, "/configmaps") }
	}
	reads, writes := maps(http.MethodGet), maps(http.MethodPost)
	ending := func(end string) func(*http.Request) bool {
		return func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, end) }
	}
	return map[string]echoing{
		"probe":     inStatus(http.StatusInternalServerError, everything),
		"redirect":  when(everything, inRedirect),
		"malformed": when(everything, malformed),
		"discovery": inStatus(http.StatusServiceUnavailable, ending("/apis")),
		"renewal":   inStatus(http.StatusInternalServerError, ending("/token")),
		"list-time": when(reads, object(`{"kind":"ConfigMapList","apiVersion":"v1","items":`+
			`[{"metadata":{"name":"x","creationTimestamp":"SPOKEN %s"}}]}`, 200)),
		"watch": when(reads, inWatch(object(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1",`+
			`"status":"Failure","message":"SPOKEN %[1]s","reason":%[1]q,"code":403}}`, 200))),
		"write":      inStatus(http.StatusUnprocessableEntity, writes),
		"write-time": when(writes, object(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"creationTimestamp":"SPOKEN %s"}}`, 200)),
		"told":       when(writes, object(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"},"data":{"echo":%q}}`, 1<<20)),
	}
}

func when(about func(*http.Request) bool, script echoing) echoing {
	return func(w http.ResponseWriter, r *http.Request, token string) bool {
		return about(r) && script(w, r, token)
	}
}

// inStatus rejects requests with a Status that has the token in every field, and in headers.
func inStatus(code int, about func(*http.Request) bool) echoing {
	return when(about, func(w http.ResponseWriter, _ *http.Request, token string) bool {
		short := token[max(0, len(token)-40):]
		status := metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code),
			Message: `admission webhook "` + strings.ToLower(short) + `" denied the request: SPOKEN Authorization: Bearer ` + token,
			Reason:  metav1.StatusReason(short),
			Details: &metav1.StatusDetails{
				Name: strings.ToLower(short), Group: token, Kind: short,
				Causes: []metav1.StatusCause{{Type: metav1.CauseType(short), Field: "spec." + short, Message: token}},
			},
		}
		for _, header := range []string{"X-Echo", "Www-Authenticate", "Location", "Audit-Id"} {
			w.Header().Set(header, token)
		}
		w.Header().Set("Warning", `299 - "`+token+`"`)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(status)
		return true
	})
}

func inRedirect(w http.ResponseWriter, _ *http.Request, token string) bool {
	w.Header().Set("Location", "https://"+token+".example.com/"+token)
	w.WriteHeader(http.StatusFound)
	return true
}

// object sends an object that contains the end of the token.
func object(form string, end int) echoing {
	return func(w http.ResponseWriter, _ *http.Request, token string) bool {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Warning", `299 - "`+token+`"`)
		_, _ = fmt.Fprintf(w, form, token[max(0, len(token)-end):])
		return true
	}
}

func inType(w http.ResponseWriter, _ *http.Request, token string) bool {
	w.Header().Set("Content-Type", "application/"+token)
	_, _ = io.WriteString(w, token)
	return true
}

func inWatch(script echoing) echoing {
	return when(func(r *http.Request) bool {
		watch := r.URL.Query().Get("watch")
		return watch == "1" || watch == "true"
	}, script)
}

// malformed sends the token in place of the status code of the response.
func malformed(w http.ResponseWriter, _ *http.Request, token string) bool {
	connection, buffer, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return false
	}
	_, _ = fmt.Fprintf(buffer, "HTTP/1.1 %s %s\r\n%s\r\n\r\n", token, token, token)
	_ = buffer.Flush()
	_ = connection.Close()
	return true
}
