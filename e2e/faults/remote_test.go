// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry"
)

// remote is a name for a cluster of the fleet, with a connection that can be broken and its own namespace, so that many
// remotes share an API server and each sees only its own objects.
type remote struct {
	t     *testing.T
	stage *stage
	name  string
	on    *fleet.Cluster
	proxy *fault.Proxy // nil if the connection cannot be broken
	since time.Time    // the time of the last change to it

	refused atomic.Int64 // leases of borrow that failed
}

// newRemote creates a proxy to a cluster and a namespace there, and does not register the remote.
func (s *stage) newRemote(t *testing.T, name string, on *fleet.Cluster) *remote {
	t.Helper()
	r := &remote{t: t, stage: s, name: name, on: on, since: time.Now()}
	r.proxy = fleettest.Proxy(t, on.Server())
	must(t, s.clientFor(t, on.Config()).Create(t.Context(), namespace(name)))
	return r
}

// remoteOf is newRemote for the only remote of a test, with a name from the test.
func (s *stage) remoteOf(t *testing.T, on *fleet.Cluster) *remote {
	t.Helper()
	return s.newRemote(t, nameOf(t), on)
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

func nameOf(t *testing.T) string {
	t.Helper()
	last := t.Name()[strings.LastIndex(t.Name(), "/")+1:]
	last = strings.Trim(notInNames.ReplaceAllString(strings.ToLower(last), "-"), "-")
	return strings.TrimRight(last[:min(len(last), 50)], "-")
}

type change func(*hubv1.ClusterSpec)

// quick has the shortest period of the probe that keeps the timeout of three seconds, because a busy machine may not
// respond faster. It is for tests that do not measure time.
func quick(s *hubv1.ClusterSpec) { s.Probe = hubv1.ProbeSpec{PeriodSeconds: 3, TimeoutSeconds: 3} }

func runs(modules ...string) change {
	return func(s *hubv1.ClusterSpec) { s.Modules = modules }
}

// register registers the remote with the kubeconfig of its administrator.
func (r *remote) register(changes ...change) {
	r.t.Helper()
	r.registerAs(r.on.Kubeconfig(), changes...)
}

// registerAs registers the remote with a kubeconfig, which is changed to use the proxy. The remote is deregistered when
// the test ends.
func (r *remote) registerAs(kubeconfig []byte, changes ...change) {
	r.t.Helper()
	must(r.t, r.tryRegister(kubeconfig, changes...))
	r.t.Cleanup(r.deregister)
}

func (r *remote) tryRegister(kubeconfig []byte, changes ...change) error {
	if err := r.store(kubeconfig); err != nil {
		return err
	}
	c := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: r.name}}
	c.Spec = hubv1.ClusterSpec{
		KubeconfigSecretRef: hubv1.KubeconfigSecretRef{Name: r.name},
		Namespaces:          []string{r.name},
		Modules:             []string{stopwatchName},
	}
	for _, f := range changes {
		f(&c.Spec)
	}
	r.since = time.Now()
	return r.stage.admin.Create(r.t.Context(), c)
}

// store writes a kubeconfig to the Secret, changed to use the proxy.
func (r *remote) store(kubeconfig []byte) error {
	if r.proxy == nil {
		return r.storeAsIs(kubeconfig)
	}
	through, err := r.proxy.Kubeconfig(kubeconfig)
	if err != nil {
		return err
	}
	return r.storeAsIs(through)
}

// storeAsIs writes a kubeconfig to the Secret without changes.
func (r *remote) storeAsIs(kubeconfig []byte) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: r.name, Namespace: hubv1.DefaultNamespace},
		Data:       map[string][]byte{"kubeconfig": kubeconfig},
	}
	r.since = time.Now()
	err := r.stage.admin.Create(r.t.Context(), secret)
	if apierrors.IsAlreadyExists(err) {
		err = r.stage.admin.Update(r.t.Context(), secret)
	}
	return err
}

// deregister repairs the connection, deletes the Cluster and its Secret, and waits until the Cluster has gone, unless the test has
// stopped its hub.
func (r *remote) deregister() {
	r.t.Helper()
	if r.proxy != nil {
		if err := r.proxy.Set(fault.Pass()); err != nil && !errors.Is(err, fault.ErrClosed) {
			r.t.Error(err)
		}
	}
	r.leave()
	if r.stage.remotes() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), patience)
	defer cancel()
	testkit.NoError(r.t, testkit.Err(r.stage.history.await(ctx, r.name, r.since, isGone)), "the Cluster is not removed")
}

// leave deletes the Cluster and its Secret as "hub deregister" does: it is not held by the limit of removals.
func (r *remote) leave() {
	r.t.Helper()
	r.since = time.Now()
	ctx := context.WithoutCancel(r.t.Context())
	cluster, secret := &hubv1.Cluster{}, &corev1.Secret{}
	cluster.Name, secret.Name, secret.Namespace = r.name, r.name, hubv1.DefaultNamespace
	if err := r.stage.admin.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err == nil {
		before := cluster.DeepCopy()
		metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, hubv1.AnnotationDeregister, string(cluster.UID))
		testkit.NoError(r.t, client.IgnoreNotFound(r.stage.admin.Patch(ctx, cluster, client.MergeFrom(before))))
	}
	for _, one := range []client.Object{cluster, secret} {
		testkit.NoError(r.t, client.IgnoreNotFound(r.stage.admin.Delete(ctx, one)))
	}
}

func (r *remote) set(f fault.Fault) {
	r.t.Helper()
	must(r.t, r.proxy.Set(f))
	r.since = time.Now()
}

// update changes the spec of the Cluster.
func (r *remote) update(f change) {
	r.t.Helper()
	c := &hubv1.Cluster{}
	eventually(r.t, func() error {
		if err := r.stage.admin.Get(r.t.Context(), client.ObjectKey{Name: r.name}, c); err != nil {
			return err
		}
		before := c.DeepCopy()
		f(&c.Spec)
		return r.stage.admin.Patch(r.t.Context(), c, client.MergeFrom(before))
	})
	r.since = time.Now()
}

// expect waits until the Cluster has a condition, and fails the test if that takes longer than the bound from the last
// change to the remote. It returns the duration.
func (r *remote) expect(kind string, status metav1.ConditionStatus, reason string, bound time.Duration) time.Duration {
	r.t.Helper()
	what := kind + "=" + string(status) + "/" + reason
	return r.awaits(what, bound, func(c *hubv1.Cluster) bool { return hasCondition(c, kind, status, reason) })
}

func (r *remote) expectReady(bound time.Duration) time.Duration {
	r.t.Helper()
	return r.awaits("Ready", bound, isReady)
}

func (r *remote) awaits(what string, bound time.Duration, want func(*hubv1.Cluster) bool) time.Duration {
	r.t.Helper()
	ctx, cancel := context.WithDeadline(r.t.Context(), r.since.Add(max(bound, patience)))
	defer cancel()
	at, err := r.stage.history.await(ctx, r.name, r.since, want)
	if err != nil {
		r.t.Fatalf("wait for %s: %v", what, err)
	}
	took := at.Sub(r.since)
	r.t.Logf("%s: %s after %s", r.name, what, took.Round(time.Millisecond))
	if took > bound {
		r.t.Errorf("%s took %s, want at most %s", what, took.Round(time.Millisecond), bound)
	}
	return took
}

func (r *remote) message(kind string) string {
	versions, _ := r.stage.history.since(r.name, time.Now())
	if len(versions) == 0 || versions[len(versions)-1].cluster == nil {
		return ""
	}
	one := meta.FindStatusCondition(versions[len(versions)-1].cluster.Status.Conditions, kind)
	if one == nil {
		return ""
	}
	return one.Message
}

// fingerprint returns the fingerprint of the credentials in use.
func (r *remote) fingerprint() string {
	versions, _ := r.stage.history.since(r.name, time.Now())
	if len(versions) == 0 || versions[len(versions)-1].cluster == nil {
		return ""
	}
	return versions[len(versions)-1].cluster.Status.Credentials.Fingerprint
}

// expectMessage fails the test unless the message of a condition contains the text.
func (r *remote) expectMessage(kind, text string) {
	r.t.Helper()
	testkit.Has(r.t, r.message(kind), text, "the message of", kind)
}

func (r *remote) epoch() int64 {
	info, _ := r.stage.remotes().Status(registry.ClusterName(r.name))
	return info.Epoch
}

func (r *remote) lease(f func(context.Context, client.Client) error) error {
	return r.stage.remotes().WithClient(r.t.Context(), registry.ClusterName(r.name), f)
}

// expectNotReady checks that a lease is refused at once, with a reason.
func (r *remote) expectNotReady(reason string) {
	r.t.Helper()
	began := time.Now()
	err := r.lease(func(context.Context, client.Client) error { return nil })
	took := time.Since(began)
	var refused *registry.NotReadyError
	if !errors.As(err, &refused) || refused.Reason != reason {
		r.t.Errorf("lease: got error %v, want NotReadyError with reason %s", err, reason)
	}
	if took > notReadyWithin {
		r.t.Errorf("lease: refused after %s, want at once", took)
	}
}

// notReadyWithin is the bound for the refusal of a lease. A single call may meet a busy machine.
const notReadyWithin = 50 * time.Millisecond

// expectWorking writes to the remote, and waits until its reconciler sees the write.
func (r *remote) expectWorking() {
	r.t.Helper()
	admin := r.stage.clientFor(r.t, r.on.Config())
	name := registry.ClusterName(r.name)
	began := time.Now()
	must(r.t, r.stage.stopwatch.write(r.t.Context(), admin, name, r.name))
	end := time.Now()
	eventually(r.t, func() error {
		if seen, _ := r.stage.stopwatch.between(name, began, end); len(seen) == 0 {
			return errors.New("the write was not reconciled")
		}
		return nil
	})
}

// newConfigMap creates a ConfigMap in the remote's namespace, as the remote's administrator.
func (r *remote) newConfigMap(name string) {
	r.t.Helper()
	one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.name}}
	must(r.t, r.stage.clientFor(r.t, r.on.Config()).Create(r.t.Context(), one))
}

// staysReady waits for a time from the last change to the remote, and fails the test unless the Cluster stays Ready in
// that time, in the same epoch.
func (r *remote) staysReady(epoch int64, d time.Duration) {
	r.t.Helper()
	ctx, cancel := context.WithDeadline(r.t.Context(), r.since.Add(d))
	defer cancel()
	since := r.readySince()
	disturbed := func(c *hubv1.Cluster) bool { return !readySince(c).Equal(since) }
	if at, err := r.stage.history.await(ctx, r.name, r.since, disturbed); err == nil {
		versions, _ := r.stage.history.since(r.name, at)
		r.t.Errorf("%s did not stay Ready: after %s its status was %s", r.name, at.Sub(r.since), conditionText(versions[0].cluster))
	}
	testkit.Equal(r.t, r.epoch(), epoch, "the app of", r.name, "restarted: epoch")
}

func (r *remote) readySince() time.Time {
	versions, _ := r.stage.history.since(r.name, r.since)
	return readySince(versions[0].cluster)
}

func readySince(c *hubv1.Cluster) time.Time {
	if c == nil {
		return time.Time{}
	}
	ready := meta.FindStatusCondition(c.Status.Conditions, hubv1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue {
		return time.Time{}
	}
	return ready.LastTransitionTime.Time
}

// swap puts another server behind the remote's address.
func (r *remote) swap(to *fleet.Cluster) {
	r.t.Helper()
	must(r.t, r.proxy.Swap(to.Server()))
	r.since = time.Now()
}

// agent returns the prefix of the user agents of the remote's apps.
func (r *remote) agent() string { return "clusterfx/" + replica + "/" + r.name + "/" }

func (r *remote) waits(d time.Duration) {
	r.t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.t.Context().Done():
	}
}

// epochsSince returns the number of apps of the remote that were started after the app of an epoch, according to the
// audit log of its API server.
func (r *remote) epochsSince(first int64) int {
	r.t.Helper()
	requests, err := r.on.AuditEvents(fleet.ByAgent(r.agent()))
	must(r.t, err)
	epochs := map[string]bool{}
	for _, e := range requests {
		epochs[e.UserAgent] = true
	}
	delete(epochs, r.agent()+strconv.FormatInt(first, 10))
	return len(epochs)
}

func (r *remote) fill(n, size int) {
	r.t.Helper()
	admin := r.stage.clientFor(r.t, r.on.Config())
	var creating errgroup.Group
	creating.SetLimit(10)
	for i := range n {
		creating.Go(func() error {
			return admin.Create(r.t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: r.name, Name: fmt.Sprintf("filling-%d", i)},
				Data:       map[string]string{"text": strings.Repeat("x", size)},
			})
		})
	}
	must(r.t, creating.Wait())
}
