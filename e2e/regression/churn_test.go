// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// A thousand names are registered and removed twice, by several goroutines at once, while twenty remotes stay: the
// apps of these remotes are never replaced, their clients are always available and their reconcilers work.
func TestChurn_ManyComeAndGoWhileSomeStay(t *testing.T) {
	fleettest.Slow(t, "./registry/internal/machine TestMachine_Histories")
	t.Parallel()
	const staying, coming, atOnce = 20, 1000, 32
	r := newRegistry(t, nil)
	where := []string{one, two}
	configs := []state.Desired{admin(t, one), admin(t, two)}
	for i := range configs {
		configs[i].Probe.FailureThreshold = overload
	}
	asides := make([]*bystander, staying)
	var work sync.WaitGroup
	for i := range asides {
		work.Go(func() {
			name := registry.ClusterName(unique("staying"))
			spawn(t, r, name, configs[i%2])
			asides[i] = newBystander(t, r, where[i%2], name)
		})
	}
	work.Wait()
	if t.Failed() {
		return
	}
	over, marks := markDuring(t, asides)
	began := time.Now()
	turns := make(chan struct{}, atOnce)
	for i := range coming {
		turns <- struct{}{}
		work.Go(func() {
			defer func() { <-turns }()
			name := registry.ClusterName(unique("coming"))
			for range 2 {
				comeAndGo(t, r, name, configs[i%2], i)
			}
		})
	}
	work.Wait()
	took := time.Since(began)
	over()
	latencies := <-marks
	slices.Sort(latencies)
	t.Logf("%d names were registered and removed twice in %s; meanwhile %d reconciles of the other remotes took %s (median) to %s",
		coming, took, len(latencies), latencies[len(latencies)/2], latencies[len(latencies)-1])
	testkit.Equal(t, len(r.List()), staying, "remotes at the end")
	testkit.Equal(t, r.Zombies(), 0, "zombies")
	for _, b := range asides {
		b.expectUnaware()
	}
}

// comeAndGo registers a name and removes it, from several goroutines at once. Some remotes become Ready in between, and
// for every third remote the order of registration and removal is random.
func comeAndGo(t *testing.T, r *registry.Registry, name registry.ClusterName, config state.Desired, i int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var work sync.WaitGroup
	ensure := func() {
		testkit.NoError(t, r.Ensure(name, config), "Ensure")
	}
	end := func(f func(context.Context, registry.ClusterName) error) func() {
		return func() {
			err := f(ctx, name)
			if err != nil && !errors.Is(err, registry.ErrNotFound) && !errors.Is(err, registry.ErrSuperseded) {
				t.Errorf("removal of %s: %v", name, err)
			}
		}
	}
	work.Go(ensure)
	work.Go(ensure)
	if i%3 != 0 {
		work.Wait()
	}
	if i%12 == 1 {
		testkit.NoError(t, r.WaitReady(ctx, name), "WaitReady")
	}
	work.Go(end(r.Stop))
	work.Go(end(r.Remove))
	work.Wait()
	end(r.Stop)()
	if _, known := r.Status(name); known {
		t.Errorf("the registry knows %s after its removal", name)
	}
}

func markDuring(t *testing.T, asides []*bystander) (over func(), latencies <-chan []time.Duration) {
	t.Helper()
	ended := make(chan struct{})
	result := make(chan []time.Duration, 1)
	direct := map[string]client.Client{one: fleettest.Client(t, fleettest.Cluster(t, one), hubv1.AddToScheme), two: fleettest.Client(t, fleettest.Cluster(t, two), hubv1.AddToScheme)}
	go func() {
		var all []time.Duration
		defer func() { result <- all }()
		for i := 0; ; i++ {
			b := asides[i%len(asides)]
			took, err := awaitMark(context.WithoutCancel(t.Context()), direct[b.cluster], b.name)
			testkit.NoError(t, err)
			all = append(all, took)
			select {
			case <-ended:
				return
			default:
			}
		}
	}()
	return sync.OnceFunc(func() { close(ended) }), result
}

// Fault F69: a Cluster is deleted and immediately recreated with the Secret of another remote. The ancestor knew names
// only, and used the old connection for the new object. Here no app of one life sends a request in the next life, and
// each life connects to the remote of its own Secret.
func TestChurn_DeletedAndRegisteredAgainWithAnotherSecret(t *testing.T) {
	fleettest.Slow(t, "./reconcilers/cluster TestCluster_DeletionFollowedByACluster")
	t.Parallel()
	remotes, f := map[string]*fleet.Cluster{}, fleettest.New(t, fleet.Options{Audit: true})
	for _, where := range []string{one, two} {
		made, err := f.Create(t.Context(), where)
		must(t, err)
		remotes[where] = made
	}
	h := newHub(t, nil)
	h.start()
	aside := h.registerBystander(one)
	name := unique("again")
	for where, remote := range remotes {
		h.putSecret(name+"-"+where, map[string][]byte{"kubeconfig": remote.Kubeconfig()})
	}
	lives := make([]life, 0, 201)
	for i := range 200 {
		where := []string{one, two}[i%2]
		c := newCluster(name)
		c.Spec.KubeconfigSecretRef.Name = name + "-" + where
		lives = append(lives, life{where: where, began: h.createAtOnce(c)})
		if i%10 >= 8 { // an odd and an even life
			testkit.Equal(t, h.expectReady(name).Status.ID, idOf(t, remotes[where]), "ID in life", i, "of", where)
		} else {
			// The removal comes at a random point of the start, or before it.
			<-time.After(rand.N(100 * time.Millisecond))
		}
		h.remove(name)
	}
	h.expectGone(name)
	lives = append(lives, life{began: time.Now()})
	acted := checkLives(t, remotes, registry.ClusterName(name), lives)
	t.Logf("%d lives in %s, %d of them with requests",
		len(lives)-1, lives[len(lives)-1].began.Sub(lives[0].began).Round(time.Millisecond), acted)
	aside.expectUnaware()
	h.expectRuns()
}

// life is the time between the creation of a Cluster and the creation of the next Cluster with its name.
type life struct {
	where string // the cluster of its Secret
	began time.Time
}

// createAtOnce creates a Cluster as soon as the previous Cluster is gone, and returns the time at which the successful
// request began.
func (h *hub) createAtOnce(c *hubv1.Cluster) time.Time {
	h.t.Helper()
	var began time.Time
	eventually(h.t, func() error {
		began = time.Now()
		err := h.Create(h.t.Context(), c.DeepCopy())
		if err != nil && !apierrors.IsAlreadyExists(err) {
			h.t.Fatal(err)
		}
		return err
	})
	return began
}

// inFlight is the delay with which an API server that shares its processors with many others may process an earlier
// request. The sender does not wait for that request when it ends.
const inFlight = 250 * time.Millisecond

// checkLives checks the audit logs for the requests in the lives of one name, and returns the number of lives in which
// its app sent a request.
func checkLives(t *testing.T, remotes map[string]*fleet.Cluster, name registry.ClusterName, lives []life) int {
	t.Helper()
	lifeOf := map[int64]int{} // by epoch
	acted := map[int]bool{}
	for where, remote := range remotes {
		requests, err := remote.AuditEvents(ofRemote(name))
		must(t, err)
		for _, e := range requests {
			i := -1
			for i+1 < len(lives) && !lives[i+1].began.After(e.Received) {
				i++
			}
			_, epoch, _ := agentOf(e)
			if i > 0 && lives[i].where != where && e.Received.Sub(lives[i].began) < inFlight {
				i-- // It was sent before, and abandoned.
			}
			if i < 0 || lives[i].where != where {
				t.Errorf("request in life %d, whose Secret is not for %s: %s", i, where, e)
				continue
			}
			if before, known := lifeOf[epoch]; known && before != i {
				t.Errorf("epoch %d belongs to life %d and sends a request in life %d: %s", epoch, before, i, e)
				continue
			}
			lifeOf[epoch], acted[i] = i, true
		}
	}
	return len(acted)
}

func idOf(t *testing.T, c *fleet.Cluster) string {
	t.Helper()
	var system corev1.Namespace
	must(t, fleettest.Client(t, c, hubv1.AddToScheme).Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, &system))
	return string(system.UID)
}

// agentOf returns the remote and the epoch whose app sent a request. If ok is false, no app sent it.
func agentOf(e fleet.AuditEvent) (name registry.ClusterName, epoch int64, ok bool) {
	parts := strings.Split(e.UserAgent, "/") // clusterfx/<replica>/<remote>/<epoch>
	if len(parts) != 4 || parts[0] != "clusterfx" {
		return "", 0, false
	}
	epoch, err := strconv.ParseInt(parts[3], 10, 64)
	return registry.ClusterName(parts[2]), epoch, err == nil
}

// ofRemote returns a filter for the requests from the apps of a remote.
func ofRemote(name registry.ClusterName) func(fleet.AuditEvent) bool {
	return func(e fleet.AuditEvent) bool {
		from, _, ok := agentOf(e)
		return ok && from == name
	}
}
