// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"time"
)

// Key is the Ed25519 key of a hub or an agent, with the certificate in which TLS shows it. The certificate has no end and no
// authority: the other side knows the key itself.
type Key struct{ certificate tls.Certificate }

const typePrivateKey = "PRIVATE KEY"

// NewKey makes a key.
func NewKey() (Key, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Key{}, fmt.Errorf("make a key: %w", err)
	}
	return keyOf(private)
}

var errNoKey = errors.New("there is no Ed25519 key in PEM (PKCS #8); hub agent --new-key prints one")

// ParseKey reads the first private key of a text in PEM. Its errors quote nothing of the text.
func ParseKey(text []byte) (Key, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != typePrivateKey {
		return Key{}, errNoKey
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return Key{}, errNoKey
	}
	return keyOf(private)
}

func keyOf(private ed25519.PrivateKey) (Key, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "clusterfx"},
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC), // the form of RFC 5280 for no end
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return Key{}, fmt.Errorf("make the certificate of a key: %w", err)
	}
	return Key{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}}, nil
}

// PEM returns the private key.
func (k Key) PEM() []byte {
	der, _ := x509.MarshalPKCS8PrivateKey(k.certificate.PrivateKey) // An Ed25519 key has that form.
	return pem.EncodeToMemory(&pem.Block{Type: typePrivateKey, Bytes: der})
}

// Fingerprint names the public key: sha256 and 64 hexadecimal digits. It is no secret.
func (k Key) Fingerprint() string {
	private, ok := k.certificate.PrivateKey.(ed25519.PrivateKey)
	if !ok {
		return ""
	}
	public, _ := private.Public().(ed25519.PublicKey)
	return fingerprint(public)
}

func fingerprint(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return "sha256:" + hex.EncodeToString(sum[:])
}

var fingerprintForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// IsFingerprint reports whether a text has the form of a fingerprint.
func IsFingerprint(text string) bool { return fingerprintForm.MatchString(text) }

// peerOf returns the fingerprint of the other side's key. TLS has verified that the other side has the private key.
func peerOf(state tls.ConnectionState) (string, error) {
	if len(state.PeerCertificates) != 1 {
		return "", errors.New("the other side shows not one certificate, but a chain or none")
	}
	public, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok {
		return "", errors.New("the other side has no Ed25519 key")
	}
	return fingerprint(public), nil
}

// protocol is what TLS agrees on (ALPN). A hub will also speak that of the release before.
const protocol = "clusterfx-tunnel/1"

// config is of one side of TLS. check gets the fingerprint of the other side.
func (k Key) config(protocols []string, check func(key string) error) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{k.certificate},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, //nolint:gosec // VerifyConnection compares the key, which no authority has signed.
		NextProtos:             protocols,
		SessionTicketsDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			if state.NegotiatedProtocol == "" {
				return errProtocol
			}
			key, err := peerOf(state)
			if err != nil {
				return err
			}
			return check(key)
		},
	}
}

var errProtocol = errors.New("the other side speaks no version of the tunnel's protocol that this side speaks; upgrade the older one")
