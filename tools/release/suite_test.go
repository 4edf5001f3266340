// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const testVersion = "v0.1.0"

var long = flag.Bool("long", false, "make a release twice, and use its module: many minutes")

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// keys writes a pair of keys, and returns their files.
func keys(t *testing.T) (private, public string) {
	t.Helper()
	pub, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, data []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	data, err := x509.MarshalPKCS8PrivateKey(priv)
	private = write("release.pem", "PRIVATE KEY", data, err)
	data, err = x509.MarshalPKIXPublicKey(pub)
	return private, write("release.pub", "PUBLIC KEY", data, err)
}

// do runs a program in a folder, and returns what it prints.
func do(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	do(t, dir, nil, append([]string{"git", "-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...)
}

// clone is another checkout of this commit, with the tags of the release.
func clone(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "clusterfx")
	git(t, ".", "clone", "-q", "--no-tags", must[string](t)(filepath.Abs("../..")), dir)
	for _, tag := range (&release{version: testVersion}).tags() {
		git(t, dir, "tag", "-a", "-m", tag, tag)
	}
	return dir
}
