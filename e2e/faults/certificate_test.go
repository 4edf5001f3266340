// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/clusterfx/clusterfx/e2e/fleet"
)

// Files with the certificates and the key of a cluster, in its folder.
const (
	authorityFile    = "ca.crt"
	authorityKeyFile = "ca.key"
	serverFile       = "apiserver.crt"
)

// replaceCertificate replaces the certificate of an API server, which reloads it, by a certificate that is valid at
// another time and otherwise equivalent. restore puts the old certificate back.
func replaceCertificate(t *testing.T, c *fleet.Cluster, from, to time.Time) (restore func()) {
	t.Helper()
	before, err := os.ReadFile(filepath.Join(c.Dir(), serverFile))
	must(t, err)
	authority, server := readCertificate(t, c, authorityFile), readCertificate(t, c, serverFile)
	block := readPEM(t, c, authorityKeyFile)
	key, err := x509.ParsePKCS8PrivateKey(block)
	if err != nil {
		key, err = x509.ParseECPrivateKey(block)
	}
	must(t, err)
	template := *server
	template.NotBefore, template.NotAfter = from, to
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	signed, err := x509.CreateCertificate(rand.Reader, &template, authority, server.PublicKey, key)
	must(t, err)
	write(t, c, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}))
	return sync.OnceFunc(func() { write(t, c, before) })
}

// write replaces the certificate atomically: the API server reads the file when it changes.
func write(t *testing.T, c *fleet.Cluster, cert []byte) {
	t.Helper()
	file := filepath.Join(c.Dir(), serverFile)
	must(t, os.WriteFile(file+".new", cert, 0o600))
	must(t, os.Rename(file+".new", file))
}

func readPEM(t *testing.T, c *fleet.Cluster, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.Dir(), name))
	must(t, err)
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatalf("%s is not PEM", name)
	}
	return block.Bytes
}

func readCertificate(t *testing.T, c *fleet.Cluster, name string) *x509.Certificate {
	t.Helper()
	cert, err := x509.ParseCertificate(readPEM(t, c, name))
	must(t, err)
	return cert
}

// awaitCertificate waits until the certificate that an API server serves is valid, or invalid.
func awaitCertificate(t *testing.T, c *fleet.Cluster, valid bool) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(readCertificate(t, c, authorityFile))
	at, err := url.Parse(c.Server())
	must(t, err)
	eventually(t, func() error {
		conn, err := tls.Dial("tcp", at.Host, &tls.Config{RootCAs: roots})
		if err == nil {
			_ = conn.Close()
		}
		var invalid x509.CertificateInvalidError
		if errors.As(err, &invalid) == valid || err != nil && valid {
			return errors.New("the API server still serves its previous certificate")
		}
		return nil
	})
}
