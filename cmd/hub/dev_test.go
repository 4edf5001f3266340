// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

var (
	serverPattern = regexp.MustCompile(`https://(127\.0\.0\.1:\d+)`)
	table         = regexp.MustCompile(`(?m)^NAME +READY +REASON +VERSION +MODULES +AGE\n` +
		`edge-eu-1 +True +Ready +v1\.\S+ +1/1 +\d+s\nedge-us-1 +True +Ready +v1\.\S+ +1/1 +\d+s\n\n`)
)

func TestDev_ExitAfterReady(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "dev", "--exit-after-ready", "--nodes=1", "--data-dir="+dir)
	p.expectExit(0)
	if !table.MatchString(p.stdout.String()) {
		t.Errorf("no table of two Ready clusters in %q", p.stdout.String())
	}
	for _, line := range []string{
		"  kubeconfig   export KUBECONFIG=" + dir + "/kubeconfig   (contexts: hub, edge-eu-1, edge-us-1)\n",
		"  hub's log    " + dir + "/hub.log\n",
		"  try:  kubectl get clusters.clusterfx.dev -o wide\n",
	} {
		if !strings.Contains(p.stdout.String(), line) {
			t.Errorf("no %q in %q", line, p.stdout.String())
		}
	}
	for _, line := range []string{
		"> starting 3 clusters: kube-apiserver ",
		"> simulating 1 Node and 4 Pods in each remote: objects only, nothing runs in them\n",
		"ok cluster.clusterfx.dev/edge-us-1 ready   1/1 modules   ",
		"ok everything was stopped\n",
	} {
		if !strings.Contains(p.stderr.String(), line) {
			t.Errorf("no %q in %q", line, p.stderr.String())
		}
	}
	expectNothingLeft(t, p, dir)
}

func TestDev_CtrlC(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "dev", "--clusters=1", "--nodes=2", "--data-dir="+dir)
	p.expect(&p.stderr, "> running; Ctrl-C stops everything\n")

	kubeconfig := filepath.Join(dir, "kubeconfig")
	kubectl(t, kubeconfig, "wait", "--for=condition=Ready", "--timeout=30s", "clusters.clusterfx.dev", "--all")
	if got := kubectl(t, kubeconfig, "--context=edge-eu-1", "get", "nodes", "--no-headers", "-o=name"); got !=
		"node/edge-eu-1-node-1\nnode/edge-eu-1-node-2\n" {
		t.Errorf("the remote has the Nodes %q, want two", got)
	}
	if got := kubectl(t, kubeconfig, "--context=edge-eu-1", "get", "pods", "-A", "--field-selector=status.phase=Running",
		"-o=name"); strings.Count(got, "\n") != 8 {
		t.Errorf("the running Pods of the remote are %s, want 8", got)
	}
	if got := kubectl(t, kubeconfig, "get", "fxc", "edge-eu-1", "-o=jsonpath={.metadata.labels.region}"); got != "eu" {
		t.Errorf("the label region is %q, want eu", got)
	}

	p.signal(syscall.SIGINT)
	p.expectExit(0)
	expectNothingLeft(t, p, dir)
}

// In dev, the hub acts with limited permissions: in its own cluster it reads the Secrets of its namespace only, and in
// a remote it reads Nodes, as the modules declare, but no Secrets.
func TestDev_DeclaredRights(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "dev", "--clusters=1", "--nodes=1", "--data-dir="+dir)
	p.expect(&p.stderr, "> running; Ctrl-C stops everything\n")
	kubeconfig := filepath.Join(dir, "kubeconfig")

	encoded := kubectl(t, kubeconfig, "-n=clusterfx-system", "get", "secret", "edge-eu-1", "-o=jsonpath={.data.kubeconfig}")
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	remote := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(remote, decoded, 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl(t, remote, "get", "nodes") // as the module inventory does
	hub := "--as=system:serviceaccount:kube-system:clusterfx-hub"
	kubectl(t, kubeconfig, hub, "-n=clusterfx-system", "get", "secrets")
	for _, forbidden := range [][]string{
		{remote, "get", "secrets", "-A"},
		{kubeconfig, hub, "-n=default", "get", "secrets"},
	} {
		if out := kubectlFails(t, forbidden[0], forbidden[1:]...); !strings.Contains(out, "Forbidden") {
			t.Errorf("kubectl %s: %s", strings.Join(forbidden[1:], " "), out)
		}
	}

	// The process uses that account: without the role it cannot report.
	kubectl(t, kubeconfig, "delete", "clusterrolebinding", "clusterfx-hub")
	kubectl(t, kubeconfig, "patch", "fxc", "edge-eu-1", "--type=merge", `-p={"spec":{"state":"Paused"}}`)
	eventually(t, func() error {
		log, err := os.ReadFile(filepath.Join(dir, "hub.log"))
		if err == nil && !strings.Contains(string(log), "system:serviceaccount:kube-system:clusterfx-hub") {
			err = errors.New("the hub's log names no request that was denied to its account")
		}
		return err
	})
	p.signal(syscall.SIGINT)
	p.expectExit(0)
	expectNothingLeft(t, p, dir)
}

// In the folder in which dev was started, the other commands find the running dev without flags, and need none of the
// hub's flags. The hub uses the configuration file, and dev starts nothing with a wrong file.
func TestDev_CommandsAndConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cache, err := os.UserCacheDir() // where the Kubernetes binaries are
	if err != nil {
		t.Fatal(err)
	}
	env := []string{asHub + "=" + asStock, "KUBECONFIG=", "HOME=" + t.TempDir(), "XDG_CACHE_HOME=" + cache}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("apiVersion: config.clusterfx.dev/v1alpha1\nkind: HubConfiguration\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("wrong.yaml", "modules:\n- name: nothing\n")
	wrong := startIn(t, dir, env, "dev", "--config=wrong.yaml")
	wrong.expectExit(1)
	if got := wrong.stderr.String(); !strings.Contains(got, `wrong.yaml:4: this hub has no module "nothing"`) || strings.Contains(got, "starting") {
		t.Errorf("dev with a wrong file prints %s", got)
	}
	write("denied.yaml", "flags:\n  deny-cidr: [10.0.0.0/8, 127.0.0.0/8]\n")
	denied := startIn(t, dir, env, "dev", "--config=denied.yaml")
	denied.expectExit(1)
	if got := denied.stderr.String(); !strings.Contains(got, "denied.yaml:4: --deny-cidr=127.0.0.0/8 denies") || strings.Contains(got, "starting") {
		t.Errorf("dev with a file that denies the remotes prints %s", got)
	}
	write("hub.yaml", "flags:\n  metrics-bind-address: :1\n  deny-cidr: [10.0.0.0/8]\n  log-level: debug\n")
	p := startIn(t, dir, env, "dev", "--clusters=2", "--nodes=0", "--config=hub.yaml")
	p.expect(&p.stderr, "> dev does not use these flags of hub.yaml: metrics-bind-address\n")
	p.expect(&p.stderr, "> running; Ctrl-C stops everything\n")

	run := func(want string, args ...string) {
		t.Helper()
		c := startIn(t, dir, env, args...)
		c.expectExit(0)
		if out := c.stdout.String() + c.stderr.String(); !strings.Contains(out, want) || strings.Contains(out, "warning: the hub refuses") {
			t.Errorf("hub %s: no %q in\n%s", strings.Join(args, " "), want, out)
		}
	}
	run(".hub/kubeconfig", "check")
	expectWell(t, dir, env)
	run("identity        cluster ", "check", "edge-eu-1")
	run("edge-eu-1   True ", "get", "clusters")
	run("edge-us-1 deregistered", "deregister", "edge-us-1", "--yes")
	run("not recorded yet", "check", "--cluster-context=edge-us-1")
	run("edge-us-1 is a remote of "+filepath.Base(os.Args[0])+" dev, by ", "check", "--cluster-context=edge-us-1")
	run("edge-us-1 registered", "register", "edge-us-1", "--cluster-context=edge-us-1", "--yes")
	run("edge-us-1 rotated", "rotate", "edge-us-1", "--cluster-context=edge-us-1")
	if log, err := os.ReadFile(filepath.Join(dir, ".hub", "hub.log")); err != nil || !strings.Contains(string(log), `"level":"debug"`) {
		t.Errorf("the hub does not use the log level of the file: %v", err)
	}
	elsewhere := startIn(t, t.TempDir(), env, "check")
	elsewhere.expectExit(1)
	elsewhere.expect(&elsewhere.stderr, "there is no kubeconfig")

	p.signal(syscall.SIGINT)
	p.expectExit(0)
	gone := startIn(t, dir, env, "check")
	gone.expectExit(1)
	gone.expect(&gone.stderr, "there is no kubeconfig")
}

// Three replicas are three processes. The Cluster of one that is killed is Ready again in another one, and SIGTERM ends all.
func TestDev_Replicas(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "dev", "--replicas=3", "--clusters=1", "--nodes=0", "--timeout=5m", "--data-dir="+dir)
	p.expect(&p.stderr, "> running; Ctrl-C stops everything\n")
	kubeconfig := filepath.Join(dir, "kubeconfig")
	var holders [][]string
	eventually(t, func() error {
		c := start(t, "get", "runners", "--kubeconfig="+kubeconfig, "--no-headers")
		if code := c.exit(); code != 0 {
			return fmt.Errorf("hub get runners exits with %d: %s", code, c.stderr.String())
		}
		if holders = liveRunner.FindAllStringSubmatch(c.stdout.String(), -1); len(holders) != 3 {
			return fmt.Errorf("not three replicas with shards: %s", c.stdout.String())
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
	log, err := os.ReadFile(filepath.Join(dir, "hub.log"))
	must(t, err)
	for _, name := range []string{"hub-0", "hub-1", "hub-2"} {
		if !regexp.MustCompile(`(?m)^` + name + ` \{`).Match(log) {
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

var (
	liveRunner     = regexp.MustCompile(`(?m)^(hub-\d) +Live +[1-9]`)
	replicaProcess = regexp.MustCompile(`(?m)^  hub-\d +process (\d+),`)
)

// Several replicas with a NATS server are refused: its token would be in their arguments, which all users of the machine can read.
func TestDev_ReplicasRefused(t *testing.T) {
	t.Parallel()
	for _, wrong := range []struct{ flags, want string }{
		{"--replicas=0", "--replicas=0: use 1 to 9"},
		{"--replicas=10", "--replicas=10: use 1 to 9"},
		{"--replicas=2 --nats", "--nats is for one replica"},
	} {
		p := start(t, append([]string{"dev", "--data-dir=" + filepath.Join(t.TempDir(), "data")}, strings.Fields(wrong.flags)...)...)
		if p.exit() == 0 || !strings.Contains(p.stderr.String(), wrong.want) {
			t.Errorf("dev %s: no %q in %q", wrong.flags, wrong.want, p.stderr.String())
		}
	}
}

// expectWell waits until check finds no problem with the hub of a dev, which elects no leader and so has no lease.
func expectWell(t *testing.T, dir string, env []string) {
	t.Helper()
	eventually(t, func() error {
		c := startIn(t, dir, env, "check")
		code, out := c.exit(), c.stdout.String()
		if code != 0 || strings.Contains(out, "warning:") || !strings.Contains(out, "ok lease           hub dev works without the lease ") {
			return fmt.Errorf("hub check exits with %d:\n%s", code, out)
		}
		return nil
	})
}

func TestDev_CtrlCDuringStart(t *testing.T) {
	t.Parallel()
	for name, moment := range map[string]string{
		"before there are clusters":    "> starting ",
		"when the first cluster is up": "ok ",
	} {
		t.Run(name, func(t *testing.T) {
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

func TestDev_Detach(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	down := func() *program { return start(t, "dev", "down", "--data-dir="+dir) }
	t.Cleanup(func() { down().exit() })
	p := start(t, "dev", "--detach", "--clusters=1", "--nodes=1", "--data-dir="+dir)
	p.expectExit(0)
	p.expect(&p.stderr, "> running in the background; ")
	p.expect(&p.stdout, "edge-eu-1   True    Ready ")
	kubectl(t, filepath.Join(dir, "kubeconfig"), "get", "fxc", "edge-eu-1")

	for _, flags := range []string{"--detach", "--exit-after-ready"} {
		second := start(t, "dev", flags, "--data-dir="+dir)
		second.expectExit(1)
		second.expect(&second.stderr, "stop it with dev down, or choose another folder with --data-dir\n")
	}

	first := down()
	first.expectExit(0)
	first.expect(&first.stderr, "ok stopped\n")
	expectNothingLeft(t, p, dir)
	again := down()
	again.expectExit(0)
	again.expect(&again.stderr, "ok nothing runs in "+dir)
}

// The clusters of a dev that is killed end with it. The next dev removes its files and works in the same folder, and dev
// down removes the folder of a killed dev.
func TestDev_Killed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	left := filepath.Join(dir, "fleet", "left")
	var p *program
	for _, moment := range []string{"ok ", "> running; Ctrl-C stops everything\n"} {
		p = start(t, "dev", "--clusters=1", "--nodes=0", "--data-dir="+dir)
		p.expect(&p.stderr, moment)
		if _, err := os.Stat(left); !os.IsNotExist(err) {
			t.Errorf("a file of the killed dev still exists: %v", err)
		}
		p.signal(syscall.SIGKILL)
		_ = p.exit()
		eventually(t, func() error { return somethingRuns(p, dir) })
		must(t, os.WriteFile(left, nil, 0o600))
	}
	down := start(t, "dev", "down", "--data-dir="+dir)
	down.expectExit(0)
	expectNothingLeft(t, p, dir)
}

// expectNothingLeft waits until no processes are left, and fails the test if the folder exists.
func expectNothingLeft(t *testing.T, p *program, dir string) {
	t.Helper()
	eventually(t, func() error { return somethingRuns(p, dir) }) // The guard of each process ends after it.
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the data folder still exists: %v", err)
	}
}

// somethingRuns returns an error if a cluster that p has printed can be reached, or (on Linux) if a process works in
// the folder.
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
