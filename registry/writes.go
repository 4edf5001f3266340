// SPDX-License-Identifier: Apache-2.0

package registry

import "context"

// AwaitWrites returns nil when no write for the remote is in flight: at once if there is none, if the name is unknown, or without
// Options.Gate. When ctx ends first it returns the cause and how many are in flight. It does not stop writes: the caller must
// close the gate for the remote before. Then nil means that no write which passed the gate reaches an API server later.
//
// Counted are the mutating requests that ask the gate for this remote: those of its app and of leases to the remote, and those of
// its app to the hub, but not those of hub parts to the hub, nor what modules send elsewhere. A write is in flight until it has a
// response or is known not to have been sent. With any other end (a canceled context, a lost connection, a gateway's 502, 503 or
// 504) it may still take effect, and counts until it would have timed out: Desired.Client.Timeout after it began, ten seconds
// towards the hub. So AwaitWrites takes at most that time. Writes remain in flight after the app has ended and the remote is
// forgotten. A stream that begins with a write, such as exec, is a write until its first response; with watch or follow in its
// query it has no timeout until then, and ends with the app.
func (r *Registry) AwaitWrites(ctx context.Context, name ClusterName) error {
	return r.remotes.Apps.Writes.Await(ctx, string(name))
}
