// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Print writes the report for people.
func (r *Report) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "version %s (%s), configuration %s\n", r.Version, r.Digest, r.Configuration)
	fmt.Fprintf(&b, "%s rehearsed\n", count(len(r.Clusters), "Cluster"))
	for i, c := range r.Changes {
		if i == 0 || c.Cluster != r.Changes[i-1].Cluster {
			fmt.Fprintf(&b, "\n%s\n", app(c.Cluster))
		}
		fmt.Fprintf(&b, "  %s: would %s %s%s\n", c.Module, c.verb(), c.Object, c.more())
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
	for _, cluster := range slices.Sorted(maps.Keys(r.Cost)) {
		fmt.Fprintf(&b, "\nrequests of %s\n", app(cluster))
		for _, label := range slices.Sorted(maps.Keys(r.Cost[cluster])) {
			one := r.Cost[cluster][label]
			fmt.Fprintf(&b, "  %8d  %10d bytes  %s\n", one.Requests, one.Bytes, label)
		}
	}
	fmt.Fprintf(&b, "\n%s\n", r.summary())
	_, err := io.WriteString(w, b.String())
	return err
}

func app(cluster string) string {
	if cluster == "" {
		return "the hub parts"
	}
	return cluster
}

func (c Change) verb() string {
	if c.Action == Own {
		return "change only the owners of fields of"
	}
	return string(c.Action)
}

func (c Change) more() string {
	text := ""
	if c.InHub {
		text = " in the hub"
	}
	if c.Count > 1 {
		text += fmt.Sprintf(", %d objects", c.Count)
	}
	if c.Note != "" {
		text += " (" + c.Note + ")"
	}
	return text
}

// String is one line.
func (f Finding) String() string {
	parts := []string{app(f.Cluster)}
	if f.Module != "" {
		parts = append(parts, f.Module)
	}
	text := strings.Join(parts, ", ") + ": " + string(f.Class)
	if f.Object != "" {
		text += " " + f.Object
	}
	if f.InHub {
		text += " in the hub"
	}
	return text + ": " + f.Detail
}

func (r *Report) summary() string {
	switch r.Verdict() {
	case Agrees:
		return "It agrees with the fleet: nothing would change."
	case Differs:
		clusters := map[string]bool{}
		for _, c := range r.Changes {
			clusters[c.Cluster] = true
		}
		where := fmt.Sprintf("by %d of %s", len(clusters), count(len(r.Clusters), "app"))
		if clusters[""] {
			where = fmt.Sprintf("by %d of %s and by hub parts", len(clusters)-1, count(len(r.Clusters), "app"))
		}
		return fmt.Sprintf("It differs: %s, %s.", count(len(r.Changes)+r.Omitted, "change"), where)
	case Unheld:
		return "It was not rehearsed everywhere: where the policy is not in force, the rehearsal would rely on its own word."
	}
	return "It could not be told whether it agrees."
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
