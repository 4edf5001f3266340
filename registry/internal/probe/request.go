// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// What is in this file sends the small requests of probes and surveys. They go past the limits of the app,
// which its own requests may have used up.

// Bounds of an answer. The largest are the rules of a user with many roles; the objects and lists in it
// are counted before they are decoded, since an empty one takes many times its bytes. The rest of a longer
// answer is not read.
const (
	maxAnswer      = 1 << 20
	maxAnswerParts = 50_000
)

var errAnswerTooLarge = errors.New("the answer of the API server is larger than any that was expected")

// get sends one of the requests of a probe.
func (l *Connection) get(ctx context.Context, path string) ([]byte, error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) { l.used = got.Conn }, // by the goroutine of RoundTrip
	})
	return l.ask(ctx, http.MethodGet, path, nil)
}

// getJSON gets an answer of a survey and decodes it.
func (l *Connection) getJSON(ctx context.Context, path string, into any) error {
	body, err := l.ask(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	return decodeAnswer(body, into)
}

// post sends an object and decodes the answer into it.
func (l *Connection) post(ctx context.Context, path string, object any) error {
	sent, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encode what to ask the API server: %w", err)
	}
	body, err := l.ask(ctx, http.MethodPost, path, sent)
	if err != nil {
		return err
	}
	return decodeAnswer(body, object)
}

func decodeAnswer(body []byte, into any) error {
	if len(body) > maxAnswer || bytes.Count(body, []byte{'{'})+bytes.Count(body, []byte{','}) > maxAnswerParts {
		return errAnswerTooLarge
	}
	if err := json.Unmarshal(body, into); err != nil {
		return kubeconfig.ErrNotKubernetes
	}
	return nil
}

// send sends a request, within a span if traces are collected.
func (l *Connection) send(r *http.Request) (*http.Response, error) {
	send := func(r *http.Request) (*http.Response, error) { return transport.SendLimited(l.target.Transport, r) }
	if traced := l.shared.Tracer.Requests(l.target.Cluster, telemetry.ToRemote); traced != nil {
		return traced(r, send)
	}
	return send(r)
}

// ask sends a request and returns the answer. Each has the whole timeout of a probe: a remote at the end
// of a long line needs some time for each of them.
func (l *Connection) ask(ctx context.Context, method, path string, sent []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, l.pace.Load().Timeout)
	defer cancel()
	where, err := url.JoinPath(l.target.Server, path)
	if err != nil {
		return nil, fmt.Errorf("ask the API server: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, method, where, bytes.NewReader(sent))
	if err != nil {
		return nil, fmt.Errorf("ask the API server: %w", err)
	}
	request.Header.Set("Accept", runtime.ContentTypeJSON)
	if sent != nil {
		request.Header.Set("Content-Type", runtime.ContentTypeJSON)
	}
	request.Header.Set("User-Agent", "clusterfx-probe")
	response, err := l.send(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode != http.StatusOK && (method == http.MethodGet || response.StatusCode != http.StatusCreated):
		return nil, &kubeconfig.StatusError{Code: response.StatusCode}
	case transport.MediaType(response) == "text/html": // of a load balancer or a proxy, whatever its status says
		return nil, kubeconfig.ErrNotKubernetes
	}
	return body, nil
}
