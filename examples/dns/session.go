// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterfx/clusterfx/reconcilers/pipeline"
)

// fudge is by how many seconds the server's clock and ours may differ. It also bounds how late a request that
// was held up on its way is accepted.
const fudge = 60

// zone is a zone of a DNS server.
type zone struct {
	name      string
	address   string
	timeout   time.Duration
	keyName   string
	algorithm string
	secret    secret
}

func newZone(c Config, s secret) zone {
	return zone{
		name: dns.CanonicalName(c.Zone), address: c.address(), timeout: seconds(c.TimeoutSeconds),
		keyName: dns.CanonicalName(c.Key.Name), algorithm: algorithms()[c.Key.Algorithm], secret: s,
	}
}

// session is a connection to the server, for several requests one after the other.
type session struct {
	zone
	client *dns.Client
	conn   net.Conn
}

// do calls f with a new session, which ends with it.
func (z zone) do(ctx context.Context, f func(*session) error) error {
	key, err := z.secret.read(ctx)
	if err != nil {
		return err
	}
	c := &dns.Client{Net: "tcp", Timeout: z.timeout, TsigSecret: map[string]string{z.keyName: key}}
	conn, err := c.DialContext(ctx, z.address)
	if err != nil {
		return z.unreachable("does not respond", err)
	}
	hangUp := func() { _ = conn.Close() } // There is nothing left to say on it.
	defer hangUp()
	stop := context.AfterFunc(ctx, hangUp) // A deadline would be moved again by the next request.
	defer stop()
	return f(&session{z, c, conn.Conn})
}

// exchange sends a signed request and returns the response, which is also signed. The caller interprets its code.
func (s *session) exchange(ctx context.Context, request *dns.Msg) (*dns.Msg, error) {
	request.SetTsig(s.keyName, s.algorithm, fudge, time.Now().Unix())
	// A dns.Conn signs its second request as if it were a response to the first request.
	once := &dns.Conn{Conn: s.conn}
	answer, _, err := s.client.ExchangeWithConnContext(ctx, request, once)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if answer != nil && answer.Rcode == dns.RcodeNotAuth {
		return nil, s.refused(answer)
	}
	switch {
	case errors.Is(err, dns.ErrSig), errors.Is(err, dns.ErrKey), errors.Is(err, dns.ErrTime), errors.Is(err, dns.ErrSecret):
		return nil, s.unreachable("sends a response with a wrong signature", err)
	case err != nil:
		return nil, s.unreachable("does not respond", err)
	case answer.IsTsig() != nil:
		return answer, nil
	case answer.Rcode == dns.RcodeRefused, answer.Rcode == dns.RcodeServerFailure, answer.Rcode == dns.RcodeNotImplemented:
		return nil, s.refused(answer) // Only a response that leads to a change must be verified.
	}
	return nil, s.unreachable("sends a response that is not signed; it must have the key", nil)
}

func (z zone) unreachable(what string, err error) error {
	return &pipeline.ReasonError{
		Reason: ReasonServerUnreachable, Message: fmt.Sprintf("The DNS server %s %s", z.address, what), Err: err,
	}
}

// refused returns the error for a negative response.
func (z zone) refused(answer *dns.Msg) error {
	code := dns.RcodeToString[answer.Rcode]
	if t := answer.IsTsig(); t != nil && t.Error != 0 {
		code += "/" + tsigErrors(t.Error)
	}
	return &pipeline.ReasonError{Reason: ReasonRefused, Message: fmt.Sprintf(
		"The DNS server %s responds with %s; it must have the key and allow it to update zone %s", z.address, code, z.name,
	)}
}

// tsigErrors names the errors of signatures. As plain response codes the numbers have another meaning.
func tsigErrors(code uint16) string {
	switch code {
	case dns.RcodeBadSig:
		return "BADSIG"
	case dns.RcodeBadKey:
		return "BADKEY"
	case dns.RcodeBadTime:
		return "BADTIME"
	}
	return fmt.Sprint(code)
}
