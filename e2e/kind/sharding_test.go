// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package kind_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// rolledOut is the timeout for a change of all replicas: each is ready for 15 s before the next one ends, which may take 55 s.
const rolledOut = 8 * time.Minute

// change installs the hub with a module of one's own again, with more lines of a kustomization, and waits until all Pods are the new ones.
func (s *installation) change(more ...string) time.Duration {
	s.t.Helper()
	begin := time.Now()
	s.kubectl(s.hub, "apply", "--server-side", "--force-conflicts", "-k", s.overlay(own, more...))
	roles := filepath.Join(s.dir, "roles.yaml")
	write(s.t, roles, s.run(filepath.Join(s.dir, own), "rbac", "--in=hub"))
	s.kubectl(s.hub, "apply", "--server-side", "--force-conflicts", "-f", roles)
	s.kubectl(s.hub, "rollout", "status", "deployment/clusterfx-hub", "-n", namespace, "--timeout", rolledOut.String())
	return time.Since(begin)
}

const byHolder = "-l=clusterfx.dev/sharding=record"

// expectReplicas waits until so many Pods hold all shards and run the remotes.
func (s *installation) expectReplicas(n int) {
	s.t.Helper()
	eventually(s.t, func() error {
		pods := strings.Fields(s.kubectl(s.hub, "get", "pods", "-n", namespace, "-o=jsonpath={.items[*].metadata.name}"))
		holders := map[string]bool{}
		for line := range strings.Lines(s.kubectl(s.hub, "get", "lease", "-n", namespace, byHolder,
			`-o=jsonpath={range .items[*]}{.spec.holderIdentity}{"\n"}{end}`)) {
			incarnation := strings.TrimSpace(line)
			pod := incarnation[:max(0, strings.LastIndexByte(incarnation, '-'))]
			if !slices.Contains(pods, pod) {
				return fmt.Errorf("a shard is held by %q, and the Pods are %q", pod, pods)
			}
			holders[pod] = true
		}
		if len(holders) != n {
			return fmt.Errorf("the replicas with shards are %v, want %d", holders, n)
		}
		for _, name := range []string{first, second} {
			if s.field(name, "{.status.runner.name}") == "" {
				return errors.New(name + " has no runner")
			}
		}
		return nil
	})
	s.ready()
}

// allActive are the lines of docs/operating.md for three replicas that all work.
const allActive = `replicas: [{name: clusterfx-hub, count: 3}]
patches:
- target: {kind: Deployment, name: clusterfx-hub}
  patch: '[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--active-replicas=0"}]'
`

// share lets three replicas share the remotes, kills the one that runs a remote, and goes back to one active replica of two.
func (s *installation) share() string {
	there := s.change(allActive)
	s.expectReplicas(3)
	s.summary.show("kubectl get lease", s.kubectl(s.hub, "get", "lease", "-n", namespace, byHolder))
	epoch := s.field(first, "{.status.runner.epoch}")
	begin := time.Now()
	s.killPod(s.field(first, "{.status.runner.name}"))
	s.kubectl(s.hub, "patch", "configmap", "greeting", "-n", "default", "-p", `{"data":{"text":"one of three hubs"}}`)
	eventually(s.t, func() error {
		if now := s.field(first, "{.status.runner.epoch}"); now == epoch {
			return errors.New("the killed replica still has the remote")
		}
		return nil
	})
	s.ready()
	took := time.Since(begin)
	for _, name := range []string{first, second} {
		expect(s.t, "one of three hubs", func() string { return s.greeting(s.remote(name)) })
	}
	s.expectReplicas(3)
	back := s.change()
	s.expectReplicas(1)
	return fmt.Sprintf("three replicas after %.0f s; a killed one is replaced after %.0f s; back to one after %.0f s",
		there.Seconds(), took.Seconds(), back.Seconds())
}

// removeFinalizers removes what keeps the namespace of a hub, as docs/operating.md says.
func (s *installation) removeFinalizers() {
	s.t.Helper()
	s.kubectl(s.hub, "scale", "deployment", "clusterfx-hub", "-n", namespace, "--replicas=0")
	s.kubectl(s.hub, "wait", "--for=delete", "pod", "-n", namespace, "-l", "app.kubernetes.io/name=clusterfx", "--timeout", soon.String())
	records := s.kubectl(s.hub, "get", "leases", "-n", namespace, "-l", "clusterfx.dev/sharding=record", "-o", "name")
	s.kubectl(s.hub, append([]string{
		"patch", "-n", namespace, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`,
	}, strings.Fields(records)...)...)
}
