// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"io"
	"net/http"
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

// healthy: the API server is ready or, without access to /readyz, responds at all.
func (c *Connection) healthy(ctx context.Context) error {
	return healthyBy(func(path string) error { return c.get(ctx, path, discard) })
}

func healthyBy(get func(path string) error) error {
	err := get("readyz")
	var status *kubeconfig.StatusError
	if errors.As(err, &status) && (status.Code == http.StatusForbidden || status.Code == http.StatusNotFound) {
		err = get("version")
	}
	return err
}

// discard leaves the connection usable for the next request.
func discard(body io.Reader) error {
	_, err := io.CopyN(io.Discard, body, maxResponseBytes)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (c *Connection) getSmall(ctx context.Context, path string, into any) error {
	return c.get(ctx, path, func(body io.Reader) error {
		all, err := io.ReadAll(io.LimitReader(body, maxResponseBytes+1))
		if err != nil {
			return err
		}
		return decodeResponse(all, into)
	})
}

type getter func(ctx context.Context, path string, into any) error

// readVersion's redact replaces credentials, as in readIdentity.
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

// readIdentity returns the UID of kube-system, which lives as long as the cluster; empty where the credentials may not
// read it.
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

// isShort: short visible ASCII. Longer texts would be cut, so that different ones look the same, and control characters
// could change an operator's terminal.
func isShort(text string) bool {
	hidden := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	return text != "" && len(text) <= maxShort && !strings.ContainsFunc(text, hidden)
}
