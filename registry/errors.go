// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-logr/logr"

	"github.com/clusterfx/clusterfx/registry/internal/actor"
	"github.com/clusterfx/clusterfx/registry/internal/app"
	"github.com/clusterfx/clusterfx/registry/internal/logsink"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

var (
	// ErrNotFound says that no remote of that name is known. Test with errors.Is.
	ErrNotFound = errors.New("remote is not registered")
	// ErrAlreadyExists is returned by Spawn for a known name; Ensure changes a known one.
	ErrAlreadyExists = errors.New("remote is registered already")
	// ErrNotReady is matched by every NotReadyError.
	ErrNotReady = errors.New("remote is not ready")
	// ErrStopped is the cause with which contexts end when an app is stopped, and the error of its later requests.
	ErrStopped = app.ErrStopped
	// ErrReplaced is the cause of a lease's context ten seconds after another app has replaced its app. It matches ErrStopped.
	ErrReplaced = app.ErrReplaced
	// ErrSuperseded is returned by Stop when Ensure registers the remote again before it was forgotten.
	ErrSuperseded = errors.New("the remote was registered again")
	// ErrStandby says that another replica works. Errors of Options.Gate, a Turn, and WithClient on a standby match it.
	ErrStandby = app.ErrStandby
	// ErrElsewhere says that another replica runs the remote, or will. Errors of Options.Gate and WithClient match it.
	ErrElsewhere = errors.New("another replica of the hub runs the remote")
	// ErrClosed is returned once the registry has been shut down.
	ErrClosed = errors.New("the registry is shut down")
)

// NotReadyError says that a remote is registered but cannot be used now. It matches ErrNotReady.
type NotReadyError struct {
	Name ClusterName
	// State, Reason, Message and Problem are copied from the Status at the time of the call.
	State   state.State
	Reason  string
	Message string
	Problem state.Problem
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

// AbandonedError says that Remove left cleanup steps undone, or an app that has not ended.
type AbandonedError struct {
	Name ClusterName
	// Steps are those that were skipped, failed or cut short, as "module/step", also of modules that ran earlier in
	// this process, since the remote was last warm, and not when it was removed.
	Steps   []string
	Why     string        // Why is the cause; empty if Steps is empty.
	Problem state.Problem // Problem identifies the problem, for advice that is not in Why.
	// Gate is the error of Options.Gate, if it refused writes of the steps or of the start of their app, or is closed at the end. Then
	// the module may not be at fault: call Ensure and Remove again when the gate is open. The AbandonedError matches Gate with
	// errors.Is.
	Gate   error
	Zombie bool // Zombie says that the app has not ended in time. It can reach nothing.
}

// Unwrap returns Gate.
func (e *AbandonedError) Unwrap() error { return e.Gate }

// Error has the cause last, since that is the longest part.
func (e *AbandonedError) Error() string {
	parts := []string{fmt.Sprintf("remote %s is removed", e.Name)}
	if len(e.Steps) > 0 {
		parts = append(parts, "cleanup steps not done: "+strings.Join(e.Steps, ", "))
	}
	if e.Zombie {
		parts = append(parts, "its app has not ended in time; the app is fenced and can reach nothing")
	}
	if e.Why != "" {
		parts = append(parts, "cause: "+e.Why)
	}
	return strings.Join(parts, "; ")
}

func abandoned(name ClusterName, left *actor.Leftover) *AbandonedError {
	return &AbandonedError{Name: name, Steps: left.Steps, Why: left.Why, Problem: left.Problem, Gate: left.Gate, Zombie: left.Zombie}
}

// Quote makes a remote's text fit for a user's status: one line, printable, at most kubeconfig.MaxQuote bytes, without
// credentials of remote and hub. Nothing else of a remote must go there.
func (r *Registry) Quote(_ ClusterName, text string) string {
	return kubeconfig.Quote(text, r.remotes.Secrets.Redact)
}

// RedactingLogger replaces the credentials of a Redactor in texts and errors at every level. See Options.Secrets.
func RedactingLogger(log logr.Logger, secrets *kubeconfig.Redactor) logr.Logger {
	return logsink.RedactSecrets(log, secrets)
}
