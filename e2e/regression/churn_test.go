// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Hundreds of names come and go twice, each at the hands of several goroutines at once, while twenty
// remotes stay: their apps are never replaced, their clients are always there and their reconcilers work.
func TestChurn_ManyComeAndGoWhileSomeStay(t *testing.T) {
	t.Parallel()
	const staying, atOnce = 20, 32
	coming := times(250, 1000)
	r := newRegistry(t, nil)
	where := []string{one, two}
	configs := []state.Desired{admin(t, one), admin(t, two)}
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
	t.Logf("%d names came and went twice in %s; meanwhile %d reconciles of the other remotes took %s (median) to %s",
		coming, took, len(latencies), latencies[len(latencies)/2], latencies[len(latencies)-1])
	if left := r.List(); len(left) != staying {
		t.Errorf("%d remotes are left, want the %d that stay", len(left), staying)
	}
	if n := r.Zombies(); n != 0 {
		t.Errorf("%d zombies", n)
	}
	for _, b := range asides {
		b.expectUnaware()
	}
}

// comeAndGo registers a name and removes it, from several goroutines at once. Some become Ready in between,
// and of every third one it is unknown whether it was registered or removed last.
func comeAndGo(t *testing.T, r *registry.Registry, name registry.ClusterName, config state.Desired, i int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var work sync.WaitGroup
	ensure := func() {
		if err := r.Ensure(name, config); err != nil {
			t.Errorf("Ensure: %v", err)
		}
	}
	end := func(f func(context.Context, registry.ClusterName) error) func() {
		return func() {
			err := f(ctx, name)
			if err != nil && !errors.Is(err, registry.ErrNotFound) && !errors.Is(err, registry.ErrSuperseded) {
				t.Errorf("the end of %s: %v", name, err)
			}
		}
	}
	work.Go(ensure)
	work.Go(ensure)
	if i%3 != 0 {
		work.Wait()
	}
	if i%12 == 1 {
		if err := r.WaitReady(ctx, name); err != nil {
			t.Errorf("WaitReady: %v", err)
		}
	}
	work.Go(end(r.Stop))
	work.Go(end(r.Remove))
	work.Wait()
	end(r.Stop)()
	if _, known := r.Status(name); known {
		t.Errorf("%s is known after its end", name)
	}
}

// markDuring has the reconcilers of remotes mark objects until over is called, and sends how long that took
// each time.
func markDuring(t *testing.T, asides []*bystander) (over func(), latencies <-chan []time.Duration) {
	t.Helper()
	ended := make(chan struct{})
	result := make(chan []time.Duration, 1)
	direct := map[string]client.Client{one: clientFor(t, clusterOf(t, one)), two: clientFor(t, clusterOf(t, two))}
	go func() {
		var all []time.Duration
		defer func() { result <- all }()
		for i := 0; ; i++ {
			b := asides[i%len(asides)]
			took, err := awaitMark(context.WithoutCancel(t.Context()), direct[b.cluster], b.name)
			if err != nil {
				t.Error(err)
			}
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

// Fault F69: a Cluster that is deleted and comes back at once with the Secret of another remote. In the
// ancestor the name was all there was, and the old connection was used for the new object. Here nothing
// of one life is sent in the next one, and each life leads to where its own Secret says.
func TestChurn_DeletedAndRegisteredAgainWithAnotherSecret(t *testing.T) {
	t.Parallel()
	h := newHub(t, nil)
	h.start()
	aside := h.registerBystander(one)
	name := unique("again")
	for _, where := range []string{one, two} {
		h.putSecret(name+"-"+where, map[string][]byte{"kubeconfig": clusterOf(t, where).Kubeconfig()})
	}
	lives := make([]life, 0, 201)
	for i := range times(60, 200) {
		where := []string{one, two}[i%2]
		c := newCluster(name)
		c.Spec.KubeconfigSecretRef.Name = name + "-" + where
		lives = append(lives, life{where: where, began: h.createAtOnce(c)})
		if i%10 >= 8 { // an odd and an even one
			if c := h.expectReady(name); c.Status.ID != idOf(t, where) {
				t.Errorf("life %d leads to %s, want %s", i, c.Status.ID, where)
			}
		} else {
			// At any point of a start, and before it.
			<-time.After(rand.N(100 * time.Millisecond))
		}
		h.remove(name)
	}
	h.expectGone(name)
	lives = append(lives, life{began: time.Now()})
	acted := checkLives(t, registry.ClusterName(name), lives)
	t.Logf("%d lives in %s, in %d of which there were requests",
		len(lives)-1, lives[len(lives)-1].began.Sub(lives[0].began).Round(time.Millisecond), acted)
	aside.expectUnaware()
	h.expectRuns()
}

// life is the time between the creation of a Cluster and the creation of the next Cluster with its name.
type life struct {
	where string // which cluster its Secret leads to
	began time.Time
}

// createAtOnce creates a Cluster as soon as the one before has gone, and returns when it began to do so.
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

// inFlight is how late an API server that shares its processors with many others may look at a request that was
// sent before. Whoever sent it does not wait for that when it ends.
const inFlight = 250 * time.Millisecond

// checkLives checks what the audit logs say of the lives of one name, and returns in how many of them its
// app has sent anything.
func checkLives(t *testing.T, name registry.ClusterName, lives []life) int {
	t.Helper()
	lifeOf := map[int64]int{} // by epoch
	acted := map[int]bool{}
	for _, where := range []string{one, two} {
		requests, err := clusterOf(t, where).AuditEvents(ofRemote(name))
		must(t, err)
		for _, e := range requests {
			i := -1
			for i+1 < len(lives) && !lives[i+1].began.After(e.Received) {
				i++
			}
			_, epoch, _ := agentOf(e)
			if i > 0 && lives[i].where != where && e.Received.Sub(lives[i].began) < inFlight {
				i-- // It was sent before, and given up on.
			}
			if i < 0 || lives[i].where != where {
				t.Errorf("in life %d, which does not lead to %s: %s", i, where, e)
				continue
			}
			if before, known := lifeOf[epoch]; known && before != i {
				t.Errorf("epoch %d belongs to life %d and is at work in life %d: %s", epoch, before, i, e)
				continue
			}
			lifeOf[epoch], acted[i] = i, true
		}
	}
	return len(acted)
}
