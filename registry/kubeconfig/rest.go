// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"net/http"

	"k8s.io/client-go/rest"
)

// RESTConfig returns the configuration of clients that reach the endpoint through rt, usually a Transport with more
// around it, which has the credentials and the TLS settings. client-go does not limit the rate (QPS is -1), and only rt
// times anything out.
func RESTConfig(e Endpoint, rt http.RoundTripper) *rest.Config {
	return &rest.Config{Host: e.Server, Transport: rt, QPS: -1}
}
