// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/hubconfig"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestFlags_Refused(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--credentials-namespace=":                                 "--credentials-namespace=\"\" is not a name",
		"--credentials-namespace=Big":                              "--credentials-namespace=\"Big\" is not a name",
		"--concurrency=0":                                          "--concurrency=0: use 1 or more",
		"--concurrency=many":                                       "invalid argument \"many\" for \"--concurrency\"",
		"--max-concurrent-starts=-1":                               "--max-concurrent-starts=-1: use 1 or more",
		"--max-objects-per-cluster=0":                              "--max-objects-per-cluster=0: use 1 or more",
		"--remove-timeout=0s":                                      "--remove-timeout=0s: use a time above zero",
		"--max-cache-bytes-per-cluster=0":                          "--max-cache-bytes-per-cluster=0: use 1 or more",
		"--replica-name=a/b":                                       "--replica-name=\"a/b\": use letters, digits",
		"--replica-name=":                                          "--replica-name=\"\": use letters, digits",
		"--metrics-bind-address=8080":                              "write it as :8080 or 127.0.0.1:8080, or 0 for nowhere",
		"--metrics-bind-address=":                                  "--metrics-bind-address=\"\" is not an address",
		"--health-probe-bind-address=:99999":                       "--health-probe-bind-address=\":99999\" is not an address",
		"--metrics-bind-address=:1 --health-probe-bind-address=:1": "are both :1: choose another port",
		"--alone=false --replica-name=hub-0.example.com":           "--replica-name=\"hub-0.example.com\" is not a name",
		"--remove-timeout=15":                                      "missing unit in duration",
		"--allow-cidr=10.0.0.0/33":                                 "is not a range of addresses: write it as 10.0.0.0/8",
		"--allow-cidr=10.1.2.3/8":                                  "did you mean 10.0.0.0/8?",
		"--deny-cidr=example.com":                                  "is not a range of addresses",
		"--deny-cidr=":                                             "is not a range of addresses",
		"--allow-proxy-url=maybe":                                  "invalid argument \"maybe\"",
		"--shards=0":                                               "--shards=0: use 1 or more",
		"--shards=1025":                                            "--shards=1025: use 1024 or fewer",
		"--active-replicas=-1":                                     "--active-replicas=-1: use a number from 1 to that of --shards, 32, or 0 for all replicas",
		"--active-replicas=9 --shards=8":                           "--active-replicas=9: use a number from 1 to that of --shards, 8",
		"--replica-labels=zone=a/b":                                "--replica-labels=zone=a/b is not a label",
		"--log-lvl=debug":                                          "unknown flag: --log-lvl",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			_, err := optionsOf(t, strings.Split(args, " ")...)
			testkit.ErrorHas(t, err, want)
		})
	}
}

func TestFlags_RefusedTogether(t *testing.T) {
	t.Parallel()
	_, err := optionsOf(t, "--concurrency=0", "--replica-name=", "--remove-timeout=0s")
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("want one line for each of three problems, got %v", err)
	}
}

func TestFlags_Accepted(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"",
		"--metrics-bind-address=0 --health-probe-bind-address=0",
		"--metrics-bind-address=127.0.0.1:0 --health-probe-bind-address=127.0.0.1:0",
		"--metrics-bind-address=[::1]:8080",
		"--replica-name=hub-0.example.com",
		"--alone=false --replica-name=hub-0 --active-replicas=0",
		"--active-replicas=8 --shards=8",
	} {
		if _, err := optionsOf(t, strings.Fields(args)...); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestFlags_Policy(t *testing.T) {
	t.Parallel()
	o, err := optionsOf(t, "--allow-cidr=127.0.0.0/8", "--allow-cidr", "10.0.0.1, fd00::/8", "--deny-cidr=10.9.0.0/16")
	must(t, err)
	want := []netip.Prefix{
		netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("fd00::/8"),
	}
	if diff := cmp.Diff(want, o.Registry.Policy.AllowCIDRs, cmpopts.EquateComparable(netip.Prefix{})); diff != "" {
		t.Errorf("--allow-cidr (-want +got):\n%s", diff)
	}
	if got := o.Registry.Policy.DenyCIDRs; len(got) != 1 || got[0] != netip.MustParsePrefix("10.9.0.0/16") {
		t.Errorf("--deny-cidr: got %v", got)
	}
}

// The usage of every flag states the default.
func TestFlags_EveryDefaultIsStated(t *testing.T) {
	t.Parallel()
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	hubconfig.Bind(set, nil)
	for line := range strings.Lines(set.FlagUsages()) {
		if !strings.Contains(line, "efault") {
			t.Errorf("no default in %s", line)
		}
	}
}

// The defaults of flags are fixed, because a change affects everyone who runs a hub.
func TestFlags_Defaults(t *testing.T) {
	t.Parallel()
	o, err := optionsOf(t)
	must(t, err)
	for name, right := range map[string]bool{
		"credentials namespace": o.CredentialsNamespace == "clusterfx-system",
		"addresses":             o.MetricsAddress == ":8080" && o.HealthAddress == ":8081",
		"concurrency":           o.Concurrency == 50 && o.Registry.Limits.Starts == 64,
		"policy": !o.Registry.Policy.AllowInsecureTLS && !o.Registry.Policy.AllowProxyURL &&
			!o.Registry.Policy.ProxyFromEnvironment && o.Registry.Policy.AllowCIDRs == nil,
		"replicas": o.Alone && o.Active == 1 && o.Shards == 32, // This test runs in no Pod.
		"remotes":  !o.Registry.AllowDuplicates && !o.Registry.AllowHub,
	} {
		if !right {
			t.Errorf("the default of %s differs: %+v", name, o)
		}
	}
}
