// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

const shardCount = 16

func timing() shards.Timing {
	return shards.Timing{Duration: 10 * time.Second, Deadline: 7 * time.Second, Retry: 1500 * time.Millisecond}
}

func present() shards.Instant { return shards.Instant{Monotonic: time.Now(), Wall: time.Now()} }

// model is an installation in memory, of replicas with the real shards.Machine and the real Auditor.
type model struct {
	t     *testing.T
	ctx   context.Context //nolint:containedctx // of all replicas
	began time.Time

	mu       sync.Mutex // protects everything below, and the machines
	version  int
	nodes    map[string]*node
	leases   map[string]shards.Lease
	records  []shards.Record
	clusters []*hubv1.Cluster // in the order of their names
	marks    []mark
	reads    int
	fails    error  // of the next writes
	spoils   string // the name of a Cluster whose writes fail, and of a runner whose Lease cannot be read
}

type mark struct {
	cluster, by string
	after       time.Duration
}

type node struct {
	*model
	name    string
	machine *shards.Machine
	auditor *Auditor
	dead    bool
	blind   bool // its watch of Leases stands still
	waits   bool // until it may claim its Lease
	thawed  chan struct{}
	logs    []string
}

// run runs a test with three replicas and that many Clusters, which all are Ready. The replicas hold one shard after the other.
func run(t *testing.T, clusters int, test func(*model)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := &model{t: t, ctx: ctx, nodes: map[string]*node{}, leases: map[string]shards.Lease{}, records: make([]shards.Record, shardCount)}
		names := []string{"a", "b", "c"}
		for _, name := range names {
			m.nodes[name] = m.newNode(name)
		}
		for shard := range m.records {
			m.take(shard, names[shard%len(names)])
		}
		for i := range clusters {
			m.clusters = append(m.clusters, m.newCluster(i))
		}
		var running sync.WaitGroup
		for _, n := range m.nodes {
			running.Go(func() { n.renew() })
			running.Go(func() { _ = n.auditor.Start(ctx) })
		}
		m.pass(30 * time.Second)
		m.began = time.Now()
		test(m)
		cancel()
		for _, n := range m.nodes {
			n.thaw()
		}
		running.Wait()
	})
}

func (m *model) newNode(name string) *node {
	me := shards.Holder{Name: name, Incarnation: name + "1"}
	n := &node{model: m, name: name, machine: shards.New(me, shardCount, timing()), thawed: make(chan struct{})}
	close(n.thawed)
	log := funcr.New(func(_, args string) { n.logs = append(n.logs, args) }, funcr.Options{})
	n.auditor = newAuditor(n, log, n.list, n.write)
	n.machine.SeeOwn(shards.Lease{}, shards.Instant{})
	return n
}

func (m *model) newCluster(i int) *hubv1.Cluster {
	uid := types.UID(fmt.Sprintf("%x", sha256.Sum256([]byte(strconv.Itoa(i))))) // as random as a real one
	record := m.records[shards.Of(uid, shardCount)]
	return &hubv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%03d", i), UID: uid, ResourceVersion: m.next()},
		Status: hubv1.ClusterStatus{
			Runner:     hubv1.RunnerStatus{Name: record.Holder.Name, Epoch: int32(record.Epoch)},
			Conditions: []metav1.Condition{{Type: hubv1.ConditionReady, Status: metav1.ConditionTrue, Reason: hubv1.ReasonReady}},
		},
	}
}

func (m *model) next() string {
	m.version++
	return strconv.Itoa(m.version)
}

// take gives a shard to a replica. The caller holds the lock, or nothing runs.
func (m *model) take(shard int, by string) {
	m.records[shard] = shards.Record{Holder: shards.Holder{Name: by, Incarnation: by + "1"}, Epoch: m.records[shard].Epoch + 1, Version: m.next()}
	for _, n := range m.nodes {
		n.machine.SeeRecord(shard, m.records[shard])
	}
}

func (m *model) takeAll(from, to string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for shard, r := range m.records {
		if r.Holder.Name == from {
			m.take(shard, to)
		}
	}
}

func (m *model) fence(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(name, shards.Lease{Version: m.next()})
}

func (m *model) put(name string, l shards.Lease) {
	m.leases[name] = l
	for _, n := range m.nodes {
		if !n.blind {
			n.machine.SeeLease(name, l, present())
		}
	}
}

func (m *model) report(by string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, c := range m.clusters {
		if r := m.records[shards.Of(c.UID, shardCount)]; r.Holder.Name == by {
			c = c.DeepCopy()
			c.ResourceVersion, c.Status.Runner = m.next(), hubv1.RunnerStatus{Name: by, Epoch: int32(r.Epoch)}
			m.clusters[i] = c
		}
	}
}

// of returns the names of the Clusters whose status names a runner.
func (m *model) of(runner string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for _, c := range m.clusters {
		if c.Status.Runner.Name == runner {
			names = append(names, c.Name)
		}
	}
	return names
}

// name writes a runner into the status of a Cluster. The caller holds the lock.
func (m *model) name(cluster, runner string) {
	i := slices.IndexFunc(m.clusters, func(c *hubv1.Cluster) bool { return c.Name == cluster })
	c := m.clusters[i].DeepCopy()
	c.ResourceVersion, c.Status.Runner.Name = m.next(), runner
	m.clusters[i] = c
}

func (m *model) uidOf(name string) types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.clusters, func(c *hubv1.Cluster) bool { return c.Name == name })
	return m.clusters[i].UID
}

func (m *model) pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

// kill ends a replica without a trace.
func (m *model) kill(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes[name].dead = true
}

// loseLease ends the incarnation of a replica, which waits for its Lease again.
func (n *node) loseLease() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waits, n.machine = true, n.newNode(n.name).machine
	delete(n.leases, n.name)
	for name, l := range n.leases {
		n.machine.SeeLease(name, l, present())
	}
	for shard, r := range n.records {
		n.machine.SeeRecord(shard, r)
	}
}

func (n *node) freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.thawed = make(chan struct{})
}

func (n *node) thaw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.thawed:
	default:
		close(n.thawed)
	}
}

// lock waits while the replica is frozen.
func (n *node) lock() {
	n.mu.Lock()
	thawed := n.thawed
	n.mu.Unlock()
	<-thawed
	n.mu.Lock()
}

func (n *node) renew() {
	for n.ctx.Err() == nil {
		n.lock()
		if n.dead {
			n.mu.Unlock()
			return
		}
		if !n.waits && !n.machine.Lost() && (n.leases[n.name].Version == "" || n.leases[n.name].Incarnation == n.name+"1") {
			l := shards.Lease{Incarnation: n.name + "1", Version: n.next()}
			n.machine.Renewed(l, present())
			n.put(n.name, l)
		}
		n.mu.Unlock()
		timer := time.NewTimer(timing().Retry)
		select {
		case <-timer.C:
		case <-n.ctx.Done():
		}
	}
}

// Observe implements Replicas. A dead replica knows nothing.
func (n *node) Observe() (o replica.Observation, ok bool) {
	n.lock()
	defer n.mu.Unlock()
	now := present()
	if n.dead || !n.machine.IsFresh(now) {
		return o, false
	}
	o = replica.Observation{Me: n.name, Duration: timing().Duration, Live: n.machine.Live(now)}
	for shard := range shardCount {
		o.Holders = append(o.Holders, n.machine.LiveHolder(shard, now))
	}
	return o, true
}

func (n *node) LeaseOf(name string) (shards.Lease, time.Time) {
	n.lock()
	defer n.mu.Unlock()
	l, since := n.machine.LeaseOf(name, present())
	return l, since.Monotonic
}

func (n *node) ReadLease(_ context.Context, name string) error {
	n.lock()
	defer n.mu.Unlock()
	n.reads++
	if name == n.spoils {
		return errors.New("the Lease cannot be read")
	}
	n.machine.SeeLease(name, n.leases[name], present())
	return nil
}

func (n *node) list(context.Context) ([]hubv1.Cluster, error) {
	n.lock()
	defer n.mu.Unlock()
	var all []hubv1.Cluster
	for _, c := range n.clusters {
		all = append(all, *c)
	}
	return all, nil
}

func (n *node) write(_ context.Context, cluster *hubv1.Cluster, message string) error {
	n.lock()
	defer n.mu.Unlock()
	if n.fails != nil {
		return n.fails
	}
	if cluster.Name == n.spoils {
		return errors.New("the Cluster cannot be written")
	}
	i := slices.IndexFunc(n.clusters, func(c *hubv1.Cluster) bool { return c.UID == cluster.UID })
	if n.clusters[i].ResourceVersion != cluster.ResourceVersion {
		return apierrors.NewConflict(schema.GroupResource{Resource: "clusters"}, cluster.Name, nil)
	}
	c := n.clusters[i].DeepCopy()
	c.ResourceVersion = n.next()
	meta.SetStatusCondition(&c.Status.Conditions, marked(cluster, message))
	n.clusters[i] = c
	n.marks = append(n.marks, mark{cluster: c.Name, by: n.name, after: time.Since(n.began)})
	return nil
}

func (m *model) written() []mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.marks)
}

// expectMarked fails the test unless exactly these Clusters have been marked, each once, within a time.
func (m *model) expectMarked(within time.Duration, names ...string) {
	m.t.Helper()
	var got []string
	by, all := map[string]int{}, m.written()
	for _, one := range all {
		got = append(got, one.cluster)
		by[one.by]++
		if one.after > within {
			m.t.Errorf("%s was marked after %s", one.cluster, one.after)
		}
	}
	slices.Sort(got)
	if strings.Join(got, " ") != strings.Join(names, " ") {
		m.t.Errorf("marked are %v, want %v", got, names)
	}
	if len(all) > 0 {
		m.t.Logf("the last mark after %s, by replica %v", all[len(all)-1].after, by)
	}
}

// refusals returns the passes of a replica that marked nothing, because too many were to be marked.
func (n *node) refusals() float64 { return testutil.ToFloat64(n.auditor.refusals) }
