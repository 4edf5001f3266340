// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
)

// Class says what a Finding is about.
type Class string

// The classes of findings. All but NotRehearsed mean that it could not be told what would happen.
const (
	Refused      Class = "Refused"      // the API server, a webhook or the rehearsal refuses a request
	Errors       Class = "Error"        // a request or a reconcile fails
	Panics       Class = "Panic"        // a module panics
	Leaks        Class = "Leak"         // goroutines go on after the end of their app
	StopsHere    Class = "StopsHere"    // a step needs an object that only a dry run has made
	NeverTheSame Class = "NeverTheSame" // each write differs from the one before
	Stopped      Class = "Stopped"      // there are too many writes
	NotAtRest    Class = "NotAtRest"    // an app went on until the end
	OverBudget   Class = "OverBudget"   // the cache of an app exceeds its budget
	NotRunning   Class = "NotRunning"   // an app, a module, a hub part or a rule of sync does not run
	NotRehearsed Class = "NotRehearsed" // a module or a Cluster was left out
	NotHeld      Class = "NotHeld"      // the remote would let the account write
)

// Report is what a hub would change. It is the same when the rehearsal is repeated, but for Load.
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
	// Load is what the apps take, beside the running hub.
	Load []Load `json:"load,omitempty"`
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

	of *object
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

// maxReport bounds the bytes of changes and of findings, each.
const maxReport = 4 << 20

// sort makes the report one that is the same when it is repeated, and bounds it.
func (r *Report) sort() {
	slices.SortFunc(r.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Module, b.Module), cmp.Compare(a.Object, b.Object),
			cmp.Compare(a.Action, b.Action), cmp.Compare(text(a.Fields), text(b.Fields)))
	})
	slices.SortFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Module, b.Module), cmp.Compare(a.Class, b.Class),
			cmp.Compare(a.Object, b.Object), cmp.Compare(a.Detail, b.Detail))
	})
	changes, findings := fitting(r.Changes), fitting(r.Findings)
	r.Omitted = len(r.Changes) - changes + len(r.Findings) - findings
	r.Changes, r.Findings = r.Changes[:changes], r.Findings[:findings]
}

// fitting returns how many of them have no more than maxReport bytes.
func fitting[T any](all []T) int {
	size := 0
	for i, one := range all {
		if size += len(text(one)); size > maxReport {
			return i
		}
	}
	return len(all)
}

// Print writes the report for people.
func (r *Report) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "version %s (%s), configuration %s\n%s rehearsed\n", r.Version, r.Digest, r.Configuration, output.Count(len(r.Clusters), "Cluster"))
	for i, c := range r.Changes {
		if i == 0 || c.Cluster != r.Changes[i-1].Cluster {
			fmt.Fprintf(&b, "\n%s\n", app(c.Cluster))
		}
		fmt.Fprintf(&b, "  %s: would %s %s", c.Module, c.Action, place(c.Object, c.InHub))
		if c.Count > 1 {
			fmt.Fprintf(&b, ", %d objects", c.Count)
		}
		if c.Note != "" {
			fmt.Fprintf(&b, " (%s)", c.Note)
		}
		b.WriteByte('\n')
		for _, f := range c.Fields {
			fmt.Fprintf(&b, "      %s: %s -> %s\n", f.Path, f.From, f.To)
		}
		for _, name := range c.Names {
			fmt.Fprintf(&b, "      %s\n", name)
		}
	}
	for i, f := range r.Findings {
		if i == 0 {
			b.WriteString("\nwhat could not be told, or was left out:\n")
		}
		fmt.Fprintf(&b, "  %s: %s: %s\n", strings.TrimSuffix(app(f.Cluster)+", "+f.Module, ", "), place(string(f.Class)+" "+f.Object, f.InHub), f.Detail)
	}
	for i, one := range r.Load {
		if i == 0 {
			fmt.Fprintf(&b, "\n%12s %12s\n", "rehearsed", "running")
		}
		fmt.Fprintf(&b, "%12.0f %12.0f  %s, %s\n", one.Rehearsed, one.Running, cmp.Or(one.Cluster, "all apps"), one.What)
	}
	fmt.Fprintf(&b, "\n%s\n", r.summary())
	_, err := io.WriteString(w, b.String())
	return err
}

func app(cluster string) string { return cmp.Or(cluster, "the hub parts") }

func place(what string, inHub bool) string {
	if what = strings.TrimSpace(what); inHub {
		what += " in the hub"
	}
	return what
}

func (r *Report) summary() string {
	switch r.Verdict() {
	case Agrees:
		return "It agrees with the fleet: nothing would change."
	case Differs:
		clusters, hub := map[string]bool{}, ""
		for _, c := range r.Changes {
			if clusters[c.Cluster] = true; c.Cluster == "" {
				hub = " and by hub parts"
			}
		}
		delete(clusters, "")
		return fmt.Sprintf("It differs: %s, by %d of %s%s.", output.Count(len(r.Changes)+r.Omitted, "change"), len(clusters), output.Count(len(r.Clusters), "app"), hub)
	case Unheld:
		return "It was not rehearsed everywhere: where the policy is not in force, the rehearsal would rely on its own word."
	}
	return "It could not be told whether it agrees."
}
