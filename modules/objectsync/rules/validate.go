// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/registry/hubobjects"
)

const (
	maxName    = hubv1.MaxSyncRuleNameLength
	maxObjects = 100_000
	maxBytes   = 1 << 30
	maxPatches = 64 << 10 // of all patches of a rule
)

type problems []error

func (p *problems) refuse(bad bool, format string, args ...any) {
	if bad {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}

// Validate is called when the hub starts, and for remotes whose overrides change the configuration.
func (c Config) Validate() error {
	p := c.Allow.problems()
	p.refuse(c.Limits.Objects < 1 || c.Limits.Objects > maxObjects, "limits.objects: use 1 to %d", maxObjects)
	bytes, err := resource.ParseQuantity(c.Limits.Bytes)
	p.refuse(err != nil || bytes.Value() < 1 || bytes.Value() > maxBytes, "limits.bytes: use a quantity such as 10Mi, of at most 1Gi")
	return errors.Join(p...)
}

// problems are those that the schema of SyncRules leaves, also of a kind whose scope no API server has told yet.
func (r Rule) problems() problems {
	var p problems
	p.refuse(len(validation.IsDNS1123Label(r.Name)) > 0 || len(r.Name) > maxName,
		"name: use lower-case letters, digits and '-', at most %d characters", maxName)
	p.refuse(r.ReturnsStatus() && !r.IsOneToOne(),
		"status: an object of the hub has a copy in each remote, and only one status; use namespaces.template, or leave status out")
	p.refuse(r.OnTargetDeletion == hubv1.SyncPropagate && !r.IsOneToOne(),
		"onTargetDeletion: a deletion in one remote would delete the copies in all others; use namespaces.template, or Recreate")
	p.refuse(r.OnTargetDeletion == hubv1.SyncPropagate && r.Mode == hubv1.SyncCreate, "onTargetDeletion: with mode Create an absent copy is made; use Recreate")
	p.refuse(r.CreatesNamespace() && !r.IsNamespaced(), "to.createNamespace: the kind has no namespaces")
	r.checkKeys(&p)
	r.checkKind(&p)
	r.checkNamespaces(&p)
	r.checkTarget(&p)
	r.checkObjects(&p)
	for _, pointer := range r.Exclude {
		p.refuse(!mayChange(pointer), "exclude: %q is no JSON pointer to a field that a rule may leave out", pointer)
	}
	for _, pointer := range r.Include {
		p.refuse(!isPointer(pointer), "include: %q is no JSON pointer to a field", pointer)
	}
	text, err := json.Marshal(r.Patches)
	p.refuse(err != nil || len(text) > maxPatches, "patches: use at most %d bytes of JSON", maxPatches)
	for i, patch := range r.Patches {
		if err := checkPatch(patch); err != nil {
			p = append(p, fmt.Errorf("patches[%d]: %w", i, err))
		}
	}
	return p
}

func (r Rule) checkKind(p *problems) {
	kind, err := schema.ParseGroupVersion(r.Kind.APIVersion)
	if err != nil || r.Kind.APIVersion == "" || r.Kind.Kind == "" || kind.Version == "" {
		p.refuse(true, "kind: use the apiVersion and the kind of an object, such as v1 and Secret")
		return
	}
	group := kind.Group
	p.refuse(group == hubv1.GroupName || strings.HasSuffix(group, "."+hubv1.GroupName),
		"kind: objects of the group %s are never copied", hubv1.GroupName)
	p.refuse(r.Kind.Kind == "Event" && (group == "" || group == "events.k8s.io"),
		"kind: Events are not copied, since the module itself records Events")
	p.refuse(r.BringsCRD() && clientgoscheme.Scheme.IsGroupRegistered(group), "bringCRD: the group %q has no CustomResourceDefinitions", group)
	p.refuse(r.From == hubv1.SyncFromRemote && (slices.Contains(deputies(), group) || group == "" && r.Kind.Kind == "Namespace"),
		"kind: %s of a remote is never copied into the hub, because it would give the writers of the remote permissions there", r.Kind.Kind)
}

// deputies are groups whose objects grant permissions, change the API server, or carry their creator's name.
func deputies() []string {
	return []string{
		"rbac.authorization.k8s.io", "apiextensions.k8s.io", "admissionregistration.k8s.io", "apiregistration.k8s.io",
		"certificates.k8s.io",
	}
}

func (r Rule) checkNamespaces(p *problems) {
	n := r.Namespaces
	for _, name := range n.Names {
		p.refuse(len(validation.IsDNS1123Label(name)) > 0, "namespaces.names: %q is not the name of a namespace", name)
		p.refuse(name == hubv1.DefaultNamespace, "namespaces.names: objects of the namespace of the credentials, %s, are never copied", name)
	}
	_, err := parsed(n.Selector)
	p.refuse(err != nil, "namespaces.selector: %v", err)
	p.refuse(n.Template != "" && !isTemplate(n.Template), "namespaces.template: use a name with %s, such as tenant-%[1]s", clusterName)
}

func (r Rule) checkTarget(p *problems) {
	to := r.To.Namespace
	p.refuse(to != "" && !r.IsNamespaced(), "to.namespace: name the namespaces of the originals, too, or none for a kind without namespaces")
	p.refuse(to == "" && r.IsNamespaced() && r.To.Naming == hubv1.SyncTranslated, "to.namespace: copies with translated names share one namespace; name it")
	p.refuse(to != "" && !isTemplate(to) && len(validation.IsDNS1123Label(to)) > 0, "to.namespace: %q is not the name of a namespace", to)
	if i := slices.IndexFunc(r.TargetNamespaces(""), isOfKubernetes); i >= 0 && r.From == hubv1.SyncFromRemote {
		p.refuse(true, "to.namespace: no object of a remote is copied into %s, which belongs to Kubernetes", r.TargetNamespaces("")[i])
	}
	p.refuse(to == hubv1.DefaultNamespace, "to.namespace: no object is copied into the namespace of the credentials, %s", to)
	p.refuse(to != "" && r.To.Naming == hubv1.SyncMirror && (r.Namespaces.Selector != nil || len(r.Namespaces.Names) > 1),
		"to.naming: names of several namespaces collide in to.namespace; use Translated")
	p.refuse(to == "" && r.From == hubv1.SyncFromRemote && r.Namespaces.Selector != nil,
		"to.namespace: the labels of a remote must not choose the namespace in the hub; name it")
}

func (r Rule) checkObjects(p *problems) {
	selector, err := parsed(r.Objects.Selector)
	p.refuse(err != nil, "objects: %v", err)
	for _, name := range r.Objects.Names {
		p.refuse(len(content.IsPathSegmentName(name)) > 0, "objects.names: %q is not the name of an object", name)
	}
	_, clusters := parsed(r.Clusters)
	p.refuse(clusters != nil, "clusters: %v", clusters)
	if err != nil || len(r.Objects.Names) > 0 || r.From != hubv1.SyncFromHub || r.GVK().GroupKind() != (schema.GroupKind{Kind: "Secret"}) {
		return
	}
	p.refuse(!hubobjects.AsksForLabel(selector), "objects: a rule for Secrets of the hub names them, or selects them by a label that they must have")
}

// checkKeys: marks of copies, and from remotes keys that controllers of the hub trust, are never copied.
func (r Rule) checkKeys(p *problems) {
	for _, key := range r.KeepKeys {
		p.refuse(len(validation.IsQualifiedName(key)) > 0, "keepKeys: %q is not the key of a label or an annotation", key)
		p.refuse((syncer.Identity{}).Keys().Has(key) || isOf(key, hubv1.GroupName), "keepKeys: %s is a mark of a copy, or a key of the hub", key)
		p.refuse(r.From == hubv1.SyncFromRemote && IsReserved(key), "keepKeys: controllers of the hub trust %s, so it is not copied from a remote", key)
	}
	for _, key := range r.DropKeys {
		p.refuse(len(validation.IsQualifiedName(key)) > 0, "dropKeys: %q is not the key of a label or an annotation", key)
		p.refuse(slices.Contains(r.KeepKeys, key), "dropKeys: %s is in keepKeys, too", key)
	}
}

// clusterName is the place of the name of the cluster.
const clusterName = "{{cluster}}"

func isTemplate(text string) bool {
	return strings.Count(text, clusterName) == 1 && len(validation.IsDNS1123Label(strings.Replace(text, clusterName, "a", 1))) == 0
}

// expand: the name of a cluster may contain dots, which a namespace cannot have.
func expand(text, cluster string) string { return strings.Replace(text, clusterName, cluster, 1) }
