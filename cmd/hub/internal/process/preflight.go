// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/project"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
)

const preflightTimeout = 20 * time.Second

var errSilent = errors.New("the API server did not respond in time")

// preflight: the API server must know Cluster objects and let the hub list them. It returns the hub's cluster id.
func preflight(ctx context.Context, config *rest.Config, scheme *runtime.Scheme) (id string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, preflightTimeout, errSilent)
	defer cancel()
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return "", fmt.Errorf("build the client for the hub: %w", err)
	}
	defer httpClient.CloseIdleConnections()
	hub, err := client.New(config, client.Options{Scheme: scheme, HTTPClient: httpClient})
	if err != nil {
		return "", fmt.Errorf("build the client for the hub: %w", err)
	}
	if err := hub.List(ctx, &hubv1.ClusterList{}, client.Limit(1)); err != nil {
		return "", explain(ctx, config, fmt.Errorf("list Clusters: %w", err))
	}
	own := metav1.PartialObjectMetadata{}
	own.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := hub.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &own); err != nil {
		return "", explain(ctx, config, fmt.Errorf("read the Namespace %s: %w", metav1.NamespaceSystem, err))
	}
	return string(own.UID), nil
}

// checkAlone fails if a hub that has no gate would work beside replicas. What cannot be read is no reason not to start.
func checkAlone(ctx context.Context, o Options, scheme *runtime.Scheme) error {
	if !o.Alone {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, preflightTimeout)
	defer cancel()
	hub, err := client.New(o.Config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("build the client for the hub: %w", err)
	}
	pods, _ := replica.LivePods(ctx, hub, o.CredentialsNamespace) // A hub alone may lack the permission.
	if len(pods) == 0 {
		return nil
	}
	return fmt.Errorf("replicas of a hub work in %s (%s), and a hub that is alone would write beside them: stop them, and wait for 10 s, "+
		"or run this hub with --alone=false", o.CredentialsNamespace, strings.Join(pods, ", "))
}

// explain adds advice.
func explain(ctx context.Context, config *rest.Config, err error) error {
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return fmt.Errorf("the hub's cluster at %s does not know Cluster objects: %s: %w", config.Host, project.InstallCRD, err)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fmt.Errorf("the hub's cluster at %s denies the hub its permissions: check its credentials, "+
			"and grant the permissions that \"hub rbac --in hub\" prints: %w", config.Host, err)
	case context.Cause(ctx) != nil:
		err = context.Cause(ctx)
	}
	return fmt.Errorf("ask the hub's cluster at %s: %w; check --kubeconfig and --context", config.Host, err)
}
