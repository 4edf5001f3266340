// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// Promise: a release that is made twice, in two folders with two homes, is the same bytes.
func TestRelease_twice(t *testing.T) {
	if !*long {
		t.Skip("compiles everything with an empty cache: make test-release; TestPack_twice shows the archives")
	}
	private, public := keys(t)
	env := func(name string) string { return strings.TrimSpace(do(t, ".", nil, "go", "env", name)) }
	t.Setenv("GOMODCACHE", env("GOMODCACHE")) // A cache of one's own is read-only, and cannot be removed.
	t.Setenv("GOCACHE", env("GOCACHE"))
	here := runtime.GOOS + "/" + runtime.GOARCH
	made := func() string {
		dir := clone(t)
		t.Setenv("HOME", t.TempDir())
		if err := run(t.Context(), []string{"make", "-repository", dir, "-version", testVersion, "-key", private, "-platforms", here}, t.Output()); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, "dist", testVersion)
	}
	first := made()
	t.Setenv("GOCACHE", t.TempDir())
	second := made()
	one, other := must[map[string]string](t)(digestsOf(first)), must[map[string]string](t)(digestsOf(second))
	if len(one) < 5 || !maps.Equal(one, other) {
		t.Errorf("made %v, and then %v", one, other)
	}
	if err := run(t.Context(), []string{"verify", "-key", public, first}, t.Output()); err != nil {
		t.Error(err)
	}
	if runtime.GOOS == "linux" {
		expectImage(t, filepath.Join(first, "hub_"+testVersion+"_image.tar"))
	}
}

// expectImage unpacks an image, and runs the hub in it.
func expectImage(t *testing.T, file string) {
	t.Helper()
	dir, root := t.TempDir(), t.TempDir()
	do(t, dir, nil, "tar", "xf", file)
	image := imageIn(t, dir)
	config, err := image.ConfigFile()
	if err != nil || config.Config.User != "65532:65532" || config.Architecture != runtime.GOARCH {
		t.Fatalf("the image has the configuration %+v (%v)", config, err)
	}
	files := mutate.Extract(image)
	defer func() { _ = files.Close() }()
	unpack(t, files, root)
	authorities, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	if err != nil || bytes.Count(authorities, []byte("BEGIN CERTIFICATE")) < 50 {
		t.Errorf("the image has %d bytes of authorities (%v)", len(authorities), err)
	}
	var v struct{ Version, GitCommit, GoVersion string }
	if err := json.Unmarshal([]byte(do(t, root, nil, filepath.Join(root, "hub"), "version", "-o", "json")), &v); err != nil {
		t.Fatal(err)
	}
	if v.Version != testVersion || v.GitCommit == "" || v.GoVersion != runtime.Version() {
		t.Errorf("the hub of the image is %+v", v)
	}
}

// imageIn is the first image of a layout, whose index has the index of the platforms.
func imageIn(t *testing.T, dir string) v1.Image {
	t.Helper()
	all := must[v1.ImageIndex](t)(layout.ImageIndexFromPath(dir))
	platforms := must[v1.ImageIndex](t)(all.ImageIndex(must[*v1.IndexManifest](t)(all.IndexManifest()).Manifests[0].Digest))
	return must[v1.Image](t)(platforms.Image(must[*v1.IndexManifest](t)(platforms.IndexManifest()).Manifests[0].Digest))
}

func unpack(t *testing.T, files io.Reader, root string) {
	t.Helper()
	for archive := tar.NewReader(files); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, header.Name)
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, must[[]byte](t)(io.ReadAll(archive)), os.FileMode(header.Mode)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Archives depend on names and contents only.
func TestPack_twice(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	made := func() []byte {
		dir := t.TempDir()
		for name, mode := range map[string]os.FileMode{"b": 0o600, "a": 0o640, "c": 0o644} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(name), mode); err != nil {
				t.Fatal(err)
			}
		}
		file := filepath.Join(t.TempDir(), "x.tar")
		if err := packDir(file, dir, at); err != nil {
			t.Fatal(err)
		}
		zip := filepath.Join(t.TempDir(), "x.tgz")
		if err := packFile(zip, []entry{{"clusterfx/templates/x", must[[]byte](t)(os.ReadFile(file)), 0o644}}, at); err != nil {
			t.Fatal(err)
		}
		return must[[]byte](t)(os.ReadFile(zip))
	}
	if !bytes.Equal(made(), made()) {
		t.Error("two archives of the same files differ")
	}
}

// Promise: a file of a release that was changed, added or signed by another key is found.
func TestVerify(t *testing.T) {
	t.Parallel()
	private, public := keys(t)
	_, stranger := keys(t)
	for name, test := range map[string]struct {
		change func(dir string) error
		key    string
		want   string
	}{
		"as it was made":   {func(string) error { return nil }, public, ""},
		"a file is absent": {func(dir string) error { return os.Remove(filepath.Join(dir, "b")) }, public, ""},
		"another content":  {func(dir string) error { return os.WriteFile(filepath.Join(dir, "a"), []byte("x"), 0o600) }, public, "a has other content"},
		"a file more":      {func(dir string) error { return os.WriteFile(filepath.Join(dir, "z"), nil, 0o600) }, public, "z is no file"},
		"another key":      {func(string) error { return nil }, stranger, "not signed with this key"},
		"no provenance":    {func(dir string) error { return os.Remove(filepath.Join(dir, provenanceFile)) }, public, provenanceFile},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &release{version: testVersion, dir: t.TempDir(), log: t.Output(), commit: "c", platforms: []platform{{"linux", "amd64"}}}
			var err error
			if r.key, err = readKey(private); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"a", "b"} {
				if err := os.WriteFile(r.file(name), []byte(name), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(r.provenance(t.Context()), r.checksums(t.Context()), test.change(r.dir)); err != nil {
				t.Fatal(err)
			}
			err = run(t.Context(), []string{"verify", "-key", test.key, r.dir}, t.Output())
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// An interrupted run is told of, and does not stop the next one.
func TestSweep(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r, dir := &release{log: &log}, filepath.Join(t.TempDir(), "unfinished")
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "files"), 0o755), os.WriteFile(filepath.Join(dir, "files", "a"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.sweep(dir); err != nil {
			t.Fatal(err)
		}
	}
	if told := strings.Count(log.String(), "has left 1 files"); told != 1 {
		t.Errorf("got the log %q, want one line", &log)
	}
}

func TestReadKey_advice(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", filepath.Join(t.TempDir(), "none"), "go.mod"} {
		if _, err := readKey(path); err == nil || !strings.Contains(err.Error(), "openssl genpkey") {
			t.Errorf("%q: got %v, want an error that tells how to make a key", path, err)
		}
	}
	if err := run(t.Context(), nil, io.Discard); !errors.Is(err, errUsage) {
		t.Errorf("got %v, want the usage", err)
	}
}
