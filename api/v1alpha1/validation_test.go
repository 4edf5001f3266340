// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// A rule is a constraint of the schema, with a spec that barely satisfies it and a spec that barely violates it.
type rule struct {
	does       string
	pass, fail string
	// want is the API server's error for fail: the field, then the message.
	want string
}

// rules returns one rule for each constraint that the author of a spec can violate.
func rules() []rule {
	return slices.Concat(
		refRules(), endpointRules(), listRules(), crossRules(), runnerRules(),
		bounds("probe.periodSeconds", 1, 3600, "timeoutSeconds: 1"),
		bounds("probe.timeoutSeconds", 1, 60, "periodSeconds: 60"),
		bounds("probe.failureThreshold", 1, 100, ""),
		bounds("probe.successThreshold", 1, 100, ""),
		bounds("client.qps", 1, 10000, "burst: 20000"),
		bounds("client.burst", 1, 20000, "qps: 1"),
		bounds("client.timeoutSeconds", 1, 600, ""),
	)
}

func refRules() []rule {
	const (
		path      = "spec.kubeconfigSecretRef"
		aboutName = "kubeconfigSecretRef.name must be the name of a Secret: lower-case letters, digits, '-' and '.'"
		aboutKey  = "kubeconfigSecretRef.key must be a key of a Secret: letters, digits, '-', '_' and '.'"
	)
	ref := func(format string, a ...any) string {
		return "kubeconfigSecretRef: {" + fmt.Sprintf(format, a...) + "}"
	}

	return []rule{
		{"a Secret is named", ref("name: a"), ref("key: a"), path + ".name: Required value"},
		{"a Secret's name is not empty", ref("name: a"), ref("name: ''"), tooShort(path + ".name")},
		{
			"a Secret's name is at most 253 characters long",
			ref("name: %s", long(253)), ref("name: %s", long(254)), tooLong(path+".name", 253),
		},
		{
			"a Secret's name is no path",
			ref("name: a.b-c"), ref("name: ../a"), path + `.name: Invalid value: "../a": ` + aboutName,
		},
		{
			"a Secret's name has no upper-case letters",
			ref("name: 0a"), ref("name: Prod"), path + `.name: Invalid value: "Prod": ` + aboutName,
		},
		{"a key is not empty", ref("name: a, key: a"), ref("name: a, key: ''"), tooShort(path + ".key")},
		{
			"a key is at most 253 characters long",
			ref("name: a, key: %s", long(253)), ref("name: a, key: %s", long(254)), tooLong(path+".key", 253),
		},
		{
			"a key is no path",
			ref("name: a, key: value.yaml"), ref("name: a, key: a/b"), path + `.key: Invalid value: "a/b": ` + aboutKey,
		},
		{
			"a context is not empty",
			ref("name: a, context: 'arn:aws:eks:eu-1:1:cluster/a b'"), ref("name: a, context: ''"),
			tooShort(path + ".context"),
		},
		{
			"a context is at most 512 characters long",
			ref("name: a, context: %s", long(512)), ref("name: a, context: %s", long(513)), tooLong(path+".context", 512),
		},
	}
}

func runnerRules() []rule {
	const path = "spec.runner.matchLabels"
	labels := func(text string) string { return "runner: {matchLabels: {" + text + "}}" }
	var many []string
	for i := range 9 {
		many = append(many, fmt.Sprintf("a%d: b", i))
	}
	return []rule{
		{"labels are not empty", labels("a: ''"), labels(""), path + ": Invalid value: 0: " + path + " in body should have at least 1 properties"},
		{
			"there are at most 8 labels",
			labels(strings.Join(many[:8], ", ")), labels(strings.Join(many, ", ")), path + ": Too many: 9: must have at most 8 items",
		},
		{
			"the key of a label has a name",
			labels("topology.kubernetes.io/zone: eu-1"), labels("example.com/: a"),
			path + ": Invalid value: each key of runner.matchLabels must be the key of a label",
		},
		{"the value of a label has at most 63 characters", labels("a: " + long(63)), labels("a: " + long(64)), tooLong(path+".a", 63)},
		{
			"the value of a label has no spaces",
			labels("a: B_c.d-e"), labels("a: 'b c'"), path + `.a: Invalid value: "b c": ` + path +
				`.a in body should match '^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$'`,
		},
	}
}

func endpointRules() []rule {
	const (
		server  = "spec.server: Invalid value: %q: server must be an https URL"
		secret  = "spec.%[1]s: Invalid value: %[2]q: %[1]s must not contain a user, a query or a fragment"
		proxy   = "spec.proxyURL: Invalid value: %q: proxyURL must be an http, https or socks5 URL"
		tlsName = "spec.tlsServerName: Invalid value: %q: tlsServerName must be a host name or an IPv4 address"
	)
	row := func(does, field, pass, fail, want string, args ...any) rule {
		return rule{does, field + ": '" + pass + "'", field + ": '" + fail + "'", fmt.Sprintf(want, append(args, fail)...)}
	}

	return []rule{
		row("a server is https", "server", "HTTPS://[fd00::1]:6443/k8s/c-1", "http://10.4.0.11:6443", server),
		row("a server is a URL", "server", "https://10.4.0.11", "10.4.0.11:6443", server),
		row("a server is not empty", "server", "https://a", "", server),
		row("a server has a host", "server", "https://api.example.com", "https://:6443", server),
		row("a server has no user", "server", "https://a.example.com", "https://me:pass@a.example.com", secret, "server"),
		row("a server has no query", "server", "https://a/b", "https://a/b?c", secret, "server"),
		row("a server has no fragment", "server", "https://a/b", "https://a/b#c", secret, "server"),
		{
			"a server is at most 2048 characters long",
			"server: https://a/" + long(2038), "server: https://a/" + long(2039), tooLong("spec.server", 2048),
		},
		row("a TLS server name is a host", "tlsServerName", "API.example.com", "https://api.example.com", tlsName),
		row("a TLS server name is not empty", "tlsServerName", "10.4.0.11", "", tlsName),
		{
			"a TLS server name is at most 253 characters long",
			"tlsServerName: " + long(253), "tlsServerName: " + long(254), tooLong("spec.tlsServerName", 253),
		},
		row("a proxy has a known scheme", "proxyURL", "socks5://proxy:1080", "ftp://proxy:21", proxy),
		row("a proxy is a URL", "proxyURL", "http://proxy:3128", "proxy:3128", proxy),
		row("a proxy is not empty", "proxyURL", "https://proxy", "", proxy),
		row("a proxy has a host", "proxyURL", "http://proxy", "http://:3128", proxy),
		row("a proxy has no user", "proxyURL", "http://proxy", "http://me:pass@proxy", secret, "proxyURL"),
		{
			"a proxy is at most 2048 characters long",
			"proxyURL: https://a/" + long(2038), "proxyURL: https://a/" + long(2039), tooLong("spec.proxyURL", 2048),
		},
	}
}

func listRules() []rule {
	const (
		aboutModules = "each of modules must be a module name: " +
			"lower-case letters, digits and '-', a letter first, no '-' last"
		aboutNamespaces = "each of namespaces must be the name of a namespace: " +
			"lower-case letters, digits and '-', not at the start or end"
	)
	names := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf("a%03d", i)
		}

		return "[" + strings.Join(all, ", ") + "]"
	}
	tooMany := ": Too many: 129: must have at most 128 items"
	tooFew := ": Invalid value: 0: %s in body should have at least 1 items"

	return []rule{
		{"modules are not empty", "modules: [a0]", "modules: []", "spec.modules" + fmt.Sprintf(tooFew, "spec.modules")},
		{"there are at most 128 modules", "modules: " + names(128), "modules: " + names(129), "spec.modules" + tooMany},
		{"modules are a set", "modules: [a0, a1]", "modules: [a0, a0]", `spec.modules[1]: Duplicate value: "a0"`},
		{
			"a module has the name of a module",
			"modules: [cert-manager2, a0]", "modules: [a0, 2a]", `spec.modules[1]: Invalid value: "2a": ` + aboutModules,
		},
		{
			"a module's name is at most 32 characters long",
			"modules: [" + long(32) + "]", "modules: [" + long(33) + "]", tooLong("spec.modules[0]", 32),
		},
		{
			"namespaces are not empty",
			"namespaces: [a]", "namespaces: []", "spec.namespaces" + fmt.Sprintf(tooFew, "spec.namespaces"),
		},
		{
			"there are at most 128 namespaces",
			"namespaces: " + names(128), "namespaces: " + names(129), "spec.namespaces" + tooMany,
		},
		{"namespaces are a set", "namespaces: [a, b]", "namespaces: [a, a]", `spec.namespaces[1]: Duplicate value: "a"`},
		{
			"a namespace has the name of a namespace",
			"namespaces: [team-a]", "namespaces: [team-]", `spec.namespaces[0]: Invalid value: "team-": ` + aboutNamespaces,
		},
		{
			"a namespace's name is at most 63 characters long",
			"namespaces: [" + long(63) + "]", "namespaces: [" + long(64) + "]", tooLong("spec.namespaces[0]", 63),
		},
	}
}

func crossRules() []rule {
	const (
		probe  = "spec.probe: Invalid value: probe.timeoutSeconds must not be greater than probe.periodSeconds"
		limits = "spec.client: Invalid value: client.burst must not be less than client.qps"
	)

	return []rule{
		{
			"a probe ends before the next one",
			"probe: {periodSeconds: 4, timeoutSeconds: 4}", "probe: {periodSeconds: 4, timeoutSeconds: 5}", probe,
		},
		{"a default timeout counts too", "probe: {periodSeconds: 3}", "probe: {periodSeconds: 2}", probe},
		{"a burst covers a second", "client: {qps: 7, burst: 7}", "client: {qps: 7, burst: 6}", limits},
		{"a default burst counts too", "client: {qps: 1000}", "client: {qps: 1001}", limits},
		{
			"a tunnel has no proxy",
			"via: Direct\nproxyURL: http://proxy:3128", "via: Tunnel\nproxyURL: http://proxy:3128",
			"spec: Invalid value: proxyURL has no effect with via: Tunnel; remove it",
		},
		{
			"a way is known",
			"via: Tunnel", "via: Pigeon",
			`spec.via: Unsupported value: "Pigeon": supported values: "Direct", "Tunnel"`,
		},
		{
			"a state is known",
			"state: Paused", "state: Deleted",
			`spec.state: Unsupported value: "Deleted": supported values: "Active", "Paused"`,
		},
	}
}

// bounds returns the rules for a number in a struct of the spec. The rest sets other fields of the struct that would
// interfere with the bounds.
func bounds(path string, lowest, highest int, rest string) []rule {
	parent, field, _ := strings.Cut(path, ".")
	spec := func(n int) string { return fmt.Sprintf("%s: {%s: %d, %s}", parent, field, n, rest) }
	want := "spec.%[1]s: Invalid value: %[2]d: spec.%[1]s in body should be %[3]s than or equal to %[4]d"

	return []rule{
		{path + " has a minimum", spec(lowest), spec(lowest - 1), fmt.Sprintf(want, path, lowest-1, "greater", lowest)},
		{path + " has a maximum", spec(highest), spec(highest + 1), fmt.Sprintf(want, path, highest+1, "less", highest)},
	}
}

func long(n int) string { return strings.Repeat("a", n) }

func tooLong(path string, limit int) string {
	return fmt.Sprintf("%s: Too long: may not be more than %d bytes", path, limit)
}

func tooShort(path string) string {
	return fmt.Sprintf("%[1]s: Invalid value: \"\": %[1]s in body should be at least 1 chars long", path)
}

func TestCluster_Validation(t *testing.T) {
	t.Parallel()
	_, c := hub(t)
	for _, r := range rules() {
		t.Run(r.does, func(t *testing.T) {
			t.Parallel()
			testkit.NoError(t, try(t, c, "prod-eu-1", r.pass), "valid spec is refused")
			expectComplaint(t, try(t, c, "prod-eu-1", r.fail), r.want)
		})
	}
}

func TestCluster_NameIsADNSLabel(t *testing.T) {
	t.Parallel()
	_, c := hub(t)
	for _, good := range []string{long(63), "0-a"} {
		testkit.NoError(t, try(t, c, good, ""), "valid name", good, "is refused")
	}
	for _, bad := range []string{long(64), "prod.eu"} {
		expectComplaint(t, try(t, c, bad, ""),
			"<nil>: Invalid value: metadata.name must be a DNS label: 63 characters at most, and no dots")
	}
}

func TestCluster_UnknownFieldsAreRefused(t *testing.T) {
	t.Parallel()
	_, c := hub(t)
	err := try(t, c, "prod-eu-1", "probe: {period: 5}\nmodule: [a]")
	want := `strict decoding error: unknown field "spec.module", unknown field "spec.probe.period"`
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Every validation rule of the schema has a case in the table.
func TestRules_AreComplete(t *testing.T) {
	t.Parallel()
	var wants strings.Builder
	for _, r := range rules() {
		wants.WriteString(r.want + "\n")
	}
	walk(t, func(path string, s *apiextensionsv1.JSONSchemaProps) {
		for _, v := range s.XValidations {
			if path != "" && !strings.Contains(wants.String(), v.Message) {
				t.Errorf("%s: no case breaks the rule %q", path, v.Message)
			}
		}
	})
}

func try(t *testing.T, c client.Client, name, spec string) error {
	t.Helper()
	if !strings.Contains(spec, "kubeconfigSecretRef:") {
		spec = "kubeconfigSecretRef: {name: prod-eu-1}\n" + spec
	}
	spec = "spec:\n  " + strings.ReplaceAll(spec, "\n", "\n  ")

	return c.Create(t.Context(), parse(t, name, spec), client.DryRunAll)
}

// expectComplaint fails the test unless err says that the object is invalid, for this reason.
func expectComplaint(t *testing.T, err error, want string) {
	t.Helper()
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		t.Fatalf("got %v, want %s", err, want)
	}
	var got []string
	for _, cause := range status.Status().Details.Causes {
		got = append(got, cause.Field+": "+cause.Message)
	}
	if !slices.Contains(got, want) {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), want)
	}
}
