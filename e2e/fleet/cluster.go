// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A Cluster is one running cluster of a Fleet. It is safe for many goroutines, but change its state (Stop, Kill, Pause,
// Resume, Restart) in one at a time.
type Cluster struct {
	loan      Loan
	authority *authority
	admin     access
	kube      *clientset.Clientset // the administrator's; it leaves no connection behind
	machine   machine
	chores    chores
}

const adminName = "clusterfx-fleet-admin"

const adminKubeconfig = "admin.kubeconfig"

// newCluster writes the administrator's kubeconfig into the folder. The provider adds the machine.
func newCluster(l Loan, authority *authority) (*Cluster, error) {
	admin := access{
		cluster: l.Name,
		user:    adminName,
		server:  fmt.Sprintf("https://127.0.0.1:%d", l.Port),
		ca:      authority.caPEM,
	}
	cert, key, err := authority.client(admin.user, []string{"system:masters"}, authority.ca.NotAfter)
	if err != nil {
		return nil, err
	}
	admin.cert, admin.key = cert, key
	if err := os.WriteFile(filepath.Join(l.Dir, adminKubeconfig), admin.kubeconfig(), 0o600); err != nil {
		return nil, err
	}
	client, err := admin.httpClient()
	if err != nil {
		return nil, err
	}
	kube, err := clientset.NewForConfigAndClient(admin.config(), client)
	return &Cluster{loan: l, authority: authority, admin: admin, kube: kube}, err
}

// machine is the provider's part of a cluster.
type machine interface {
	// start returns when the API server is ready.
	start(ctx context.Context) error
	stop(ctx context.Context) error
	freeze(frozen bool) error
	// kill returns when everything is gone.
	kill() error
	destroy(ctx context.Context) error
}

// node is that of a cluster which runs Pods.
func (c *Cluster) node() (*kindNode, error) {
	if node, ok := c.machine.(*kindNode); ok {
		return node, nil
	}
	return nil, errors.New("a cluster of processes has no nodes that run Pods: use the kind provider")
}

// Name returns the name that the cluster was created with.
func (c *Cluster) Name() string { return c.loan.Name }

// Dir has the cluster's keys, its admin.kubeconfig and logs.
func (c *Cluster) Dir() string { return c.loan.Dir }

// Server returns the URL of the API server.
func (c *Cluster) Server() string { return c.admin.server }

// Kubeconfig is an administrator's (group system:masters). It names no file.
func (c *Cluster) Kubeconfig() []byte { return c.admin.kubeconfig() }

// Config is for the same administrator, without a rate limit; another copy each time.
func (c *Cluster) Config() *rest.Config { return c.admin.config() }

// InsideServer is the API server's URL for Pods of the fleet's other clusters. It fails for clusters of processes.
func (c *Cluster) InsideServer() (string, error) {
	n, err := c.node()
	if err != nil {
		return "", c.wrap("find the address of", err)
	}
	server, err := n.apiServer(true) // It names the container, which Docker's DNS resolves in kind's network; kind has CoreDNS ask it.
	if err != nil {
		return "", c.wrap("find the address of", err)
	}
	return server.String(), nil
}

// LoadImage copies an image from Docker to the nodes. For clusters of Kind only.
func (c *Cluster) LoadImage(ctx context.Context, image string) error {
	n, err := c.node()
	if err == nil {
		err = n.load(ctx, image)
	}
	return c.wrap("load "+image+" into", err)
}

// Stop terminates the processes and waits. The data stays. If ctx ends first, processes may still be ending.
func (c *Cluster) Stop(ctx context.Context) error {
	return c.wrap("stop", c.machine.stop(ctx))
}

// Kill ends the processes without notice, and returns when they are gone. The data stays.
func (c *Cluster) Kill() error { return c.wrap("kill", c.machine.kill()) }

// Pause freezes the cluster's processes: connections stay open and get no response.
func (c *Cluster) Pause() error { return c.wrap("pause", c.machine.freeze(true)) }

// Resume resumes a paused cluster.
func (c *Cluster) Resume() error { return c.wrap("resume", c.machine.freeze(false)) }

// Restart starts a stopped, killed or running cluster at the same address, with the same data and keys, and returns
// when the API server is ready.
func (c *Cluster) Restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.machine.kill(); err != nil {
		return c.wrap("restart", err)
	}
	return c.wrap("restart", c.machine.start(ctx))
}

func (c *Cluster) destroy(ctx context.Context) error {
	c.chores.stop()
	return c.wrap("close", c.machine.destroy(ctx))
}

func (c *Cluster) wrap(action string, err error) error {
	if err != nil {
		return fmt.Errorf("%s cluster %s: %w", action, c.Name(), err)
	}
	return nil
}
