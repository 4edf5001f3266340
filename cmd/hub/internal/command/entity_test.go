// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// entityHub is a NATS server, and a program with a module that reads the bucket things.
type entityHub struct {
	t       *testing.T
	dir     string
	server  *nats.Server
	modules []registry.Module
}

func newEntityHub(t *testing.T) *entityHub {
	t.Helper()
	check := func(v thing) error {
		if v.Text == "" {
			return errEmpty
		}
		return nil
	}
	return &entityHub{t: t, dir: t.TempDir(), server: nats.Start(t), modules: []registry.Module{
		registry.NewModule("reader", registry.ModuleOptions{Inputs: []registry.Input{{Name: "things", Check: entity.CheckJSON(check)}}}),
	}}
}

// write writes a file, and returns its path.
func (s *entityHub) write(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	must(s.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func (s *entityHub) run(args ...string) (int, string) {
	s.t.Helper()
	var out bytes.Buffer
	p := Program{Args: append([]string{"hub", "entity"}, args...), Stdout: &out, Stderr: &out, Modules: s.modules}
	status := Execute(s.t.Context(), p)
	return status, out.String()
}

// varying are the parts of outputs that differ from run to run.
var varying = regexp.MustCompile(`\b\d+m?\d*s\b|created: .*`)

// The commands below entity read and write values, check them first, and say what is wrong.
func TestEntity(t *testing.T) {
	t.Parallel()
	s := newEntityHub(t)
	url := "--nats-url=" + s.server.URL()
	a := s.write("a.yaml", "text: first\n")
	b := s.write("b.json", `{"text": "second"}`)
	for _, test := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"get", "things"}, 1, "bucket things: the key does not exist"},
		{[]string{"bucket", "create", "no name"}, 1, `the name "no name"`},
		{[]string{"bucket", "create", "things", "--replicas=9"}, 1, "--replicas=9: use 1, 3 or 5"},
		{[]string{"bucket", "create", "things", "--ttl=24h"}, 0, "bucket/things created\nbucket/things-status created\n"},
		{[]string{"bucket", "create", "things"}, 0, "bucket/things exists\nbucket/things-status exists\n"},
		{[]string{"get", "things"}, 0, "The bucket has no entities."},
		{[]string{"get", "things", "a"}, 1, "entity a of bucket things: the key does not exist"},
		{[]string{"apply", "things", "a", "-f", a, "--dry-run"}, 0, "entity/a of bucket things created (dry run)\n"},
		{[]string{"get", "things"}, 0, "The bucket has no entities."},
		{[]string{"apply", "things", "a", "-f", a}, 0, "entity/a of bucket things created (revision 1)\n"},
		{[]string{"apply", "things", "a", "-f", a}, 0, "entity/a of bucket things unchanged (revision 1)\n"},
		{[]string{"apply", "things", "a", "-f", b}, 0, "entity/a of bucket things updated (revision 2)\n"},
		{[]string{"apply", "things", "c", "-f", s.write("c.yaml", "text: third\n")}, 0, "entity/c of bucket things created (revision 3)\n"},
		{[]string{"apply", "things", "a", "-f", s.write("bad.yaml", "txet: x\n")}, 1, "the value is invalid: text: it is empty"},
		{[]string{"apply", "things", "a", "-f", s.write("typo.yaml", "text: x\ntxet: x\n")}, 1, `unknown field "txet"`},
		{[]string{"apply", "things", "a", "-f", s.write("twice.yaml", "text: x\ntext: y\n")}, 1, `twice.yaml: duplicate field "text" in line 2`},
		{[]string{"apply", "things", "a", "-f", s.write("two.yaml", "text: x\n---\ntext: y\n")}, 1, "a second YAML document"},
		{[]string{"apply", "things", "a", "-f", s.write("list.yaml", "[1]\n")}, 1, "the value is no object"},
		{[]string{"apply", "things", "a", "-f", s.write("large.yaml", "text: "+strings.Repeat("x", 1<<20))}, 1, "more than 1048576 bytes"},
		{[]string{"apply", "things", "a", "-f", s.write("empty.yaml", "\n")}, 1, "the value is no object"},
		{[]string{"apply", "things", "a b", "-f", a}, 1, `key "a b": a key has letters`},
		{[]string{"apply", "things", "_clusterfx.canary.hub", "-f", a}, 1, "belong to the hub"},
		{[]string{"apply", "things", "-f", a}, 1, "needs a bucket and a key"},
		{[]string{"get", "things"}, 0, "a     2          -       AGE\nc     3          -       AGE\n"},
		{[]string{"get", "things", "c", "-o", "yaml"}, 0, "AGE\nkey: c\nrevision: 3\nvalue:\n  text: third\n"},
		{[]string{"get", "things", "-o", "json"}, 0, `"text": "second"`},
		{[]string{"get", "things", "-o", "xml"}, 1, `--output="xml": use json or yaml`},
		{[]string{"get"}, 1, "needs a bucket, and may have a key"},
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

// The status of an entity is beside its value, with a part for each cluster.
func TestEntity_Status(t *testing.T) {
	t.Parallel()
	s := newEntityHub(t)
	url := "--nats-url=" + s.server.URL()
	s.run("bucket", "create", "things", url)
	s.run("apply", "things", "a", "-f", s.write("a", "text: one"), url)
	_, js := nats.Connect(t, s.server.URL())
	kv, err := js.KeyValue(t.Context(), "things-status")
	if err == nil {
		_, err = kv.PutString(t.Context(), "a", `{"clusters": {"x": {"revision": 1, "ready": true}, "y": {"reason": "Rejected"}}}`)
	}
	must(t, err)
	for want, args := range map[string][]string{
		"a     1          1/2 ":         {"get", "things", url},
		"reason: Rejected":              {"get", "things", "a", "-o", "yaml", url},
		`"revision": 1,\n          "re`: {"get", "things", "-o", "json", url},
	} {
		if status, got := s.run(args...); status != 0 || !strings.Contains(got, strings.ReplaceAll(want, `\n`, "\n")) {
			t.Errorf("%v: %d, %s; want %q", args, status, got, want)
		}
	}
}

// A bucket's status says whether the hub knows it, and accept writes its identity where the hub remembers it.
func TestEntity_Accept(t *testing.T) {
	t.Parallel()
	s := newEntityHub(t)
	url := "--nats-url=" + s.server.URL()
	hub := fleettest.Cluster(t, "entity-hub")
	c := fleettest.Client(t, hub)
	must(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hubv1.DefaultNamespace}}))
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
	must(t, js.DeleteKeyValue(t.Context(), "things"))
	if status, got := s.run("accept", "things", url, at); status != 1 || !strings.Contains(got, "bucket things: the key does not exist") {
		t.Errorf("a bucket that does not exist: %d, %s", status, got)
	}
	s.run("bucket", "create", "things", url)
	expect("accept it with hub entity accept things\n", "bucket", "status", "things")
	expect("accepted", "accept", "things")
	expect("Known to the hub: yes\n", "bucket", "status", "things")
}

// rbac prints the users of the NATS server for the buckets of the modules.
func TestRBAC_NATS(t *testing.T) {
	t.Parallel()
	s := newEntityHub(t)
	var out bytes.Buffer
	p := Program{Args: []string{"hub", "rbac", "--in=nats"}, Stdout: &out, Stderr: &out, Modules: s.modules}
	if status := Execute(t.Context(), p); status != 0 || !strings.Contains(out.String(), `"$KV.things._clusterfx.>"`) {
		t.Errorf("%d, %s", status, out.String())
	}
	s.server.Kill()
	s.server.Configure(regexp.MustCompile(`PUBLIC_NKEY_\w+`).ReplaceAllStringFunc(out.String(), func(string) string {
		pair, err := nkeys.CreateUser()
		must(t, err)
		public, err := pair.PublicKey()
		must(t, err)
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
