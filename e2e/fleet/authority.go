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
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	caCertFile     = "ca.crt"
	caKeyFile      = "ca.key"
	tokenKeyFile   = "sa.key"
	serverCertFile = "apiserver.crt"
	serverKeyFile  = "apiserver.key"
)

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
	for _, file := range []string{caKeyFile, tokenKeyFile} {
		if _, _, err := keyutil.LoadOrGenerateKeyFile(filepath.Join(dir, file)); err != nil {
			return nil, err
		}
	}
	key, err := readKey(filepath.Join(dir, caKeyFile))
	if err != nil {
		return nil, err
	}
	ca, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "clusterfx-fleet-" + name, NotBefore: time.Now().Add(-clockSkew)}, key)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, caCertFile), certificatePEM(ca.Raw), 0o600); err != nil {
		return nil, err
	}
	return loadAuthority(dir)
}

// loadAuthority reads them, or those of a kind node.
func loadAuthority(dir string) (*authority, error) {
	ca, err := certutil.CertsFromFile(filepath.Join(dir, caCertFile))
	if err != nil {
		return nil, err
	}
	caKey, err := readKey(filepath.Join(dir, caKeyFile))
	if err != nil {
		return nil, err
	}
	tokenKey, err := readKey(filepath.Join(dir, tokenKeyFile))
	if err != nil {
		return nil, err
	}
	return &authority{caPEM: certificatePEM(ca[0].Raw), ca: ca[0], caKey: caKey, tokenKey: tokenKey}, nil
}

func (a *authority) issue(template *x509.Certificate) (cert, key []byte, err error) {
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, nil, err
	}
	template.KeyUsage, template.NotBefore = x509.KeyUsageDigitalSignature, time.Now().Add(-clockSkew)
	der, err := x509.CreateCertificate(rand.Reader, template, a.ca, signer.Public(), a.caKey)
	if err != nil {
		return nil, nil, fmt.Errorf("sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	key, err = keyutil.MarshalPrivateKeyToPEM(signer)
	return certificatePEM(der), key, err
}

func (a *authority) client(user string, groups []string, expires time.Time) (cert, key []byte, err error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		NotAfter:    expires,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der})
}

// readKey reads a key of the fleet, or an RSA key of kind.
func readKey(file string) (crypto.Signer, error) {
	key, err := keyutil.PrivateKeyFromFile(file)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("read %s: it holds a %T", file, key)
	}
	return signer, nil
}
