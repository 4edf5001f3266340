// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

// With --debug-bind-address a hub serves its profiles, its flags and its status, and only on loopback.
func TestRun_Debug(t *testing.T) {
	t.Parallel()
	hub := create(t, fleettest.New(t, fleet.Options{}), "hub")
	kubeconfig, address := install(t, hub), fleettest.FreeAddress(t)
	p := startTalker(t, nil, quiet(kubeconfig, "--debug-bind-address="+address, "--concurrency=7")...)
	eventually(t, func() error {
		_, err := page(t, address, "/statusz")
		return err
	})
	for path, want := range map[string]string{
		"/statusz":                       "hub statusz",
		"/flagz":                         "\nconcurrency=7\n",
		"/debug/pprof/goroutine?debug=1": "goroutine profile: total",
	} {
		if text, err := page(t, address, path); err != nil || !strings.Contains(text, want) {
			t.Errorf("%s: no %q in %s, %v", path, want, text, err)
		}
	}
	if text, err := page(t, address, "/flagz"); err != nil || !strings.Contains(text, "\ndebug-bind-address="+address+"\n") {
		t.Errorf("/flagz is %s, %v", text, err)
	}
	p.signal(syscall.SIGTERM)
	p.expectExit(0)

	open := startTalker(t, nil, quiet(kubeconfig, "--debug-bind-address=:6060")...)
	open.expectExit(1)
	open.expect(&open.stderr, "use 127.0.0.1:6060")
}

func page(t *testing.T, address, path string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	must(t, err)
	r.Close = true
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return string(body), err
}
