// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"strings"
)

// maxCertificates is how many certificates a CA bundle or a chain may have.
const maxCertificates = 32

// maxKey bounds a private key in bytes of DER. Checking an RSA key takes the cube of its size; 8192 bits, the most of
// TLS in Go, fit.
const maxKey = 5 << 10

const typeCertificate = "CERTIFICATE"

// parseCertificates, unlike x509.CertPool, refuses what it cannot parse: a certificate that is silently left out
// surfaces as an outage.
func parseCertificates(data []byte, at place) ([]*x509.Certificate, error) {
	blocks, complete := pemBlocks(data)
	if len(blocks) == 0 || !complete {
		return nil, at.invalid("holds no certificate in PEM, or a damaged one; put the whole file here, " +
			"from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE-----, in base64 where the field's name ends in data")
	}
	if len(blocks) > maxCertificates {
		return nil, at.refuse(ReasonTooLarge, "has more than 32 certificates; keep the certificates that are needed")
	}
	chain := make([]*x509.Certificate, 0, len(blocks))
	for _, block := range blocks {
		if strings.Contains(block.Type, "PRIVATE KEY") {
			return nil, at.invalid("holds a private key where a certificate belongs; are the two swapped?")
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil || block.Type != typeCertificate || len(block.Headers) > 0 {
			return nil, at.invalid("holds something that is not an X.509 certificate; put certificates in PEM here and nothing else")
		}
		chain = append(chain, certificate)
	}
	return chain, nil
}

// pemBlocks also returns whether that is all: pem.Decode skips damaged blocks.
func pemBlocks(data []byte) (blocks []*pem.Block, complete bool) {
	begins := bytes.Count(data, []byte("-----BEGIN"))
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return blocks, len(blocks) == begins
		}
		blocks = append(blocks, block)
	}
}

// encodeCertificates leaves out the text between them.
func encodeCertificates(chain []*x509.Certificate) []byte {
	var out []byte
	for _, certificate := range chain {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: typeCertificate, Bytes: certificate.Raw})...)
	}
	return out
}

// parseKey returns the key's normalized PEM.
func parseKey(data []byte, at place) ([]byte, error) {
	blocks, complete := pemBlocks(data)
	if len(blocks) == 2 && blocks[0].Type == "EC PARAMETERS" { // openssl ecparam writes these first
		blocks = blocks[1:]
	}
	if len(blocks) != 1 || !complete || !strings.HasSuffix(blocks[0].Type, "PRIVATE KEY") {
		return nil, at.invalid("does not hold exactly one private key in PEM; put the key of the client certificate here, whole")
	}
	block := blocks[0]
	if strings.Contains(block.Type, "ENCRYPTED") || len(block.Headers) > 0 {
		return nil, at.invalid("the private key is encrypted, and the hub has no passphrase; store it decrypted, with openssl pkey")
	}
	if len(block.Bytes) > maxKey {
		return nil, at.refuse(ReasonTooLarge, "the private key is too large; use an ECDSA key, or an RSA key of 8192 bits at most")
	}
	return pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}), nil
}

// pairOf is a chain and its key, as TLS uses them. It drops the errors of the parser, but for what they say of the key.
func pairOf(chain, key []byte, at place) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(chain, key)
	switch {
	case err == nil:
		return pair, nil
	case strings.Contains(err.Error(), "does not match"):
		return pair, at.invalid("the private key does not belong to the client certificate; store the two that were issued together")
	}
	return pair, at.invalid("the private key cannot be read; use an RSA, ECDSA or Ed25519 key in PKCS #8, PKCS #1 or SEC 1 form")
}
