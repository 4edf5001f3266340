// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// write is a compiler that only writes a file.
func write(_ context.Context, t tool, file string) error {
	return os.WriteFile(file, []byte(t.name), 0o755)
}

// files returns the names of the files in a folder, without the lock of a build.
func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != ".lock" {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestBuild_onlyWhatIsMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var built []string
	b := builder{dir: dir, log: io.Discard, compile: func(ctx context.Context, t tool, file string) error {
		built = append(built, t.name)
		return write(ctx, t, file)
	}}
	if err := write(t.Context(), tool{name: "b"}, filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.build(t.Context(), []tool{{name: "a"}, {name: "b"}}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(built, []string{"a"}) {
		t.Errorf("built %v, want a", built)
	}
	if got := files(t, dir); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the folder contains %v, want a and b", got)
	}
}

func TestBuild_failureLeavesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	broken := errors.New("broken")
	b := builder{dir: t.TempDir(), log: io.Discard}
	b.compile = func(ctx context.Context, t tool, file string) error {
		_ = write(ctx, t, file)
		return broken
	}
	if err := os.Mkdir(filepath.Join(b.dir, scratch+"stale"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := b.build(ctx, []tool{{name: "a"}}); !errors.Is(err, broken) {
		t.Errorf("got %v, want the compiler's error", err)
	}
	cancel()
	if err := b.build(ctx, []tool{{name: "a"}}); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("got %v, want an error that contains interrupted", err)
	}
	if got := files(t, b.dir); len(got) != 0 {
		t.Errorf("the folder contains %v, want no files", got)
	}
}

func TestBuild_twoAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var count atomic.Int32
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			b := builder{dir: dir, log: io.Discard, compile: func(ctx context.Context, t tool, file string) error {
				count.Add(1)
				return write(ctx, t, file)
			}}
			if err := b.build(t.Context(), []tool{{name: "a"}}); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if count.Load() != 1 {
		t.Errorf("built %d times, want once", count.Load())
	}
}

func TestCheckAssets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"kube-apiserver", "etcd", "kubectl"} {
		err := checkAssets(dir, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "holds no "+name) {
			t.Errorf("got %v, want an error about the missing %s", err, name)
		}
		if err := write(t.Context(), tool{name: name}, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := checkAssets(dir, io.Discard); err != nil {
		t.Error(err)
	}
}

func TestLinkerFlags(t *testing.T) {
	t.Parallel()
	const prefix = "-X k8s.io/component-base/version."
	want := "-s -w " + prefix + "gitVersion=v1.36.3 " + prefix + "gitMajor=1 " + prefix + "gitMinor=36"
	if got := linkerFlags("v1.36.3"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestKubernetesVersion(t *testing.T) {
	t.Parallel()
	all, err := kinds([]string{"all"})
	if err != nil || len(all) != 7 {
		t.Fatalf("there are the versions %v, want seven (%v)", all, err)
	}
	for _, one := range append(all, kind{pinnedMinor, ""}) {
		version, err := kubernetesVersion(t.Context(), one.modfile)
		if err != nil {
			t.Fatal(err)
		}
		mod, err := os.ReadFile(cmp.Or(one.modfile, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(mod), kubernetesModule+" "+version+" ") || !strings.HasPrefix(version, "v"+one.minor+".") {
			t.Errorf("the file of %s requires %s %s", one.minor, kubernetesModule, version)
		}
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{"": "", "1.36": "", "1.31": "1.31", "v1.30.14 1.37": "1.30 1.37"} {
		found, err := kinds(strings.Fields(args))
		var got []string
		for _, one := range found {
			got = append(got, one.minor)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: got %v (%v), want %q", args, got, err, want)
		}
	}
	if _, err := kinds([]string{"1.29"}); err == nil || !strings.Contains(err.Error(), "1.30, 1.31") {
		t.Errorf("got %v, want an error that names the versions", err)
	}
}
