// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/hostile"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestScripts_HaveNames(t *testing.T) {
	t.Parallel()
	all, names := hostile.Scripts(), map[string]bool{}
	if len(all) < 30 {
		t.Errorf("got %d scripts, want at least 30", len(all))
	}
	for _, s := range all {
		if s.Name == "" || names[s.Name] {
			t.Errorf("script %q: want a unique name", s.Name)
		}
		names[s.Name] = true
	}
	if _, found := hostile.Named("no such script"); found {
		t.Error("Named finds a script that does not exist")
	}
}

// Each script lies in at least one response, and its server can be closed while requests are in flight.
func TestScripts_LieAndEnd(t *testing.T) {
	t.Parallel()
	for _, script := range hostile.Scripts() {
		t.Run(script.Name, func(t *testing.T) {
			t.Parallel()
			v := newVictim(t, script)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			asked := make(chan struct{})
			for _, path := range []string{"/readyz", "/version", "/api/v1/namespaces/kube-system", "/api", "/apis", listPath, watchPath, beginPath} {
				go func() {
					_, _, _ = v.get(ctx, path, 1<<20)
					asked <- struct{}{}
				}()
			}
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for v.server.Stats().Lies == 0 && ctx.Err() == nil {
				<-tick.C
			}
			v.server.Close()
			for range 8 {
				<-asked
			}
			if ctx.Err() != nil {
				t.Errorf("got stats %+v, want a lie", v.server.Stats())
			}
		})
	}
}

// Without a script the server forwards requests to the real API server.
func TestHonest(t *testing.T) {
	t.Parallel()
	v := newVictim(t, hostile.Script{})
	for path, text := range map[string]string{"/readyz": "ok", "/version": "gitVersion", listPath: "ConfigMapList"} {
		response, body, err := v.get(t.Context(), path, 1<<20)
		if err != nil || response.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(text)) || response.ProtoMajor != 2 {
			t.Errorf("%s: got %v, %v, %q; want the real response over HTTP/2", path, response, err, body)
		}
	}
	if got := v.server.Stats(); got.Requests != 3 || got.Lies != 0 {
		t.Errorf("got stats %+v, want 3 requests and no lie", got)
	}
}

// A client without the token gets 401: an open port does not give access to the real API server.
func TestHonest_NeedsTheToken(t *testing.T) {
	t.Parallel()
	v := newVictim(t, hostile.Script{})
	v.Transport = v.anonymous
	if response, _, err := v.get(t.Context(), "/readyz", 100); err != nil || response.StatusCode != http.StatusUnauthorized {
		t.Errorf("got %v, %v; want 401", response, err)
	}
}

func TestNew_RefusesWhatIsNoKubeconfig(t *testing.T) {
	t.Parallel()
	if s, err := hostile.New([]byte("\tno kubeconfig"), hostile.Script{}); err == nil {
		s.Close()
		t.Error("New accepts text that is not a kubeconfig")
	}
}

// If a client sends its token and body to the target of a redirect, the statistics of the server show it.
func TestRedirect_CatchesCredentials(t *testing.T) {
	t.Parallel()
	v := newVictim(t, named(t, "redirect 307"))
	body := strings.NewReader("a secret")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, v.url+listPath, body)
	must(t, err)
	response, err := v.Do(r)
	must(t, err)
	response.Body.Close()
	got := strings.Join(v.server.Stats().Elsewhere, "; ")
	if want := "POST " + listPath + " with a token and a body of 8 bytes"; got != want {
		t.Errorf("the other host received %q, want %q", got, want)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path string
		code int
		kind string // of the response
		text string // in the body
	}{
		"html everywhere":         {"/anything", 200, "text/html; charset=utf-8", "<h1>"},
		"html readyz":             {"/readyz", 200, "text/html; charset=utf-8", "<h1>"},
		"401 for objects":         {listPath, 401, "application/json", "Unauthorized"},
		"429 everywhere":          {"/version", 429, "application/json", "TooManyRequests"},
		"wrong types":             {"/version", 200, "image/png", "gitVersion"},
		"another uid each time":   {"/api/v1/namespaces/kube-system", 200, "application/json", `"uid":"1"`},
		"list in yaml":            {listPath, 200, "application/yaml", "kind: ConfigMapList"},
		"half a list":             {listPath, 200, "application/json", "ConfigMapList"},
		"endless pages":           {listPath, 200, "application/json", `"continue":"more"`},
		"a version of nothing":    {listPath, 200, "application/json", `"resourceVersion":""`},
		"borrowed etag":           {"/api", 200, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "widgets"},
		"watch expires forever":   {watchPath, 200, "application/json", `"code":410`},
		"a hundred warnings":      {"/readyz", 200, "text/plain; charset=utf-8", "ok"},
		"objects of another kind": {beginPath, 422, "application/json", "sendInitialEvents"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			response, body, err := newVictim(t, named(t, name)).get(t.Context(), c.path, 4096)
			if err != nil {
				t.Fatalf("GET %s: %v", c.path, err)
			}
			if got := response.Header.Get("Content-Type"); response.StatusCode != c.code || got != c.kind {
				t.Errorf("got status %d, type %q; want %d, %q", response.StatusCode, got, c.code, c.kind)
			}
			if !bytes.Contains(body, []byte(c.text)) {
				t.Errorf("got body %.200q, want it to contain %q", body, c.text)
			}
		})
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	warned, _, err := newVictim(t, named(t, "a hundred warnings")).get(t.Context(), "/version", 1<<20)
	if err != nil || len(warned.Header["Warning"]) != 100 {
		t.Errorf("got %v, %d warnings; want 100", err, len(warned.Header["Warning"]))
	}
	busy, _, err := newVictim(t, named(t, "503 for objects")).get(t.Context(), listPath, 1<<20)
	if err != nil || busy.Header.Get("Retry-After") != "3600" {
		t.Errorf("got %v, Retry-After %q; want 3600", err, busy.Header.Get("Retry-After"))
	}
	truth, _, err := newVictim(t, hostile.Script{}).get(t.Context(), "/api", 1<<20)
	must(t, err)
	lie, _, err := newVictim(t, named(t, "borrowed etag")).get(t.Context(), "/api", 1<<20)
	if err != nil || lie.Header.Get("ETag") != truth.Header.Get("ETag") {
		t.Errorf("got %v, ETag %q; want the ETag of the real API server, %q", err, lie.Header.Get("ETag"), truth.Header.Get("ETag"))
	}
}

// A client without limits decompresses the bomb; the test stops at 100 MiB.
func TestGzipBomb(t *testing.T) {
	t.Parallel()
	const most = 100 << 20
	v := newVictim(t, named(t, "gzip bomb"))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.url+listPath, nil)
	must(t, err)
	response, err := v.Do(r)
	must(t, err)
	defer response.Body.Close()
	n, err := io.CopyN(io.Discard, response.Body, most)
	if n != most || err != nil || !response.Uncompressed {
		t.Errorf("got %d bytes, %v, decompressed: %v; want %d", n, err, response.Uncompressed, most)
	}
}

// An endless response continues past 1 MiB, until the client closes the connection.
func TestEndless(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{
		"endless list": listPath, "endless readyz": "/readyz", "endless frame": watchPath,
		"endless discovery": "/apis", "500 without an end": listPath, "watch of no end of objects": watchPath,
		"endless frame in protobuf": watchPath,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const most = 1 << 20
			_, body, err := newVictim(t, named(t, name)).get(t.Context(), path, most)
			if len(body) != most || err != nil {
				t.Errorf("got %d bytes, %v; want %d", len(body), err, most)
			}
		})
	}
}

// These scripts send no complete response, and the request ends at the deadline of the client.
func TestSilence(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{
		"silence": "/readyz", "silence for objects": listPath, "dripping headers": "/readyz", "mute after the hello": "/readyz",
		"mute after the handshake": "/readyz", "dripping everything": "/readyz", "ping flood": "/readyz", "endless early hints": listPath,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, body, err := newVictim(t, named(t, name)).get(ctx, path, 1<<20)
			testkit.ErrorIs(t, err, context.DeadlineExceeded, "body", body)
		})
	}
}

// These scripts break the connection or the response.
func TestBroken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ path, text string }{
		"negative length":            {"/readyz", "Content-Length"},
		"two lengths":                {"/readyz", "Content-Length"},
		"too long a length":          {"/readyz", "EOF"},
		"no answer":                  {"/readyz", "INTERNAL_ERROR"},
		"no tls":                     {"/readyz", "HTTP response to HTTPS"},
		"tls garbage":                {"/readyz", "tls"},
		"another certificate":        {"/readyz", "unknown authority"},
		"reset storm":                {listPath, "INTERNAL_ERROR"},
		"goaway before every answer": {"/readyz", ""},
		"continuation flood":         {"/readyz", ""},
		"endless headers":            {listPath, "header"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			response, body, err := newVictim(t, named(t, name)).get(ctx, c.path, 1<<20)
			testkit.ErrorHas(t, err, c.text, response, body)
		})
	}
}

// A client without precautions takes the 101 that it has not requested for a response, and its body is the connection.
func TestUpgradeWithoutARequest(t *testing.T) {
	t.Parallel()
	response, body, err := newVictim(t, named(t, "an upgrade without a request")).get(t.Context(), listPath, 12)
	must(t, err)
	testkit.Equal(t, response.Request.Header.Get("Upgrade"), "", "the request asks for an upgrade to")
	to := response.Header.Get("Upgrade")
	if response.StatusCode != http.StatusSwitchingProtocols || to != "chaos" || string(body) != "chaos chaos " {
		t.Errorf("got status %d, an upgrade to %q, %q; want the protocol chaos", response.StatusCode, to, body)
	}
}

// Each response of the script ends its connection, and its content is correct.
func TestGoAwayStorm(t *testing.T) {
	t.Parallel()
	v := newVictim(t, named(t, "goaway storm"))
	conns := v.watchConns()
	for range 20 {
		if _, body, err := v.get(t.Context(), "/readyz", 100); err != nil || string(body) != "ok" {
			t.Fatalf("got %q, %v; want ok", body, err)
		}
		<-(<-conns).closed
	}
}

func TestClose_Again(t *testing.T) {
	t.Parallel()
	s, err := hostile.New(fleettest.Cluster(t, "real").Kubeconfig(), named(t, "silence"))
	must(t, err)
	s.Close()
	s.Close()
}
