// SPDX-License-Identifier: Apache-2.0

package allocated

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// field is one that a server allocates.
type field struct {
	path    string // a JSON pointer; * is each element of a list
	element string
	// when says whether a value may be allocated. Default: it may.
	when func(obj map[string]any, value any) bool
	// always: a value with an owner is left out, too. A controller owns it.
	always bool
}

//nolint:gochecknoglobals // a table cannot be a constant
var table = map[schema.GroupKind][]field{
	{Kind: "Service"}: {
		{path: "/spec/clusterIP", when: isNotHeadless},
		{path: "/spec/clusterIPs", when: isNotHeadless},
		{path: "/spec/ports/*/nodePort"},
		{path: "/spec/healthCheckNodePort"},
		{path: "/spec/ipFamilies"},
		{path: "/spec/ipFamilyPolicy"},
	},
	{Group: "batch", Kind: "Job"}: {
		{path: "/spec/selector", when: isGenerated},
		{path: "/spec/template/metadata/labels/controller-uid", when: isGenerated},
		{path: "/spec/template/metadata/labels/job-name", when: isGenerated},
		{path: "/spec/template/metadata/labels/batch.kubernetes.io~1controller-uid", when: isGenerated},
		{path: "/spec/template/metadata/labels/batch.kubernetes.io~1job-name", when: isGenerated},
	},
	{Kind: "PersistentVolumeClaim"}: {{path: "/spec/volumeName", when: isBoundByController, always: true}},
	{Kind: "PersistentVolume"}: {
		{path: "/spec/claimRef/uid", always: true}, {path: "/spec/claimRef/resourceVersion", always: true},
	},
	{Kind: "Pod"}: {
		{path: "/spec/nodeName"},
		{path: "/spec/priority"},
		{path: "/spec/preemptionPolicy"},
		{path: "/spec/tolerations/*", when: isDefaultToleration},
		{path: "/spec/volumes/*", element: access, when: isAccess},
		{path: "/spec/containers/*/volumeMounts/*", element: accessPath, when: isAccess},
		{path: "/spec/initContainers/*/volumeMounts/*", element: accessPath, when: isAccess},
		{path: "/spec/ephemeralContainers/*/volumeMounts/*", element: accessPath, when: isAccess},
	},
	{Kind: "ServiceAccount"}: {{path: "/secrets", always: true}},
}

// headless is the address of a Service that is chosen, and never allocated.
const headless = "None"

func isNotHeadless(_ map[string]any, value any) bool {
	list, isList := value.([]any)
	return value != headless && (!isList || !slices.Contains(list, any(headless)))
}

func isGenerated(obj map[string]any, _ any) bool {
	manual, _, _ := unstructured.NestedBool(obj, "spec", "manualSelector")
	return !manual
}

func isBoundByController(obj map[string]any, _ any) bool {
	notes, _, _ := unstructured.NestedMap(obj, "metadata", "annotations")
	_, bound := notes["pv.kubernetes.io/bound-by-controller"]
	return bound
}

// isDefaultToleration is for the admission plugin DefaultTolerationSeconds.
func isDefaultToleration(_ map[string]any, value any) bool {
	t, _ := value.(map[string]any)
	isDefault := t["key"] == "node.kubernetes.io/not-ready" || t["key"] == "node.kubernetes.io/unreachable"
	return isDefault && t["effect"] == "NoExecute" && t["operator"] == "Exists" && t["tolerationSeconds"] != nil
}

// access begins the name of a Pod's token volume, which the admission plugin ServiceAccount mounts at accessPath.
const (
	access     = "kube-api-access-"
	accessPath = "/var/run/secrets/kubernetes.io/serviceaccount"
)

// isAccess is for that volume, and its mounts.
func isAccess(_ map[string]any, value any) bool {
	v, _ := value.(map[string]any)
	name, _ := v["name"].(string)
	return strings.HasPrefix(name, access)
}
