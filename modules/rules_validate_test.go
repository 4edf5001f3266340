// SPDX-License-Identifier: Apache-2.0

package modules_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
)

// complete is the example of the documentation, with every field.
const complete = `
metadata: {name: pull-secrets}
spec:
  from: Hub
  kind: {apiVersion: v1, kind: Secret, resource: secrets}
  clusters: {matchLabels: {tier: edge}}
  namespaces: {names: [platform]}
  objects: {names: [pull], selector: {matchLabels: {sync: everywhere}}}
  to: {naming: Mirror, namespace: platform, createNamespace: IfAbsent}
  status: Ignore
  onTargetDeletion: Recreate
  onDeregister: Keep
  deletionPolicy: Delete
  adopt: Never
  mode: Enforce
  exclude: [/spec/replicas, /metadata/labels/tier]
  keepKeys: [argocd.argoproj.io/instance]
  dropKeys: [example.com/local]
  patches:
  - jsonPatch: [{op: add, path: /data/a, value: YQ==}]
  - when: {matchLabels: {tier: edge}}
    path: /data/name
    cel: base64.encode(bytes(cluster.name))
  bringCRD: Never
  takeOver: [0b5f1e4c-2f5e-4b0e-9d0c-3c3c1d6f7a11]
`

// compile compiles a SyncRule as the hub does.
func compile(t *testing.T, text string) (rules.Rule, error) {
	t.Helper()
	r := &hubv1.SyncRule{}
	testkit.Must(t, yaml.UnmarshalStrict([]byte(text), r))
	return rules.Compile(r)
}

// decode decodes a configuration as the hub does.
func decode(t *testing.T, text string) rules.Config {
	t.Helper()
	c := rules.Defaults()
	testkit.Must(t, yaml.UnmarshalStrict([]byte(text), &c))
	return c
}

func TestCompile_Complete(t *testing.T) {
	t.Parallel()
	_, err := compile(t, complete)
	testkit.NoError(t, err)
	testkit.NoError(t, rules.Defaults().Validate())
}

// Apps that ask for one generation of a rule get what was compiled for the first; a rule that is being deleted is not judged again.
func TestCompiler(t *testing.T) {
	t.Parallel()
	var c rules.Compiler
	r := &hubv1.SyncRule{}
	testkit.Must(t, yaml.UnmarshalStrict([]byte(complete), r))
	r.UID, r.Generation = "a", 1
	_, err := c.Compile(r)
	testkit.NoError(t, err)
	r.Spec.Status = hubv1.SyncReturnStatus // A change without another generation is not seen.
	_, err = c.Compile(r)
	testkit.NoError(t, err, "the same generation")
	r.Generation = 2
	_, err = c.Compile(r)
	testkit.ErrorHas(t, err, "status: an object of the hub has a copy")
	r.Generation, r.DeletionTimestamp = 3, new(metav1.Now())
	ending, err := c.Compile(r)
	testkit.NoError(t, err, "a rule that ends")
	testkit.Equal(t, ending.IsTerminating, true)
}

// one returns a SyncRule, in which lines replace those of the same field.
func one(lines ...string) string {
	fields := map[string]string{
		"from": "from: Hub", "kind": "kind: {apiVersion: v1, kind: ConfigMap}",
		"namespaces": "namespaces: {names: [source]}", "to": "to: {naming: Mirror}",
	}
	fields["name"] = "name: a"
	for _, line := range lines {
		name, _, _ := strings.Cut(line, ":")
		fields[name] = line
		if strings.HasSuffix(line, ": none") {
			delete(fields, name)
		}
	}
	text := "spec:\n"
	for field, line := range fields {
		if field == "name" {
			text += "metadata: {" + line + "}\n"
		}
	}
	for field, line := range fields {
		if field != "name" {
			text = strings.Replace(text, "spec:\n", "spec:\n  "+line+"\n", 1)
		}
	}
	return text
}

// These rules are valid.
func TestCompile_Accepted(t *testing.T) {
	t.Parallel()
	remote, template := "from: Remote", `namespaces: {template: "tenant-{{cluster}}"}`
	for _, lines := range [][]string{
		{},
		{remote},
		{template},
		{template, "status: Return"},
		{remote, "status: Return"},
		{template, "onTargetDeletion: Propagate"},
		{"namespaces: {selector: {}}"},
		{"namespaces: {names: [a, b]}", "to: {naming: Translated, namespace: c}"},
		{remote, "namespaces: {selector: {}}", "to: {naming: Translated, namespace: c}"},
		{remote, `to: {naming: Mirror, namespace: "from-{{cluster}}"}`},
		{"namespaces: none", "kind: {apiVersion: storage.k8s.io/v1, kind: StorageClass}"},
		{"kind: {apiVersion: example.com/v1, kind: Widget}", "bringCRD: IfAbsent"},
		{"kind: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole}", "namespaces: none"},
	} {
		_, err := compile(t, one(lines...))
		testkit.NoError(t, err, lines)
	}
}

// These rules are refused, with a message that says what to do. The schema refuses others.
func TestCompile_Refused(t *testing.T) {
	t.Parallel()
	remote := "from: Remote"
	for want, lines := range map[string][]string{
		"name: use lower-case letters":                {"name: A_b"},
		"at most 32 characters":                       {"name: a" + strings.Repeat("b", 32)},
		"kube-system, which belongs to Kubernetes":    {remote, "to: {naming: Mirror, namespace: kube-system}"},
		"kube-public, which belongs to Kubernetes":    {remote, "namespaces: {names: [kube-public]}", "to: {naming: Mirror}"},
		"status: an object of the hub has a copy":     {"status: Return"},
		"would delete the copies in all others":       {"onTargetDeletion: Propagate"},
		"has no CustomResourceDefinitions":            {"bringCRD: IfAbsent"},
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
		"not the name of a namespace":                 {"namespaces: {names: [a.b]}"},
		"clusterfx-system, are never copied":          {"namespaces: {names: [clusterfx-system]}"},
		"into the namespace of the credentials":       {"to: {naming: Mirror, namespace: clusterfx-system}", remote},
		"namespaces.selector: ":                       {"namespaces: {selector: {matchLabels: {'a b': c}}}"},
		"namespaces.template: use a name with":        {"namespaces: {template: tenant}"},
		"name the namespaces of the originals":        {"namespaces: none", "to: {naming: Mirror, namespace: a}"},
		"share one namespace; name it":                {"to: {naming: Translated}"},
		"names of several namespaces collide":         {"namespaces: {names: [a, b]}", "to: {naming: Mirror, namespace: c}"},
		"must not choose the namespace in the hub":    {remote, "namespaces: {selector: {}}"},
		"selects them by a label":                     {"kind: {apiVersion: v1, kind: Secret}"},
		"by a label that they must have":              {"kind: {apiVersion: v1, kind: Secret}", "objects: {selector: {matchExpressions: [{key: a, operator: DoesNotExist}]}}"},
		`exclude: "spec" is no JSON pointer`:          {"exclude: [spec]"},
		`exclude: "/metadata/annotations" is no`:      {"exclude: [/metadata/annotations]"},
		`"/metadata/labels/sync.clusterfx.dev~1m"`:    {"exclude: [/metadata/labels/sync.clusterfx.dev~1m]"},
		`path "/metadata/ownerReferences" is no JSON`: {"patches: [{jsonPatch: [{op: add, path: /metadata/ownerReferences, value: []}]}]"},
		`path "/metadata/name" is no JSON pointer`:    {"patches: [{jsonPatch: [{op: replace, path: /metadata/name, value: b}]}]"},
		`path: "/kind" is no JSON pointer`:            {"patches: [{path: /kind, cel: '1'}]"},
		"undefined field 'nam'":                       {"patches: [{path: /data/x, cel: cluster.nam}]"},
		"clusterfx.dev/allow-hub is a mark":           {"keepKeys: [clusterfx.dev/allow-hub]"},
		"controllers of the hub trust":                {remote, "keepKeys: [kubernetes.io/service-account.name]"},
		"a is in keepKeys, too":                       {"keepKeys: [a]", "dropKeys: [a]"},
		"not the name of an object":                   {"objects: {names: [a/b]}"},
		"an absent copy is made":                      {"mode: Create", "onTargetDeletion: Propagate", `namespaces: {template: "tenant-{{cluster}}"}`},
		"cel: ERROR":                                  {"patches: [{path: /data/x, cel: 'unknown + 1'}]"},
	} {
		_, err := compile(t, one(lines...))
		testkit.ErrorHas(t, err, want, lines)
	}
	for want, text := range map[string]string{
		"limits.objects: use 1 to":     "limits: {objects: -1}",
		"limits.bytes: use a quantity": "limits: {bytes: many}",
	} {
		testkit.ErrorHas(t, decode(t, text).Validate(), want, text)
	}
}
