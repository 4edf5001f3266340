// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
)

// ErrNotRunning means that everything was applied, and that the Pods of the hub were not ready in time.
var ErrNotRunning = errors.New("the hub does not run")

const (
	// DeploymentName is the name of the hub's Deployment.
	DeploymentName = "clusterfx-hub"
	// rolloutPeriod is between two looks at the Deployment, and rolloutRequest is how long each of their requests may take.
	rolloutPeriod  = 500 * time.Millisecond
	rolloutRequest = 10 * time.Second
)

// Rollout waits for the Pods of an installation.
type Rollout struct {
	// Namespace is the hub's.
	Namespace string
	// Timeout is how long the Pods may take to become ready.
	Timeout time.Duration
	// Progress is called when the reason why Pods wait has changed. Default: not called.
	Progress func(text string)
}

// Wait returns when all Pods of the hub are ready and up to date with the last change, with their number. An error that matches
// ErrNotRunning names for each Pod why it is not ready, and the remedy.
func (r Rollout) Wait(ctx context.Context, c client.Client) (int, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, r.Timeout, ErrNotRunning)
	defer cancel()
	ready, last := 0, ""
	err := access.Poll(bounded, rolloutPeriod, func() (bool, error) {
		var problem string
		var err error
		ready, problem, err = r.look(ctx, c)
		if err != nil && ctx.Err() == nil && passes(err) {
			problem, err = fmt.Sprintf("the API server does not respond as it should: %s", short(err.Error())), nil
		}
		if err == nil && problem != "" && problem != last && r.Progress != nil {
			r.Progress(problem)
		}
		last = problem
		return problem == "", err
	})
	if errors.Is(err, ErrNotRunning) {
		err = fmt.Errorf("%w after %s: %s", err, r.Timeout, last)
	}
	return ready, err
}

// passes reports whether the same request may succeed later: a hub is installed while nodes start and API servers move.
func passes(err error) bool {
	return !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) && !apierrors.IsUnauthorized(err)
}

// look returns how many Pods are ready and, unless all are, why the others wait.
func (r Rollout) look(ctx context.Context, c client.Client) (ready int, problem string, err error) {
	ctx, cancel := context.WithTimeout(ctx, rolloutRequest)
	defer cancel()
	var d appsv1.Deployment
	if err := c.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: DeploymentName}, &d); err != nil {
		return 0, "", fmt.Errorf("see whether the hub runs: %w", err)
	}
	ready = int(d.Status.ReadyReplicas)
	wanted, s := ptr.Deref(d.Spec.Replicas, 1), d.Status
	current := s.ObservedGeneration >= d.Generation
	if current && s.UpdatedReplicas >= wanted && s.Replicas <= s.UpdatedReplicas && s.AvailableReplicas >= wanted {
		return ready, "", nil
	}
	if !current {
		return ready, fmt.Sprintf("the controller of Deployments has not seen %s/%s; check that kube-controller-manager runs", r.Namespace, d.Name), nil
	}
	for _, condition := range s.Conditions {
		if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
			return ready, fmt.Sprintf("Pods cannot be created: %s: %s; change the quota or the policy that refuses them", condition.Reason, short(condition.Message)), nil
		}
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(r.Namespace), client.MatchingLabels(d.Spec.Selector.MatchLabels)); err != nil {
		return ready, "", fmt.Errorf("see whether the hub's Pods are ready: %w", err)
	}
	var problems []string
	for i := range pods.Items {
		if text := unready(&pods.Items[i]); text != "" {
			problems = append(problems, text)
		}
	}
	if len(problems) == 0 && s.Replicas > s.UpdatedReplicas {
		return ready, fmt.Sprintf("Pods from before the change have not ended: %d", s.Replicas-s.UpdatedReplicas), nil
	}
	if len(problems) == 0 {
		return ready, fmt.Sprintf("%d of %d Pods are ready", ready, wanted), nil
	}
	return ready, strings.Join(problems, "\n  "), nil
}

// unready returns why a Pod is not ready and the remedy, and "" if it is ready or being deleted.
func unready(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return ""
	}
	say := func(reason, message, advice string) string {
		text := "Pod " + pod.Name + ": " + reason
		if message = short(message); message != "" {
			text += ": " + message
		}
		return access.WithAdvice(text, cmp.Or(advice, fmt.Sprintf("see kubectl -n %s describe pod %s", pod.Namespace, pod.Name)))
	}
	for _, condition := range pod.Status.Conditions {
		switch {
		case condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue:
			return ""
		case condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse:
			return say(condition.Reason, condition.Message, "")
		}
	}
	if pod.Status.Phase == corev1.PodFailed {
		return say("failed: "+pod.Status.Reason, pod.Status.Message, "")
	}
	for _, container := range pod.Status.ContainerStatuses {
		waiting, ended, last := container.State.Waiting, container.State.Terminated, container.LastTerminationState.Terminated
		switch {
		case ended != nil: // It is about to be restarted.
			return say(fmt.Sprintf("it ended with exit code %d (%s)", ended.ExitCode, ended.Reason), ended.Message,
				fmt.Sprintf("see kubectl -n %s logs %s", pod.Namespace, pod.Name))
		case waiting == nil:
			continue
		case strings.Contains(waiting.Reason, "Image"):
			return say(waiting.Reason, waiting.Message, fmt.Sprintf("check that the nodes can pull %s, or use another --image", container.Image))
		case last != nil:
			return say(waiting.Reason, fmt.Sprintf("it ended with exit code %d (%s)", last.ExitCode, last.Reason),
				fmt.Sprintf("see kubectl -n %s logs %s --previous", pod.Namespace, pod.Name))
		case waiting.Reason != "ContainerCreating":
			return say(waiting.Reason, waiting.Message, "")
		}
	}
	for _, container := range pod.Status.ContainerStatuses {
		if container.State.Running != nil {
			return say("it runs and is not ready", "", fmt.Sprintf("see kubectl -n %s logs %s", pod.Namespace, pod.Name))
		}
	}
	return say("it has not started", "", "")
}

// short returns a message on one line, cut to a few lines of a terminal.
func short(message string) string {
	const most = 300
	message = strings.Join(strings.Fields(message), " ")
	if len(message) > most {
		message = strings.ToValidUTF8(message[:most], "") + "..."
	}
	return message
}

// Installed is the installation that a cluster has already. The zero Installed is none.
type Installed struct {
	// Image is the image of the hub, and Config its configuration file.
	Image, Config string
	// UnusedConfig is true if there is a ConfigMap ConfigMapName that the hub does not read, or no hub that could.
	UnusedConfig bool
	// args are the arguments of the hub.
	args []string
}

// Find returns the installation in a namespace.
func Find(ctx context.Context, c client.Reader, namespace string) (Installed, error) {
	var found Installed
	var d appsv1.Deployment
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: DeploymentName}, &d); client.IgnoreNotFound(err) != nil {
		return found, fmt.Errorf("look for a hub that is installed: %w", err)
	}
	if hub := hubOf(&d); hub != nil {
		found.Image, found.args = hub.Image, hub.Args
	}
	var file corev1.ConfigMap
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ConfigMapName}, &file); client.IgnoreNotFound(err) != nil {
		return found, fmt.Errorf("look for the configuration of the hub: %w", err)
	}
	if readsConfig(&d) {
		found.Config = file.Data[configKey]
	} else {
		found.UnusedConfig = file.Name != ""
	}
	return found, nil
}

// readsConfig reports whether the hub of a Deployment reads the ConfigMap. The name of the ConfigMap alone does not make it
// the configuration: the hub itself may create ConfigMaps.
func readsConfig(d *appsv1.Deployment) bool {
	hub := hubOf(d)
	return hub != nil && slices.Contains(hub.Args, configArgument) &&
		slices.ContainsFunc(d.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool {
			return v.ConfigMap != nil && v.ConfigMap.Name == ConfigMapName
		})
}

func hubOf(d *appsv1.Deployment) *corev1.Container {
	containers := d.Spec.Template.Spec.Containers
	if i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == "hub" }); i >= 0 {
		return &containers[i]
	}
	return nil
}

// Arguments returns those of the hub in the objects of an installation.
func Arguments(objects []*unstructured.Unstructured) ([]string, error) {
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(deploymentIn(objects).Object, &d); err != nil {
		return nil, fmt.Errorf("read the Deployment: %w", err)
	}
	return hubOf(&d).Args, nil
}

func deploymentIn(objects []*unstructured.Unstructured) *unstructured.Unstructured {
	for _, object := range objects {
		if object.GetKind() == "Deployment" && object.GetName() == DeploymentName {
			return object
		}
	}
	return nil
}

// Lost returns the arguments of the installed hub that these objects remove, for example arguments that an operator has
// added to its Deployment by hand.
func (i Installed) Lost(objects []*unstructured.Unstructured) ([]string, error) {
	args, err := Arguments(objects)
	return slices.DeleteFunc(slices.Clone(i.args), func(one string) bool { return slices.Contains(args, one) }), err
}
