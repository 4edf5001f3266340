// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A watch that cannot reach the API server is tried again until it succeeds or its caller ends; other requests fail at once. The log
// says once that the API server is away, and once that it is back.
func TestWatchRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		errAway := errors.New("connection refused")
		tries, failures, log := 0, 0, ""
		p := &watchRetry{
			log: funcr.New(func(_, text string) { log += text + "\n" }, funcr.Options{}),
			next: testkit.RoundTrip(func(*http.Request) (*http.Response, error) {
				if tries++; tries <= failures {
					return nil, errAway
				}
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
			}),
		}
		send := func(ctx context.Context, query string, failing int) (time.Duration, error) {
			tries, failures = 0, failing
			began := time.Now()
			response, err := p.RoundTrip(testkit.Request(t, http.MethodGet, "https://hub/api/v1/pods"+query).WithContext(ctx))
			if err == nil {
				_ = response.Body.Close()
			}
			return time.Since(began), err
		}
		took, err := send(t.Context(), "", 1)
		testkit.ErrorIs(t, err, errAway, "a list")
		testkit.Equal(t, took, 0, "the time of a list")
		took, err = send(t.Context(), "?watch=true", 3)
		testkit.NoError(t, err, "a watch")
		if took < 3*retryWatch || took > 6*retryWatch {
			t.Errorf("three more tries take %s", took)
		}
		testkit.Equal(t, strings.Count(log, "cannot be reached"), 1, log)
		testkit.Equal(t, strings.Count(log, "is back"), 1, log)

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		took, err = send(ctx, "?watch=true", 1000)
		testkit.ErrorIs(t, err, errAway, "a watch that ends")
		testkit.Equal(t, took, time.Minute, "until its end")
	})
}
