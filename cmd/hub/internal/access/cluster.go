// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/project"
	"github.com/clusterfx/clusterfx/internal/evidence"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// A Cluster is a client for the hub's cluster or a remote. New makes it.
type Cluster struct {
	client.Client
	// What names the cluster in messages.
	What   string
	Config *rest.Config
	HTTP   *http.Client
	REST   rest.Interface

	shown *shown // nil for the hub's cluster
}

// New returns a client for a cluster. It sends no request.
func New(what string, config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // One command is no flood, and the API server has its own limits.
	config.WarningHandler = rest.NoWarnings{}
	scheme := runtime.NewScheme()
	mapper, err := kinds(scheme)
	if err != nil {
		return nil, err
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("build a client for %s: %w", what, err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper, HTTPClient: httpClient})
	if err != nil {
		return nil, fmt.Errorf("build a client for %s: %w", what, err)
	}
	raw := rest.CopyConfig(config)
	raw.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	unversioned, err := rest.UnversionedRESTClientForConfigAndClient(raw, httpClient)
	if err != nil {
		return nil, fmt.Errorf("build a client for %s: %w", what, err)
	}
	return &Cluster{Client: c, What: what, Config: config, HTTP: httpClient, REST: unversioned}, nil
}

// NewRemote returns a client for a remote, without a request. No text of the remote gets into an error, except those of
// a decoder, which quotes its input: print errors by Explain, which replaces credentials. The parameter has those of
// the transport, which the configuration does not show.
func NewRemote(what string, config *rest.Config, credentials ...kubeconfig.Credential) (*Cluster, error) {
	config = rest.CopyConfig(config)
	credentials = append(credentials, kubeconfig.CredentialOf(config))
	own := &shown{known: credentials}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return own.note(kubeconfig.Discreet(next, credentials...))
	})
	c, err := New(what, config)
	if err != nil {
		return nil, err
	}
	c.shown = own
	return c, nil
}

// ID returns the identity of the cluster: the UID of its namespace kube-system.
func (c *Cluster) ID(ctx context.Context) (string, error) {
	own := metav1.PartialObjectMetadata{}
	own.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &own); err != nil {
		return "", c.Explain(fmt.Errorf("read the Namespace %s: %w", metav1.NamespaceSystem, err))
	}
	id := string(own.UID)
	if !c.isToken(id) {
		return "", fmt.Errorf("%s has a Namespace %s whose UID is none: %w", c.What, metav1.NamespaceSystem, kubeconfig.ErrNotKubernetes)
	}
	return id, nil
}

var errNoClusters = errors.New("it does not know Cluster objects: " + project.InstallCRD)

// Explain puts the name of the cluster before an error, and advice after it, and replaces the client's credentials: a
// decoder's error quotes its input. It returns nil for nil.
func (c *Cluster) Explain(err error) error {
	explained := c.explain(err)
	if explained == nil {
		return nil
	}
	if text := c.Redact(explained.Error()); text != explained.Error() {
		return &redactedError{text, explained}
	}
	return explained
}

func (c *Cluster) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return err
	case evidence.IsNotServed(err):
		return fmt.Errorf("%s at %s: %w", c.What, c.Config.Host, errNoClusters)
	case apierrors.IsForbidden(err):
		return advised(fmt.Errorf("%s denies a permission: %w", c.What, err), "ask an administrator for it, or use other credentials")
	case apierrors.IsUnauthorized(err):
		return advised(fmt.Errorf("%s does not accept your credentials: %w", c.What, err), "log in again")
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return fmt.Errorf("%s: %w", c.What, err)
	}
	return fmt.Errorf("%s at %s: %w", c.What, c.Config.Host, err)
}
