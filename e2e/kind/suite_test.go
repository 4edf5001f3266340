// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package kind_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/internal/testkit"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
)

const (
	namespace = "clusterfx-system"
	stock     = "hub"
	own       = "podcount"
	first     = "edge-one"
	second    = "edge-two"

	// soon is the timeout for operations that take seconds on an idle machine.
	soon = 2 * time.Minute
	// commandTimeout is the time after which a hanging program is killed.
	commandTimeout = 15 * time.Minute
)

// installation is the installation that the steps share.
type installation struct {
	t       *testing.T // of the step
	root    string     // of the repository
	dir     string     // for binaries, kubeconfigs and manifests
	fleet   *fleet.Fleet
	hub     *fleet.Cluster
	images  map[string]string
	before  map[string]string // by remote, the objects before its registration
	summary *summary
	tool    string
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "docker", "version").CombinedOutput(); err != nil {
		t.Fatalf("these tests need a Docker daemon that this user may use: %v: %s", err, out)
	}
	root, err := filepath.Abs("../..")
	testkit.Must(t, err)
	kubectl, err := fleet.Binary("kubectl")
	testkit.Must(t, err)
	return &installation{
		root: root, dir: t.TempDir(), tool: kubectl, summary: &summary{},
		fleet:  fleettest.New(t, fleet.Options{Provider: fleet.Kind, Image: os.Getenv("KIND_NODE_IMAGE")}),
		images: map[string]string{}, before: map[string]string{},
	}
}

func (s *installation) remote(name string) *fleet.Cluster { return s.fleet.Cluster(name) }

// kubeconfig returns the path of an administrator's kubeconfig.
func kubeconfig(c *fleet.Cluster) string { return filepath.Join(c.Dir(), "admin.kubeconfig") }

func (s *installation) run(program string, args ...string) string {
	s.t.Helper()
	out, err := s.try(program, args...)
	testkit.Must(s.t, err)
	return out
}

func (s *installation) try(program string, args ...string) (string, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.root, &stdout, &stderr
	cmd.Env = append(os.Environ(), "KUBECACHEDIR="+s.dir)
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s",
			filepath.Base(program), strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

func (s *installation) kubectl(c *fleet.Cluster, args ...string) string {
	s.t.Helper()
	return s.run(s.tool, append([]string{"--kubeconfig", kubeconfig(c)}, args...)...)
}

// program runs a program of this repository against the hub.
func (s *installation) program(name string, args ...string) string {
	s.t.Helper()
	return s.run(filepath.Join(s.dir, name), append(args, "--kubeconfig", kubeconfig(s.hub))...)
}

// field returns a field of the Cluster of a remote.
func (s *installation) field(name, path string) string {
	s.t.Helper()
	return s.kubectl(s.hub, "get", "clusters.clusterfx.dev", name, "-o", "jsonpath="+path)
}

var eventually = testkit.Eventually

func expect(t *testing.T, want string, got func() string) {
	t.Helper()
	eventually(t, func() error {
		if got := got(); got != want {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
}

// explain logs the state of the management cluster after a failed step.
func (s *installation) explain() {
	s.t.Helper()
	if !s.t.Failed() || s.hub == nil {
		return
	}
	for _, args := range [][]string{
		{"get", "pods", "-A", "-o", "wide"},
		{"get", "clusters.clusterfx.dev", "-o", "yaml"},
		{"get", "events", "-A"},
		{"logs", "-n", namespace, "-l", "app.kubernetes.io/component=hub", "--tail=60", "--prefix"},
	} {
		out, err := s.try(s.tool, append([]string{"--kubeconfig", kubeconfig(s.hub)}, args...)...)
		s.t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func whoami(t *testing.T, c *fleet.Cluster, token string) error {
	t.Helper()
	config := rest.AnonymousClientConfig(c.Config())
	config.BearerToken = token
	client, err := kubernetes.NewForConfig(config)
	testkit.Must(t, err)
	_, err = client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	return err
}
