// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"net/http"

	"k8s.io/client-go/rest"
)

// RESTConfig returns the configuration of clients that reach the endpoint through the given
// RoundTripper, usually a Transport with more around it. It has no credentials and no TLS settings:
// the RoundTripper has them. client-go does not limit the rate (QPS is -1), and nothing is timed
// out but by the RoundTripper.
func RESTConfig(e Endpoint, rt http.RoundTripper) *rest.Config {
	return &rest.Config{Host: e.Server, Transport: rt, QPS: -1}
}
