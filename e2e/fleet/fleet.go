// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// startTimeout is for a Create or Restart without an earlier deadline. Several API servers that start at once share the
// processors of a small machine.
const startTimeout = 5 * time.Minute

// Provider is a way of running clusters.
type Provider string

const (
	// Processes of this machine: kube-apiserver and etcd. The default.
	Processes Provider = "processes"
	// Kind runs clusters with real nodes in Docker.
	Kind Provider = "kind"
)

// Options configure a fleet. The zero Options are good for a test.
type Options struct {
	Provider Provider
	// Dir has data, logs and keys. It must be empty, and Close removes it. Default: a new temporary folder.
	Dir string
	// ControllerManager runs in each cluster (in Kind always). Default: none, and so no garbage collection and no
	// deletion of namespaces.
	ControllerManager bool
	// Addresses are further ones of the API servers, such as 127.0.1.1; see At. Processes only. Default: 127.0.0.1.
	Addresses []netip.Addr
	// APIServerFlags are further flags, as --name=value, which override the fleet's. File names are relative to the
	// cluster's Dir. Processes only.
	APIServerFlags []string
	// Audit logs every request, some 1.5 KB each; see Cluster.AuditEvents. Processes only. Default: no.
	Audit bool
	// Image is the node image of Kind. Default: that of kind's release.
	Image string
	// Log gets a line for each step that takes time. Default: discarded.
	Log io.Writer
}

// A Fleet is a set of clusters that start, stop and are cleaned up together. It is safe for many goroutines.
type Fleet struct {
	options  Options
	provider provider

	// closing: clusters that are starting give up.
	closing chan struct{}
	// starting are calls of Create that Close waits for.
	starting sync.WaitGroup

	// mu is never held while something starts.
	mu sync.Mutex
	// A cluster that is starting is nil.
	clusters map[string]*Cluster
	closed   bool
}

type provider interface {
	// create starts a cluster in r.dir, which exists.
	create(ctx context.Context, r request) (*Cluster, error)
	// close stops what clusters share, after them, and waits.
	close(ctx context.Context) error
}

type request struct {
	name, dir string
	// version of kube-apiserver; empty for that of the fleet.
	version string
	flags   []string
}

// New returns an empty fleet; with Processes it starts their etcd. ctx bounds New, not the fleet.
func New(ctx context.Context, o Options) (*Fleet, error) {
	if o.Provider == "" {
		o.Provider = Processes
	}
	o.Log = newLog(o.Log)
	isTemporary := o.Dir == ""
	if err := makeDir(&o); err != nil {
		return nil, fmt.Errorf("make the fleet's folder: %w", err)
	}
	f := &Fleet{options: o, closing: make(chan struct{}), clusters: map[string]*Cluster{}}
	var err error
	if f.provider, err = newProvider(ctx, o, isTemporary); err != nil {
		return nil, errors.Join(err, os.RemoveAll(o.Dir))
	}
	return f, nil
}

func makeDir(o *Options) (err error) {
	if o.Dir == "" {
		o.Dir, err = os.MkdirTemp("", "clusterfx-fleet-")
		return err
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	found, err := os.ReadDir(o.Dir)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("%s is not empty, another fleet may live there: use another folder", o.Dir)
	}
	return err
}

func newProvider(ctx context.Context, o Options, isTemporary bool) (provider, error) {
	switch o.Provider {
	case Processes:
		return startProcesses(ctx, o, isTemporary)
	case Kind:
		return startKind(ctx, o)
	default:
		return nil, fmt.Errorf("unknown provider %q: use %q or %q", o.Provider, Processes, Kind)
	}
}

// validName: a name becomes a folder, an etcd prefix and a host name.
var validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`)

// Create returns a cluster when its API server is ready and has the namespaces default and kube-system. For flags see
// Options.APIServerFlags. A name has at most 40 lower-case letters, digits and dashes. A failed cluster leaves its
// logs, and its name to the next try.
func (f *Fleet) Create(ctx context.Context, name string, flags ...string) (*Cluster, error) {
	return f.create(ctx, request{name: name, flags: flags})
}

func (f *Fleet) create(ctx context.Context, r request) (*Cluster, error) {
	name := r.name
	if err := f.reserve(name); err != nil {
		return nil, err
	}
	defer f.starting.Done()
	begin := time.Now()
	ctx, cancel := f.startContext(ctx)
	defer cancel()
	r.flags = slices.Concat(f.options.APIServerFlags, r.flags)
	c, err := f.start(ctx, r)
	if err != nil {
		f.giveUp(name)
		return nil, fmt.Errorf("create cluster %s: %w", name, err)
	}
	f.logf("cluster %s is ready at %s after %.1fs", name, c.Server(), time.Since(begin).Seconds())
	return c, nil
}

func (f *Fleet) start(ctx context.Context, r request) (*Cluster, error) {
	r.dir = filepath.Join(f.options.Dir, r.name)
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return nil, err
	}
	c, err := f.provider.create(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := f.add(c); err != nil {
		return nil, errors.Join(err, c.destroy(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// startContext ends after a while, and when the fleet is closed.
func (f *Fleet) startContext(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := startTimeout
	if f.options.Provider == Kind {
		timeout = kindStartTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	ctx, fail := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-f.closing:
			fail(errClosed)
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

var errClosed = errors.New("the fleet is closed")

// reserve claims a name, and holds up Close.
func (f *Fleet) reserve(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("%q cannot be the name of a cluster: use up to 40 of a-z, 0-9 and -", name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errClosed
	}
	if _, taken := f.clusters[name]; taken {
		return fmt.Errorf("the fleet has a cluster named %s already", name)
	}
	f.clusters[name] = nil
	f.starting.Add(1)
	return nil
}

func (f *Fleet) giveUp(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.clusters, name)
}

func (f *Fleet) add(c *Cluster) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errClosed
	}
	f.clusters[c.Name()] = c
	return nil
}

// Cluster may return nil, also while the cluster starts.
func (f *Fleet) Cluster(name string) *Cluster {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clusters[name]
}

// Clusters are those that have started, by name.
func (f *Fleet) Clusters() []*Cluster {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*Cluster
	for _, c := range f.clusters {
		if c != nil {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *Cluster) int { return strings.Compare(a.Name(), b.Name()) })
	return all
}

// Dir has a folder per cluster, with its keys, kubeconfig and logs.
func (f *Fleet) Dir() string { return f.options.Dir }

// Close ends all clusters and their processes, and removes the files. It may be called again.
func (f *Fleet) Close(ctx context.Context) error {
	f.mu.Lock()
	done := f.closed
	f.closed = true
	f.mu.Unlock()
	if done {
		return nil
	}
	close(f.closing)
	f.starting.Wait()
	clusters := f.Clusters()
	errs := make([]error, len(clusters))
	var ending sync.WaitGroup
	for i, c := range clusters {
		ending.Go(func() { errs[i] = c.destroy(ctx) })
	}
	ending.Wait()
	return errors.Join(append(errs, f.provider.close(ctx), os.RemoveAll(f.options.Dir))...)
}

func (f *Fleet) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(f.options.Log, format+"\n", args...)
}
