// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
)

// Level is the severity of a finding.
type Level string

const (
	// OK means that the check has passed.
	OK Level = "ok"
	// Warning means that the subject works, but needs attention.
	Warning Level = "warning"
	// Failure means that the subject does not work.
	Failure Level = "failure"
)

// Finding is the result of one check.
type Finding struct {
	Level Level `json:"level"`
	// Check is one word.
	Check string `json:"check"`
	// Advice is the remedy; a success needs none.
	Text   string `json:"text"`
	Advice string `json:"advice,omitempty"`
}

// Report is a list of findings.
type Report []Finding

// Failed reports whether a check has failed.
func (r Report) Failed() bool {
	return slices.ContainsFunc(r, func(f Finding) bool { return f.Level == Failure })
}

// Print writes a line for each finding.
func (r Report) Print(t *output.Terminal) error {
	marks := map[Level]output.Mark{OK: output.OK, Warning: output.Warning, Failure: output.Failure}
	for _, f := range r {
		line := fmt.Sprintf("%-15s %s", f.Check, access.WithAdvice(f.Text, f.Advice))
		if err := t.Print("%s", t.Marked(marks[f.Level], line)); err != nil {
			return err
		}
	}
	return nil
}

func (r *Report) ok(check, format string, args ...any) {
	*r = append(*r, Finding{Level: OK, Check: check, Text: fmt.Sprintf(format, args...)})
}

func (r *Report) warn(check, advice, format string, args ...any) {
	*r = append(*r, Finding{Level: Warning, Check: check, Text: fmt.Sprintf(format, args...), Advice: advice})
}

func (r *Report) fail(check, advice, format string, args ...any) {
	*r = append(*r, Finding{Level: Failure, Check: check, Text: fmt.Sprintf(format, args...), Advice: advice})
}
