// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// repository is one with all that a release needs, and its tags.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "go.mod", "module "+mainModule+"\n")
	write(t, dir, "modules/multiclusterruntime/go.mod", "module "+mainModule+"/modules/multiclusterruntime\n\nrequire "+mainModule+" v0.1.0\n")
	write(t, dir, "e2e/controlplane/go.mod", "module "+mainModule+"/e2e/controlplane\n")
	write(t, dir, "config/chart/Chart.yaml", "version: 0.1.0\nappVersion: v0.1.0\n")
	write(t, dir, "config/crd/clusterfx.dev_clusters.yaml", "crd\n")
	write(t, dir, "config/crd/released/v0.1.0.yaml", "crd\n")
	write(t, dir, "config/crd/clusterfx.dev_syncrules.yaml", "crd\n")
	write(t, dir, "config/crd/released/syncrules_v0.1.0.yaml", "crd\n")
	write(t, dir, "CHANGELOG.md", "# Changelog\n\n## v0.1.0\n")
	git(t, dir, "init", "-q")
	commit(t, dir)
	return dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// commit commits everything, and moves the tags there.
func commit(t *testing.T, dir string) {
	t.Helper()
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "x")
	for _, tag := range (&release{version: testVersion}).tags() {
		git(t, dir, "tag", "-f", "-a", "-m", tag, tag)
	}
}

// Promise: what cannot be repeated, or is of another version, is refused before anything is built.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		version string
		change  func(dir string)
		want    string
	}{
		"nothing is wrong":     {testVersion, func(string) {}, ""},
		"no version":           {"", func(string) {}, "is no version"},
		"no canonical version": {"v0.1", func(string) {}, "is no version"},
		"no v":                 {"0.1.0", func(string) {}, "is no version"},
		"with a build":         {"v0.1.0+dirty", func(string) {}, "is no version"},
		"a changed file":       {testVersion, func(dir string) { write(t, dir, "go.mod", "module x\n") }, "the tree has changes"},
		"an unknown file":      {testVersion, func(dir string) { write(t, dir, "new", "") }, "the tree has changes"},
		"no tag":               {"v0.2.0", func(string) {}, "git fetch --tags"},
		"a tag elsewhere": {testVersion, func(dir string) {
			git(t, dir, "commit", "-q", "--allow-empty", "-m", "y")
		}, "check out the tag"},
		"no tag of a nested module": {testVersion, func(dir string) {
			git(t, dir, "tag", "-d", "modules/multiclusterruntime/"+testVersion)
		}, "modules/multiclusterruntime/v0.1.0"},
		"a nested module of another version": {testVersion, func(dir string) {
			write(t, dir, "modules/multiclusterruntime/go.mod", "module x\n\nrequire "+mainModule+" v0.0.9\n")
			commit(t, dir)
		}, "go mod edit -require"},
		"a replace": {testVersion, func(dir string) {
			write(t, dir, "go.mod", "module "+mainModule+"\n\nreplace example.com/a => ../a\n")
			commit(t, dir)
		}, "has a replace"},
		"a chart of another version": {testVersion, func(dir string) {
			write(t, dir, "config/chart/Chart.yaml", "version: 0.0.9\nappVersion: v0.1.0\n")
			commit(t, dir)
		}, "set both"},
		"another CRD than the kept one": {testVersion, func(dir string) {
			write(t, dir, "config/crd/clusterfx.dev_clusters.yaml", "changed\n")
			commit(t, dir)
		}, "run cp"},
		"no changelog": {testVersion, func(dir string) {
			write(t, dir, "CHANGELOG.md", "## Unreleased\n")
			commit(t, dir)
		}, "CHANGELOG.md"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := repository(t)
			test.change(dir)
			err := (&release{repository: dir, version: test.version, log: t.Output()}).check(t.Context())
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
