// SPDX-License-Identifier: Apache-2.0

package hubtest

// Kill ends the remote's API server without notice, as a loss of power does. Its data stay for Restart.
func (r *Remote) Kill() {
	r.tb.Helper()
	if err := r.way.machine.cluster.Kill(); err != nil {
		r.tb.Fatalf("hubtest: %v", err)
	}
}

// Restart starts the remote's API server after a Kill, or ends it and starts it again, and returns when
// it is ready, which takes about two seconds: at the same address, with the same data.
func (r *Remote) Restart() {
	r.tb.Helper()
	if err := r.way.machine.cluster.Restart(r.tb.Context()); err != nil {
		r.tb.Fatalf("hubtest: %v", err)
	}
}
