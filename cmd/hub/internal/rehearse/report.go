// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Class says what a Finding is about.
type Class string

// The classes of findings. Of these, Refused, StopsHere and the rest mean that it could not be told what would happen.
const (
	Refused      Class = "Refused"      // the API server, a webhook or the rehearsal refuses a request
	Errors       Class = "Error"        // a request or a reconcile fails
	Panics       Class = "Panic"        // a module panics
	StopsHere    Class = "StopsHere"    // a step needs an object that only a dry run has made
	NeverTheSame Class = "NeverTheSame" // each write differs from the one before
	Stopped      Class = "Stopped"      // there are too many writes
	NotAtRest    Class = "NotAtRest"    // an app went on until the end
	NotRunning   Class = "NotRunning"   // an app or a module does not run
	NotRehearsed Class = "NotRehearsed" // a module or a Cluster was left out
	NotHeld      Class = "NotHeld"      // the remote would let the account write
)

// Report is what a hub would change. It is the same when the rehearsal is repeated, but for Cost.
type Report struct {
	Version       string `json:"version"`
	Digest        string `json:"digest"`
	Configuration string `json:"configuration"`
	// Clusters are those that were rehearsed.
	Clusters []string  `json:"clusters"`
	Changes  []Change  `json:"changes"`
	Findings []Finding `json:"findings"`
	// Omitted is how many changes and findings there are beyond the bounds of a report.
	Omitted int `json:"omitted,omitempty"`
	// Cost is by Cluster, and within it by verb and kind.
	Cost map[string]map[string]Cost `json:"cost,omitempty"`
}

// Action is what a Change does to an object.
type Action string

// The actions.
const (
	Create  Action = "create"
	Update  Action = "change"
	Own     Action = "own" // only the owners of fields change
	Delete  Action = "delete"
	Request Action = "request" // as a binding: what it would change is not known
)

// Change is an object that would be changed.
type Change struct {
	// Cluster has the app; it is empty for hub parts. InHub says that the object is in the hub, and not in the remote.
	Cluster string  `json:"cluster,omitempty"`
	InHub   bool    `json:"inHub,omitempty"`
	Module  string  `json:"module"`
	Action  Action  `json:"action"`
	Object  string  `json:"object"`
	Fields  []Field `json:"fields,omitempty"`
	// Names are objects of a collection, up to 20 of them, and Count is how many there are.
	Names []string `json:"names,omitempty"`
	Count int      `json:"count,omitempty"`
	// Note says what would stop it.
	Note string `json:"note,omitempty"`

	resource schema.GroupResource
	proven   bool // the delete has evidence, and is not limited
}

// Field is a changed field.
type Field struct {
	Path string `json:"path"`
	From string `json:"from"`
	To   string `json:"to"`
}

// Finding is why something could not be told.
type Finding struct {
	Cluster string `json:"cluster,omitempty"`
	InHub   bool   `json:"inHub,omitempty"`
	Module  string `json:"module,omitempty"`
	Class   Class  `json:"class"`
	Object  string `json:"object,omitempty"`
	Detail  string `json:"detail"`
}

// Cost is what reads and writes take.
type Cost struct {
	Requests int64 `json:"requests"`
	Bytes    int64 `json:"bytes"`
}

// Verdict is the exit status of a rehearsal.
type Verdict int

// The verdicts.
const (
	Agrees  Verdict = 0
	Unknown Verdict = 1
	Differs Verdict = 2
	Unheld  Verdict = 3
)

// Verdict returns Unheld before Differs, and that before Unknown.
func (r *Report) Verdict() Verdict {
	verdict := Agrees
	for _, f := range r.Findings {
		switch f.Class {
		case NotHeld:
			return Unheld
		case NotRehearsed:
		default:
			verdict = Unknown
		}
	}
	if len(r.Changes) > 0 {
		return Differs
	}
	if len(r.Clusters) == 0 {
		return Unknown
	}
	return verdict
}

// maxReport bounds the parts of a report.
const maxReport = 20_000

func (r *Report) sort() {
	slices.SortFunc(r.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Module, b.Module), cmp.Compare(a.Object, b.Object),
			cmp.Compare(a.Action, b.Action), cmp.Compare(text(a.Fields), text(b.Fields)))
	})
	slices.SortFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Module, b.Module), cmp.Compare(a.Class, b.Class),
			cmp.Compare(a.Object, b.Object), cmp.Compare(a.Detail, b.Detail))
	})
	if beyond := len(r.Changes) - maxReport; beyond > 0 {
		r.Changes, r.Omitted = r.Changes[:maxReport], beyond
	}
}
