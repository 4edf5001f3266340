// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	sums       = "SHA256SUMS"
	signedSums = sums + ".dsse.json"
)

// checksums writes the checksums of all other files, as sha256sum reads them, and signs them.
func (r *release) checksums(ctx context.Context) error {
	digests, err := digestsOf(r.dir)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(digests)) {
		_, _ = fmt.Fprintf(&out, "%s  %s\n", digests[name], name)
	}
	if err := os.WriteFile(r.file(sums), out.Bytes(), 0o644); err != nil {
		return err
	}
	return r.sign(ctx, signedSums, "text/plain", out.Bytes())
}

// digestsOf are the SHA-256 digests of a folder's files but for the checksums themselves.
func digestsOf(dir string) (map[string]string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	digests := map[string]string{}
	for _, file := range files {
		name := file.Name()
		if name == sums || name == signedSums {
			continue
		}
		if digests[name], err = digestOf(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return digests, nil
}

func digestOf(path string) (digest string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// verify checks the files of a release against the key of the project.
func verify(ctx context.Context, dir, keyFile string, log io.Writer) error {
	key, err := readKey(keyFile)
	if err != nil {
		return err
	}
	signed, err := opened(ctx, filepath.Join(dir, signedSums), key)
	if err != nil {
		return err
	}
	if _, err := opened(ctx, filepath.Join(dir, provenanceFile), key); err != nil {
		return err
	}
	digests, err := digestsOf(dir)
	if err != nil {
		return err
	}
	var errs []error
	checked := 0
	for line := range strings.Lines(string(signed)) {
		digest, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		switch has, ok := digests[name]; {
		case !ok:
			_, _ = fmt.Fprintf(log, "%s is not in %s\n", name, dir)
		case has != digest:
			errs = append(errs, fmt.Errorf("%s has other content than the release: do not use it", name))
		default:
			checked++
		}
		delete(digests, name)
	}
	for _, name := range slices.Sorted(maps.Keys(digests)) {
		errs = append(errs, fmt.Errorf("%s is no file of the release", name))
	}
	if len(errs) == 0 {
		_, _ = fmt.Fprintf(log, "%d files are those that the key has signed\n", checked)
	}
	return errors.Join(errs...)
}
