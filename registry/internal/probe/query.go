// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// How often the probe reads the identity and the version of a healthy remote. The probe also reads them whenever another
// cluster may have appeared behind the address: at the first contact, when the remote becomes reachable again, with another
// credential, and on a new TCP connection. An API server that is upgraded ends its connections, so that its version can only
// change unnoticed behind a load balancer.
const (
	identifyInterval = time.Minute
	versionInterval  = 10 * time.Minute
)

// isFresh reports whether the identity and the version of the last outcome are recent enough to be kept.
func (c *Connection) isFresh(last Outcome) bool {
	return last.OK && last.ID != "" && time.Since(c.identified) < identifyInterval
}

// probe checks the health of the remote and, unless the last outcome is fresh, its identity and version. The outcome
// describes the error that probe returns.
func (c *Connection) probe(ctx context.Context, last Outcome) (Outcome, error) {
	ctx, span := c.shared.Tracer.Start(ctx, "probe", c.cluster)
	defer span.End()
	outcome := Outcome{Endpoint: c.endpoint, Credential: *c.credential.Load(), ID: last.ID, Version: last.Version}
	err := c.query(ctx, &outcome, last)
	if err != nil {
		outcome.fail(err)
		c.shared.Tracer.FailRequest(span, err)
		return outcome, err
	}
	outcome.OK = true
	c.asked, c.hurried = false, false
	return outcome, nil
}

// fail describes an error in the outcome.
func (o *Outcome) fail(err error) {
	o.OK, o.Refused = false, kubeconfig.IsRefusal(err)
	o.Reason, o.Message = kubeconfig.Classify(err)
}

// query sends the requests of a probe and completes the outcome. At the first contact the identity is enough to show
// that the remote is healthy, because the API server reads it from its storage; later query also checks the health.
func (c *Connection) query(ctx context.Context, outcome *Outcome, last Outcome) error {
	if c.isFresh(last) {
		if err := c.healthy(ctx); err != nil || c.lastUsed == c.identifiedOn {
			return err
		}
	}
	c.identified = time.Now()
	if last.Endpoint == "" {
		return c.meet(ctx, outcome)
	}
	if !last.OK {
		return c.meetAgain(ctx, outcome)
	}
	var err error
	if outcome.ID, err = readIdentity(ctx, c.getSmall, c.redact); err != nil {
		return err
	}
	isSame := c.identifiedOn == c.lastUsed
	c.identifiedOn = c.lastUsed
	if err := c.healthy(ctx); err != nil || isSame && time.Since(c.versioned) < versionInterval {
		return err
	}
	if outcome.Version, err = readVersion(ctx, c.getSmall, c.redact); err == nil {
		c.versioned = time.Now()
	}
	return err
}

// healthy returns nil if the API server is ready or, where the credentials have no access to /readyz, if the API server
// responds at all.
func (c *Connection) healthy(ctx context.Context) error {
	return healthyBy(func(path string) error { return c.get(ctx, path, discard) })
}

// healthyBy is healthy with another function to get a path.
func healthyBy(get func(path string) error) error {
	err := get("readyz")
	var status *kubeconfig.StatusError
	if errors.As(err, &status) && (status.Code == http.StatusForbidden || status.Code == http.StatusNotFound) {
		err = get("version")
	}
	return err
}

// discard reads a body, which leaves the connection usable for the next request, up to a limit.
func discard(body io.Reader) error {
	_, err := io.CopyN(io.Discard, body, maxResponseBytes)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// getSmall sends a request of a probe and decodes the response.
func (c *Connection) getSmall(ctx context.Context, path string, into any) error {
	return c.get(ctx, path, func(body io.Reader) error {
		all, err := io.ReadAll(io.LimitReader(body, maxResponseBytes+1))
		if err != nil {
			return err
		}
		return decodeResponse(all, into)
	})
}

// getter sends a GET request for a path and decodes the response.
type getter func(ctx context.Context, path string, into any) error

// readVersion returns the version of the API server. redact replaces credentials in texts, as in readIdentity.
func readVersion(ctx context.Context, get getter, redact func(string) string) (string, error) {
	var v struct{ GitVersion string }
	if err := get(ctx, "version", &v); err != nil {
		return "", err
	}
	if !isShort(v.GitVersion) || redact(v.GitVersion) != v.GitVersion {
		return "", kubeconfig.ErrNotKubernetes
	}
	return v.GitVersion, nil
}

// readIdentity returns the UID of the Namespace kube-system, which lives as long as the cluster, or an empty string where
// the credentials may not read it.
func readIdentity(ctx context.Context, get getter, redact func(string) string) (string, error) {
	var ns struct{ Metadata struct{ UID string } } // The rest of the object is not decoded.
	err := get(ctx, "api/v1/namespaces/kube-system", &ns)
	var status *kubeconfig.StatusError
	if errors.As(err, &status) && (status.Code == http.StatusForbidden || status.Code == http.StatusNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if !isShort(ns.Metadata.UID) || redact(ns.Metadata.UID) != ns.Metadata.UID {
		return "", kubeconfig.ErrNotKubernetes
	}
	return ns.Metadata.UID, nil
}

// maxShort is longer than any version or UID that an API server has.
const maxShort = 128

// isShort reports whether a version or a UID from a remote is not empty, is short, and consists of visible ASCII
// characters. Longer texts would be cut, so that different texts look the same, and control characters could change
// the terminal of an operator.
func isShort(text string) bool {
	hidden := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	return text != "" && len(text) <= maxShort && !strings.ContainsFunc(text, hidden)
}
