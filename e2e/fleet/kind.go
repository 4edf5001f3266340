// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	kind "sigs.k8s.io/kind/pkg/cluster"
	kindnodes "sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
)

const (
	// For a whole node.
	kindStartTimeout = 10 * time.Minute
	// It is the part that kind waits for the node.
	kindNodeTimeout = 5 * time.Minute
)

type kinds struct {
	options Options
	kind    *kind.Provider
}

var _ provider = (*kinds)(nil)

func startKind(ctx context.Context, o Options) (provider, error) {
	if len(o.Addresses) > 0 || len(o.APIServerFlags) > 0 || o.Audit {
		return nil, errors.New("addresses, API server flags and audit logs are for processes: the kind provider has none")
	}
	if _, err := docker(ctx, "version"); err != nil {
		return nil, fmt.Errorf("the kind provider needs Docker: %w", err)
	}
	return &kinds{
		options: o,
		kind:    kind.NewProvider(kind.ProviderWithDocker(), kind.ProviderWithLogger(kindLog{o.Log})),
	}, nil
}

// kind cannot be interrupted after it has begun; the later steps can.
func (k *kinds) create(ctx context.Context, r request) (*Cluster, error) {
	if len(r.flags) > 0 {
		return nil, errors.New("API server flags are for processes: the kind provider has none")
	}
	// Containers have names for the whole machine, and another fleet may use the same ones.
	node := &kindNode{
		provider: k,
		name:     "fleet-" + strings.ToLower(rand.Text()[:6]) + "-" + r.name,
		dir:      r.dir,
	}
	var err error
	if node.release, err = guard("docker", "rm", "-f", "-v", node.container()); err != nil {
		return nil, err
	}
	c, err := k.run(ctx, r.name, node)
	if err != nil {
		return nil, errors.Join(err, node.destroy(context.WithoutCancel(ctx)))
	}
	return c, nil
}

func (k *kinds) run(ctx context.Context, name string, node *kindNode) (*Cluster, error) {
	options := []kind.CreateOption{
		kind.CreateWithKubeconfigPath(node.kubeconfig()),
		kind.CreateWithWaitForReady(kindNodeTimeout),
		kind.CreateWithDisplayUsage(false),
		kind.CreateWithDisplaySalutation(false),
	}
	if k.options.Image != "" {
		options = append(options, kind.CreateWithNodeImage(k.options.Image))
	}
	if err := k.kind.Create(node.name, options...); err != nil {
		return nil, err
	}
	for _, file := range []string{caCertFile, caKeyFile, tokenKeyFile} {
		data, err := docker(ctx, "exec", node.container(), "cat", "/etc/kubernetes/pki/"+file)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(node.dir, file), data, 0o600); err != nil {
			return nil, err
		}
	}
	port, err := node.port()
	if err != nil {
		return nil, err
	}
	authority, err := loadAuthority(node.dir)
	if err != nil {
		return nil, err
	}
	c, err := newCluster(Loan{Dir: node.dir, Name: name, Port: port}, authority)
	if err != nil {
		return nil, err
	}
	c.machine, node.cluster = node, c
	return c, node.ready(ctx)
}

func (k *kinds) close(context.Context) error { return nil }

type kindNode struct {
	provider  *kinds
	cluster   *Cluster
	name, dir string
	release   func() // tells the guard that the node was removed
}

var _ machine = (*kindNode)(nil)

func (n *kindNode) container() string { return n.name + "-control-plane" }

func (n *kindNode) kubeconfig() string { return filepath.Join(n.dir, "kind.kubeconfig") }

// port is the same after a restart.
func (n *kindNode) port() (int, error) {
	server, err := n.apiServer(false)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(server.Port())
}

// apiServer is what kind writes into kubeconfigs.
func (n *kindNode) apiServer(inside bool) (*url.URL, error) {
	text, err := n.provider.kind.KubeConfig(n.name, inside)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.Load([]byte(text))
	if err != nil {
		return nil, err
	}
	for _, cluster := range config.Clusters {
		return url.Parse(cluster.Server)
	}
	return nil, errors.New("kind's kubeconfig has no cluster")
}

func (n *kindNode) ready(ctx context.Context) error {
	alive := func() error { return nil }
	if err := n.cluster.awaitReady(ctx, alive); err != nil {
		return err
	}
	return n.cluster.awaitServiceAccount(ctx, alive)
}

func (n *kindNode) start(ctx context.Context) error {
	if _, err := docker(ctx, "start", n.container()); err != nil {
		return err
	}
	return n.ready(ctx)
}

func (n *kindNode) stop(ctx context.Context) error {
	_, err := docker(ctx, "stop", n.container())
	return err
}

func (n *kindNode) kill() error {
	ctx, cancel := obeyContext()
	defer cancel()
	running, err := docker(ctx, "inspect", "--format", "{{.State.Running}}", n.container())
	if err != nil || strings.TrimSpace(string(running)) != "true" {
		return err
	}
	_, err = docker(ctx, "kill", n.container())
	return err
}

func (n *kindNode) freeze(frozen bool) error {
	ctx, cancel := obeyContext()
	defer cancel()
	action := "unpause"
	if frozen {
		action = "pause"
	}
	_, err := docker(ctx, action, n.container())
	return err
}

// load brings an image of this machine to the nodes.
func (n *kindNode) load(ctx context.Context, image string) error {
	all, err := n.provider.kind.ListNodes(n.name)
	if err != nil {
		return err
	}
	for _, node := range all {
		if err := copyImage(ctx, image, node); err != nil {
			return err
		}
	}
	return nil
}

func copyImage(ctx context.Context, image string, node kindnodes.Node) error {
	cmd := exec.CommandContext(ctx, "docker", "save", image)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	archive, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	loaded := nodeutils.LoadImageArchive(node, archive)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("docker save: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return loaded
}

func (n *kindNode) destroy(context.Context) error {
	if err := n.provider.kind.Delete(n.name, n.kubeconfig()); err != nil {
		return err
	}
	n.release()
	return nil
}

func docker(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "docker", args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("docker %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}
