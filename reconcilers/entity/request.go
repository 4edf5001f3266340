// SPDX-License-Identifier: Apache-2.0

package entity

import "github.com/clusterfx/clusterfx/reconcilers/entity/bucket"

// Request asks for the reconcile of one primary.
type Request struct {
	Key     string
	read    *readEntities // in whose bucket Key has changed
	observe bool
}

// String returns the key.
func (r Request) String() string { return r.Key }

// Operation is the reason of a request. It decides about the order only.
type Operation uint8

// The first three have the numbers of jetstream.KeyValueOp.
const (
	OperationPut Operation = iota
	OperationDelete
	OperationPurge
	OperationSecondary
	OperationResync
)

const (
	priorityPrimary   = 10
	prioritySecondary = 0
	priorityResync    = -100
)

func (o Operation) priority() int {
	switch o {
	case OperationPut, OperationDelete, OperationPurge:
		return priorityPrimary
	case OperationSecondary:
		return prioritySecondary
	case OperationResync:
	}
	return priorityResync
}

func operationOf(c bucket.Change) Operation {
	switch {
	case c.Listed, c.Operation == bucket.Missing:
		return OperationResync
	case c.Operation == bucket.Deleted:
		return OperationDelete
	case c.Operation == bucket.Purged:
		return OperationPurge
	}
	return OperationPut
}
