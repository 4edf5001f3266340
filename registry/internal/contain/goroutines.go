// SPDX-License-Identifier: Apache-2.0

package contain

import (
	"bytes"
	"fmt"
	"iter"
	"runtime/pprof"
	"strings"
)

// Stacks returns the stacks of the goroutines with these labels, keys and values. Equal stacks are one, with their
// number.
func Stacks(labels ...string) iter.Seq[string] {
	var profile bytes.Buffer
	err := pprof.Lookup("goroutine").WriteTo(&profile, 1) // stops the process for some milliseconds
	return func(yield func(string) bool) {
		if err != nil {
			return
		}
		for stack := range strings.SplitSeq(profile.String(), "\n\n") {
			if hasLabels(stack, labels) && !yield(stack) {
				return
			}
		}
	}
}

func hasLabels(stack string, labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		if !strings.Contains(stack, fmt.Sprintf("%q:%q", labels[i], labels[i+1])) {
			return false
		}
	}
	return true
}

// maxDump limits the stacks of a stuck reconciler in the log.
const maxDump = 16 << 10

func dump(labels ...string) string {
	var text strings.Builder
	for stack := range Stacks(labels...) {
		if text.Len()+len(stack) > maxDump {
			return text.String() + "and more"
		}
		text.WriteString(stack + "\n\n")
	}
	return text.String()
}

// maxNamed limits the stacks of an app's goroutines in the log.
const maxNamed = 10

// isConnection: connections to the remote, and to the hub with the HTTP/2 of client-go, outlive the epoch that opened them.
func isConnection(stack string) bool {
	return strings.Contains(stack, "net/http.(*persistConn)") || strings.Contains(stack, "net/http.(*http2ClientConn)") ||
		strings.Contains(stack, "golang.org/x/net/http2.(*ClientConn)")
}

// summarize names the first function that belongs neither to the runtime nor to the standard library.
func summarize(stack string) string {
	lines := strings.Split(stack, "\n")
	count, _, _ := strings.Cut(lines[0], " ")
	where := ""
	for _, line := range lines {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[0] != "#" {
			continue
		}
		where, _, _ = strings.Cut(fields[2], "+")
		if name, _, _ := strings.Cut(where, "/"); strings.Contains(name, ".") && strings.Contains(where, "/") {
			break
		}
	}
	return count + " in " + where
}
