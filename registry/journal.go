// SPDX-License-Identifier: Apache-2.0

package registry

import "context"

// Journal records which apps are being started, in a place that survives a crash of the hub. Damage of a module to
// the whole process cannot be contained; but the next process can read which apps were being started when the last
// process died, and start these with care (see state.CrashRecord).
//
// A journal prevents no start: an app whose Begin fails is started anyway.
type Journal interface {
	// Begin notes that the app of name is about to start. It returns when the note would survive a crash, or with an
	// error if the note was not written before ctx ended. The journal logs its failures for operators; the registry
	// logs the error of each app for debugging only.
	Begin(ctx context.Context, name ClusterName) error
	// End notes that the app has proven itself, or has ended in good order. It does not block.
	End(name ClusterName)
}
