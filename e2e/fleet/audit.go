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

// Names of an audit log and of its policy file, in a cluster's folder.
const (
	auditLog        = "audit.log"
	auditPolicyFile = "audit-policy.yaml"
)

// auditPolicy logs every request of every client with its user and object, and the bodies of writes except bodies that
// could contain a credential. It leaves out the API server's requests to itself, and the stage in which a request is
// received: the later entry of the request has that time.
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

// auditFlags make a kube-apiserver write an audit log into its folder, as one file. An entry is in the file before the
// response is sent.
func auditFlags() []string {
	return []string{
		"--audit-policy-file=" + auditPolicyFile,
		"--audit-log-path=" + auditLog,
		"--audit-log-mode=blocking",
		"--audit-log-maxsize=1000000",
	}
}

// AuditEvent is a request of the audit log. It has the fields that tests use; the API audit.k8s.io has more.
type AuditEvent struct {
	// ID is the id of the request.
	ID string `json:"auditID"`
	// Stage is ResponseComplete, ResponseStarted for an open watch, or Panic.
	Stage string `json:"stage"`
	// Verb is one of get, list, watch, create, update, patch, delete and deletecollection; for a non-resource path, the
	// HTTP method in lower case.
	Verb string `json:"verb"`
	// RequestURI has the path and the query.
	RequestURI string `json:"requestURI"`
	// User is the user of the request.
	User struct {
		// Username is the user name of the credential.
		Username string `json:"username"`
	} `json:"user"`
	// UserAgent is the user agent of the client.
	UserAgent string `json:"userAgent"`
	// Object is the object of the request; empty for a non-resource path.
	Object AuditObject `json:"objectRef"`
	// Body is the object or the patch of a create, update or patch; empty for Secrets and tokens.
	Body json.RawMessage `json:"requestObject"`
	// Response has the status code of the response.
	Response struct {
		// Code is 200, 201 and so on.
		Code int `json:"code"`
	} `json:"responseStatus"`
	// Received is when the request reached the API server, Stamped when it reached the Stage, both
	// to the microsecond and by the clock of this machine.
	Received time.Time `json:"requestReceivedTimestamp"`
	Stamped  time.Time `json:"stageTimestamp"`
}

// AuditObject names the object, or the collection, that a request is about.
type AuditObject struct {
	// Group, Resource and Subresource are those of the path, such as apps, deployments, status.
	Group       string `json:"apiGroup"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	// Namespace and Name say which one. In the entry of a create the name may be missing.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Writes reports whether the request may have changed something.
func (e AuditEvent) Writes() bool {
	switch e.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// Lists reports whether the request reads all objects of a kind: as a list, or as a watch that begins with them. An
// informer sends such a request when it starts, and when it has to relist.
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

// ByAgent returns a filter for AuditEvents: the requests of clients whose name begins like that.
func ByAgent(prefix string) func(AuditEvent) bool {
	return func(e AuditEvent) bool { return strings.HasPrefix(e.UserAgent, prefix) }
}

// Since returns a filter for AuditEvents: the requests that were received at that time or later.
func Since(begin time.Time) func(AuditEvent) bool {
	return func(e AuditEvent) bool { return !e.Received.Before(begin) }
}

// AuditEvents returns the requests of all clients that pass every filter, one event for each, in the order of their
// arrival. The cluster's fleet must have Options.Audit. A request is listed as soon as its response is sent, a watch as
// soon as it has begun; requests that were cut off when the API server was killed are missing. Tests that count should
// filter by agent or user, because the fleet itself checks whether a starting cluster is ready.
func (c *Cluster) AuditEvents(filters ...func(AuditEvent) bool) ([]AuditEvent, error) {
	return c.AuditReader(filters...).Next()
}

// AuditReader reads the audit log of a cluster in parts. It has no lock.
type AuditReader struct {
	cluster *Cluster
	filters []func(AuditEvent) bool
	read    int64 // how many bytes of the log
}

// AuditReader returns a reader of the requests that pass every filter, which begins with the first request; see AuditEvents.
func (c *Cluster) AuditReader(filters ...func(AuditEvent) bool) *AuditReader {
	return &AuditReader{cluster: c, filters: filters}
}

// Next returns the requests that were logged since the last call. A request whose entries are in different parts, as those of a
// watch may be, is in both.
func (r *AuditReader) Next() ([]AuditEvent, error) {
	c := r.cluster
	file, err := os.Open(filepath.Join(c.dir, auditLog))
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

// readAudit reads entries, one per line, and keeps the last entry of each request. A line without an end is still being
// written, and does not count as read.
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
