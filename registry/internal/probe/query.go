// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/internal/machine"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

// How often identity and version of a healthy remote are read. They are also read when another cluster may be behind
// the address: at the first contact, after an outage, with another credential, on a new TCP connection. An upgraded API
// server ends its connections, so its version can change unnoticed only behind a load balancer.
const (
	identifyInterval = time.Minute
	versionInterval  = 10 * time.Minute
)

func (c *Connection) isFresh(last machine.Probed) bool {
	return last.OK && last.ID != "" && time.Since(c.identified) < identifyInterval
}

// probe checks the health and, unless the last outcome is fresh, identity and version. The outcome describes its error.
func (c *Connection) probe(ctx context.Context, last machine.Probed) (machine.Probed, error) {
	ctx, span := c.shared.Tracer.Start(ctx, "probe", c.cluster)
	defer span.End()
	outcome := machine.Probed{Endpoint: c.Endpoint, Credential: *c.credential.Load(), ID: last.ID, Version: last.Version}
	err := c.query(ctx, &outcome, last)
	if err != nil {
		fail(&outcome, err)
		c.shared.Tracer.FailRequest(span, err)
		return outcome, err
	}
	outcome.OK = true
	c.hurried.Store(false)
	return outcome, nil
}

func fail(o *machine.Probed, err error) {
	o.OK, o.Refused, o.Failed = false, kubeconfig.IsRefusal(err), ConditionOf(err)
	o.Fatal, o.Throttled = o.Failed.Reason == state.ReasonUnauthorized, o.Failed.Reason == state.ReasonThrottled
}

// ConditionOf returns the condition of a remote after a request that has failed.
func ConditionOf(err error) state.Condition {
	reason, message := kubeconfig.Classify(err)
	return state.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// query takes the identity as proof of health at the first contact, because the API server reads it from its storage.
func (c *Connection) query(ctx context.Context, outcome *machine.Probed, last machine.Probed) error {
	noted := c.noting(ctx)
	if c.isFresh(last) {
		if err := c.healthy(noted); err != nil || c.lastUsed == c.identifiedOn {
			return err
		}
	}
	c.identified = time.Now()
	if last.Endpoint == "" {
		return c.meet(ctx, outcome)
	}
	if !last.OK {
		// Once in an outage the others are beside the identity, with the first request on a new TCP connection, because
		// the remote has most likely returned.
		return c.contact(ctx, outcome, func(isNew bool) bool { return isNew && c.hurried.CompareAndSwap(false, true) }, c.healthy)
	}
	var err error
	if outcome.ID, err = c.readIdentity(noted); err != nil {
		return err
	}
	isSame := c.identifiedOn == c.lastUsed
	c.identifiedOn = c.lastUsed
	if err := c.healthy(noted); err != nil || isSame && time.Since(c.versioned) < versionInterval {
		return err
	}
	if outcome.Version, err = c.readVersion(noted); err == nil {
		c.versioned = time.Now()
	}
	return err
}

// noting returns a context for requests, one by one, whose TCP connection is noted.
func (c *Connection) noting(ctx context.Context) context.Context {
	c.lastUsed = nil
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) { c.lastUsed = got.Conn }, // by the goroutine of RoundTrip
	})
}

// healthy: the API server is ready or, without access to /readyz, responds at all.
func (c *Connection) healthy(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodGet, "readyz", nil)
	if isOutOfReach(err) {
		_, err = c.do(ctx, http.MethodGet, "version", nil)
	}
	return err
}

// isOutOfReach: the API server responds, and the credentials may not read what was asked for, or it is not there.
func isOutOfReach(err error) bool {
	status, ok := errors.AsType[*kubeconfig.StatusError](err)
	return ok && (status.Code == http.StatusForbidden || status.Code == http.StatusNotFound)
}

func (c *Connection) readVersion(ctx context.Context) (string, error) {
	var v struct{ GitVersion string }
	if err := c.get(ctx, "version", &v); err != nil {
		return "", err
	}
	if !isShort(v.GitVersion) || c.shared.Redact(v.GitVersion) != v.GitVersion {
		return "", kubeconfig.ErrNotKubernetes
	}
	return v.GitVersion, nil
}

// readIdentity returns the UID of kube-system, which lives as long as the cluster; empty where the credentials may not
// read it.
func (c *Connection) readIdentity(ctx context.Context) (string, error) {
	var ns struct{ Metadata struct{ UID string } } // The rest of the object is not decoded.
	err := c.get(ctx, "api/v1/namespaces/kube-system", &ns)
	if isOutOfReach(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if !isShort(ns.Metadata.UID) || c.shared.Redact(ns.Metadata.UID) != ns.Metadata.UID {
		return "", kubeconfig.ErrNotKubernetes
	}
	return ns.Metadata.UID, nil
}

// maxShort is longer than any version or UID that an API server has.
const maxShort = 128

// isShort: short visible ASCII. Longer texts would be cut, so that different ones look the same, and control characters
// could change an operator's terminal.
func isShort(text string) bool {
	hidden := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	return text != "" && len(text) <= maxShort && !strings.ContainsFunc(text, hidden)
}
