// SPDX-License-Identifier: Apache-2.0

/*
Package entities reads and writes entities in NATS buckets for the command line.

# Usage

	store, err := entities.Open(ctx, js, "tenants")
	all, err := store.List(ctx)
	done, err := store.Apply(ctx, entities.Document{Key: "acme", Value: value}, entities.Write{})

# Considerations

A command is a writer of target state, as a portal is: it does not need the hub, or the hub's permissions. Each write carries the
revision that was read, or that the user expects, so that it replaces nothing that the user has not seen.

A document is what people read and write: the key, the revision and the value, and the status of the entity beside it. A value that
is no JSON is shown as base64, and can be replaced or deleted.
*/
package entities
