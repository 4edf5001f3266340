// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

const failing = "CLUSTERFX_TEST_FAILING"

func TestFails(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		if n := rapid.IntRange(0, 9).Draw(t, "n"); n > 5 && os.Getenv(failing) != "" {
			t.Fatalf("%d is more than 5", n)
		}
	})
}

// A failing run of rapid writes no fail file, unless the command line requests it.
func TestMain_LeavesNoFailFile(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	must(t, err)
	for flag, want := range map[string]int{"-test.v": 0, "-rapid.nofailfile=false": 1} {
		dir := t.TempDir()
		command := exec.CommandContext(t.Context(), program, "-test.run", "^TestFails$", flag)
		command.Dir, command.Env = dir, append(os.Environ(), failing+"=yes")
		output, err := command.CombinedOutput()
		if err == nil || !bytes.Contains(output, []byte("-rapid.seed=")) {
			t.Fatalf("%s: the run does not fail, or its output lacks -rapid.seed (%v):\n%s", flag, err, output)
		}
		testkit.Equal(t, len(filesIn(t, dir, "")), want, flag, "files of the run")
	}
}

// Every package that uses rapid runs its tests with Main.
func TestMain_IsThatOfAllPackagesWithRapid(t *testing.T) {
	t.Parallel()
	const root = "../.."
	with, without := map[string]bool{}, map[string]bool{}
	for _, file := range filesIn(t, root, "_test.go") {
		text, err := os.ReadFile(file)
		must(t, err)
		if bytes.Contains(text, []byte(`"pgregory.net/rapid"`)) {
			without[filepath.Dir(file)] = true
		}
		if bytes.Contains(text, []byte("fleettest.Main(m")) {
			with[filepath.Dir(file)] = true
		}
	}
	if len(without) < 5 {
		t.Errorf("got %d packages that use rapid, want at least 5", len(without))
	}
	for dir := range without {
		if !with[dir] {
			t.Errorf("%s uses rapid, but its TestMain does not call fleettest.Main", dir)
		}
	}
}

// filesIn returns the files in a folder whose names have a suffix.
func filesIn(t *testing.T, dir, end string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, end) {
			files = append(files, path)
		}
		return err
	})
	must(t, err)
	return files
}
