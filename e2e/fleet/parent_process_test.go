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

// parentVariable is the environment variable that makes TestParent start a fleet.
const parentVariable = "FLEET_TEST_PARENT"

// offspring is the output of the parent process when its fleet runs.
type offspring struct {
	Dir       string
	Processes map[string]int
}

// TestParent is the parent process: it starts a fleet, prints its offspring, and runs until it is killed.
func TestParent(t *testing.T) {
	if os.Getenv(parentVariable) == "" {
		t.Skip("another test runs it as a process")
	}
	f, err := fleet.New(t.Context(), fleet.Options{})
	testkit.Must(t, err)
	testkit.Must(t, testkit.Err(f.Create(t.Context(), "a")))
	testkit.Must(t, json.NewEncoder(os.Stdout).Encode(offspring{f.Dir(), f.Processes()}))
	select {}
}

func TestFleet_diesWithItsParent(t *testing.T) {
	fleettest.Slow(t, "nothing: a process with a fleet has to be killed")
	t.Parallel()
	g := NewWithT(t)
	self, err := os.Executable()
	testkit.Must(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestParent$")
	cmd.Env = append(os.Environ(), parentVariable+"=1")
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

	g.Expect(found.Processes).To(HaveLen(2))
	for name, pid := range found.Processes {
		g.Eventually(alive).WithArguments(pid).WithTimeout(5*time.Second).Should(BeFalse(), name)
	}
	g.Eventually(func() error { _, err := os.Stat(found.Dir); return err }).WithTimeout(5*time.Second).
		Should(MatchError(fs.ErrNotExist), "the folder for temporary files")
}
