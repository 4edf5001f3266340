// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/fx"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// servingCertificate writes a self-signed certificate for 127.0.0.1 and its key into a folder, with the names that
// webhook servers read, and returns the certificate.
func servingCertificate(t *testing.T) (folder string, authority []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	folder, authority = t.TempDir(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	err = errors.Join(
		os.WriteFile(filepath.Join(folder, "tls.crt"), authority, 0o600),
		os.WriteFile(filepath.Join(folder, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	return folder, authority
}

// freePort returns a port without a listener.
func freePort(t *testing.T) int {
	t.Helper()
	address, err := netip.ParseAddrPort(fleettest.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	return int(address.Port())
}

// admits is a module whose hub part has a webhook server that refuses every request with the number of its life.
type admits struct {
	folder string
	port   int
	lives  atomic.Int64
	end    chan struct{}
}

func (a *admits) module() registry.Module {
	return registry.NewModule("admits", registry.ModuleOptions{Hub: fx.Invoke(func(m ctrl.Manager) error {
		life := a.lives.Add(1)
		server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: a.port, CertDir: a.folder})
		server.Register("/refuse", &admission.Webhook{Handler: admission.HandlerFunc(
			func(context.Context, admission.Request) admission.Response {
				return admission.Denied(fmt.Sprintf("refused by life %d", life))
			})})
		return errors.Join(m.Add(server), m.Add(manager.RunnableFunc(func(ctx context.Context) error {
			select {
			case <-a.end:
				return errors.New("the end")
			case <-ctx.Done():
				return nil
			}
		})))
	})})
}

// configure makes the API server of the hub call the webhook server for objects with a label.
func (a *admits) configure(t *testing.T, c client.Client, label string, authority []byte) {
	t.Helper()
	refuse := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: label},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "refuse.example.dev", AdmissionReviewVersions: []string{"v1"},
			SideEffects:    new(admissionv1.SideEffectClassNone),
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{label: ""}},
			ClientConfig: admissionv1.WebhookClientConfig{
				URL: new(fmt.Sprintf("https://127.0.0.1:%d/refuse", a.port)), CABundle: authority,
			},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}
	if err := c.Create(t.Context(), refuse); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Delete(context.WithoutCancel(t.Context()), refuse); err != nil {
			t.Error(err)
		}
	})
}

// The webhook server of a hub part responds to the API server while the hub part runs. It ends with the hub part, which
// fails alone, and the next life of the hub part uses the same port.
func TestHubParts_WebhookServer(t *testing.T) {
	t.Parallel()
	const label = "refused-by-a-hub-part"
	folder, authority := servingCertificate(t)
	a := &admits{folder: folder, port: freePort(t), end: make(chan struct{}, 1)}
	r, run, err := hubApp(t, a.module().Option(),
		registry.NewModule("well", registry.ModuleOptions{Hub: fx.Invoke(func() {})}).Option())
	if err != nil {
		t.Fatal(err)
	}
	run()
	c := clientFor(t, fleettest.Cluster(t, "hub"))
	a.configure(t, c, label, authority)
	expectRefusedBy := func(text string) {
		t.Helper()
		eventually(t, func() error {
			err := c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				GenerateName: "refused-", Namespace: metav1.NamespaceDefault, Labels: map[string]string{label: ""},
			}}, client.DryRunAll)
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), text) {
				return fmt.Errorf("got %w, want %s", err, text)
			}
			return nil
		})
	}
	expectPart(t, r, "admits", state.ModuleRunning, "")
	expectRefusedBy("refused by life 1")
	a.end <- struct{}{}
	expectRefusedBy("refused by life 2")
	if one := expectPart(t, r, "admits", state.ModuleRunning, ""); one.Restarts != 1 {
		t.Errorf("got %+v, want 1 restart", one)
	}
	if well := expectPart(t, r, "well", state.ModuleRunning, ""); well.Restarts > 0 {
		t.Errorf("the other hub part: got %+v, want 0 restarts", well)
	}
}
