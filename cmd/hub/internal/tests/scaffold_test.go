// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"encoding/json"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/scaffold"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

const ours = "github.com/clusterfx/clusterfx"

func repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../../..")
	must(t, err)
	return root
}

// ownModule returns a user's Go module, which uses clusterfx from this repository. It has the requirements and the sums
// of this repository, as go mod tidy would write them, so that no proxy is needed.
func ownModule(t *testing.T) string {
	t.Helper()
	dir, root := t.TempDir(), repository(t)
	text := testkit.Read(t, root, "go.mod")
	own := strings.Replace(text, "module "+ours, "module example.com/tenants-hub", 1) +
		"\nrequire " + ours + " v0.0.0\n\nreplace " + ours + " => " + root + "\n"
	must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(own), 0o600))
	sums := testkit.Read(t, root, "go.sum")
	must(t, os.WriteFile(filepath.Join(dir, "go.sum"), []byte(sums), 0o600))
	return dir
}

// scaffolded writes a Go module into a folder, adds the module tenants with its program, and returns the folder.
func scaffolded(t *testing.T, dir string) string {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/hub\n"), 0o600))
	files, err := scaffold.Module("tenants", dir)
	must(t, err)
	must(t, files.Write())
	return dir
}

// run runs a program in a folder, and returns its output. The go command compiles with the flags of this test, so that
// the dependencies are in its cache.
func run(t *testing.T, dir, program string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=mod"+raceFlag, "GOWORK=off")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A module in a user's Go module is formatted, compiles, and passes its test, with the program of a hub. That program
// is not installed with the image of the stock hub.
func TestModule_OfOnesOwn(t *testing.T) {
	fleettest.Slow(t, "./cmd/hub/internal/tests TestModule_OfThisRepository")
	t.Parallel()
	dir := ownModule(t)
	files, err := scaffold.Module("team-notes", dir)
	must(t, err)
	if files.Package != "example.com/tenants-hub/teamnotes" || !hasProgram(files) {
		t.Errorf("the files are %+v", files.Paths())
	}
	must(t, files.Write())
	// With -vet=off: go test would check all dependencies again, with other flags than go vet.
	for _, args := range [][]string{{"gofmt", "-l", "."}, {"go", "vet", "./..."}, {"go", "test", "-vet=off", "-count=1", "./..."}} {
		out, err := run(t, dir, args[0], args[1:]...)
		if err != nil || args[0] == "gofmt" && out != "" {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
		t.Logf("%s\n%s", strings.Join(args, " "), out)
	}
	if out, err := run(t, dir, "go", "build", "-tags", "nodev", "-ldflags=-s -w", "-o", "bin/hub", "."); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := run(t, dir, "bin/hub", "install", "--export"); err == nil || !strings.Contains(out, "hub is not the stock hub") {
		t.Errorf("hub install of a custom hub: %v, %.300s", err, out)
	}
	if out, err := run(t, dir, "bin/hub", "install", "--export", "--image=example.com/tenants-hub:v1"); err != nil || !strings.Contains(out, "example.com/tenants-hub:v1") {
		t.Errorf("hub install of a custom hub with --image: %v, %.300s", err, out)
	}
}

// In this repository a module is a folder of modules, with the licence in every file, and compiles there with its test. But for
// the licence and the path of the package it is the module that a user gets, which passes its test.
func TestModule_OfThisRepository(t *testing.T) {
	t.Parallel()
	dir, root := t.TempDir(), repository(t)
	must(t, os.MkdirAll(filepath.Join(dir, "registry"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module "+ours+"\n"), 0o600))
	files, err := scaffold.Module("team-notes", filepath.Join(dir, "registry"))
	must(t, err)
	if files.Package != ours+"/modules/teamnotes" || hasProgram(files) || !strings.Contains(files.Next, "modules.All in modules/modules.go") {
		t.Errorf("the files are %+v; next: %s", files.Paths(), files.Next)
	}
	must(t, files.Write())
	own := ownModule(t)
	users, err := scaffold.Module("team-notes", own)
	must(t, err)
	must(t, users.Write())
	overlay := map[string]map[string]string{"Replace": {}}
	for _, path := range files.Paths() {
		text := testkit.Read(t, path)
		rest, licensed := strings.CutPrefix(text, "// SPDX-License-Identifier: Apache-2.0\n\n")
		if !licensed {
			t.Errorf("%s has no licence", path)
		}
		want := testkit.Read(t, own, "teamnotes", filepath.Base(path))
		got, err := format.Source([]byte(strings.ReplaceAll(rest, files.Package, users.Package)))
		must(t, err)
		if string(got) != want {
			t.Errorf("%s differs from the file of a user:\n%s", path, cmp.Diff(want, string(got)))
		}
		place, err := filepath.Rel(dir, path)
		must(t, err)
		overlay["Replace"][filepath.Join(root, place)] = path
	}
	text, err := json.Marshal(overlay)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o600))
	// It compiles the package and its test, and links no program.
	out, err := run(t, root, "go", "list", "-export", "-test", "-overlay="+filepath.Join(dir, "overlay.json"), "./modules/teamnotes")
	if err != nil || !strings.Contains(out, "teamnotes.test") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// Existing files are kept, and bad names are refused with an example of a good name.
func TestModule_Refused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.ErrorHas(t, testkit.Err(scaffold.Module("tenants", dir)), "go mod init", "without a Go module")
	must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/hub\n"), 0o600))
	for _, name := range []string{
		"", "A", "a", "ten_ants", "type", "client", "registry", "../up", strings.Repeat("a", 33), // Not names, words of Go, and imports.
		"fx", "config", "hub", "controllerutil", // What the files use.
		"append", "app-end", "string", "error", "nil", "any", "namespace", "managed", "vendor", "testdata", "internal",
	} {
		if _, err := scaffold.Module(name, dir); err == nil || !strings.Contains(err.Error(), "tenant-quota") {
			t.Errorf("the name %q: %v", name, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("the folder after refused names has %v, %v", left, err)
	}
	for _, name := range []string{"write", "remove", "quota", "docs"} {
		if _, err := scaffold.Module(name, dir); err != nil {
			t.Errorf("the name %q: %v", name, err)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM mine\n"), 0o600))
	files, err := scaffold.Module("tenants", dir)
	must(t, err)
	must(t, files.Write())
	if text, err := os.ReadFile(filepath.Join(dir, "Dockerfile")); err != nil || string(text) != "FROM mine\n" {
		t.Errorf("the existing Dockerfile is %q, %v", text, err)
	}
	testkit.ErrorHas(t, testkit.Err(scaffold.Module("tenants", dir)), "exists", "a second time")
	if second, err := scaffold.Module("others", dir); err != nil || hasProgram(second) {
		t.Errorf("a second module: %v", err)
	}
}

// A program is written into a Go module without Go files. The next step starts from the current folder.
func TestModule_Program(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, dir string
		program   bool
		next      string
	}{
		"nothing":                {"", ".", true, "go run . dev"},
		"a folder":               {"", "teams/a", true, "cd ../.. && go run . dev"},
		"a program in a folder":  {"cmd/hub/main.go", ".", false, "add the Module of example.com/hub/tenants to the call of app.Main"},
		"a package, in a folder": {"teams.go", "teams", false, "add the Module of example.com/hub/teams/tenants to the call of app.Main"},
	} {
		dir := t.TempDir()
		must(t, os.MkdirAll(filepath.Join(dir, c.dir), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/hub\n"), 0o600))
		if c.file != "" {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, c.file)), 0o755))
			must(t, os.WriteFile(filepath.Join(dir, c.file), []byte("package main\n"), 0o600))
		}
		files, err := scaffold.Module("tenants", filepath.Join(dir, c.dir))
		must(t, err)
		if hasProgram(files) != c.program || !strings.HasPrefix(files.Next, c.next) {
			t.Errorf("%s: program %v, next: %s", name, hasProgram(files), files.Next)
		}
	}
}

// Every target of the Makefile passes a dry run, and the targets use the image and the base of the variables. The image is
// that of the Dockerfile: the Makefile compiles the file that the Dockerfile copies and runs, on the same base.
func TestModule_Makefile(t *testing.T) {
	t.Parallel()
	dir := scaffolded(t, t.TempDir())
	makefile := testkit.Read(t, dir, "Makefile")
	for _, target := range regexp.MustCompile(`(?m)^([a-z]+):`).FindAllStringSubmatch(makefile, -1) {
		out, err := run(t, dir, "make", "--dry-run", target[1], "IMG=example.com:5000/hub:v2", "BASE=scratch")
		if err != nil {
			t.Errorf("make %s: %v\n%s", target[1], err, out)
		}
		for of, want := range map[string]string{
			"image": "-o bin/hub .\ndocker build --build-arg BASE=scratch -t example.com:5000/hub:v2 .", "push": "docker push example.com:5000/hub:v2",
			"install": "go run . install --image example.com:5000/hub:v2", "kind": "kind load docker-image example.com:5000/hub:v2 --name kind",
		} {
			if target[1] == of && !strings.Contains(out, want) {
				t.Errorf("make %s has no %q:\n%s", of, want, out)
			}
		}
	}
	expectDockerfile(t, dir)
}

// expectDockerfile fails the test unless the Makefile compiles the file that the Dockerfile copies and runs, and passes its
// base by the name and with the default that the Dockerfile has.
func expectDockerfile(t *testing.T, dir string) {
	t.Helper()
	text := testkit.Read(t, dir, "Dockerfile")
	parts := regexp.MustCompile(`(?s)\nARG (\w+)(=\S+)\nFROM \$\{(\w+)\}\nCOPY (\S+) (\S+)\n.*\nENTRYPOINT \["(\S+)"\]\n`).FindStringSubmatch(text)
	if parts == nil || parts[1] != parts[3] || parts[5] != parts[6] {
		t.Fatalf("the Dockerfile does not use its base, or does not run the file that it copies: %q", parts)
	}
	out, err := run(t, dir, "make", "--dry-run", "image")
	if want := "-o " + parts[4] + " .\ndocker build --build-arg " + parts[1] + parts[2] + " "; err != nil || !strings.Contains(out, want) {
		t.Errorf("make image has no %q: %v\n%s", want, err, out)
	}
}

// The Makefile checks for Docker and the base before it compiles, and gives advice if Docker or the base is missing.
func TestModule_MakefileChecksFirst(t *testing.T) {
	t.Parallel()
	dir := scaffolded(t, t.TempDir())
	fakes := t.TempDir()
	must(t, os.WriteFile(filepath.Join(fakes, "go"), []byte("#!/bin/sh\necho ran go $1\n"), 0o700))
	docker := "#!/bin/sh\ncase $FAILS in *$1*) exit 1;; esac\necho ran docker $1 $2\n"
	must(t, os.WriteFile(filepath.Join(fakes, "docker"), []byte(docker), 0o700))
	for name, c := range map[string]struct {
		docker string // The commands of Docker that fail.
		base   string
		want   string
	}{
		"no daemon":             {"version", "mine", "the image needs a Docker daemon"},
		"no base":               {"image,pull", "mine", "the base mine cannot be pulled; name another one, or build without a base: make image BASE=scratch"},
		"a base to pull":        {"image", "mine", "ran docker pull mine\nran go build\n"},
		"a base that was there": {"pull", "mine", "ran go build\n"},
		"scratch":               {"image,pull", "scratch", "ran go build\n"},
	} {
		cmd := exec.CommandContext(t.Context(), "make", "image", "BASE="+c.base, "ARCH=amd64")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "FAILS="+c.docker, "PATH="+fakes+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		compiles := strings.HasPrefix(c.want, "ran ")
		if (err == nil) != compiles || strings.Contains(string(out), "ran go build") != compiles || !strings.Contains(withoutCommands(string(out)), c.want) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// withoutCommands returns the output of make without the commands that make prints.
func withoutCommands(out string) string {
	var lines []string
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "CGO_ENABLED=") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func hasProgram(files *scaffold.Files) bool {
	return slices.ContainsFunc(files.Paths(), func(path string) bool { return filepath.Base(path) == "main.go" })
}
