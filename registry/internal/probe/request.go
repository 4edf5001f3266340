// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// Probes and preflights bypass the rate limit of the app, which may have used it up.

// Limits of a response, of which the rules of a user with many roles are the largest. Objects and lists are counted
// before decoding, since an empty one takes many times its bytes. The rest of a longer response is not read.
const (
	maxResponseBytes = 1 << 20
	maxResponseParts = 50_000
)

var errResponseTooLarge = kubeconfig.NewNotHealthyError(
	"the response of the API server is larger than any response to a probe or preflight should be",
	"The API server sends far more than a probe asks for; check that the server's URL is the URL of an API server.")

func (c *Connection) timeout() time.Duration {
	c.rounds.mu.Lock()
	defer c.rounds.mu.Unlock()
	return c.rounds.pace.Timeout
}

func (c *Connection) get(ctx context.Context, path string, into any) error {
	body, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	return decodeResponse(body, into)
}

// post sends a review, which has its kind.
func (c *Connection) post(ctx context.Context, review client.Object) error {
	sent, err := json.Marshal(review)
	if err != nil {
		return fmt.Errorf("encode the request to the API server: %w", err)
	}
	kind := review.GetObjectKind().GroupVersionKind()
	body, err := c.do(ctx, http.MethodPost, "apis/"+kind.GroupVersion().String()+"/"+strings.ToLower(kind.Kind)+"s", sent)
	if err != nil {
		return err
	}
	return decodeResponse(body, review)
}

func decodeResponse(body []byte, into any) error {
	if len(body) > maxResponseBytes || bytes.Count(body, []byte{'{'})+bytes.Count(body, []byte{','}) > maxResponseParts {
		return errResponseTooLarge
	}
	if err := json.Unmarshal(body, into); err != nil {
		return kubeconfig.ErrNotKubernetes
	}
	return nil
}

func (c *Connection) send(r *http.Request) (*http.Response, error) {
	send := func(r *http.Request) (*http.Response, error) { return transport.SendLimited(c.Transport, r) }
	if traced := c.shared.Tracer.Requests(c.cluster, telemetry.ToRemote); traced != nil {
		return traced(r, send)
	}
	return send(r)
}

// do gives each request the whole timeout, because each takes its time over a slow network.
func (c *Connection) do(ctx context.Context, method, path string, sent []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout())
	defer cancel()
	request, err := c.newRequest(ctx, method, path, sent)
	if err != nil {
		return nil, err
	}
	response, err := c.send(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponseBytes+1))
	if err != nil {
		return nil, err
	}
	if err := check(method, response); err != nil {
		return nil, err
	}
	return body, nil
}

func (c *Connection) newRequest(ctx context.Context, method, path string, sent []byte) (*http.Request, error) {
	where, err := url.JoinPath(c.Server, path)
	if err != nil {
		return nil, fmt.Errorf("send the request to the API server: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, method, where, bytes.NewReader(sent))
	if err != nil {
		return nil, fmt.Errorf("send the request to the API server: %w", err)
	}
	request.Header.Set("Accept", runtime.ContentTypeJSON)
	if sent != nil {
		request.Header.Set("Content-Type", runtime.ContentTypeJSON)
	}
	request.Header.Set("User-Agent", "clusterfx-probe")
	return request, nil
}

// check refuses pages of load balancers and proxies, whatever their status.
func check(method string, response *http.Response) error {
	code, form := response.StatusCode, response.Header.Get("Content-Type")
	switch {
	case code != http.StatusOK && (method == http.MethodGet || code != http.StatusCreated):
		return &kubeconfig.StatusError{Code: code}
	case form != readyzType && transport.MediaType(response) == "text/html":
		return kubeconfig.ErrNotKubernetes
	}
	return nil
}

// readyzType is the media type of /readyz, which need not be parsed.
const readyzType = "text/plain; charset=utf-8"
