// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(fleettest.Main(m, fleettest.NoLeaks()))
}

var must = testkit.Must

type remotes struct {
	mu     sync.Mutex
	states map[registry.ClusterName]state.State
	await  func(registry.ClusterName) error
}

func (r *remotes) Status(name registry.ClusterName) (registry.Status, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, known := r.states[name]
	return registry.Status{Name: name, State: s}, known
}

func (r *remotes) set(name registry.ClusterName, s state.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states[name] = s
}

func (r *remotes) AwaitWrites(_ context.Context, name registry.ClusterName) error {
	if r.await == nil {
		return nil
	}
	return r.await(name)
}

func (r *remotes) List() []registry.Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []registry.Status
	for name, s := range r.states {
		all = append(all, registry.Status{Name: name, State: s})
	}
	return all
}

// journal is the journal of a test. It notes what is taken and let go.
type journal struct {
	mu      sync.Mutex
	notes   []string
	failing func(context.Context) error // of a Take
}

func (j *journal) note(has func(types.UID) bool, format string, a ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !has("any") {
		format += " of nothing"
	}
	j.notes = append(j.notes, fmt.Sprintf(format, a...))
}

func (j *journal) Take(ctx context.Context, has func(types.UID) bool, term int64, crashed string) error {
	j.note(has, "take %d %q", term, crashed)
	if j.failing != nil {
		return j.failing(ctx)
	}
	return nil
}

func (j *journal) LetGo(has func(types.UID) bool) { j.note(has, "let go") }

// oneShard is a share of one shard, with a Cluster in a real API server and a cache of it.
type oneShard struct {
	fleet   *Fleet
	remotes *remotes
	journal *journal
	uid     types.UID
	queue   workqueue.TypedRateLimitingInterface[ctrl.Request]
}

const name = "a"

// quick is the timing of a replica that runs.
var quick = shards.Timing{Duration: time.Second, Deadline: 800 * time.Millisecond, Retry: 200 * time.Millisecond}

// clientAndCache installs the definitions, too. The cache does not run.
func clientAndCache(t *testing.T, config *rest.Config) (direct client.Client, clusters cache.Cache) {
	t.Helper()
	fleettest.InstallCRDs(t, config)
	scheme := runtime.NewScheme()
	must(t, hubv1.AddToScheme(scheme))
	direct, err := client.New(config, client.Options{Scheme: scheme})
	must(t, err)
	clusters, err = cache.New(config, cache.Options{Scheme: scheme})
	must(t, err)
	return direct, clusters
}

func newOneShard(t *testing.T) *oneShard {
	t.Helper()
	config := fleettest.Cluster(t, "hub").Config()
	direct, clusters := clientAndCache(t, config)
	one := &hubv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       hubv1.ClusterSpec{KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: name}},
	}
	must(t, client.IgnoreAlreadyExists(direct.Create(t.Context(), one)))
	must(t, direct.Get(t.Context(), client.ObjectKeyFromObject(one), one))
	s := &oneShard{journal: &journal{}, remotes: &remotes{states: map[registry.ClusterName]state.State{}}, uid: one.UID}
	var err error
	s.fleet, err = New(Options{Options: replica.Options{Config: config, Namespace: "default", Pod: "hub-0", Count: 1, Timing: quick}})
	must(t, err)
	must(t, s.fleet.Attach(s.remotes, clusters, s.journal))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = clusters.Start(ctx) })
	clusters.WaitForCacheSync(ctx) // Before it has started, a read of it fails.
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	if !clusters.WaitForCacheSync(ctx) {
		t.Fatal("the cache does not start")
	}
	s.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	t.Cleanup(s.queue.ShutDown)
	must(t, s.fleet.Source().Start(ctx, s.queue))
	return s
}

func (s *oneShard) expectRequest(t *testing.T) {
	t.Helper()
	got, _ := s.queue.Get()
	s.queue.Done(got)
	if got.Name != name {
		t.Errorf("got a request for %s", got.Name)
	}
}

// Warm returns when the Clusters of the shard were reconciled and their remotes are as warm as they can be.
func TestFleet_Warm(t *testing.T) {
	t.Parallel()
	s := newOneShard(t)
	done := make(chan error, 1)
	go func() { done <- s.fleet.Warm(t.Context(), 1) }()
	s.expectRequest(t)
	if role, _ := s.fleet.RoleOf(name, s.uid); role != cluster.RoleWarm {
		t.Fatalf("got the role %d, want RoleWarm", role)
	}
	expectBlocked := func(why string) {
		t.Helper()
		all, err := s.fleet.clustersOf(t.Context(), 1)
		must(t, err)
		if n := s.fleet.cold(1, all); n != 1 {
			t.Errorf("%s: %d Clusters are cold, want 1", why, n)
		}
	}
	s.remotes.set(name, state.StateWarm)
	expectBlocked("not reconciled")
	s.remotes.set(name, state.StateStarting)
	s.fleet.Prepared(s.uid)
	expectBlocked("starting")
	select {
	case err := <-done:
		t.Fatalf("Warm has returned %v before the remote was warm", err)
	default:
	}
	s.remotes.set(name, state.StateWarm)
	must(t, <-done)
}

// A remote that cannot be built does not delay the hand-over of its shard.
func TestFleet_WarmWithout(t *testing.T) {
	t.Parallel()
	for _, now := range []state.State{"", state.StateFailed, state.StateUnreachable, state.StatePaused} {
		s := newOneShard(t)
		if now != "" {
			s.remotes.set(name, now)
		}
		done := make(chan error, 1)
		go func() { done <- s.fleet.Warm(t.Context(), 1) }()
		s.expectRequest(t)
		s.fleet.Prepared(s.uid)
		must(t, <-done)
	}
}

// Drain lets writes in flight have their responses before it ends the apps, and waits for those that began meanwhile.
func TestFleet_Drain(t *testing.T) {
	t.Parallel()
	s := newOneShard(t)
	s.fleet.Start(t.Context(), 1, 7, "")
	s.expectRequest(t)
	if _, runner := s.fleet.RoleOf(name, s.uid); runner.Epoch != 7 || runner.Name != "hub-0" {
		t.Errorf("got the runner %+v", runner)
	}
	var roles []cluster.Role
	sentinel := errors.New("in flight")
	s.remotes.await = func(name registry.ClusterName) error {
		role, runner := s.fleet.RoleOf(name, s.uid)
		if (role == cluster.RoleRunner) != (runner.Epoch != 0) {
			t.Errorf("got the role %d and the runner %+v", role, runner)
		}
		if roles = append(roles, role); len(roles) == 3 {
			return sentinel
		}
		return nil
	}
	if err := s.fleet.whyClosed(s.uid, "hub-0"); errors.Is(err, registry.ErrElsewhere) {
		t.Errorf("the gate returns %v before the Drain, want an error that is not ErrElsewhere", err)
	}
	must(t, s.fleet.Drain(t.Context(), 1))
	if err := s.fleet.whyClosed(s.uid, "hub-0"); !errors.Is(err, registry.ErrElsewhere) {
		t.Errorf("the gate returns %v when the app ends, want ErrElsewhere", err)
	}
	s.expectRequest(t)
	if want := []cluster.Role{cluster.RoleRunner, cluster.RoleNone}; fmt.Sprint(roles) != fmt.Sprint(want) {
		t.Errorf("the roles while Drain waits were %v, want %v", roles, want)
	}
	s.fleet.Start(t.Context(), 1, 8, "")
	testkit.ErrorIs(t, s.fleet.Drain(t.Context(), 1), sentinel, "Drain")
	if role, _ := s.fleet.RoleOf(name, s.uid); role != cluster.RoleRunner {
		t.Errorf("got the role %d after a Drain that failed, want RoleRunner", role)
	}
}

// The hub learns that its last shard is drained, and nothing of a shard beside what runs once.
func TestFleet_Idle(t *testing.T) {
	t.Parallel()
	s := newOneShard(t)
	told := 0
	s.fleet.idle = func(context.Context) { told++ }
	s.fleet.Start(t.Context(), shards.Once, 1, "")
	s.fleet.Start(t.Context(), 1, 1, "")
	must(t, s.fleet.Drain(t.Context(), 1))
	testkit.Equal(t, told, 0, "calls while this replica runs what runs once")
	s.fleet.Start(t.Context(), 1, 2, "")
	must(t, s.fleet.Drain(t.Context(), shards.Once))
	testkit.Equal(t, told, 0, "calls while this replica has a shard")
	must(t, s.fleet.Drain(t.Context(), 1))
	testkit.Equal(t, told, 1, "calls after the last drain")
}

// Another replica is alive as long as this one does not know that it has ended.
func TestFleet_IsAlive(t *testing.T) {
	t.Parallel()
	s := newOneShard(t)
	testkit.Equal(t, s.fleet.IsAlive("hub-1"), true, "before Run")
	testkit.Background(t, s.fleet.Run)
	testkit.Eventually(t, func() error {
		if s.fleet.IsAlive("hub-1") {
			return errors.New("it does not know that there is no hub-1")
		}
		return nil
	})
	testkit.Equal(t, s.fleet.IsAlive("hub-0"), true, "itself")
}

// The gate is closed for names without a Cluster, for Clusters that this replica does not hold, and, without a Lease, for writes
// that belong to no Cluster.
func TestFleet_Gate(t *testing.T) {
	t.Parallel()
	f, err := New(Options{Options: replica.Options{Config: fleettest.Cluster(t, "hub").Config(), Namespace: "default", Pod: "hub-0", Count: 4}})
	must(t, err)
	testkit.ErrorIs(t, testkit.Err(f.Gate(name)), registry.ErrNotFound, "the gate of an unknown name")
	if role, _ := f.RoleOf(name, "uid"); role != cluster.RoleNone {
		t.Errorf("got the role %d before Run, want RoleNone", role)
	}
	testkit.ErrorIs(t, testkit.Err(f.Gate(name)), registry.ErrElsewhere, "the gate of a Cluster of another replica")
	testkit.ErrorIs(t, testkit.Err(f.Gate("")), replica.ErrNotActive, "the gate of no remote")
	sizes := make([]int, 5)
	sizes[shards.Of("uid", 4)] = 1
	testkit.Equal(t, f.sizesNow(), sizes, "Clusters by shard")
	f.RoleOf(name, "another")
	f.Forget(name)
	testkit.ErrorIs(t, testkit.Err(f.Gate(name)), registry.ErrNotFound, "the gate of a forgotten name")
	testkit.Equal(t, f.sizesNow(), make([]int, 5), "Clusters by shard, of which none is left")
}
