// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
)

// A Cluster is one running cluster of a Fleet. Its methods may be called from several goroutines at once, but the
// methods that change its state (Stop, Kill, Pause, Resume, Restart) only one at a time.
type Cluster struct {
	name      string
	dir       string
	authority *authority
	admin     access
	machine   machine
	chores    chores
	// record has the data that a later process needs to find the cluster again.
	record record
}

// adminName is the user of a cluster's own kubeconfig.
const adminName = "clusterfx-fleet-admin"

// adminKubeconfig is the name of the file with an administrator's kubeconfig, for kubectl.
const adminKubeconfig = "admin.kubeconfig"

// newCluster returns a cluster with an administrator, whose kubeconfig it writes into dir. The
// provider adds the machine.
func newCluster(dir string, r record, authority *authority) (*Cluster, error) {
	admin := access{
		cluster: r.Name,
		user:    adminName,
		server:  fmt.Sprintf("https://127.0.0.1:%d", r.Port),
		ca:      authority.caPEM,
	}
	cert, key, err := authority.client(admin.user, []string{"system:masters"}, authority.ca.NotAfter)
	if err != nil {
		return nil, err
	}
	admin.cert, admin.key = cert, key
	err = os.WriteFile(filepath.Join(dir, adminKubeconfig), admin.kubeconfig(), 0o600)
	return &Cluster{name: r.Name, dir: dir, authority: authority, admin: admin, record: r}, err
}

// machine is a provider's part of a cluster, which can be stopped and started.
type machine interface {
	// start starts the stopped parts and returns when the API server is ready.
	start(ctx context.Context) error
	// stop terminates all parts and waits.
	stop(ctx context.Context) error
	// freeze suspends all parts, or resumes them.
	freeze(frozen bool) error
	// kill ends everything without notice and returns when it is gone.
	kill() error
	// destroy kills running parts and frees the rest.
	destroy(ctx context.Context) error
}

// nodes is implemented by machines whose cluster runs Pods.
type nodes interface {
	// inside returns the URL of the API server for Pods of the fleet's other clusters.
	inside() (string, error)
	// load brings an image of this machine to the nodes.
	load(ctx context.Context, image string) error
}

// nodes returns the nodes of a cluster that has some.
func (c *Cluster) nodes() (nodes, error) {
	if nodes, ok := c.machine.(nodes); ok {
		return nodes, nil
	}
	return nil, errors.New("a cluster of processes has no nodes that run Pods: use the kind provider")
}

// Name returns the name that the cluster was created with.
func (c *Cluster) Name() string { return c.name }

// Dir returns the folder with the cluster's keys, its admin kubeconfig (admin.kubeconfig) and logs.
func (c *Cluster) Dir() string { return c.dir }

// Server returns the URL of the API server.
func (c *Cluster) Server() string { return c.admin.server }

// Kubeconfig returns a kubeconfig for an administrator (group system:masters). Keys and
// certificates are in it, it names no file.
func (c *Cluster) Kubeconfig() []byte { return c.admin.kubeconfig() }

// Config returns a client configuration for the same administrator, without a client-side rate limit. Each call returns
// another copy.
func (c *Cluster) Config() *rest.Config { return c.admin.config() }

// InsideServer returns the URL at which Pods of the fleet's other clusters reach the API server, which differs from the
// URL on this machine for a cluster of the Kind provider. Clusters of processes have no Pods: for them it returns an
// error.
func (c *Cluster) InsideServer() (string, error) {
	n, err := c.nodes()
	if err != nil {
		return "", c.wrap("find the address of", err)
	}
	server, err := n.inside()
	return server, c.wrap("find the address of", err)
}

// LoadImage copies an image from Docker on this machine to the nodes, so that Pods can run it without a registry. Only
// clusters of the Kind provider have it.
func (c *Cluster) LoadImage(ctx context.Context, image string) error {
	n, err := c.nodes()
	if err == nil {
		err = n.load(ctx, image)
	}
	return c.wrap("load "+image+" into", err)
}

// Stop terminates the cluster's processes, as on a shutdown of their machine, and waits for them. The data stays for
// Restart. If ctx ends first, processes may still be ending.
func (c *Cluster) Stop(ctx context.Context) error {
	return c.wrap("stop", c.machine.stop(ctx))
}

// Kill ends the cluster's processes without notice, as on a loss of power, and returns when they
// are gone. The data stays for Restart.
func (c *Cluster) Kill() error { return c.wrap("kill", c.machine.kill()) }

// Pause freezes the cluster's processes: connections stay open and get no response.
func (c *Cluster) Pause() error { return c.wrap("pause", c.machine.freeze(true)) }

// Resume resumes a paused cluster.
func (c *Cluster) Resume() error { return c.wrap("resume", c.machine.freeze(false)) }

// Restart starts a cluster that was stopped or killed, or restarts a running cluster: at the same address, with the
// same data and keys. It returns when the API server is ready.
func (c *Cluster) Restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.machine.kill(); err != nil {
		return c.wrap("restart", err)
	}
	return c.wrap("restart", c.machine.start(ctx))
}

// destroy ends the cluster permanently.
func (c *Cluster) destroy(ctx context.Context) error {
	c.chores.stop()
	return c.wrap("close", c.machine.destroy(ctx))
}

func (c *Cluster) wrap(action string, err error) error {
	if err != nil {
		return fmt.Errorf("%s cluster %s: %w", action, c.name, err)
	}
	return nil
}
