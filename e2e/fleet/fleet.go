// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// startTimeout ends a Create or Restart whose context has no earlier deadline. It is long because
// several API servers that start at once on a small machine share its processors.
const startTimeout = 5 * time.Minute

// Provider names a way of running clusters.
type Provider string

const (
	// Processes runs kube-apiserver and etcd as processes of this machine. It is the default.
	Processes Provider = "processes"
	// Kind runs clusters with real nodes in Docker containers.
	Kind Provider = "kind"
)

// Options configure the fleet that New starts. The zero value is a good fleet for a test.
type Options struct {
	// Provider runs the clusters. Default: Processes.
	Provider Provider
	// Dir is the folder of data, logs and keys. It is created if it does not exist; files of a fleet whose process was
	// killed are removed. Default: a new folder for temporary files.
	Dir string
	// Keep leaves all files where they are when the fleet is closed, until another fleet uses Dir. Default: Close
	// removes the fleet's files.
	Keep bool
	// Detached lets the clusters outlive this process; Open finds them again. Default: they die
	// with this process, however it ends.
	Detached bool
	// ControllerManager runs a kube-controller-manager in each cluster (a kind cluster always has one). Default: no
	// controller manager, and therefore no garbage collection and no namespace deletion.
	ControllerManager bool
	// Addresses are further addresses that the API servers listen on and have certificates for, for
	// instance 127.0.1.1; see At. Processes only. Default: 127.0.0.1 alone.
	Addresses []netip.Addr
	// APIServerFlags are further flags of each kube-apiserver, in the form --name=value; they override the fleet's
	// flags. File names are relative to the cluster's Dir. Processes only. Default: none.
	APIServerFlags []string
	// Audit makes each kube-apiserver log every request, in some 1.5 KB for each;
	// Cluster.AuditEvents returns them. Processes only. Default: no audit log.
	Audit bool
	// Image is the node image of the Kind provider. Default: the image of kind's release.
	Image string
	// Log receives a line of text for each step that takes time. Default: discarded.
	Log io.Writer `json:"-"`
}

// A Fleet is a set of clusters that start, stop and are cleaned up together. Its methods may be
// called from several goroutines at once.
type Fleet struct {
	options  Options
	home     *home
	provider provider

	// closing is closed when Close begins: clusters that are starting give up.
	closing chan struct{}
	// starting counts the calls of Create that Close waits for.
	starting sync.WaitGroup

	// mu protects the fields below and the state's file; it is never held while something starts.
	mu sync.Mutex
	// clusters has a nil for each cluster that is starting.
	clusters map[string]*Cluster
	// failed are clusters that could not start: their folders are removed with the rest.
	failed []string
	closed bool
}

// newFleet returns a fleet that lacks a provider.
func newFleet(o Options, h *home) *Fleet {
	return &Fleet{options: o, home: h, closing: make(chan struct{}), clusters: map[string]*Cluster{}}
}

// provider starts clusters in one particular way.
type provider interface {
	// create starts a cluster whose files live in r.dir, which exists.
	create(ctx context.Context, r request) (*Cluster, error)
	// adopt returns a cluster that another process created.
	adopt(r record) (*Cluster, error)
	// close stops the shared parts of the clusters after the clusters, and waits.
	close(ctx context.Context) error
}

// request has the parameters of a cluster for a provider.
type request struct {
	name, dir string
	flags     []string
}

// New returns an empty fleet. With the Processes provider it also starts the etcd that its
// clusters share. The context bounds New itself, not the life of the fleet.
func New(ctx context.Context, o Options) (*Fleet, error) {
	if o.Provider == "" {
		o.Provider = Processes
	}
	o.Log = newLog(o.Log)
	home, err := claimHome(&o)
	if err != nil {
		return nil, err
	}
	f := newFleet(o, home)
	if f.provider, err = newProvider(ctx, o, home); err == nil {
		err = f.save()
	}
	if err != nil {
		return nil, errors.Join(err, f.abandon(ctx))
	}
	return f, nil
}

// newProvider starts the provider of o.
func newProvider(ctx context.Context, o Options, h *home) (provider, error) {
	switch o.Provider {
	case Processes:
		return startProcesses(ctx, o, h.temporary && !o.Keep)
	case Kind:
		return startKind(ctx, o)
	default:
		return nil, fmt.Errorf("unknown provider %q: use %q or %q", o.Provider, Processes, Kind)
	}
}

// validName matches the names of clusters: a name becomes a folder, an etcd prefix and a host name.
var validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`)

// Create starts a cluster and returns it when its API server is ready and has the namespaces
// default and kube-system. The flags are further flags of this cluster's kube-apiserver, see
// Options.APIServerFlags. A name is at most 40 lower-case letters, digits and dashes. A cluster
// that could not start leaves its logs, and its name to the next attempt.
func (f *Fleet) Create(ctx context.Context, name string, flags ...string) (*Cluster, error) {
	if err := f.reserve(name); err != nil {
		return nil, err
	}
	defer f.starting.Done()
	begin := time.Now()
	ctx, cancel := f.startContext(ctx)
	defer cancel()
	c, err := f.start(ctx, name, slices.Concat(f.options.APIServerFlags, flags))
	if err != nil {
		f.giveUp(name)
		return nil, fmt.Errorf("create cluster %s: %w", name, err)
	}
	f.logf("cluster %s is ready at %s after %.1fs", name, c.Server(), time.Since(begin).Seconds())
	return c, nil
}

// start is Create for a reserved name.
func (f *Fleet) start(ctx context.Context, name string, flags []string) (*Cluster, error) {
	r := request{name: name, dir: filepath.Join(f.home.path, name), flags: flags}
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

// startContext returns a context for something that starts: it ends after a while, and when the
// fleet is closed.
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

// errClosed means that the fleet is closed and starts nothing.
var errClosed = errors.New("the fleet is closed")

// reserve claims a name for a cluster that is about to start, and holds up Close.
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

// giveUp frees the name of a cluster that could not start.
func (f *Fleet) giveUp(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.clusters, name)
	f.failed = append(f.failed, name)
}

// add registers a started cluster.
func (f *Fleet) add(c *Cluster) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errClosed
	}
	f.clusters[c.name] = c
	return f.saveLocked()
}

// Cluster returns the cluster of that name, or nil if it does not exist or is still starting.
func (f *Fleet) Cluster(name string) *Cluster {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clusters[name]
}

// Clusters returns the clusters that have started, by name.
func (f *Fleet) Clusters() []*Cluster {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*Cluster
	for _, c := range f.clusters {
		if c != nil {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *Cluster) int { return strings.Compare(a.name, b.name) })
	return all
}

// Dir returns the folder with everything that the fleet wrote: a folder per cluster with its keys,
// its kubeconfig and the logs of its processes.
func (f *Fleet) Dir() string { return f.home.path }

// Close ends all clusters at once, waits until their processes are gone, and removes the fleet's files unless
// Options.Keep is set. Calling it again does nothing.
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
	return errors.Join(errors.Join(errs...), f.abandon(ctx))
}

// abandon stops the shared parts of the clusters and removes the fleet's files.
func (f *Fleet) abandon(ctx context.Context) error {
	var err error
	if f.provider != nil {
		err = f.provider.close(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	names := slices.AppendSeq(f.failed, maps.Keys(f.clusters))
	if f.options.Keep {
		// The kept files are not a fleet to open.
		f.options.Detached = false
		err = errors.Join(err, f.saveLocked())
	}
	return errors.Join(err, f.home.release(names, f.options.Keep))
}

// logf writes to the fleet's log.
func (f *Fleet) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(f.options.Log, format+"\n", args...)
}
