// SPDX-License-Identifier: Apache-2.0

package registry

import "context"

// AwaitWrites returns nil when no write for the remote is in flight: at once if there is none, if the name is unknown, or
// without Options.Gate. When ctx ends first it returns the cause, and how many are in flight. It does not stop writes: the
// caller has closed the gate for the remote before. Then a nil means that no write which the gate has let pass reaches an
// API server later.
//
// The writes for a remote are the mutating requests that ask the gate for it: those of its app and of leases of its client,
// to the remote, and those of its app to the hub. A write is in flight from right before it asks the gate until it has a
// response, or is known not to have been sent. With any other end, such as a canceled context or a lost connection, or a
// response with the code 502, 503 or 504, which a gateway sends when it has no response itself, the write may still take
// effect: it is in flight until it would have timed out (Desired.Client.Timeout after it began, ten seconds towards the hub).
// So AwaitWrites takes at most that time. Writes remain in flight when the app ends and when the remote is stopped or
// forgotten. A stream that begins with a write, such as exec, is a write until its first response; one with watch or follow
// in its query has no timeout until then, and ends with the app.
//
// Requests of hub parts to the hub, and whatever modules send elsewhere, are not counted.
func (r *Registry) AwaitWrites(ctx context.Context, name ClusterName) error {
	return r.remotes.Apps.Writes.Await(ctx, string(name))
}
