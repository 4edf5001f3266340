// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// nodeless is an installation in a cluster without controllers and kubelets. The test writes in their place.
type nodeless struct {
	client.Client
	t    *testing.T
	pods []corev1.Pod
}

// newNodeless applies the manifests in a namespace, and creates the Pods of the hub.
func newNodeless(t *testing.T, namespace string) *nodeless {
	t.Helper()
	n := &nodeless{Client: clientFor(t, fleettest.Cluster(t, "rollout")), t: t}
	if _, err := (install.Rollout{Namespace: namespace, Timeout: time.Hour}).Wait(t.Context(), n); err == nil {
		t.Error("Wait returns no error for a Deployment that does not exist")
	}
	must(t, install.Apply(t.Context(), n, objects(t, install.Options{Namespace: namespace, Image: "example.com/hub:v1"}), install.ApplyOptions{}))
	template := n.deployment(namespace).Spec.Template
	for i := range 2 {
		pod := corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("hub-", i), Namespace: namespace, Labels: template.Labels}, Spec: template.Spec,
		}
		must(t, n.Create(t.Context(), &pod))
		n.pods = append(n.pods, pod)
	}
	n.progress(namespace, appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2})
	return n
}

func (n *nodeless) deployment(namespace string) *appsv1.Deployment {
	n.t.Helper()
	d := &appsv1.Deployment{}
	must(n.t, n.Get(n.t.Context(), client.ObjectKey{Namespace: namespace, Name: "clusterfx-hub"}, d))
	return d
}

func (n *nodeless) progress(namespace string, status appsv1.DeploymentStatus) {
	n.t.Helper()
	d := n.deployment(namespace)
	d.Status = status
	d.Status.ObservedGeneration = d.Generation
	must(n.t, n.Status().Update(n.t.Context(), d))
}

func (n *nodeless) report(status corev1.PodStatus) {
	n.t.Helper()
	for i := range n.pods {
		n.pods[i].Status = *status.DeepCopy()
		must(n.t, n.Status().Update(n.t.Context(), &n.pods[i]))
	}
}

func container(state corev1.ContainerState, last *corev1.ContainerStateTerminated) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "hub", Image: "example.com/hub:v1", State: state, LastTerminationState: corev1.ContainerState{Terminated: last},
	}}}
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// The wait for a rollout ends when all Pods are ready. Until then its progress, and its error at the deadline, name the
// problem of each Pod, and advice.
func TestRollout(t *testing.T) {
	t.Parallel()
	n := newNodeless(t, "waited-for")
	for want, status := range map[string]corev1.PodStatus{
		"ImagePullBackOff: Back-off pulling image; check that the nodes can pull example.com/hub:v1, or use another --image": container(waiting("ImagePullBackOff", "Back-off pulling image"), nil),
		"CrashLoopBackOff: it ended with exit code 3 (Error); see kubectl -n waited-for logs ": container(waiting("CrashLoopBackOff", "back-off"),
			&corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}),
		"it ended with exit code 4 (Error); see kubectl -n waited-for logs ": container(corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 4, Reason: "Error"},
		}, nil),
		"CreateContainerConfigError: no key; see kubectl -n waited-for describe pod ": container(waiting("CreateContainerConfigError", "no key."), nil),
		"it runs and is not ready; see kubectl -n waited-for logs ":                   container(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, nil),
		"Unschedulable: 0/1 nodes are available": {Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available",
		}}},
	} {
		n.report(status)
		_, err := install.Rollout{Namespace: "waited-for", Timeout: time.Nanosecond}.Wait(t.Context(), n)
		if !errors.Is(err, install.ErrNotRunning) || strings.Count(err.Error(), want) != 2 {
			t.Errorf("%v, want %q for each of two Pods", err, want)
		}
	}

	n.report(container(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, nil))
	var problems []string
	for _, pod := range n.pods {
		problems = append(problems, fmt.Sprintf("Pod %s: it runs and is not ready; see kubectl -n waited-for logs %[1]s", pod.Name))
	}
	told := make(chan string, 100)
	done := make(chan error, 1)
	go func() {
		_, err := install.Rollout{Namespace: "waited-for", Timeout: time.Hour, Progress: func(text string) { told <- text }}.Wait(t.Context(), n)
		done <- err
	}()
	testkit.Equal(t, <-told, strings.Join(problems, "\n  "), "the progress")
	n.report(corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}})
	n.progress("waited-for", appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2})
	if err := <-done; err != nil {
		t.Errorf("after all Pods are ready: %v", err)
	}
}

// The wait reports why Pods cannot be created and how many old Pods have not ended, and an interruption ends it.
func TestRollout_Refused(t *testing.T) {
	t.Parallel()
	c := clientFor(t, fleettest.Cluster(t, "rollout"))
	must(t, install.Apply(t.Context(), c, objects(t, install.Options{Namespace: "refused"}), install.ApplyOptions{}))
	rollout := install.Rollout{Namespace: "refused", Timeout: time.Nanosecond}
	expect := func(want string) {
		t.Helper()
		if _, err := rollout.Wait(t.Context(), c); !errors.Is(err, install.ErrNotRunning) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	expect("check that kube-controller-manager runs")
	var d appsv1.Deployment
	must(t, c.Get(t.Context(), client.ObjectKey{Namespace: "refused", Name: "clusterfx-hub"}, &d))
	d.Status.ObservedGeneration = d.Generation
	d.Status.Conditions = []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: "exceeded quota: pods",
	}}
	must(t, c.Status().Update(t.Context(), &d))
	expect("Pods cannot be created: FailedCreate: exceeded quota: pods; change the quota or the policy that refuses them")

	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 3, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2}
	must(t, c.Status().Update(t.Context(), &d))
	expect("Pods from before the change have not ended: 1")
	d.Status.Replicas = 2
	must(t, c.Status().Update(t.Context(), &d))
	if ready, err := rollout.Wait(t.Context(), c); err != nil || ready != 2 {
		t.Errorf("after the rollout: %d, %v", ready, err)
	}
	d.Status.ObservedGeneration--
	must(t, c.Status().Update(t.Context(), &d))

	ctx, cancel := context.WithCancel(t.Context())
	rollout = install.Rollout{Namespace: "refused", Timeout: time.Hour, Progress: func(string) { cancel() }}
	testkit.ErrorIs(t, testkit.Err(rollout.Wait(ctx, c)), context.Canceled, "after an interruption")
}

// answering fails the first requests with these errors.
type answering struct {
	client.Client
	errs []error
}

// Get returns the next error, or calls the API server.
func (a *answering) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if len(a.errs) > 0 {
		err := a.errs[0]
		a.errs = a.errs[1:]
		return err
	}
	return a.Client.Get(ctx, key, o, options...)
}

// The wait retries requests that fail temporarily, until the timeout. A missing permission ends it.
func TestRollout_Errors(t *testing.T) {
	t.Parallel()
	unavailable, forbidden := apierrors.NewServiceUnavailable("no leader"), apierrors.NewForbidden(appsv1.Resource("deployments"), "clusterfx-hub", nil)
	told := ""
	rollout := install.Rollout{Namespace: "answering", Timeout: time.Hour, Progress: func(text string) { told += text }}
	if _, err := rollout.Wait(t.Context(), &answering{errs: []error{unavailable, syscall.ECONNREFUSED, forbidden}}); !apierrors.IsForbidden(err) {
		t.Errorf("a missing permission: %v", err)
	}
	for _, want := range []string{"no leader", "connection refused"} {
		if !strings.Contains(told, want) {
			t.Errorf("no %q in %q", want, told)
		}
	}
	rollout.Timeout = time.Nanosecond
	if _, err := rollout.Wait(t.Context(), &answering{errs: []error{unavailable, unavailable, unavailable}}); !errors.Is(err, install.ErrNotRunning) ||
		!strings.Contains(err.Error(), "no leader") {
		t.Errorf("after the timeout: %v", err)
	}
}
