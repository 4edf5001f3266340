// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"fmt"
)

var (
	// ErrNotFound says that no remote of that name is known. Test with errors.Is.
	ErrNotFound = errors.New("remote is not registered")
	// ErrAlreadyExists is returned by Spawn for a name that is known already, whatever its
	// configuration; Ensure changes a known one.
	ErrAlreadyExists = errors.New("remote is registered already")
	// ErrNotReady is matched by every NotReadyError.
	ErrNotReady = errors.New("remote is not ready")
	// ErrStopped is the cause of every context that ends because an app was stopped, and the
	// error of every request that a stopped app still tries to send.
	ErrStopped = errors.New("the app of this remote was stopped")
	// ErrSuperseded is returned by Stop when an Ensure wants the remote again before it was
	// forgotten.
	ErrSuperseded = errors.New("the remote is wanted again")
	// ErrClosed is returned once the registry has been shut down.
	ErrClosed = errors.New("the registry is shut down")
)

// NotReadyError is returned when a remote is registered but cannot be used now. It matches
// ErrNotReady with errors.Is.
type NotReadyError struct {
	// Name is the remote.
	Name ClusterName
	// State, Reason and Message are those of its Info at the time of the call.
	State   State
	Reason  string
	Message string
}

// Error names the remote, its state and why it is in it.
func (e *NotReadyError) Error() string {
	text := fmt.Sprintf("remote %s is %s", e.Name, e.State)
	if e.Reason != "" && e.Reason != string(e.State) {
		text += " (" + e.Reason + ")"
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// Is reports whether target is ErrNotReady.
func (e *NotReadyError) Is(target error) bool { return target == ErrNotReady }

// remoteError is a failure to start an app that is the remote's: it stopped answering meanwhile.
type remoteError struct{ error }

func (e *remoteError) Unwrap() error { return e.error }

// moduleError says which module of an app failed, and how.
type moduleError struct {
	module string
	reason string
	err    error
}

func (e *moduleError) Error() string { return fmt.Sprintf("module %q: %v", e.module, e.err) }
func (e *moduleError) Unwrap() error { return e.err }
