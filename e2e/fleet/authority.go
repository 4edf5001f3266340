// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

const (
	caCertFile     = "ca.crt"
	caKeyFile      = "ca.key"
	tokenKeyFile   = "sa.key"
	serverCertFile = "apiserver.crt"
	serverKeyFile  = "apiserver.key"
)

// caLifetime is longer than any fleet lives.
const caLifetime = 5 * 365 * 24 * time.Hour

// clockSkew is how far back certificates and tokens begin.
const clockSkew = time.Minute

// authority holds the keys that a cluster trusts: a holder can act as any user there.
type authority struct {
	caPEM    []byte
	ca       *x509.Certificate
	caKey    crypto.Signer
	tokenKey crypto.Signer
}

// createAuthority writes new keys into dir.
func createAuthority(dir, name string) (*authority, error) {
	tokenKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "clusterfx-fleet-" + name},
		NotAfter:              time.Now().Add(caLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	caPEM, err := certify(template, template, caKey.Public(), caKey)
	if err != nil {
		return nil, err
	}
	if err := writeKeys(dir, map[string]crypto.Signer{caKeyFile: caKey, tokenKeyFile: tokenKey}); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, caCertFile), caPEM, 0o600); err != nil {
		return nil, err
	}
	return loadAuthority(dir)
}

// loadAuthority reads them, or those of a kind node.
func loadAuthority(dir string) (*authority, error) {
	caPEM, err := os.ReadFile(filepath.Join(dir, caCertFile))
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(caPEM)
	if block == nil {
		return nil, fmt.Errorf("%s in %s holds no certificate", caCertFile, dir)
	}
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", caCertFile, err)
	}
	caKey, err := readKey(filepath.Join(dir, caKeyFile))
	if err != nil {
		return nil, err
	}
	tokenKey, err := readKey(filepath.Join(dir, tokenKeyFile))
	if err != nil {
		return nil, err
	}
	return &authority{caPEM: caPEM, ca: ca, caKey: caKey, tokenKey: tokenKey}, nil
}

func (a *authority) issue(template *x509.Certificate) (cert, key []byte, err error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	if cert, err = certify(template, a.ca, signer.Public(), a.caKey); err != nil {
		return nil, nil, err
	}
	key, err = encodeKey(signer)
	return cert, key, err
}

func (a *authority) client(user string, groups []string, expires time.Time) (cert, key []byte, err error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		NotAfter:    expires,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func certify(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-clockSkew)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

func writeKeys(dir string, keys map[string]crypto.Signer) error {
	for name, key := range keys {
		data, err := encodeKey(key)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// encodeKey is for kube-apiserver.
func encodeKey(key crypto.Signer) ([]byte, error) {
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("encode a key: unexpected type %T", key)
	}
	der, err := x509.MarshalECPrivateKey(ec)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// readKey reads a key of the fleet, or an RSA key of kind.
func readKey(file string) (crypto.Signer, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no key", file)
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	return nil, fmt.Errorf("read %s: %w", file, errors.ErrUnsupported)
}
