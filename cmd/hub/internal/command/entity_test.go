// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/e2e/nats"
	"github.com/clusterfx/clusterfx/reconcilers/entity"
	"github.com/clusterfx/clusterfx/registry"
)

// thing is the value of the entities in these tests.
type thing struct {
	Text string `json:"text"`
}

var errEmpty = errors.New("text: it is empty")

// entitySite is a NATS server, and a program with a module that reads the bucket things.
type entitySite struct {
	t       *testing.T
	dir     string
	server  *nats.Server
	modules []registry.Module
}

func newEntitySite(t *testing.T) *entitySite {
	t.Helper()
	check := func(v thing) error {
		if v.Text == "" {
			return errEmpty
		}
		return nil
	}
	return &entitySite{t: t, dir: t.TempDir(), server: nats.Start(t), modules: []registry.Module{
		registry.NewModule("reader", registry.ModuleOptions{Inputs: []registry.Input{{Name: "things", Check: entity.CheckJSON(check)}}}),
	}}
}

// write writes a file, and returns its path.
func (s *entitySite) write(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func (s *entitySite) run(args ...string) (int, string) {
	s.t.Helper()
	var out bytes.Buffer
	p := Program{Args: append([]string{"hub", "entity"}, args...), Stdout: &out, Stderr: &out, Modules: s.modules}
	status := Execute(s.t.Context(), p)
	return status, out.String()
}

// varying are the parts of outputs that differ from run to run.
var varying = regexp.MustCompile(`\b\d+m?\d*s\b|created: .*`)

// The commands below entity read and write values with the revision that is expected, check them first, and say what is wrong.
func TestEntity(t *testing.T) {
	t.Parallel()
	s := newEntitySite(t)
	url := "--nats-url=" + s.server.URL()
	a := s.write("a.yaml", "text: first\n")
	b := s.write("b.json", `{"text": "second"}`)
	all := s.write("all.yaml", "key: a\nvalue: {text: third}\n---\nkey: c\nvalue: {text: new}\nstatus: {clusters: {}}\n")
	for _, test := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"bucket", "ls"}, 0, "The NATS server has no buckets."},
		{[]string{"get", "things"}, 1, "bucket things: the key does not exist"},
		{[]string{"bucket", "create", "no name"}, 1, `the name "no name"`},
		{[]string{"bucket", "create", "things", "--replicas=9"}, 1, "--replicas=9: use 1, 3 or 5"},
		{[]string{"bucket", "create", "things", "--ttl=24h"}, 0, "bucket/things created\nbucket/things-status created\n"},
		{[]string{"bucket", "create", "things"}, 0, "bucket/things exists\nbucket/things-status exists\n"},
		{[]string{"bucket", "ls"}, 0, "things          0        0       5         1"},
		{[]string{"bucket", "ls", "-o", "json"}, 0, `"expires": "24h0m0s"`},
		{[]string{"get", "things"}, 0, "The bucket has no entities."},
		{[]string{"get", "things", "a"}, 1, "entity a of bucket things: the key does not exist"},
		{[]string{"apply", "things", "a", "-f", a, "--dry-run"}, 0, "entity/a of bucket things created (dry run)\n"},
		{[]string{"get", "things"}, 0, "The bucket has no entities."},
		{[]string{"apply", "things", "a", "-f", a, "--revision=7"}, 1, "entity a of bucket things has the revision 0, and not 7: the key has changed"},
		{[]string{"apply", "things", "a", "-f", a, "--revision=0"}, 0, "entity/a of bucket things created (revision 1)\n"},
		{[]string{"apply", "things", "a", "-f", a}, 0, "entity/a of bucket things unchanged (revision 1)\n"},
		{[]string{"apply", "things", "a", "-f", b, "--revision=0"}, 1, "has the revision 1, and not 0"},
		{[]string{"apply", "things", "a", "-f", b}, 0, "entity/a of bucket things updated (revision 2)\n"},
		{[]string{"apply", "things", "-f", all, "--revision=2"}, 1, "--revision is for one entity"},
		{[]string{"apply", "things", "-f", all}, 0, "entity/a of bucket things updated (revision 3)\nentity/c of bucket things created (revision 4)\n"},
		{[]string{"apply", "things", "-f", a}, 1, "a document has no key"},
		{[]string{"apply", "things", "a", "-f", s.write("bad.yaml", "txet: x\n")}, 1, "entity a: the value is invalid: text: it is empty"},
		{[]string{"apply", "things", "a", "-f", s.write("typo.yaml", "text: x\ntxet: x\n")}, 1, `unknown field "txet"`},
		{[]string{"apply", "things", "a", "-f", s.write("list.yaml", "[1]\n")}, 1, "the value is no object"},
		{[]string{"apply", "things", "a", "-f", s.write("large.yaml", "text: "+strings.Repeat("x", 1<<20))}, 1, "more than 1048576 bytes"},
		{[]string{"apply", "things", "a", "-f", s.write("empty.yaml", "\n")}, 1, "it has no document"},
		{[]string{"apply", "things", "a b", "-f", a}, 1, `key "a b": a key has letters`},
		{[]string{"apply", "things", "_clusterfx.canary.hub", "-f", a}, 1, "belong to the hub"},
		{[]string{"get", "things"}, 0, "a     3          -       AGE\nc     4          -       AGE\n"},
		{[]string{"get", "things", "c", "-o", "yaml"}, 0, "AGE\nkey: c\nrevision: 4\nvalue:\n  text: new\n"},
		{[]string{"get", "things", "-o", "json"}, 0, `"text": "third"`},
		{[]string{"get", "things", "-o", "xml"}, 1, `--output="xml": use table, yaml or json`},
		{[]string{"get"}, 1, "needs a bucket, and may have a key"},
		{[]string{"delete", "things"}, 1, "needs a bucket and a key"},
		{[]string{"delete", "things", "c", "--dry-run"}, 0, "entity/c of bucket things deleted (dry run)\n"},
		{[]string{"delete", "things", "c", "--revision=1"}, 1, "has the revision 4, and not 1"},
		{[]string{"delete", "things", "c"}, 0, "entity/c of bucket things deleted\n"},
		{[]string{"delete", "things", "c"}, 1, "the key does not exist"},
	} {
		args := append(test.args, url)
		status, got := s.run(args...)
		if got = varying.ReplaceAllString(got, "AGE"); status != test.status || !strings.Contains(got, test.want) {
			t.Errorf("%s: %d, %s; want %d, %q", strings.Join(args, " "), status, got, test.status, test.want)
		}
	}
	s.server.Kill()
	if status, got := s.run("get", "things", url); status != 1 || !strings.Contains(got, "connect to NATS") || !strings.Contains(got, "--nats-url") {
		t.Errorf("without a server: %d, %s", status, got)
	}
}

// Documents that get prints can be applied again, with their revisions.
func TestEntity_RoundTrip(t *testing.T) {
	t.Parallel()
	s := newEntitySite(t)
	url := "--nats-url=" + s.server.URL()
	s.run("bucket", "create", "things", url)
	s.run("apply", "things", "a", "-f", s.write("a", "text: one"), url)
	_, printed := s.run("get", "things", "-o", "yaml", url)
	if status, got := s.run("apply", "things", "-f", s.write("all", printed), url); status != 0 || got != "entity/a of bucket things unchanged (revision 1)\n" {
		t.Errorf("%d, %s", status, got)
	}
	edited := s.write("edited", strings.ReplaceAll(printed, "one", "two"))
	s.run("apply", "things", "a", "-f", s.write("a", "text: three"), url)
	if status, got := s.run("apply", "things", "-f", edited, url); status != 1 || !strings.Contains(got, "has the revision 2, and not 1") {
		t.Errorf("a document with an old revision: %d, %s", status, got)
	}
}

// A watch prints the entities and their changes until it is interrupted.
func TestEntity_Watch(t *testing.T) {
	t.Parallel()
	s := newEntitySite(t)
	url := "--nats-url=" + s.server.URL()
	s.run("bucket", "create", "things", url)
	s.run("apply", "things", "a", "-f", s.write("a", "text: one"), url)
	ctx, cancel := context.WithCancel(t.Context())
	out := &lockedBuffer{}
	done := make(chan int)
	go func() {
		done <- Execute(ctx, Program{Args: []string{"hub", "entity", "watch", "things", url}, Stdout: out, Stderr: out, Modules: s.modules})
	}()
	expect := func(want string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !regexp.MustCompile(want).MatchString(out.String()); <-time.After(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("got %s, want %s", out, want)
			}
		}
	}
	expect(`put +1 +a\n`)
	s.run("apply", "things", "b", "-f", s.write("b", "text: one"), url)
	expect(`put +2 +b\n`)
	s.run("delete", "things", "a", url)
	expect(`deleted +3 +a\n`)
	cancel()
	if status := <-done; status != 130 {
		t.Errorf("got %d, want 130", status)
	}
}

// lockedBuffer is a buffer for a command that runs.
type lockedBuffer struct {
	mu  sync.Mutex // protects buf
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(text)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// An edited value is checked, opened again with the problem, and written with the revision that was read. Nothing is lost.
func TestEntity_Edit(t *testing.T) { //nolint:paralleltest // It sets the editor of the process.
	s := newEntitySite(t)
	url := "--nats-url=" + s.server.URL()
	s.run("bucket", "create", "things", url)
	s.run("apply", "things", "a", "-f", s.write("a", "text: one"), url)
	t.Setenv("VISUAL", "")
	t.Setenv("TMPDIR", s.dir)
	seen := filepath.Join(s.dir, "seen")
	for _, test := range []struct {
		name, editor string
		status       int
		want, saw    string
	}{
		{"nothing", "true", 0, "Nothing was changed.\n", ""},
		{"a change", "sed -i s/one/two/", 0, "entity/a of bucket things updated (revision 2)\n", ""},
		{"a mistake, and then nothing", "sed -i s/text/txet/", 1, "the edited value is in", problemPrefix},
		{"an editor that fails", "false", 1, "choose another one with $EDITOR", ""},
	} {
		script := s.write("editor", "cp \"$1\" "+seen+"\n"+test.editor+" \"$1\"\n")
		t.Setenv("EDITOR", "sh "+script)
		status, got := s.run("edit", "things", "a", url)
		text, _ := os.ReadFile(seen)
		if status != test.status || !strings.Contains(got, test.want) || !strings.Contains(string(text), test.saw) {
			t.Errorf("%s: %d, %s, the editor saw %s; want %d, %q", test.name, status, got, text, test.status, test.want)
		}
	}
	// Another client changes the entity while the editor is open.
	opened, done := filepath.Join(s.dir, "opened"), filepath.Join(s.dir, "done")
	t.Setenv("EDITOR", "sh "+s.write("editor", "touch "+opened+"\nuntil [ -e "+done+" ]; do sleep 0.05; done\nsed -i s/two/four/ \"$1\"\n"))
	applied := make(chan struct{})
	go func() {
		defer close(applied)
		for _, err := os.Stat(opened); err != nil; _, err = os.Stat(opened) {
			<-time.After(10 * time.Millisecond)
		}
		s.run("apply", "things", "a", "-f", s.write("other", "text: three"), url)
		s.write("done", "")
	}()
	status, got := s.run("edit", "things", "a", url)
	<-applied
	if status != 1 || !strings.Contains(got, "the key has changed since it was read; the edited value is in") {
		t.Errorf("a conflict: %d, %s", status, got)
	}
}

// A bucket's status says whether the hub knows it, and accept writes its identity where the hub remembers it.
func TestEntity_Accept(t *testing.T) {
	t.Parallel()
	s := newEntitySite(t)
	url := "--nats-url=" + s.server.URL()
	hub := fleettest.Cluster(t, "entity-hub")
	c, err := client.New(hub.Config(), client.Options{})
	if err == nil {
		err = c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hubv1.DefaultNamespace}})
	}
	if err != nil {
		t.Fatal(err)
	}
	at := "--kubeconfig=" + s.write("kubeconfig", string(hub.Kubeconfig()))
	s.run("bucket", "create", "things", url)
	expect := func(want string, args ...string) {
		t.Helper()
		if status, got := s.run(append(args, url, at)...); status != 0 || !strings.Contains(got, want) {
			t.Errorf("%v: %d, %s; want %q", args, status, got, want)
		}
	}
	expect("Known to the hub: no: the hub has not followed it yet\n", "bucket", "status", "things")
	expect("bucket/things accepted (created ", "accept", "things")
	expect("Known to the hub: yes\n", "bucket", "status", "things")
	_, js := nats.Connect(t, s.server.URL())
	if err := js.DeleteKeyValue(t.Context(), "things"); err != nil {
		t.Fatal(err)
	}
	if status, got := s.run("accept", "things", url, at); status != 1 || !strings.Contains(got, "bucket things: the key does not exist") {
		t.Errorf("a bucket that does not exist: %d, %s", status, got)
	}
	s.run("bucket", "create", "things", url)
	expect("accept it with hub entity accept things\n", "bucket", "status", "things")
	expect("accepted", "accept", "things")
	expect(`"knownToTheHub": "yes"`, "bucket", "status", "things", "-o", "json")
}

// rbac prints the users of the NATS server for the buckets of the modules.
func TestRBAC_NATS(t *testing.T) {
	t.Parallel()
	s := newEntitySite(t)
	var out bytes.Buffer
	p := Program{Args: []string{"hub", "rbac", "--in=nats"}, Stdout: &out, Stderr: &out, Modules: s.modules}
	if status := Execute(t.Context(), p); status != 0 || !strings.Contains(out.String(), `"$KV.things._clusterfx.>"`) {
		t.Errorf("%d, %s", status, out.String())
	}
	s.server.Kill()
	s.server.Configure(regexp.MustCompile(`PUBLIC_NKEY_\w+`).ReplaceAllStringFunc(out.String(), func(string) string {
		pair, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		public, err := pair.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		return public
	}))
	s.server.Restart() // It reads what is printed.
	if status, got := s.run("get", "things", "--nats-url="+s.server.URL()); status != 1 || !strings.Contains(got, "Authorization Violation") {
		t.Errorf("without a credential: %d, %s", status, got)
	}
	p.Modules, out = nil, bytes.Buffer{}
	if status := Execute(t.Context(), p); status != 1 || !strings.Contains(out.String(), "no module reads entities") {
		t.Errorf("without modules: %d, %s", status, out.String())
	}
}
