// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import "net/http"

func (t *Transport) HTTP() *http.Transport { return t.active.Load().generation.http }
