// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestExecute_Failures(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"run --concurrency=0":              "Error: --concurrency=0: use 1 or more\n",
		"run --log-level=loud":             "Error: --log-level=\"loud\": use debug, info or error\n",
		"run --log-format=xml":             "Error: --log-format=\"xml\": use json, console or auto\n",
		"run --kubeconfig=/does/not/exist": "say which it is with --kubeconfig and --context, or, without a cluster, run \"hub dev\"",
		"run now":                          "Error: hub run takes no arguments, and got \"now\"; see hub run --help for its flags\n",
		"fly":                              "Error: hub has no command \"fly\"; hub --help lists the commands\n",
		"dev --clusters=0":                 "Error: --clusters=0: use 1 to 99\n",
		"dev --provider=docker":            "Error: --provider=\"docker\": use processes or kind\n",
		"dev --provider=kind --nodes=3":    "Error: --nodes is for simulated Nodes",
		"dev --detach --exit-after-ready":  "Error: --detach leaves everything running, and --exit-after-ready stops it: leave one of them out\n",
		"dev --replicas=0":                 "--replicas=0: use 1 to 9",
		"dev --replicas=10":                "--replicas=10: use 1 to 9",
		// The token would be in the arguments of the replicas, which all users of the machine can read.
		"dev --replicas=2 --nats":                  "--nats is for one replica",
		"dev --nodes=-1 --timeout=0s --data-dir= ": "--data-dir is empty: name a folder\n",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			p := Program{Args: append([]string{"/bin/hub"}, strings.Fields(args)...), Stdout: io.Discard, Stderr: &stderr}
			testkit.Equal(t, Execute(t.Context(), p), 1, "exit code")
			if got := stderr.String(); !strings.Contains(got, want) || strings.Contains(got, "Usage:") {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestAdvise(t *testing.T) {
	t.Parallel()
	err := advise(fmt.Errorf("listen: %w", syscall.EADDRINUSE))
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.HasSuffix(err.Error(), ", or 0 for nowhere") {
		t.Errorf("got %v", err)
	}
	if other := errors.New("no"); !errors.Is(advise(other), other) {
		t.Errorf("got %v", advise(other))
	}
}

func TestExecute_Version(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	code := Execute(t.Context(), Program{Args: []string{"/opt/my-hub", "version"}, Stdout: &out, Stderr: io.Discard})
	if code != 0 || !strings.HasPrefix(out.String(), "my-hub devel") || !strings.Contains(out.String(), ", go1.") ||
		!strings.Contains(out.String(), "tested with Kubernetes 1.") {
		t.Errorf("exit code %d, output %q", code, out.String())
	}
}

// A shell completes the flags that take one of some words, and gets a script for that.
func TestExecute_Completes(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"__complete install --dry-run=":   "none\nclient\nserver\n",
		"__complete rotate --token-type=": "request\nsecret\n",
		"__complete get modules -o=":      "json\nyaml\nwide\n",
		"__complete graph --output=":      "dot\nmermaid\n",
		"completion bash":                 "# bash completion",
	} {
		var stdout bytes.Buffer
		p := Program{Args: append([]string{"/bin/hub"}, strings.Fields(args)...), Stdout: &stdout, Stderr: io.Discard}
		testkit.Equal(t, Execute(t.Context(), p), 0, "exit code of", args)
		if got := stdout.String(); !strings.HasPrefix(got, want) {
			t.Errorf("%s prints %.200q, want %q", args, got, want)
		}
	}
}
