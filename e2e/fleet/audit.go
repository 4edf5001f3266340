// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	auditLog        = "audit.log"
	auditPolicyFile = "audit-policy.yaml"
)

// auditPolicy logs every request with user and object, and bodies of writes without possible credentials. It leaves out
// the API server's requests to itself, and the stage in which a request is received: the later entry has that time.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: None
  users: ["system:apiserver"]
- level: Metadata
  resources:
  - {group: "", resources: [secrets, serviceaccounts/token]}
  - {group: authentication.k8s.io}
- level: Request
  verbs: [create, update, patch]
- level: Metadata
`

// auditFlags make one file. An entry is there before the response is sent.
func auditFlags() []string {
	return []string{
		"--audit-policy-file=" + auditPolicyFile,
		"--audit-log-path=" + auditLog,
		"--audit-log-mode=blocking",
		"--audit-log-maxsize=1000000",
	}
}

// AuditEvent is a request, with the fields of audit.k8s.io that tests use.
type AuditEvent struct {
	ID string `json:"auditID"`
	// Stage is ResponseComplete, ResponseStarted for an open watch, or Panic.
	Stage string `json:"stage"`
	// Verb is that of Kubernetes; for a non-resource path, the HTTP method in lower case.
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	UserAgent string      `json:"userAgent"`
	Object    AuditObject `json:"objectRef"`
	// Body is that of a create, update or patch; empty for Secrets and tokens.
	Body     json.RawMessage `json:"requestObject"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	// Received is when the request came, Stamped when it reached the Stage, in microseconds of this machine's clock.
	Received time.Time `json:"requestReceivedTimestamp"`
	Stamped  time.Time `json:"stageTimestamp"`
}

// AuditObject names the object, or the collection, that a request is about.
type AuditObject struct {
	Group       string `json:"apiGroup"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	// A create may lack the name.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Writes reports whether the request may have changed something.
func (e AuditEvent) Writes() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb)
}

// Lists reports whether the request reads all objects of a kind, as a list or a watch that begins with them: an
// informer starts, or has to relist.
func (e AuditEvent) Lists() bool {
	if e.Verb == "list" {
		return true
	}
	uri, err := url.ParseRequestURI(e.RequestURI)
	return err == nil && e.Verb == "watch" && uri.Query().Get("sendInitialEvents") == "true"
}

// String is one line for a person.
func (e AuditEvent) String() string {
	return fmt.Sprintf("%s %s %s %d by %s (%s)", e.Received.Format("15:04:05.000000"), e.Verb, e.RequestURI,
		e.Response.Code, e.UserAgent, e.User.Username)
}

// ByAgent is a filter for AuditEvents: clients whose name begins like that.
func ByAgent(prefix string) func(AuditEvent) bool {
	return func(e AuditEvent) bool { return strings.HasPrefix(e.UserAgent, prefix) }
}

// Since is a filter for AuditEvents: received then or later.
func Since(begin time.Time) func(AuditEvent) bool {
	return func(e AuditEvent) bool { return !e.Received.Before(begin) }
}

// AuditEvents returns the requests that pass every filter, once each, in the order of their arrival, in a fleet with
// Options.Audit. A request is there as soon as its response is sent, a watch when it has begun; those that were cut off
// by a kill are missing. Filter by agent or user to count: the fleet asks, too.
func (c *Cluster) AuditEvents(filters ...func(AuditEvent) bool) ([]AuditEvent, error) {
	return c.AuditReader(filters...).Next()
}

// AuditReader reads the audit log in parts. It has no lock.
type AuditReader struct {
	cluster *Cluster
	filters []func(AuditEvent) bool
	read    int64 // how many bytes of the log
}

// AuditReader begins with the first request; see AuditEvents.
func (c *Cluster) AuditReader(filters ...func(AuditEvent) bool) *AuditReader {
	return &AuditReader{cluster: c, filters: filters}
}

// Next returns what was logged since the last call. A request with entries in two parts is in both.
func (r *AuditReader) Next() ([]AuditEvent, error) {
	c := r.cluster
	file, err := os.Open(filepath.Join(c.Dir(), auditLog))
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w: start the fleet with Options.Audit", err)
	}
	if err != nil {
		return nil, c.wrap("read the audit log of", err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(r.read, io.SeekStart); err != nil {
		return nil, c.wrap("read the audit log of", err)
	}
	events, read, err := readAudit(file, r.filters)
	r.read += read
	return events, c.wrap("read the audit log of", err)
}

// readAudit keeps the last entry of each request. A line without an end is being written, and not read.
func readAudit(r io.Reader, filters []func(AuditEvent) bool) (events []AuditEvent, read int64, err error) {
	seen := map[string]int{}
	lines := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, read, err
		}
		read += int64(len(line))
		var e AuditEvent
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil {
			return nil, read, fmt.Errorf("decode %.100q: %w", line, err)
		}
		if slices.ContainsFunc(filters, func(f func(AuditEvent) bool) bool { return !f(e) }) {
			continue
		}
		if i, again := seen[e.ID]; again {
			events[i] = e
			continue
		}
		seen[e.ID] = len(events)
		events = append(events, e)
	}
	slices.SortStableFunc(events, func(a, b AuditEvent) int { return a.Received.Compare(b.Received) })
	return events, read, nil
}
