// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/clusterfx/clusterfx/internal/wire"
)

// ErrNotKubernetes means that the response is not from a Kubernetes API server.
var ErrNotKubernetes = wire.ErrNotKubernetes

// ErrNotForwarded means that a response, which is not from an API server, says that something does not exist, as that
// of a proxy whose agent is away. It wraps ErrNotKubernetes.
var ErrNotForwarded = fmt.Errorf("a server on the way responds with 404 in place of the API server: %w", ErrNotKubernetes)

// StatusError is a response with an unexpected status, without its body, which the server controls.
type StatusError struct {
	Code int
}

// Error returns the code with its usual name.
func (e *StatusError) Error() string {
	return "the API server responded with status " + strconv.Itoa(e.Code) + " " + http.StatusText(e.Code)
}

// Reasons for failed requests to a remote.
const (
	unreachable  = "Unreachable"
	timedOut     = "TimedOut"
	tlsFailed    = "TLSFailed"
	unauthorized = "Unauthorized"
	forbidden    = "Forbidden"
	notHealthy   = "NotHealthy"
	notForwarded = "NotForwarded"
	throttled    = "Throttled"
	tunnelDown   = "TunnelDown"
)

// TunnelError is an error of Policy.Tunnel for a tunnel that has no other end at the moment.
type TunnelError interface {
	error
	// TunnelDown describes the problem and the solution, in words of the hub.
	TunnelDown() string
}

type noTunnelsError struct{}

var errNoTunnels TunnelError = noTunnelsError{}

func (noTunnelsError) Error() string { return "this process has no tunnels" }
func (noTunnelsError) TunnelDown() string {
	return "this program has no tunnels; a hub has them with --tunnel-bind-address"
}

// NotHealthyError has its own message: the server responds, but not as the hub requires. Classify returns NotHealthy
// for it.
type NotHealthyError interface {
	error
	// NotHealthy describes the problem and the solution, without any text of the server.
	NotHealthy() string
}

// NewNotHealthyError returns one. text is the error's, and message names the solution.
func NewNotHealthyError(text, message string) error { return &notHealthyError{text, message} }

type notHealthyError struct{ text, message string }

func (e *notHealthyError) Error() string      { return e.text }
func (e *notHealthyError) NotHealthy() string { return e.message }

// Classify returns why a request to a remote failed: a reason of a fixed set, and a message that names the solution.
// The reasons are Unreachable (also for unknown errors), TimedOut, TLSFailed, Unauthorized, Forbidden, NotHealthy,
// NotForwarded, Throttled, TunnelDown, or the Reason of an *Error, such as AddressNotAllowed of a dial. The message has at most 512
// bytes, is stable while the problem is the same, and has nothing from the server, so that users who register remotes
// learn little about the hub's network. Both are empty for nil.
func Classify(err error) (reason, message string) {
	var refused *Error
	var unhealthy NotHealthyError
	var away TunnelError
	switch code := statusCode(err); {
	case err == nil:
		return "", ""
	case errors.As(err, &unhealthy):
		return notHealthy, OneLine(unhealthy.NotHealthy(), maxMessage)
	case errors.As(err, &away):
		return tunnelDown, OneLine("There is no tunnel to the remote: "+away.TunnelDown()+".", maxMessage)
	case errors.As(err, &refused):
		return string(refused.Reason), refused.Error()
	case code != 0:
		return classifyStatus(code)
	case errors.Is(err, ErrNotForwarded):
		return notForwarded, "A server on the way responds with 404 in place of the API server; " +
			"check that the proxy or tunnel to the remote has a connection, and the path of the server's URL."
	case errors.Is(err, ErrNotKubernetes):
		return notHealthy, "The server responds, but not like a Kubernetes API server; " +
			"check that the server's URL and its path lead to the Kubernetes API."
	}
	if message = tlsMessage(err); message != "" {
		return tlsFailed, message
	}
	return classifyNetwork(err)
}

// IsRefusal reports whether the credential is at fault: it is not accepted, lacks a permission, or the server broke off
// the TLS handshake.
func IsRefusal(err error) bool {
	switch statusCode(err) {
	case http.StatusUnauthorized, http.StatusForbidden:
		return true
	}
	var remote *net.OpError
	return errors.As(err, &remote) && remote.Op == remoteError
}

// remoteError is the Op that crypto/tls sets for an alert of the server.
const remoteError = "remote error"

// statusCode returns 0 for other errors.
func statusCode(err error) int {
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.Code
	}
	var api apierrors.APIStatus
	if errors.As(err, &api) {
		return int(api.Status().Code)
	}
	return 0
}

func classifyStatus(code int) (reason, message string) {
	text := " (status " + strconv.Itoa(code) + ")"
	switch {
	case code == http.StatusUnauthorized:
		return unauthorized, "The API server does not accept the credentials" + text +
			"; they may have expired or been revoked, or belong to another cluster. Store new credentials in the Secret."
	case code == http.StatusForbidden:
		return forbidden, "The API server accepts the credentials, but they lack a permission" + text + "; grant it with a ClusterRoleBinding in the remote cluster."
	case code >= 500:
		return notHealthy, "The API server reports that it is not ready" + text + "; check its log and its /readyz?verbose."
	case code == http.StatusTooManyRequests:
		return throttled, "The API server is overloaded and asks to wait" + text +
			"; check its priority and fairness settings."
	case code >= 300 && code < 400:
		return notHealthy, "The server responds with a redirect" + text + ", which the hub does not follow; put the target address into the kubeconfig."
	}
	return notHealthy, "The server does not respond like a Kubernetes API server" + text +
		"; check that the server's URL and its path lead to the Kubernetes API."
}

// verifyError names the value that a certificate was verified with.
type verifyError struct {
	error
	caKey string
}

func (e *verifyError) Unwrap() error { return e.error }

// blame adds what the error's message needs.
func (w *wiring) blame(err error) error {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return &verifyError{err, w.endpoint.CAKey}
	}
	return err
}

func caKeyIn(err error) string {
	if verify, ok := errors.AsType[*verifyError](err); ok && verify.caKey != "" {
		return verify.caKey
	}
	return "certificate-authority-data"
}

// tlsMessage returns "" for another failure.
func tlsMessage(err error) string {
	var (
		unknownCA x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
		name      x509.HostnameError
		verify    *tls.CertificateVerificationError
		record    tls.RecordHeaderError
		remote    *net.OpError
		echo      *tls.ECHRejectionError
	)
	switch {
	case errors.As(err, &unknownCA):
		return "The server's certificate is not signed by the CA in the credentials; " +
			"put the CA of this API server into " + caKeyIn(err) + ". " +
			"If it was correct before, the server or a proxy in front of it may have been replaced."
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "The certificate of the server or of its CA has expired or is not valid yet; " +
			"renew it, and check the clocks of the hub and the server."
	case errors.As(err, &name):
		return "The server's certificate is not for the host in the server's URL; " +
			"use a name of the certificate, or set tls-server-name (spec.tlsServerName)."
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "The server does not speak TLS; check the port in the server's URL."
	case errors.As(err, &remote) && remote.Op == remoteError:
		return "The server broke off the TLS handshake; " +
			"check that the client certificate is for this server and that it speaks TLS 1.2 or later."
	case errors.As(err, &invalid), errors.As(err, &verify), errors.As(err, &echo):
		return "The server's certificate cannot be verified; check the CA in " + caKeyIn(err) + " and the server's certificate."
	}
	return ""
}

func classifyNetwork(err error) (reason, message string) {
	var timeout net.Error
	var dns *net.DNSError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout(), utilnet.IsHTTP2ConnectionLost(err): // A ping has had no response.
		return timedOut, "The server did not respond in time; " +
			"check that it runs, and that no firewall between the hub and it drops packets."
	case errors.As(err, &dns):
		return unreachable, "The host in the server's URL was not found; check its name and the DNS of the hub."
	}
	return unreachable, "There is no connection to the server: " + cause(err)
}

// cause returns a fixed text.
func cause(err error) string {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, net.ErrClosed):
		return "it was closed by the hub."
	case errors.Is(err, syscall.ECONNREFUSED):
		return "it was refused; check that the API server runs, and its port."
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it broke off; check the API server, and the proxies and load balancers in front of it."
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOBUFS), errors.Is(err, syscall.ENOMEM):
		return "the hub has no file descriptors or memory left for it; raise its limits. The server may be healthy."
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EADDRNOTAVAIL):
		return "there is no route; check the address, and the network of the hub."
	}
	return "check that the API server runs and that the hub can reach it; the log of the hub may say more."
}
