// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import "net/http"

func (t *Transport) HTTP() *http.Transport { return t.active.Load().generation.http }

// Draining returns the number of generations that have been replaced and are not closed yet.
func (t *Transport) Draining() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.draining)
}

func (t *Transport) Open() int {
	g := t.active.Load().generation
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.open)
}
