// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

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
	// Memory is what the objects in the caches of each Cluster's app take up at rest, in MiB.
	Memory map[string]int64 `json:"memoryMiB"`
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
	Object  string  `json:"object"`
	Action  Action  `json:"action"`
	Fields  []Field `json:"fields,omitempty"`
	// Names are objects of a collection, up to 20 of them, and Count is how many there are.
	Names []string `json:"names,omitempty"`
	Count int      `json:"count,omitempty"`
	// Note says what would stop it.
	Note string `json:"note,omitempty"`

	of *write
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

// bound sorts the report, so that it is the same when it is repeated.
func (r *Report) bound() {
	changes, findings := len(r.Changes), len(r.Findings)
	r.Changes, r.Findings = bounded(r.Changes), bounded(r.Findings)
	r.Omitted = changes - len(r.Changes) + findings - len(r.Findings)
}

// bounded returns the first of them, by their JSON, that have no more than maxReport bytes.
func bounded[T any](all []T) []T {
	byText, size, kept := map[string]T{}, 0, []T{}
	for _, one := range all {
		byText[text(one)] = one
	}
	for _, key := range slices.Sorted(maps.Keys(byText)) {
		if size += len(key); size > maxReport {
			break
		}
		kept = append(kept, byText[key])
	}
	return kept
}

// Print writes the report for people.
func (r *Report) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "version %s (%s), configuration %s\n%s rehearsed", r.Version, r.Digest, r.Configuration, output.Count(len(r.Clusters), "Cluster"))
	most := int64(0)
	for _, name := range r.Clusters {
		most = max(most, r.Memory[name])
	}
	if most > 0 {
		fmt.Fprintf(&b, ", with at most %d MiB of objects each", most)
	}
	b.WriteByte('\n')
	for i, c := range r.Changes {
		if i == 0 || c.Cluster != r.Changes[i-1].Cluster {
			fmt.Fprintf(&b, "\n%s\n", cmp.Or(c.Cluster, hubParts))
		}
		fmt.Fprintf(&b, "  %s: would %s %s", c.Module, c.Action, place{c.InHub, c.Object})
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
		fmt.Fprintf(&b, "  %s\n", f)
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

const hubParts = "the hub parts"

// String is a line of the report.
func (f Finding) String() string {
	of := strings.TrimSuffix(cmp.Or(f.Cluster, hubParts)+", "+f.Module, ", ")
	about := strings.TrimSpace(string(f.Class) + " " + f.Object)
	return fmt.Sprintf("%s: %s: %s", of, place{f.InHub, about}, f.Detail)
}

func (r *Report) summary() string {
	switch r.Verdict() {
	case Agrees:
		return "It agrees with the fleet: nothing would change."
	case Differs:
		clusters, hub := sets.New[string](), ""
		for _, c := range r.Changes {
			clusters.Insert(c.Cluster)
		}
		if clusters.Has("") {
			clusters, hub = clusters.Delete(""), " and by hub parts"
		}
		return fmt.Sprintf("It differs: %s, by %d of %s%s.", output.Count(len(r.Changes)+r.Omitted, "change"), len(clusters), output.Count(len(r.Clusters), "app"), hub)
	case Unheld:
		return "It was not rehearsed everywhere: where the policy is not in force, the rehearsal would rely on its own word."
	}
	return "It could not be told whether it agrees."
}
