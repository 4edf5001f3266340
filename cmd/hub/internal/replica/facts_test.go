// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"encoding/json"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// starts returns how many shards were started without warm apps.
func (p *process) starts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.coldStarts
}

func (p *process) count(state string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.apps {
		if s == state {
			n++
		}
	}
	return n
}

// hold makes a write in flight, until the channel is closed.
func (p *process) hold(shard int) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds[shard] = make(chan struct{})
	return p.holds[shard]
}

func (p *process) wait() error {
	p.w.t.Helper()
	select {
	case err := <-p.done:
		p.done <- err
		return err
	case <-time.After(patience):
		p.w.t.Fatalf("%s still runs", p.name)
		return nil
	}
}

// expectCold fails the test unless the apps of all shards that were held have been drained.
func (p *process) expectCold() {
	p.w.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for shard, state := range p.apps {
		if state == "started" {
			p.w.t.Errorf("%s: the apps of shard %d are %s after the end of Run", p.name, shard, state)
		}
	}
}

func (w *installation) leases() coordinationv1client.LeaseInterface {
	return w.kube.CoordinationV1().Leases(w.namespace)
}

func (w *installation) lease(name string) *coordinationv1.Lease {
	w.t.Helper()
	l, err := w.leases().Get(w.t.Context(), name, metav1.GetOptions{})
	must(w.t, err)
	return l
}

func (w *installation) hasLease(name string) bool {
	w.t.Helper()
	_, err := w.leases().Get(w.t.Context(), name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		must(w.t, err)
	}
	return err == nil
}

// createLease creates a Lease.
func (w *installation) createLease(name, kind, holder string) {
	w.t.Helper()
	_, err := w.leases().Create(w.t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: kind}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder},
	}, metav1.CreateOptions{})
	must(w.t, err)
}

func (w *installation) deleteLease(name string) {
	w.t.Helper()
	must(w.t, w.leases().Delete(w.t.Context(), name, metav1.DeleteOptions{}))
}

// incarnation returns the name of the Lease that a Pod has; empty if there is none.
func (w *installation) incarnation(pod string) string {
	w.t.Helper()
	return w.leaseOf(pod).Name
}

func (w *installation) leaseOf(pod string) (found coordinationv1.Lease) {
	w.t.Helper()
	list, err := w.leases().List(w.t.Context(), metav1.ListOptions{LabelSelector: labelPod + "=" + pod})
	must(w.t, err)
	for _, l := range list.Items {
		if l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity == l.Name {
			return l
		}
	}
	return found
}

// awaitRenewals: a Pod without processor time may lose its Lease, and get another one.
func (w *installation) awaitRenewals(pod string) {
	w.t.Helper()
	seen := map[string]bool{}
	eventually(w.t, "renewals", func() bool {
		seen[w.leaseOf(pod).ResourceVersion] = true
		return len(seen) > 3
	})
}

func (w *installation) record(shard int) shards.Record {
	w.t.Helper()
	_, r, err := decodeRecord(w.lease(recordName(shard)), len(w.uids)-1)
	must(w.t, err)
	return r
}

type patch map[string]any // patch is a JSON merge patch; nil removes a field.

// change applies a merge patch without a version, as an administrator does.
func (w *installation) change(name string, p patch) {
	w.t.Helper()
	data, err := json.Marshal(p)
	must(w.t, err)
	_, err = w.leases().Patch(w.t.Context(), name, types.MergePatchType, data, metav1.PatchOptions{})
	must(w.t, err)
}

func (w *installation) overwriteHolder(name, holder string) {
	w.t.Helper()
	w.change(name, patch{"spec": map[string]any{"holderIdentity": orNil(holder)}})
}

func (w *installation) removeFinalizers(name string) {
	w.t.Helper()
	w.change(name, patch{"metadata": map[string]any{"finalizers": nil}})
}

func (w *installation) annotate(name, key, value string) {
	w.t.Helper()
	w.change(name, patch{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
}

func (w *installation) assignment() assignment {
	w.t.Helper()
	m, err := w.kube.CoreV1().ConfigMaps(w.namespace).Get(w.t.Context(), assignmentName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return assignment{}
	}
	must(w.t, err)
	return decodeAssignment(m)
}

func (w *installation) writeAssignment(a assignment) {
	w.t.Helper()
	_, err := w.kube.CoreV1().ConfigMaps(w.namespace).Update(w.t.Context(), encodeAssignment(a), metav1.UpdateOptions{})
	must(w.t, err)
}

func (w *installation) deleteMap(name string) {
	w.t.Helper()
	must(w.t, w.kube.CoreV1().ConfigMaps(w.namespace).Delete(w.t.Context(), name, metav1.DeleteOptions{}))
}

// expectReleased fails the test unless no record has a holder, and no Lease has an incarnation.
func (w *installation) expectReleased() {
	w.t.Helper()
	list, err := w.leases().List(w.t.Context(), metav1.ListOptions{LabelSelector: label})
	must(w.t, err)
	records := 0
	for i := range list.Items {
		l := &list.Items[i]
		if l.Labels[label] == labelRecord {
			records++
		}
		if l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != "" {
			w.t.Errorf("the Lease %s has the holder %s after all replicas have left", l.Name, *l.Spec.HolderIdentity)
		}
	}
	testkit.Equal(w.t, records, len(w.uids), "records")
}
