// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package kind_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func (s *installation) startClusters() string {
	for _, name := range []string{"hub", first, second} {
		if _, err := s.fleet.Create(s.t.Context(), name); err != nil {
			s.t.Fatal(err)
		}
	}
	s.hub = s.fleet.Cluster("hub")
	s.summary.version("Go", runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH)
	s.summary.version("Docker", s.run("docker", "version", "--format", "{{.Server.Version}}"))
	s.summary.version("Kubernetes, all three", s.kubectl(s.hub, "get", "nodes", "-o", "jsonpath={.items[0].status.nodeInfo.kubeletVersion}"))
	s.summary.version("container runtime", s.kubectl(s.hub, "get", "nodes", "-o", "jsonpath={.items[0].status.nodeInfo.containerRuntimeVersion}"))
	s.summary.version("processors", fmt.Sprint(runtime.NumCPU()))
	return ""
}

func (s *installation) loadImages() string {
	s.images[stock] = os.Getenv("HUB_IMAGE")
	s.build(stock, "./cmd/hub")
	s.build(own, "./examples/podcount")
	for _, image := range s.images {
		testkit.Must(s.t, s.hub.LoadImage(s.t.Context(), image))
	}
	s.summary.version("hub", s.run("docker", "run", "--rm", s.images[stock], "version"))
	return fmt.Sprintf("%s, %s", s.images[stock], s.size(s.images[stock]))
}

// build compiles a program for this machine and, unless there is an image, builds an image that contains nothing else.
func (s *installation) build(name, pkg string) {
	s.t.Helper()
	binary := filepath.Join(s.dir, name)
	s.run("env", "CGO_ENABLED=0", "go", "build", "-tags=nodev", "-trimpath", "-ldflags=-s -w", "-o", binary, pkg)
	if s.images[name] != "" {
		return
	}
	s.images[name] = "clusterfx.test/" + name + ":e2e"
	context := s.t.TempDir()
	testkit.Must(s.t, errors.Join(os.Mkdir(filepath.Join(context, "bin"), 0o755), os.Link(binary, filepath.Join(context, "bin", "hub"))))
	// The files that hub new module writes for a custom hub.
	for _, file := range []string{"Dockerfile", ".dockerignore"} {
		text, err := os.ReadFile(filepath.Join(s.root, "examples", "quota", file))
		testkit.Must(s.t, err)
		write(s.t, filepath.Join(context, file), string(text))
	}
	s.run("docker", "build", "--build-arg", "BASE=scratch", "-t", s.images[name], context)
}

func (s *installation) size(image string) string {
	s.t.Helper()
	out := s.run("sh", "-c", "docker save "+image+" | gzip -9 | wc -c")
	var n float64
	if _, err := fmt.Sscan(out, &n); err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf("%.1f MB compressed", n/1e6)
}

// overlay writes a kustomization with the image of a program and more lines, as a user of the manifests does, and returns its folder.
func (s *installation) overlay(program string, more ...string) string {
	s.t.Helper()
	dir := filepath.Join(s.dir, "overlay")
	testkit.Must(s.t, os.MkdirAll(dir, 0o755))
	config, err := filepath.Rel(dir, filepath.Join(s.root, "config"))
	testkit.Must(s.t, err)
	text := fmt.Sprintf("resources: [%s/default]\n", config) + strings.Join(more, "")
	name, tag := s.images[program], "latest"
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name, tag = name[:i], name[i+1:]
	}
	text += fmt.Sprintf("images:\n- name: ghcr.io/clusterfx/hub\n  newName: %s\n  newTag: %q\n", name, tag)
	write(s.t, filepath.Join(dir, "kustomization.yaml"), text)
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o644))
}

func (s *installation) deploy() string {
	s.kubectl(s.hub, "apply", "--server-side", "-k", s.overlay(stock))
	s.rollout()
	s.summary.show("hub check", s.program(stock, "check"))
	return s.kubectl(s.hub, "get", "deployment", "-n", namespace, "clusterfx-hub",
		"-o", "jsonpath={.status.readyReplicas} of {.spec.replicas} Pods ready")
}

// rollout waits until all Pods of the hub have the last change.
func (s *installation) rollout() {
	s.t.Helper()
	s.kubectl(s.hub, "rollout", "status", "deployment/clusterfx-hub", "-n", namespace, "--timeout", soon.String())
}

func (s *installation) register() string {
	for _, name := range []string{first, second} {
		remote := s.remote(name)
		s.before[name] = s.accounts(remote)
		s.registerWith(stock, remote)
	}
	s.ready()
	s.summary.show("kubectl get fxc", s.kubectl(s.hub, "get", "fxc"))
	return ""
}

// registerWith registers a remote, or updates its permissions for the modules of another program.
func (s *installation) registerWith(program string, remote *fleet.Cluster) {
	s.t.Helper()
	server, err := remote.InsideServer()
	testkit.Must(s.t, err)
	s.program(program, "register", remote.Name(), "--yes", "--cluster-server", server, "--cluster-kubeconfig", kubeconfig(remote))
}

// accounts lists the ServiceAccounts, Secrets, roles and bindings of a cluster.
func (s *installation) accounts(c *fleet.Cluster) string {
	s.t.Helper()
	return s.kubectl(c, "get", "serviceaccounts,secrets,roles,rolebindings,clusterroles,clusterrolebindings", "-A", "-o", "name")
}

// ready waits until all Clusters are Ready, as a script of a user does.
func (s *installation) ready() {
	s.t.Helper()
	s.kubectl(s.hub, "wait", "--for=condition=Ready", "clusters.clusterfx.dev", "--all", "--timeout", soon.String())
}

func (s *installation) inventory() string {
	for _, name := range []string{first, second} {
		expect(s.t, "1 1", func() string { return s.field(name, "{.status.inventory.nodes} {.status.inventory.readyNodes}") })
	}
	return "status.inventory: nodes 1, readyNodes 1"
}

func (s *installation) deregister() string {
	for _, name := range []string{first, second} {
		remote := s.remote(name)
		s.program(own, "deregister", name, "--yes", "--cluster-kubeconfig", kubeconfig(remote))
		testkit.Equal(s.t, s.accounts(remote), s.before[name], "accounts after deregistration in", name)
	}
	testkit.Equal(s.t, s.kubectl(s.hub, "get", "clusters.clusterfx.dev,secrets", "-n", namespace, "-o", "name"), "", "objects left in the hub")
	return "the same ServiceAccounts, Secrets, roles and bindings as before; no Cluster and no Secret in the hub"
}

func (s *installation) remove() string {
	s.removeFinalizers()
	s.kubectl(s.hub, "delete", "-k", s.overlay(stock), "--timeout", soon.String())
	left := s.kubectl(s.hub, "get", "clusterroles,clusterrolebindings,customresourcedefinitions,namespaces", "-o", "name")
	if strings.Contains(left, "clusterfx") {
		s.t.Errorf("objects of clusterfx left in the management cluster:\n%s", left)
	}
	return ""
}
