// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Client returns a client of a cluster, as its administrator or as a user, with the kinds of Kubernetes and those that
// the functions add. Its idle connections are closed with the test.
func Client(tb testing.TB, of interface{ Config() *rest.Config }, kinds ...func(*runtime.Scheme) error) client.WithWatch {
	tb.Helper()
	scheme := runtime.NewScheme()
	for _, add := range append(kinds, clientgoscheme.AddToScheme) {
		if err := add(scheme); err != nil {
			tb.Fatal(err)
		}
	}
	config := of.Config()
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(httpClient.CloseIdleConnections)
	c, err := client.NewWithWatch(config, client.Options{HTTPClient: httpClient, Scheme: scheme})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// Namespace creates a namespace whose name begins with a prefix, and returns the name.
func Namespace(tb testing.TB, c client.Client, prefix string) string {
	tb.Helper()
	one := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	if err := c.Create(tb.Context(), one); err != nil {
		tb.Fatal(err)
	}
	return one.Name
}
