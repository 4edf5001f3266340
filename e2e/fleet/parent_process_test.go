// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// parentVariable is the environment variable that makes TestParent start a fleet; its value is a plan as JSON.
const parentVariable = "FLEET_TEST_PARENT"

// plan is the fleet that the parent process starts.
type plan struct {
	Options  fleet.Options
	Clusters []string
}

// offspring is the output of the parent process when its fleet runs.
type offspring struct {
	Dir       string
	Processes map[string]int
}

// TestParent is the parent process: it starts a fleet, prints its offspring, and runs until it is killed.
func TestParent(t *testing.T) {
	text := os.Getenv(parentVariable)
	if text == "" {
		t.Skip("other tests run it as a process")
	}
	var p plan
	testkit.Must(t, json.Unmarshal([]byte(text), &p))
	f, err := fleet.New(t.Context(), p.Options)
	testkit.Must(t, err)
	for _, name := range p.Clusters {
		if _, err := f.Create(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Must(t, json.NewEncoder(os.Stdout).Encode(offspring{f.Dir(), f.Processes()}))
	select {}
}

func killParent(t *testing.T, p plan) offspring {
	t.Helper()
	text, err := json.Marshal(p)
	testkit.Must(t, err)
	self, err := os.Executable()
	testkit.Must(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestParent$")
	cmd.Env = append(os.Environ(), parentVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, cmd.Start())
	var found offspring
	err = json.NewDecoder(bufio.NewReader(out)).Decode(&found)
	for name, pid := range found.Processes {
		if !alive(pid) {
			t.Errorf("%s does not run while its parent runs", name)
		}
	}
	testkit.Must(t, errors.Join(err, cmd.Process.Kill()))
	_ = cmd.Wait() // The process was killed.
	return found
}

func TestFleet_diesWithItsParent(t *testing.T) {
	fleettest.Slow(t, "nothing: a process with a fleet has to be killed")
	t.Parallel()
	g := NewWithT(t)
	found := killParent(t, plan{Clusters: []string{"a"}})
	g.Expect(found.Processes).To(HaveLen(2))
	for name, pid := range found.Processes {
		g.Eventually(alive).WithArguments(pid).WithTimeout(5*time.Second).Should(BeFalse(), name)
	}
	g.Eventually(func() error { _, err := os.Stat(found.Dir); return err }).WithTimeout(5*time.Second).
		Should(MatchError(fs.ErrNotExist), "the folder for temporary files")
}

func TestOpen(t *testing.T) {
	fleettest.Slow(t, "nothing: a process with a fleet has to end")
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	found := killParent(t, plan{
		Options:  fleet.Options{Dir: dir, Detached: true},
		Clusters: []string{"a"},
	})
	_, err := fleet.New(t.Context(), fleet.Options{Dir: dir})
	g.Expect(err).To(MatchError(ContainSubstring("holds a fleet that was left there")))

	f, err := fleet.Open(dir, t.Output())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(f.Processes()).To(Equal(found.Processes))
	c := f.Cluster("a")
	g.Expect(c).NotTo(BeNil())
	client := clientFor(t, c.Config())
	g.Expect(list(t.Context(), client)).To(Succeed())

	g.Expect(c.Kill()).To(Succeed())
	again, err := fleet.Open(dir, t.Output())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again.Processes()).To(HaveLen(1), "a process that ended is not found again")
	g.Expect(again.Cluster("a").Restart(t.Context())).To(Succeed())
	g.Expect(list(t.Context(), client)).To(Succeed())

	f, err = fleet.Open(dir, t.Output())
	g.Expect(err).NotTo(HaveOccurred())
	pids := f.Processes()
	g.Expect(f.Close(t.Context())).To(Succeed())
	for name, pid := range pids {
		g.Expect(alive(pid)).To(BeFalse(), name)
	}
	_, err = fleet.Open(dir, t.Output())
	g.Expect(err).To(MatchError(fs.ErrNotExist))
}

func TestNew_afterAParentThatWasKilled(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	dir := t.TempDir()
	found := killParent(t, plan{Options: fleet.Options{Dir: dir}})
	_, err := fleet.Open(dir, nil)
	g.Expect(err).To(MatchError(ContainSubstring("it was not detached")))

	f := fleettest.New(t, fleet.Options{Dir: dir})
	g.Expect(f.Processes()["etcd"]).NotTo(Equal(found.Processes["etcd"]))
}
