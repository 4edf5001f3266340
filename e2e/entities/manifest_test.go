// SPDX-License-Identifier: Apache-2.0

package entities_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/reconcilers/entity/bucket"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
)

// The manifests in config/nats are accepted by an API server, and three servers with their configuration, TLS and the permissions that
// hub rbac prints have a bucket on all three, which a hub follows.
// Promise: three servers with TLS, users and the manifests of config/nats: the hub follows, and refuses a certificate that it cannot verify.
func TestManifests(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	objects := manifests(t)
	for _, obj := range objects {
		obj.SetNamespace(s.namespace)
		must(t, s.remote.Create(t.Context(), obj, client.DryRunAll, client.FieldValidation("Strict")))
	}
	config, _, err := unstructured.NestedString(objects[0].Object, "data", "nats.conf")
	must(t, err)
	dir := t.TempDir()
	authority := writeCertificate(t, dir)
	hub, admin := user(t), user(t)
	ports := []string{freePort(t), freePort(t), freePort(t)}
	var servers []*nats.Server
	for i := range ports {
		one := nats.New(t)
		at := filepath.Dir(one.Dir()) // of the configuration, which includes users
		must(t, os.MkdirAll(filepath.Join(at, "users"), 0o700))
		must(t, os.WriteFile(filepath.Join(at, "users", "users.conf"), fmt.Appendf(nil,
			"authorization { users: [ {nkey: %s, permissions: %s}, {nkey: %s} ] }", hub.public, natshub.HubPermissions(ordersBucket), admin.public), 0o600))
		text := strings.NewReplacer(
			"$POD_NAME", fmt.Sprint("nats-", i), "port: 6222", "listen: 127.0.0.1:"+ports[i], "http: 8222", "",
			"nats-0.nats:6222", "127.0.0.1:"+ports[0], "nats-1.nats:6222", "127.0.0.1:"+ports[1], "nats-2.nats:6222", "127.0.0.1:"+ports[2],
			"/tls/tls.crt", filepath.Join(dir, "tls.crt"), "/tls/tls.key", filepath.Join(dir, "tls.key"),
			"store_dir: /data", "", "port: 4222", "", // The arguments have both.
		).Replace(config)
		one.Configure(text)
		one.Restart()
		servers = append(servers, one)
	}
	url := strings.Replace(servers[0].URL(), "nats://", "tls://", 1)
	must(t, os.WriteFile(filepath.Join(dir, "admin"), []byte(admin.seed), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "hub"), []byte(hub.seed), 0o600))
	_, js, err := natshub.Dial(t.Context(), natshub.Options{URL: url, NKeyFile: filepath.Join(dir, "admin"), CAFile: authority}, natshub.Environment{HubID: "admin"})
	must(t, err)
	t.Cleanup(js.Conn().Close)
	for _, name := range []string{ordersBucket, entity.StatusBucket(ordersBucket)} {
		eventually(t, func() error {
			err := bucket.Create(t.Context(), js, bucket.Definition{Name: name, Replicas: 3})
			if errors.Is(err, bucket.ErrConflict) {
				return nil
			}
			return err
		})
	}
	connection, err := natshub.New(natshub.Options{URL: url, NKeyFile: filepath.Join(dir, "hub"), CAFile: authority}, natshub.Environment{HubID: hubID})
	must(t, err)
	orders, err := connection.Follow(ordersBucket)
	must(t, err)
	run(t, connection.Run)
	eventually(t, func() error { return orders.Absent("a") })
	if _, _, err := natshub.Dial(t.Context(), natshub.Options{URL: url, NKeyFile: filepath.Join(dir, "hub")}, natshub.Environment{HubID: hubID}); err == nil {
		t.Error("the hub connects to a server whose certificate it cannot verify")
	}
}

// manifests returns the objects in config/nats/nats.yaml.
func manifests(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile("../../config/nats/nats.yaml")
	must(t, err)
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	var all []*unstructured.Unstructured
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(obj)
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		all = append(all, obj)
	}
}

type natsUser struct{ seed, public string }

func user(t *testing.T) natsUser {
	t.Helper()
	pair, err := nkeys.CreateUser()
	must(t, err)
	seed, err := pair.Seed()
	must(t, err)
	public, err := pair.PublicKey()
	must(t, err)
	return natsUser{string(seed), public}
}

func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(fleettest.FreeAddress(t))
	must(t, err)
	return port
}

func writeCertificate(t *testing.T, dir string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "nats"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	path := filepath.Join(dir, "tls.crt")
	must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	return path
}
