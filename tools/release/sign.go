// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/signerverifier"
)

// readKey reads a key from a PEM file: PKCS #8 if it is private, else PKIX.
func readKey(path string) (dsse.SignerVerifier, error) {
	const advice = "make one with openssl genpkey -algorithm ed25519 -out release.pem, and its public half with " +
		"openssl pkey -in release.pem -pubout -out release.pub"
	if path == "" {
		return nil, errors.New("KEY names no key to sign with: " + advice)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w: %s", err, advice)
	}
	loaded, err := signerverifier.LoadKey(data)
	if err != nil {
		return nil, fmt.Errorf("read the key %s: %w: %s", path, err, advice)
	}
	if loaded.KeyType != signerverifier.ED25519KeyType {
		return nil, fmt.Errorf("the key %s is of type %s, whose signatures differ each time: %s", path, loaded.KeyType, advice)
	}
	return signerverifier.NewED25519SignerVerifierFromSSLibKey(loaded)
}

// sign writes a DSSE envelope with the payload.
func (r *release) sign(ctx context.Context, name, kind string, payload []byte) error {
	signer, err := dsse.NewEnvelopeSigner(r.key)
	if err != nil {
		return err
	}
	envelope, err := signer.SignPayload(ctx, kind, payload)
	if err != nil {
		return err
	}
	data, err := json.Marshal(envelope)
	if err != nil {
		return err
	}
	return os.WriteFile(r.file(name), append(data, '\n'), 0o644)
}

// opened is the payload of an envelope that was signed with the key.
func opened(ctx context.Context, path string, key dsse.Verifier) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var envelope dsse.Envelope
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&envelope); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	verifier, err := dsse.NewEnvelopeVerifier(key)
	if err != nil {
		return nil, err
	}
	if _, err := verifier.Verify(ctx, &envelope); err != nil {
		return nil, fmt.Errorf("%s is not signed with this key: %w", filepath.Base(path), err)
	}
	return envelope.DecodeB64Payload()
}
