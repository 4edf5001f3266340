// SPDX-License-Identifier: Apache-2.0

package modules_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
)

// complete is the example of the documentation, with every field.
const complete = `
rules:
- name: pull-secrets
  from: Hub
  kind: {apiVersion: v1, kind: Secret}
  namespaces: {names: [platform]}
  objects: {matchLabels: {sync: everywhere}}
  to: {names: Mirror, namespace: platform}
  status: false
  onTargetDeletion: Recreate
  onDeregister: Keep
  adopt: Never
  mode: Enforce
  exclude: [/spec/replicas, /metadata/labels/tier]
  patches:
  - jsonPatch: [{op: add, path: /data/a, value: YQ==}]
  - when: {matchLabels: {tier: edge}}
    path: /data/name
    cel: base64.encode(bytes(cluster.name))
  bringCRD: false
limits: {objects: 10, bytes: 1Mi}
abandonAfter: 72h
`

// decode decodes a configuration as the hub does.
func decode(t *testing.T, text string) rules.Config {
	t.Helper()
	c := rules.Defaults()
	data, err := yaml.YAMLToJSONStrict([]byte(text))
	testkit.Must(t, err)
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	testkit.Must(t, d.Decode(&c))
	return c
}

func TestConfig_Complete(t *testing.T) {
	t.Parallel()
	testkit.NoError(t, decode(t, complete).Validate())
	testkit.NoError(t, rules.Defaults().Validate())
}

// one returns a configuration with one rule, in which lines replace those of the same field.
func one(lines ...string) string {
	fields := map[string]string{
		"name": "name: a", "from": "from: Hub", "kind": "kind: {apiVersion: v1, kind: ConfigMap}",
		"namespaces": "namespaces: {names: [source]}", "to": "to: {names: Mirror}",
	}
	for _, line := range lines {
		name, _, _ := strings.Cut(line, ":")
		fields[name] = line
		if strings.HasSuffix(line, ": none") {
			delete(fields, name)
		}
	}
	text := ""
	for _, line := range fields {
		text += fmt.Sprintf("  %s\n", line)
	}
	return "rules:\n- " + strings.TrimPrefix(text, "  ")
}

// These configurations are valid.
func TestConfig_Accepted(t *testing.T) {
	t.Parallel()
	remote, template := "from: Remote", `namespaces: {template: "tenant-{{cluster}}"}`
	for _, lines := range [][]string{
		{},
		{remote},
		{template},
		{template, "status: true"},
		{remote, "status: true"},
		{template, "onTargetDeletion: Propagate"},
		{"namespaces: {selector: {}}"},
		{"namespaces: {names: [a, b]}", "to: {names: Translated, namespace: c}"},
		{remote, "namespaces: {selector: {}}", "to: {names: Translated, namespace: c}"},
		{remote, `to: {names: Mirror, namespace: "from-{{cluster}}"}`},
		{"namespaces: none", "kind: {apiVersion: storage.k8s.io/v1, kind: StorageClass}"},
		{"kind: {apiVersion: example.com/v1, kind: Widget}", "bringCRD: true"},
		{"kind: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole}", "namespaces: none"},
	} {
		testkit.NoError(t, decode(t, one(lines...)).Validate(), lines)
	}
}

// These configurations are refused, with a message that says what to do.
func TestConfig_Refused(t *testing.T) {
	t.Parallel()
	remote := "from: Remote"
	for want, lines := range map[string][]string{
		"name: use lower-case letters":                {"name: A_b"},
		"at most 32 characters":                       {"name: a" + strings.Repeat("b", 32)},
		"from: use Hub or Remote":                     {"from: hub"},
		"to.names: use Mirror or Translated":          {"to: {names: mirror}"},
		"onTargetDeletion: use":                       {"onTargetDeletion: Ignore"},
		"onDeregister: use Keep":                      {"onDeregister: delete"},
		"adopt: use Never":                            {"adopt: Always"},
		"could take over an object of the hub":        {remote, "adopt: IfEqual"},
		"this hub knows no Secrets of v1":             {"kind: {apiVersion: v1, kind: Secrets}"},
		"a ConfigMap has a namespace":                 {"namespaces: none"},
		"a Node has no namespace":                     {"kind: {apiVersion: v1, kind: Node}"},
		"kube-system, which belongs to Kubernetes":    {remote, "to: {names: Mirror, namespace: kube-system}"},
		"kube-public, which belongs to Kubernetes":    {remote, "namespaces: {names: [kube-public]}", "to: {names: Mirror}"},
		"mode: use Enforce":                           {"mode: enforce"},
		"status: an object of the hub has a copy":     {"status: true"},
		"would delete the copies in all others":       {"onTargetDeletion: Propagate"},
		"only from the hub to remotes":                {remote, "bringCRD: true", "kind: {apiVersion: example.com/v1, kind: Widget}"},
		"has no CustomResourceDefinitions":            {"bringCRD: true"},
		"kind: use the apiVersion":                    {"kind: {apiVersion: v1, kind: ''}"},
		"group clusterfx.dev are never copied":        {"kind: {apiVersion: clusterfx.dev/v1alpha1, kind: Cluster}", "namespaces: none"},
		"group clusterfx.dev":                         {"kind: {apiVersion: other.clusterfx.dev/v1, kind: Thing}", remote},
		"Events are not copied":                       {"kind: {apiVersion: events.k8s.io/v1, kind: Event}"},
		"ClusterRole of a remote is never":            {remote, "kind: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole}", "namespaces: none"},
		"RoleBinding of a remote is never":            {remote, "kind: {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding}"},
		"CustomResourceDefinition of a remote":        {remote, "kind: {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition}"},
		"MutatingWebhookConfiguration of":             {remote, "kind: {apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration}"},
		"APIService of a remote":                      {remote, "kind: {apiVersion: apiregistration.k8s.io/v1, kind: APIService}"},
		"Namespace of a remote":                       {remote, "kind: {apiVersion: v1, kind: Namespace}", "namespaces: none"},
		"CertificateSigningRequest of a remote":       {remote, "kind: {apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest}"},
		"use one of names, selector and template":     {"namespaces: {names: [a], selector: {}}"},
		"not the name of a namespace":                 {"namespaces: {names: [a.b]}"},
		"clusterfx-system, are never copied":          {"namespaces: {names: [clusterfx-system]}"},
		"into the namespace of the credentials":       {"to: {names: Mirror, namespace: clusterfx-system}", remote},
		"a is there twice":                            {"namespaces: {names: [a, a]}"},
		"namespaces.selector: ":                       {"namespaces: {selector: {matchLabels: {'a b': c}}}"},
		"namespaces.template: use a name with":        {"namespaces: {template: tenant}"},
		"name the namespaces of the originals":        {"namespaces: none", "to: {names: Mirror, namespace: a}"},
		"share one namespace; name it":                {"to: {names: Translated}"},
		"names of several namespaces collide":         {"namespaces: {names: [a, b]}", "to: {names: Mirror, namespace: c}"},
		"must not choose the namespace in the hub":    {remote, "namespaces: {selector: {}}"},
		"selects them by a label":                     {"kind: {apiVersion: v1, kind: Secret}"},
		"by a label that they must have":              {"kind: {apiVersion: v1, kind: Secret}", "objects: {matchExpressions: [{key: a, operator: DoesNotExist}]}"},
		`exclude: "spec" is no JSON pointer`:          {"exclude: [spec]"},
		`exclude: "/metadata/annotations" is no`:      {"exclude: [/metadata/annotations]"},
		`"/metadata/labels/sync.clusterfx.dev~1m"`:    {"exclude: [/metadata/labels/sync.clusterfx.dev~1m]"},
		"patches[0]: use either jsonPatch, or":        {"patches: [{}]"},
		"jsonPatch: op is one of":                     {"patches: [{jsonPatch: [{op: set, path: /a}]}]"},
		`path "/metadata/ownerReferences" is no JSON`: {"patches: [{jsonPatch: [{op: add, path: /metadata/ownerReferences, value: []}]}]"},
		`path "/metadata/name" is no JSON pointer`:    {"patches: [{jsonPatch: [{op: replace, path: /metadata/name, value: b}]}]"},
		`path: "/kind" is no JSON pointer`:            {"patches: [{path: /kind, cel: '1'}]"},
		"cel: ERROR":                                  {"patches: [{path: /data/x, cel: 'unknown + 1'}]"},
	} {
		err := decode(t, one(lines...)).Validate()
		testkit.ErrorHas(t, err, want, lines)
	}
	for want, text := range map[string]string{
		"another rule has this name":                      "rules:\n" + strings.Repeat("- {name: a, from: Hub, kind: {apiVersion: v1, kind: ConfigMap}, namespaces: {names: [b]}, to: {names: Mirror}}\n", 2),
		"limits.objects: use 1 to":                        "limits: {objects: -1}",
		"limits.bytes: use a quantity":                    "limits: {bytes: many}",
		"abandonAfter: use a duration":                    "abandonAfter: 3 days",
		"abandonAfter: use a duration of at least a minu": "abandonAfter: 1s",
	} {
		testkit.ErrorHas(t, decode(t, text).Validate(), want, text)
	}
}
