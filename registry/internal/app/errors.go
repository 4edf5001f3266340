// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

var (
	// ErrStopped is the cause of a context that ends because an App was stopped.
	ErrStopped = errors.New("the app of this remote was stopped")
	// ErrReplaced is the cause of a context that ends because another app has replaced an app. It matches ErrStopped.
	ErrReplaced = fmt.Errorf("another app has replaced it: %w", ErrStopped)
	// ErrStandby says that the process may not write.
	ErrStandby      = errors.New("this replica of the hub stands by")
	errManagerEnded = errors.New("the manager ended")
)

// ModuleError says which module of an App failed, and how.
type ModuleError struct {
	Module  string
	Reason  string
	Err     error
	Problem state.Problem
}

// Error names the module and the failure.
func (e *ModuleError) Error() string {
	if e.Module == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("module %q: %v", e.Module, e.Err)
}

// Unwrap returns the failure.
func (e *ModuleError) Unwrap() error { return e.Err }

// remoteError is a failure to start an app that the remote caused: it stopped responding meanwhile.
type remoteError struct{ error }

func (e *remoteError) Unwrap() error { return e.error }

// Failure is the cause of the end of an App, as the status reports it.
type Failure struct {
	Module          string
	Reason, Message string
	Problem         state.Problem
	// OfRemote says that the remote did not respond, so that no module is at fault.
	OfRemote bool
}

// Describe returns the failure for the status from the error that ended an App.
func Describe(err error) Failure {
	if failed, ok := errors.AsType[*ModuleError](err); ok {
		return Failure{
			Module: failed.Module, Reason: failed.Reason, Message: state.Sanitize(failed.Error()), Problem: failed.Problem,
		}
	}
	if _, ok := errors.AsType[*remoteError](err); ok {
		_, message := kubeconfig.Classify(err)
		return Failure{Reason: state.ReasonStartFailed, Message: state.Sanitize("discover the API: " + message), OfRemote: true}
	}
	reason := state.ReasonStartFailed
	if errors.Is(err, errManagerEnded) {
		reason = state.ReasonModuleFailed
	}
	return Failure{Reason: reason, Message: state.Sanitize(err.Error())}
}
