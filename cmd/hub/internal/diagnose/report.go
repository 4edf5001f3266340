// SPDX-License-Identifier: Apache-2.0

package diagnose

import "fmt"

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
	for _, f := range r {
		if f.Level == Failure {
			return true
		}
	}
	return false
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
