// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"strconv"
	"strings"
)

// maxNamed is how many stacks of an app's goroutines are put into the log.
const maxNamed = 10

// goroutines names the functions in which goroutines of this epoch still are, with how many are in
// each. It is asked only of an app that does not end, because it looks at every goroutine of the hub.
func (e *epoch) goroutines() []string {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return nil
	}
	label := fmt.Sprintf("%q:%q", "epoch", strconv.FormatInt(e.number, 10))
	var found []string
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		if !strings.Contains(stack, label) || isConnection(stack) {
			continue
		}
		if len(found) == maxNamed {
			return append(found, "and others")
		}
		found = append(found, summarize(stack))
	}
	return found
}

// isConnection reports whether a stack is that of a connection to the remote. Connections outlive the
// epoch that happened to need them first.
func isConnection(stack string) bool {
	return strings.Contains(stack, "net/http.(*persistConn)") || strings.Contains(stack, "net/http.(*http2ClientConn)")
}

// summarize returns the number of goroutines that a profile has a stack for, and the function that is
// the first on it which is not of Go's own runtime or library.
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
