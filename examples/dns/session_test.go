// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// keyReader has one Secret.
type keyReader struct{ client.Reader }

func (keyReader) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	obj.(*corev1.Secret).Data = map[string][]byte{"secret": []byte("c2VjcmV0")}
	return nil
}

// A request ends with the context of its task: after the lock is lost, a task has a third of the lock's TTL to end, and
// a request may take longer.
func TestSession_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // accepts connections, and never responds
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	c := Defaults()
	c.Server, c.Zone, c.Key.Name, c.TimeoutSeconds = silent.Addr().String(), "example.com", "key", 20
	ctx, cancel := context.WithCancel(t.Context())
	began := time.Now()
	err = newZone(c, secret{live: keyReader{}, entry: "secret"}).do(ctx, func(s *session) error {
		cancel()
		_, err := s.exchange(ctx, new(dns.Msg).SetQuestion("edge.example.com.", dns.TypeA))
		return err
	})
	if took := time.Since(began); !errors.Is(err, context.Canceled) || took > 10*time.Second {
		t.Errorf("exchange ended after %v with error %v, want context canceled within 10s", took, err)
	}
}
