// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// Scheme returns a scheme of the kinds of Kubernetes, and of those that the functions add.
func Scheme(tb testing.TB, add ...func(*runtime.Scheme) error) *runtime.Scheme {
	tb.Helper()
	s := runtime.NewScheme()
	for _, one := range append(add, clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme) {
		testkit.Must(tb, one(s))
	}
	return s
}

// Client returns a client of a cluster, as its administrator or as a user, that knows the kinds of Scheme.
func Client(tb testing.TB, of interface{ Config() *rest.Config }, add ...func(*runtime.Scheme) error) client.WithWatch {
	tb.Helper()
	return ClientFor(tb, of.Config(), add...)
}

// ClientFor is Client with a configuration. Its idle connections are closed with the test.
func ClientFor(tb testing.TB, config *rest.Config, add ...func(*runtime.Scheme) error) client.WithWatch {
	tb.Helper()
	http, err := rest.HTTPClientFor(config)
	testkit.Must(tb, err)
	tb.Cleanup(http.CloseIdleConnections)
	c, err := client.NewWithWatch(config, client.Options{HTTPClient: http, Scheme: Scheme(tb, add...)})
	testkit.Must(tb, err)
	return c
}

// Mapper returns the mapper of a manager, whose connections are closed when the test ends.
func Mapper(tb testing.TB, config *rest.Config) meta.RESTMapper {
	tb.Helper()
	http, err := rest.HTTPClientFor(config)
	testkit.Must(tb, err)
	tb.Cleanup(http.CloseIdleConnections)
	mapper, err := apiutil.NewDynamicRESTMapper(config, http)
	testkit.Must(tb, err)
	return mapper
}

// Namespace creates a namespace whose name begins with a prefix, and returns the name.
func Namespace(tb testing.TB, c client.Client, prefix string) string {
	tb.Helper()
	one := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	testkit.Must(tb, c.Create(tb.Context(), one))
	return one.Name
}

// Gone waits until an object does not exist.
func Gone(tb testing.TB, c client.Client, o client.Object) {
	tb.Helper()
	testkit.Eventually(tb, func() error {
		if err := c.Get(tb.Context(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s exists: %w", o.GetName(), err)
		}
		return nil
	})
}

// Proxy returns a proxy to an address or URL that is closed when the test ends.
func Proxy(tb testing.TB, upstream string) *fault.Proxy {
	tb.Helper()
	p, err := fault.New(upstream)
	testkit.Must(tb, err)
	tb.Cleanup(p.Close)
	return p
}

// ProxyTo returns a proxy to a cluster, and a kubeconfig of its administrator that goes through it.
func ProxyTo(tb testing.TB, c *fleet.Cluster) (*fault.Proxy, []byte) {
	tb.Helper()
	p := Proxy(tb, c.Server())
	through, err := p.Kubeconfig(c.Kubeconfig())
	testkit.Must(tb, err)
	return p, through
}
