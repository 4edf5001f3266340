// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
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

	shown *shown // nil for the hub's cluster
}

// New returns a client for a cluster. It sends no request.
func New(what string, config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // One command is no flood, and the API server has its own limits.
	config.WarningHandler = rest.NoWarnings{}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("build a client for %s: %w", what, err)
	}
	scheme := runtime.NewScheme()
	mapper, err := kindsOf(scheme)
	if err == nil {
		mapper.RESTMapper, err = apiutil.NewDynamicRESTMapper(config, httpClient)
	}
	if err != nil {
		return nil, fmt.Errorf("build a client for %s: %w", what, err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper, HTTPClient: httpClient})
	if err != nil {
		return nil, fmt.Errorf("build a client for %s: %w", what, err)
	}
	return &Cluster{Client: c, What: what, Config: config, HTTP: httpClient}, nil
}

// NewRemote returns a client for a remote, without a request. No text of the remote gets into an error, except those of
// a decoder, which quotes its input: print errors by Explain, which replaces credentials. The parameter has those of
// the transport, which the configuration does not show.
func NewRemote(what string, config *rest.Config, credentials ...kubeconfig.Credential) (*Cluster, error) {
	config = rest.CopyConfig(config)
	credentials = append(credentials, kubeconfig.CredentialOf(config))
	own := &shown{known: credentials}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return noting{kubeconfig.Discreet(next, credentials...), own}
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
		return &wordedError{text, explained}
	}
	return explained
}

// Failed is Explain for what was tried, if it failed.
func (c *Cluster) Failed(tried string, err error) error {
	if err == nil {
		return nil
	}
	return c.Explain(fmt.Errorf("%s: %w", tried, err))
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

// shown credentials may be in whatever the server writes.
type shown struct {
	known []kubeconfig.Credential
	// last is the token of the last request: a plugin of the kubeconfig may issue tokens that no configuration has.
	last atomic.Pointer[string]
}

type noting struct {
	next  http.RoundTripper
	shown *shown
}

func (n noting) RoundTrip(r *http.Request) (*http.Response, error) {
	if token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); found {
		n.shown.last.Store(&token)
	}
	return n.next.RoundTrip(r)
}

func (s *shown) all() []kubeconfig.Credential {
	if s == nil {
		return nil
	}
	if last := s.last.Load(); last != nil {
		return append(s.known[:len(s.known):len(s.known)], kubeconfig.CredentialOf(&rest.Config{BearerToken: *last}))
	}
	return s.known
}

// Redact replaces each part of the client's credentials in a text.
func (c *Cluster) Redact(text string) string { return kubeconfig.Redact(text, c.shown.all()...) }

// Quote makes a remote's text fit to be printed: one short line without the client's credentials.
func (c *Cluster) Quote(text string) string { return kubeconfig.Quote(text, c.Redact) }

// maxToken is longer than any version, UID or name that an API server has.
const maxToken = 256

// Token returns what a remote says of itself, such as its version or a user, if it is short, has the alphabet of those
// and nothing of the client's credentials; otherwise a text that says so.
func (c *Cluster) Token(text string) string {
	if c.isToken(text) {
		return text
	}
	return "(a name that is not fit to be printed)"
}

func (c *Cluster) isToken(text string) bool {
	const alphabet = `^[A-Za-z0-9_.:@/#+=~|-]+$`
	return len(text) <= maxToken && regexp.MustCompile(alphabet).MatchString(text) && c.Redact(text) == text
}

// Issues reports whether a remote's token is new, and not the client's. Tokens begin alike, so signatures are compared.
func (c *Cluster) Issues(token string) bool {
	for _, own := range c.shown.all() {
		if own.SignatureIn(token) {
			return false
		}
	}
	return true
}

// wordedError is an error in other words.
type wordedError struct {
	text string
	err  error
}

func (e *wordedError) Error() string { return e.text }
func (e *wordedError) Unwrap() error { return e.err }

// kinds are where the kinds that commands use often are found. The API server is asked for others.
type kinds struct {
	known *meta.DefaultRESTMapper
	meta.RESTMapper
}

func (k kinds) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if found, err := k.known.RESTMapping(kind, versions...); err == nil {
		return found, nil
	}
	return k.RESTMapper.RESTMapping(kind, versions...)
}

// kindsOf adds the kinds that commands use to a scheme.
func kindsOf(scheme *runtime.Scheme) (kinds, error) {
	err := errors.Join(
		authenticationv1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme), appsv1.AddToScheme(scheme),
		corev1.AddToScheme(scheme), admissionv1.AddToScheme(scheme), rbacv1.AddToScheme(scheme), hubv1.AddToScheme(scheme),
		apiextensionsv1.AddToScheme(scheme),
	)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	known := meta.NewDefaultRESTMapper(nil)
	everywhere := sets.New("Cluster", "SyncRule", "Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "SelfSubjectReview",
		"SelfSubjectAccessReview", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
	inNamespaces := sets.New("Secret", "ConfigMap", "ServiceAccount", "Event", "Lease", "Role", "RoleBinding", "Deployment", "Pod")
	for kind := range scheme.AllKnownTypes() {
		switch {
		case everywhere.Has(kind.Kind):
			known.Add(kind, meta.RESTScopeRoot)
		case inNamespaces.Has(kind.Kind):
			known.Add(kind, meta.RESTScopeNamespace)
		}
	}
	return kinds{known: known}, err
}

// WithAdvice returns a message followed by advice, as one sentence.
func WithAdvice(message, advice string) string {
	if advice == "" {
		return message
	}
	return strings.TrimRight(message, ". ") + "; " + advice
}

func advised(err error, advice string) error {
	return &wordedError{WithAdvice(err.Error(), advice), err}
}

// Poll calls done until it says so or fails, or ctx ends, whose cause it returns then.
func Poll(ctx context.Context, period time.Duration, done func() (bool, error)) error {
	err := wait.PollUntilContextCancel(ctx, period, true, func(context.Context) (bool, error) { return done() })
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
