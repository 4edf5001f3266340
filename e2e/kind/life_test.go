// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package kind_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// upgrade replaces the stock hub by a hub with another module. The permissions of the module are granted first in the
// hub, and then in the remotes.
func (s *installation) upgrade() string {
	roles := filepath.Join(s.dir, "roles.yaml")
	write(s.t, roles, s.run(filepath.Join(s.dir, own), "rbac", "--in=hub"))
	s.kubectl(s.hub, "apply", "--server-side", "--force-conflicts", "-f", roles)
	s.kubectl(s.hub, "set", "image", "-n", namespace, "deployment/clusterfx-hub", "hub="+s.images[own])
	s.rollout()
	expect(s.t, "False", func() string { return s.field(first, `{.status.conditions[?(@.type=="Authorized")].status}`) })
	lacking := s.field(first, `{.status.conditions[?(@.type=="Authorized")].message}`)
	for _, name := range []string{first, second} {
		s.registerWith(own, s.remote(name))
	}
	s.ready()
	s.summary.show("hub describe "+first, s.program(own, "describe", first))
	return "before the remotes were registered again: " + lacking
}

func (s *installation) podcount() string {
	for _, name := range []string{first, second} {
		s.expectCounted(s.remote(name))
	}
	s.kubectl(s.hub, "create", "configmap", "greeting", "-n", "default", "--from-literal=text=hello")
	for _, name := range []string{first, second} {
		expect(s.t, "hello", func() string { return s.greeting(s.remote(name)) })
	}
	return "Pods counted in the hub, a greeting copied into the remotes"
}

func (s *installation) greeting(c *fleet.Cluster) string {
	s.t.Helper()
	return s.kubectl(c, "get", "configmap", "greeting", "-n", "default", "--ignore-not-found", "-o", "jsonpath={.data.text}")
}

func (s *installation) expectCounted(c *fleet.Cluster) {
	s.t.Helper()
	eventually(s.t, func() error {
		pods := s.kubectl(c, "get", "pods", "-n", "kube-system", "-o", "name")
		want := fmt.Sprint(strings.Count(pods, "\n"))
		got := s.kubectl(s.hub, "get", "configmap", "podcount-"+c.Name(), "-n", "default", "--ignore-not-found",
			"-o", "jsonpath={.data.kube-system}")
		if got != want {
			return fmt.Errorf("%s: the hub counted %q Pods in kube-system, want %s", c.Name(), got, want)
		}
		return nil
	})
}

func (s *installation) token(name string) string {
	s.t.Helper()
	text := s.kubectl(s.hub, "get", "secret", name, "-n", namespace, "-o", "jsonpath={.data.token}")
	data, err := base64.StdEncoding.DecodeString(text)
	testkit.Must(s.t, err)
	return string(data)
}

func (s *installation) rotate() string {
	remote := s.remote(first)
	old := s.token(first)
	testkit.Must(s.t, whoami(s.t, remote, old))
	s.program(own, "rotate", first, "--cluster-kubeconfig", kubeconfig(remote))
	if s.token(first) == old {
		s.t.Fatal("the token has not changed")
	}
	begin := time.Now()
	eventually(s.t, func() error { // The API server caches a token for ten seconds.
		if err := whoami(s.t, remote, old); err == nil {
			return errors.New("the remote still accepts the old token")
		}
		return nil
	})
	refused := time.Since(begin)
	s.ready()
	return fmt.Sprintf("%.0f s later, once the API server has forgotten it", refused.Seconds())
}

// freeze pauses a remote, which is not Ready until it continues. Meanwhile the Pods of the hub stay ready and the other
// remote works.
func (s *installation) freeze() string {
	begin := time.Now()
	testkit.Must(s.t, s.remote(second).Pause())
	expectReady := func(name, status string) {
		expect(s.t, status, func() string { return s.field(name, `{.status.conditions[?(@.type=="Ready")].status}`) })
	}
	notReady := func() string { return s.field(second, `{.status.conditions[?(@.type=="Ready")].status}`) }
	eventually(s.t, func() error {
		if got := notReady(); got == "True" {
			return errors.New("the frozen remote is still Ready")
		}
		return nil
	})
	noticed := time.Since(begin)
	reason := s.field(second, `{.status.conditions[?(@.type=="Ready")].reason}`)
	expectReady(first, "True")
	if ready := s.kubectl(s.hub, "get", "deployment", "-n", namespace, "clusterfx-hub", "-o", "jsonpath={.status.readyReplicas}"); ready != "2" {
		s.t.Errorf("%s Pods of the hub are ready, want 2", ready)
	}
	s.kubectl(s.hub, "patch", "configmap", "greeting", "-n", "default", "-p", `{"data":{"text":"still here"}}`)
	expect(s.t, "still here", func() string { return s.greeting(s.remote(first)) })
	begin = time.Now()
	testkit.Must(s.t, s.remote(second).Resume())
	expectReady(second, "True")
	back := time.Since(begin)
	expect(s.t, "still here", func() string { return s.greeting(s.remote(second)) })
	return fmt.Sprintf("%s after %.0f s, Ready again %.0f s after it continues; the other remote works meanwhile",
		reason, noticed.Seconds(), back.Seconds())
}

// kill kills the process of the active replica, without notice, and checks that the other one takes over.
func (s *installation) kill() string {
	s.t.Helper()
	runner, epoch := s.field(first, "{.status.runner.name}"), s.field(first, "{.status.runner.epoch}")
	begin := time.Now()
	s.killPod(runner)
	s.kubectl(s.hub, "patch", "configmap", "greeting", "-n", "default", "-p", `{"data":{"text":"another hub"}}`)
	for _, name := range []string{first, second} {
		expect(s.t, "another hub", func() string { return s.greeting(s.remote(name)) })
	}
	took := time.Since(begin)
	if now := s.field(first, "{.status.runner.epoch}"); now == epoch {
		s.t.Errorf("%s still runs %s", runner, first)
	}
	s.rollout()
	s.ready()
	for _, name := range []string{first, second} {
		s.expectCounted(s.remote(name))
	}
	return fmt.Sprintf("the other one works %.0f s later; a Lease lasts 10 s", took.Seconds())
}

// killPod kills the process of a Pod on its node: kubectl would send SIGTERM first, even with --force.
func (s *installation) killPod(pod string) {
	s.t.Helper()
	server, err := s.hub.InsideServer()
	testkit.Must(s.t, err)
	node, err := url.Parse(server)
	testkit.Must(s.t, err)
	s.run("docker", "exec", node.Hostname(), "sh", "-c",
		"kill -9 $(crictl inspect -o go-template --template '{{.info.pid}}' $(crictl ps -q --name hub --label io.kubernetes.pod.name="+pod+"))")
}
