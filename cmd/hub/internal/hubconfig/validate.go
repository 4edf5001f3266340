// SPDX-License-Identifier: Apache-2.0

package hubconfig

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/serving"
	"github.com/clusterfx/clusterfx/reconcilers/entity/natshub"
)

// replicaName matches names that are valid in a user agent.
var replicaName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$`)

// validate names the flag of each problem.
func (f *Flags) validate() error {
	o := f.Options
	return errors.Join(
		checkName("credentials-namespace", o.CredentialsNamespace, validation.IsDNS1123Label),
		CheckAppsNamespace(o.Registry.Impersonate, o.Registry.AppsNamespace, o.CredentialsNamespace),
		checkAtLeastOne("concurrency", o.Concurrency),
		checkAtLeastOne("max-concurrent-starts", o.Registry.Limits.Starts),
		checkAtLeastOne("max-objects-per-cluster", o.Registry.Limits.MaxObjects),
		checkAtLeastOne("max-cache-bytes-per-cluster", o.Registry.Limits.MaxCacheBytes),
		CheckPositive("remove-timeout", o.RemoveWithin),
		checkReplica(o.Registry.Replica),
		checkAddress("metrics-bind-address", o.MetricsAddress),
		checkAddress("health-probe-bind-address", o.HealthAddress),
		checkAddress("debug-bind-address", o.DebugAddress),
		checkAddress("tunnel-bind-address", o.TunnelAddress),
		checkAddresses(o.MetricsAddress, o.HealthAddress),
		f.checkReplicas(),
		checkNATS(o.NATS),
	)
}

func checkNATS(o natshub.Options) error {
	if err := o.Validate(); err != nil {
		return fmt.Errorf("the flags --nats-*: %w", err)
	}
	return nil
}

func (f *Flags) checkReplicas() error {
	o := f.Options
	err := errors.Join(CheckReplicas(o.Active, o.Shards), checkLabels(labelsFlag, o.Labels))
	if o.Alone {
		return err
	}
	return errors.Join(err, checkName("replica-name", o.Registry.Replica, validation.IsDNS1123Label))
}

func checkLabels(flag string, labels map[string]string) error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		for _, problem := range append(validation.IsQualifiedName(key), validation.IsValidLabelValue(labels[key])...) {
			errs = append(errs, fmt.Errorf("--%s=%s=%s is not a label: %s", flag, key, labels[key], problem))
		}
	}
	return errors.Join(errs...)
}

func checkName(flag, value string, problems func(string) []string) error {
	for _, problem := range problems(value) {
		return fmt.Errorf("--%s=%q is not a name: %s", flag, value, problem)
	}
	return nil
}

// CheckAppsNamespace refuses a namespace that cannot be one, or holds something else.
func CheckAppsNamespace(impersonate bool, namespace, credentials string) error {
	if !impersonate {
		return nil
	}
	namespace = cmp.Or(namespace, roles.AppsNamespace(credentials))
	if namespace == credentials || namespace == metav1.NamespaceDefault || strings.HasPrefix(namespace, "kube-") {
		return fmt.Errorf("--apps-namespace=%q: use a namespace that holds nothing else: the hub may act as every ServiceAccount in it", namespace)
	}
	return checkName("apps-namespace", namespace, validation.IsDNS1123Label)
}

func checkAtLeastOne(flag string, value int) error {
	if value < 1 {
		return fmt.Errorf("--%s=%d: use 1 or more", flag, value)
	}
	return nil
}

// CheckPositive returns an error unless the value of a flag is above zero.
func CheckPositive(flag string, value time.Duration) error {
	if value <= 0 {
		return fmt.Errorf("--%s=%s: use a time above zero", flag, value)
	}
	return nil
}

func checkReplica(name string) error {
	if !replicaName.MatchString(name) {
		return fmt.Errorf("--replica-name=%q: use letters, digits, '-', '_' and '.', and begin and end with a letter or a digit", name)
	}
	return nil
}

func checkAddress(flag, address string) error {
	if address == serving.Nowhere {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("--%s=%q is not an address: write it as :8080 or 127.0.0.1:8080, or 0 for nowhere", flag, address)
	}
	return nil
}

func checkAddresses(metrics, health string) error {
	if _, port, err := net.SplitHostPort(metrics); metrics == health && err == nil && port != "0" {
		return fmt.Errorf("--metrics-bind-address and --health-probe-bind-address are both %s: "+
			"choose another port for one of them, or 0 for nowhere", metrics)
	}
	return nil
}

// CIDRs is a flag that may be repeated: ranges of addresses, or single ones.
type CIDRs []netip.Prefix

var _ pflag.Value = (*CIDRs)(nil)

// Set adds one or more ranges, separated by commas.
func (p *CIDRs) Set(s string) error {
	for one := range strings.SplitSeq(s, ",") {
		prefix, err := parsePrefix(strings.TrimSpace(one))
		if err != nil {
			return err
		}
		*p = append(*p, prefix)
	}
	return nil
}

func parsePrefix(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil && addr.Zone() == "" {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(s)
	if err != nil {
		return prefix, fmt.Errorf("%q is not a range of addresses: write it as 10.0.0.0/8", s)
	}
	if prefix != prefix.Masked() {
		return prefix, fmt.Errorf("%s has bits behind its length: did you mean %s?", s, prefix.Masked())
	}
	return prefix, nil
}

// String returns the ranges in the syntax of Set.
func (p *CIDRs) String() string {
	var all []string
	for _, one := range *p {
		all = append(all, one.String())
	}
	return strings.Join(all, ",")
}

// Type is the name of the value in the help.
func (p *CIDRs) Type() string { return "cidr" }
