// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/install"
)

// lossy loses the response to one request, and ends the context of the sender.
type lossy struct {
	next  http.RoundTripper
	end   context.CancelFunc
	at    int64
	count atomic.Int64
}

func (l *lossy) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(request)
	if l.count.Add(1) != l.at || err != nil {
		return response, err
	}
	l.end()
	return nil, errors.Join(response.Body.Close(), context.Canceled)
}

// An installation that is interrupted at a request finishes when it is applied again.
func TestApply_InterruptedAtRequests(t *testing.T) {
	t.Parallel()
	admin, config := installed(t)
	interrupted := 0
	for at := int64(1); ; at += 4 {
		all := objects(t, install.Options{Namespace: fmt.Sprint("interrupted-", at)})
		ctx, cancel := context.WithCancel(t.Context())
		cut := &lossy{end: cancel, at: at}
		c := clientFor(t, wrapped(config, cut))
		err := install.Apply(ctx, c, all, install.ApplyOptions{})
		cancel()
		if cut.count.Load() < at {
			must(t, err)
			break
		}
		interrupted++
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("Apply that is interrupted at request %d returns %v", at, err)
		}
		must(t, install.Apply(t.Context(), admin, all, install.ApplyOptions{}))
		for _, object := range all {
			must(t, admin.Get(t.Context(), client.ObjectKeyFromObject(object), object.DeepCopy()))
		}
	}
	if interrupted < 3 {
		t.Errorf("the installation is interrupted %d times, want 3 or more", interrupted)
	}
}

func wrapped(config *rest.Config, cut *lossy) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		cut.next = next
		return cut
	})
	return config
}
