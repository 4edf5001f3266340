// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

var (
	serverPattern = regexp.MustCompile(`https://(127\.0\.0\.1:\d+)`)
	table         = `(?m)^NAME +READY +REASON +VERSION +MODULES +AGE\n` +
		`edge-eu-1 +True +Ready +v1\.\S+ +\d/\d +\d+s\nedge-us-1 +True +Ready +v1\.\S+ +\d/\d +\d+s\n\n`
)

// life is one life of hub dev, with the configurations and the objects of the two pages that begin with it.
type life struct {
	*program
	dir, kubeconfig string // the folder in which it runs, and what it wrote
	env             []string
	pages           map[string][]step
}

// Everything that a dev promises while it lives: a table of Ready clusters, the flags and modules of its configuration file, the
// commands of the pages on syncing, on entities and on registration by Secret, the other commands with its kubeconfig and no flags, no more permissions than
// those that are declared, and an end with Ctrl-C that leaves nothing.
func TestDev_OneLife(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.expectRefused()
	l.start()
	l.expectReady()
	for _, page := range slices.Sorted(maps.Keys(l.pages)) {
		for _, one := range l.pages[page][1:] {
			if !strings.HasPrefix(one.command, "export ") {
				expectOutput(t, l.dir, one)
			}
		}
	}
	l.expectCommands()
	second := startIn(t, l.dir, l.env, "dev", "--detach")
	second.expectExit(1)
	second.expect(&second.stderr, "stop it with dev down, or choose another folder with --data-dir\n")
	l.expectRights()
	l.signal(syscall.SIGINT)
	l.expectExit(0)
	expectNothingLeft(t, l.program, filepath.Join(l.dir, ".hub"))
	gone := startIn(t, l.dir, l.env, "check")
	gone.expectExit(1)
	gone.expect(&gone.stderr, "there is no kubeconfig")
}

func newLife(t *testing.T) *life {
	t.Helper()
	dir := t.TempDir()
	cache, err := os.UserCacheDir() // where the Kubernetes binaries are
	must(t, err)
	examples, err := filepath.Abs(filepath.Join("..", "..", "examples"))
	must(t, err)
	must(t, os.Symlink(examples, filepath.Join(dir, "examples")))
	return &life{
		program: &program{t: t}, dir: dir, kubeconfig: filepath.Join(dir, ".hub", "kubeconfig"),
		env: []string{asHub + "=" + asStock, "KUBECONFIG=", "HOME=" + t.TempDir(), "XDG_CACHE_HOME=" + cache},
		pages: map[string][]step{
			"syncing":  stepsIn(t, "syncing.md", "## From nothing to a synced resource"),
			"entities": stepsIn(t, "entities.md", "## From nothing to a tenant"),
		},
	}
}

func (l *life) config(name, text string) {
	l.t.Helper()
	head := "apiVersion: config.clusterfx.dev/v1alpha1\nkind: HubConfiguration\n"
	must(l.t, os.WriteFile(filepath.Join(l.dir, name), []byte(head+text), 0o600))
}

// expectRefused fails the test unless dev starts nothing with a wrong file.
func (l *life) expectRefused() {
	l.t.Helper()
	for text, want := range map[string]string{
		"modules:\n- name: nothing\n":                      `wrong.yaml: this hub has no module "nothing"`,
		"flags:\n  deny-cidr: [10.0.0.0/8, 127.0.0.0/8]\n": "wrong.yaml: --deny-cidr=127.0.0.0/8 denies",
	} {
		l.config("wrong.yaml", text)
		wrong := startIn(l.t, l.dir, l.env, "dev", "--config=wrong.yaml")
		wrong.expectExit(1)
		if got := wrong.stderr.String(); !strings.Contains(got, want) || strings.Contains(got, "starting") {
			l.t.Errorf("dev with a wrong file prints %s", got)
		}
	}
}

// start runs dev with the flags of the first commands of both pages, and the modules of both files.
func (l *life) start() {
	l.t.Helper()
	arguments, _ := demoArguments(l.t)
	arguments = append(arguments, strings.Fields(l.pages["entities"][0].command)[4:]...)
	text, args := "flags:\n  metrics-bind-address: :1\n  deny-cidr: [10.0.0.0/8]\n  log-level: debug\nmodules:\n", []string{}
	for i := 0; i < len(arguments); i++ {
		switch arguments[i] {
		case "--detach":
		case "--config":
			i++
			file := testkit.Read(l.t, l.dir, arguments[i])
			_, modules, _ := strings.Cut(file, "modules:\n")
			text += modules
		default:
			args = append(args, arguments[i])
		}
	}
	l.config("hub.yaml", text)
	l.program = startIn(l.t, l.dir, l.env, append(args, "--nodes=1", "--config=hub.yaml")...)
	l.expect(&l.stderr, "> dev does not use these flags of hub.yaml: metrics-bind-address\n")
	l.expect(&l.stderr, "> running; Ctrl-C stops everything\n")
}

func (l *life) expectReady() {
	l.t.Helper()
	for _, pattern := range []string{table, `(?m)^  kubeconfig   export KUBECONFIG=\S*/kubeconfig   \(contexts: hub, edge-eu-1, edge-us-1\)$`, `(?m)^  hub's log    \S*/hub\.log$`} {
		if !regexp.MustCompile(pattern).MatchString(l.stdout.String()) {
			l.t.Errorf("no %s in %q", pattern, l.stdout.String())
		}
	}
	for _, line := range []string{
		"> starting 3 clusters: kube-apiserver ", "> simulating 1 Node and 4 Pods in each remote: objects only, nothing runs in them\n",
		"ok cluster.clusterfx.dev/edge-us-1 ready   ",
	} {
		if !strings.Contains(l.stderr.String(), line) {
			l.t.Errorf("no %q in %q", line, l.stderr.String())
		}
	}
	if got := kubectl(l.t, l.kubeconfig, "--context=edge-eu-1", "get", "nodes,pods", "-A", "-o=name"); strings.Count(got, "node/") != 1 || strings.Count(got, "pod/") != 4 {
		l.t.Errorf("the remote has %s, want a Node and four Pods", got)
	}
	testkit.Equal(l.t, kubectl(l.t, l.kubeconfig, "get", "fxc", "edge-eu-1", "-o=jsonpath={.metadata.labels.region}"), "eu", "the label region")
	if log, err := os.ReadFile(filepath.Join(l.dir, ".hub", "hub.log")); err != nil || !strings.Contains(string(log), `"level":"debug"`) {
		l.t.Errorf("the hub does not use the log level of the file: %v", err)
	}
}

// expectCommands runs commands with the kubeconfig of the dev.
func (l *life) expectCommands() {
	t := l.t
	t.Helper()
	env := append(slices.Clone(l.env), "KUBECONFIG="+l.kubeconfig)
	run := func(want string, args ...string) {
		t.Helper()
		c := startIn(t, l.dir, env, args...)
		c.expectExit(0)
		if out := c.stdout.String() + c.stderr.String(); !strings.Contains(out, want) || strings.Contains(out, "warning: the hub refuses") {
			t.Errorf("hub %s: no %q in\n%s", strings.Join(args, " "), want, out)
		}
	}
	expectWell(t, l.dir, env)
	run("identity        cluster ", "check", "edge-eu-1")
	run("edge-us-1 deregistered", "deregister", "edge-us-1", "--yes")
	run("identity        cluster ", "check", "--cluster-context=edge-us-1")
	run("edge-us-1 registered", "register", "edge-us-1", "--cluster-context=edge-us-1", "--yes")
	run("edge-us-1 rotated", "rotate", "edge-us-1", "--cluster-context=edge-us-1")
	run("edge-us-1 deregistered", "deregister", "edge-us-1", "--cluster-context=edge-us-1", "--yes")
	registerBySecret(t, l.dir, "edge-us-1")
}

// expectRights fails the test unless the hub has limited permissions: in its own cluster it reads the Secrets of its namespace
// only, and in a remote it reads Nodes, as the modules declare, and nothing that they do not.
func (l *life) expectRights() {
	t := l.t
	t.Helper()
	encoded := kubectl(t, l.kubeconfig, "-n=clusterfx-system", "get", "secret", "edge-eu-1", "-o=jsonpath={.data.kubeconfig}")
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	must(t, err)
	remote := testkit.File(t, "kubeconfig", decoded)
	kubectl(t, remote, "get", "nodes") // as the module inventory does
	hub := "--as=system:serviceaccount:clusterfx-system:clusterfx-hub"
	kubectl(t, l.kubeconfig, hub, "-n=clusterfx-system", "get", "secrets")
	for _, forbidden := range [][]string{
		{remote, "get", "secrets", "-A"},
		{l.kubeconfig, hub, "-n=default", "get", "secrets"},
	} {
		if out := kubectlFails(t, forbidden[0], forbidden[1:]...); !strings.Contains(out, "Forbidden") {
			t.Errorf("kubectl %s: %s", strings.Join(forbidden[1:], " "), out)
		}
	}
	// The process uses that account: without the role it cannot report.
	kubectl(t, l.kubeconfig, "delete", "clusterrolebinding", "clusterfx-hub")
	kubectl(t, l.kubeconfig, "patch", "fxc", "edge-eu-1", "--type=merge", `-p={"spec":{"state":"Paused"}}`)
	eventually(t, func() error {
		log, err := os.ReadFile(filepath.Join(l.dir, ".hub", "hub.log"))
		if err == nil && !strings.Contains(string(log), "system:serviceaccount:clusterfx-system:clusterfx-hub") {
			err = errors.New("the hub's log names no request that was denied to its account")
		}
		return err
	})
}

// Three replicas are three processes. The Cluster of one that is killed is Ready again in another one, and SIGTERM ends all.
func TestDev_Replicas(t *testing.T) {
	fleettest.Slow(t, "nothing: the replicas of a dev are processes, and their clusters are real")
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "dev", "--replicas=3", "--clusters=1", "--nodes=0", "--timeout=5m", "--data-dir="+dir)
	p.expect(&p.stderr, "> running; Ctrl-C stops everything\n")
	kubeconfig := filepath.Join(dir, "kubeconfig")
	eventually(t, func() error {
		holders := map[string]bool{}
		for _, holder := range strings.Fields(kubectl(t, kubeconfig, "get", "lease", "-n", "clusterfx-system", "-l", "clusterfx.dev/sharding=record",
			"-o=jsonpath={.items[*].spec.holderIdentity}")) {
			holders[holder] = true
		}
		if len(holders) != 3 {
			return fmt.Errorf("not three replicas with shards: %v", holders)
		}
		return nil
	})
	runner := func() string {
		return kubectl(t, kubeconfig, "get", "fxc", "edge-eu-1", "-o=jsonpath={.status.runner.name}")
	}
	first := runner()
	match := regexp.MustCompile(`(?m)^  ` + first + ` +process (\d+), metrics at http://127`).FindStringSubmatch(p.stdout.String())
	if match == nil {
		t.Fatalf("dev does not print the process of %q", first)
	}
	pid, err := strconv.Atoi(match[1])
	must(t, err)
	must(t, syscall.Kill(pid, syscall.SIGKILL))
	p.expect(&p.stderr, "> replica "+first+" (process "+match[1]+") ended: signal: killed; ")
	eventually(t, func() error {
		if now := runner(); now == first {
			return fmt.Errorf("the runner of the Cluster is still %s", now)
		}
		return nil
	})
	kubectl(t, kubeconfig, "wait", "--for=condition=Ready", "--timeout=5m", "fxc", "edge-eu-1")
	log := testkit.Read(t, dir, "hub.log")
	for _, name := range []string{"hub-0", "hub-1", "hub-2"} {
		if !regexp.MustCompile(`(?m)^` + name + ` \{`).MatchString(log) {
			t.Errorf("the log has no line of %s", name)
		}
	}

	p.signal(syscall.SIGTERM)
	p.expectExit(0)
	expectNothingLeft(t, p, dir)
	for _, other := range replicaProcess.FindAllStringSubmatch(p.stdout.String(), -1) {
		pid, err := strconv.Atoi(other[1])
		must(t, err)
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d of a replica still exists: %v", pid, err)
		}
	}
}

var replicaProcess = regexp.MustCompile(`(?m)^  hub-\d +process (\d+),`)

// expectWell waits until check finds no problem with the hub of a dev, which is alone and so has no lease.
func expectWell(t *testing.T, dir string, env []string) {
	t.Helper()
	eventually(t, func() error {
		c := startIn(t, dir, env, "check")
		code, out := c.exit(), c.stdout.String()
		if code != 0 || strings.Contains(out, "warning:") || !worksAlone.MatchString(out) {
			return fmt.Errorf("hub check exits with %d:\n%s", code, out)
		}
		return nil
	})
}

var worksAlone = regexp.MustCompile(`(?m)^ok replicas +hub \S+ works alone`)

func TestDev_CtrlCDuringStart(t *testing.T) {
	t.Parallel()
	for name, moment := range map[string]string{
		"before there are clusters":    "> starting ",
		"when the first cluster is up": "ok ",
	} {
		t.Run(name, func(t *testing.T) {
			if moment == "ok " {
				fleettest.Slow(t, "./cmd/hub TestDev_CtrlCDuringStart")
			}
			dir := filepath.Join(t.TempDir(), "data")
			p := start(t, "dev", "--clusters=1", "--nodes=1", "--data-dir="+dir)
			p.expect(&p.stderr, moment)
			p.signal(syscall.SIGINT)
			p.expectExit(1)
			if got := p.stderr.String(); !strings.HasSuffix(got, "ok everything was stopped\nerror: interrupted\n") {
				t.Errorf("dev prints %q, want the error interrupted last", got)
			}
			expectNothingLeft(t, p, dir)
		})
	}
}

// The clusters of a dev that is killed end with it. The next dev removes its files and works in the same folder, also in the
// background, until dev down.
func TestDev_KilledAndInTheBackground(t *testing.T) {
	fleettest.Slow(t, "nothing: a dev that is killed or runs in the background has clusters of its own, and three are started")
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	left := filepath.Join(dir, "fleet", "left")
	killed := start(t, "dev", "--clusters=1", "--nodes=0", "--data-dir="+dir)
	killed.expect(&killed.stderr, "> running; Ctrl-C stops everything\n")
	killed.signal(syscall.SIGKILL)
	_ = killed.exit()
	eventually(t, func() error { return somethingRuns(killed, dir) })
	must(t, os.WriteFile(left, nil, 0o600))

	next := start(t, "dev", "--exit-after-ready", "--clusters=1", "--nodes=0", "--data-dir="+dir)
	next.expectExit(0)
	next.expect(&next.stdout, "edge-eu-1   True    Ready ")
	expectNothingLeft(t, next, dir)

	down := func() *program { return start(t, "dev", "down", "--data-dir="+dir) }
	t.Cleanup(func() { down().exit() })
	p := start(t, "dev", "--detach", "--clusters=1", "--nodes=0", "--data-dir="+dir)
	p.expectExit(0)
	p.expect(&p.stderr, "> running in the background; ")
	kubectl(t, filepath.Join(dir, "kubeconfig"), "get", "fxc", "edge-eu-1")
	first := down()
	first.expectExit(0)
	first.expect(&first.stderr, "ok stopped\n")
	expectNothingLeft(t, p, dir)
	again := down()
	again.expectExit(0)
	again.expect(&again.stderr, "ok nothing runs in "+dir)
}

// A dev rehearses its hub, which agrees, and another configuration of one module, which differs, as the page shows.
func TestDev_Rehearsal(t *testing.T) {
	fleettest.Slow(t, "./cmd/hub/internal/rehearse TestDocs_Rehearsal")
	t.Parallel()
	args, rehearsed := demoArguments(t)
	args = slices.Concat(args, rehearsed, []string{"--rehearse", "--exit-after-ready", "--data-dir=" + filepath.Join(t.TempDir(), "data")})
	p := startIn(t, filepath.Join("..", ".."), []string{asHub + "=" + asQuota}, args...)
	p.expectExit(0)
	_, page, _ := strings.Cut(testkit.Read(t, "..", "..", "docs", "rehearsal.md"), "## In the demo\n")
	_, page, _ = strings.Cut(page, "```\n")
	shown, _, _ := strings.Cut(page, "```\n")
	said := p.stdout.String()
	for _, part := range strings.Split(shown, "...\n") {
		var found bool
		if _, said, found = strings.Cut(said, part); !found {
			t.Errorf("it does not print, or not in this order:\n%s", part)
		}
	}
}

// expectNothingLeft waits until no processes are left, and fails the test if the folder exists.
func expectNothingLeft(t *testing.T, p *program, dir string) {
	t.Helper()
	eventually(t, func() error { return somethingRuns(p, dir) }) // The guard of each process ends after it.
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the data folder still exists: %v", err)
	}
}

// somethingRuns returns an error if a cluster that p has printed can be reached, or (on Linux) if a process works in the folder.
func somethingRuns(p *program, dir string) error {
	for _, server := range serverPattern.FindAllStringSubmatch(p.stderr.String(), -1) {
		connection, err := net.Dial("tcp", server[1])
		if err == nil {
			_ = connection.Close()
			return fmt.Errorf("the cluster at %s can still be reached", server[1])
		}
	}
	places, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		return err
	}
	for _, place := range places {
		if cwd, err := os.Readlink(place); err == nil && strings.HasPrefix(cwd, dir) {
			return fmt.Errorf("a process still works in %s, see %s", cwd, place)
		}
	}
	return nil
}
