// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// Promise: the commands of the module guide work with the release as a Go module, without a clone.
func TestZip_guide(t *testing.T) {
	if !*long {
		t.Skip("unpacks and compiles everything that a user downloads: make test-release")
	}
	root := clone(t) // A work tree has no folder .git, which zip needs.
	proxy, home := t.TempDir(), t.TempDir()
	for _, dir := range append(published(), "") {
		publish(t, proxy, root, dir)
	}
	cache := strings.TrimSpace(do(t, ".", nil, "go", "env", "GOMODCACHE"))
	upstream := strings.TrimSpace(do(t, ".", nil, "go", "env", "GOPROXY"))
	env := []string{
		"GOPROXY=file://" + proxy + ",file://" + cache + "/cache/download," + upstream, "GOSUMDB=off",
		"GOMODCACHE=" + filepath.Join(home, "modules"), "GOFLAGS=-modcacherw -trimpath", "GOWORK=off",
	}
	shell := func(command string) string { return do(t, home, env, "sh", "-euc", command) }

	page := string(must[[]byte](t)(os.ReadFile(filepath.Join(root, "docs/modules.md"))))
	_, block, _ := strings.Cut(page, "```sh\nmkdir quota-hub")
	block, _, found := strings.Cut(block, "```")
	if !found {
		t.Fatal("docs/modules.md does not begin with mkdir quota-hub")
	}
	commands := "mkdir quota-hub" + strings.Replace(block, "go run . dev\n", "go run . dev --exit-after-ready\n", 1)
	t.Logf("%s", shell(commands))
	used := shell("cd quota-hub && go list -m -f '{{.Version}} {{.Replace}}' " + mainModule)
	if strings.TrimSpace(used) != testVersion+" <nil>" {
		t.Errorf("the hub was built with clusterfx %s", used)
	}
	t.Logf("%s", shell("cd quota-hub && go run . version"))

	const nested = mainModule + "/modules/multiclusterruntime"
	shell("mkdir nested && cd nested && go mod init example.com/nested && go get " + nested + " && go build " + nested)
	if used := shell("cd nested && go list -m " + mainModule); strings.TrimSpace(used) != mainModule+" "+testVersion {
		t.Errorf("the nested module requires %s", used)
	}
	shell("cd \"$(go mod download -json " + mainModule + "/e2e/controlplane@" + testVersion + " | sed -n 's/.*\"Dir\": \"\\(.*\\)\".*/\\1/p')\" && go run . 1.36")
}

// publish writes a module of the present commit into a proxy.
func publish(t *testing.T, proxy, root, dir string) {
	t.Helper()
	m := module.Version{Path: strings.TrimSuffix(mainModule+"/"+dir, "/"), Version: testVersion}
	at := filepath.Join(proxy, m.Path, "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	file := must[*os.File](t)(os.Create(filepath.Join(at, m.Version+".zip")))
	if err := zip.CreateFromVCS(file, m, root, "HEAD", dir); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	info := must[[]byte](t)(json.Marshal(map[string]any{"Version": m.Version, "Time": time.Unix(1_700_000_000, 0).UTC()}))
	for name, data := range map[string][]byte{
		m.Version + ".info": info, "list": []byte(m.Version + "\n"),
		m.Version + ".mod": must[[]byte](t)(os.ReadFile(filepath.Join(root, dir, "go.mod"))),
	} {
		if err := os.WriteFile(filepath.Join(at, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
