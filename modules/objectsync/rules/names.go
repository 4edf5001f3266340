// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
)

// ErrNamespace means that a template yields no namespace which may be used.
var ErrNamespace = errors.New("the name of the cluster yields no namespace that a rule may use")

// Place is where a rule works: between a hub and a remote.
type Place struct {
	HubID   string // HubID keeps the copies of two hubs with a rule of one name apart. See registry.Remote.
	Cluster string // the name of the remote
}

const (
	// hubTenant begins the tenants of rules from the hub.
	hubTenant = "hub-"
	// hubDigits is the length of the hub's hash in them: with 32 bits, two of a hundred hubs are alike in one of a
	// million fleets.
	hubDigits = 8
)

func digest(text string, digits int) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:digits]
}

// Tenant names the source of a rule in the target: one for all remotes of rules from a hub, one for each of rules
// from remotes. Hashes keep hubs, clusters and rules apart.
func (r Rule) Tenant(at Place) string {
	if r.From == hubv1.SyncFromHub {
		return hubTenant + r.Name + "-" + digest(at.HubID, hubDigits)
	}
	const readable, digits = 20, 20
	return strings.Trim(at.Cluster[:min(len(at.Cluster), readable)], "-") + "-" + digest(at.HubID+"/"+at.Cluster+"/"+r.Name, digits)
}

// Identity returns the marks of the copies in one place.
func (r Rule) Identity(at Place) syncer.Identity {
	id := syncer.Identity{Tenant: r.Tenant(at)}
	if r.IsNamespaced() {
		id.TargetNamespace = expand(r.To.Namespace, at.Cluster)
	}
	return id
}

// Finalizer is on the originals of a one-to-one rule.
func (r Rule) Finalizer(at Place) string { return syncer.FinalizerOf(r.Identity(at)) }

// KeptBy is the value of the annotation of copies that the rule has left: its name, and whose it was, of all rules of one source.
func (r Rule) KeptBy(at Place) string {
	source := at.HubID
	if r.From == hubv1.SyncFromRemote {
		source += "/" + at.Cluster
	}
	const digits = 20
	return r.Name + "." + digest(string(r.From)+"/"+source, digits)
}

// Takes reports whether an object at the address of a copy becomes the copy of up, whatever Adopt is: the copy of a hub in TakeOver, or
// one that a rule of this source has left.
func (r Rule) Takes(at Place, up, found *unstructured.Unstructured) bool {
	if r.Mode == hubv1.SyncCreate {
		return false
	}
	return r.takesBack(at, r.Translator(at).Metadata(up, client.ObjectKeyFromObject(found)), found) ||
		slices.ContainsFunc(r.TakeOver, func(hub string) bool {
			original, ours := r.Translator(Place{HubID: hub, Cluster: at.Cluster}).ToUpstream(found)
			return ours && original == client.ObjectKeyFromObject(up)
		})
}

// takesBack reports whether found was left by a rule of this source, as the copy of the original that copied is of, at its address.
func (r Rule) takesBack(at Place, copied, found *unstructured.Unstructured) bool {
	_, by, _ := strings.Cut(found.GetAnnotations()[hubv1.AnnotationKeptBy], ".")
	_, ours, _ := strings.Cut(r.KeptBy(at), ".")
	keys := r.Identity(at).Keys()
	if by != ours || found.GetLabels()[keys.ManagedBy] != "" {
		return false
	}
	marks := found.GetAnnotations()
	for _, key := range []string{keys.ObjectName, keys.ObjectNamespace, keys.HostName, keys.HostNamespace} {
		if marks[key] != copied.GetAnnotations()[key] {
			return false
		}
	}
	return marks[keys.HostName] == found.GetName()
}

// RuleOfFinalizer returns the name of the rule from a hub, and false for any other finalizer.
func RuleOfFinalizer(finalizer string) (string, bool) {
	rest, ok := strings.CutPrefix(finalizer, translate.DefaultKeyPrefix+"/"+hubTenant)
	end := len(rest) - hubDigits - 1
	if !ok || end < 1 || rest[end] != '-' {
		return "", false
	}
	return rest[:end], true
}

// Translator returns the translator of the names and metadata in one place.
func (r Rule) Translator(at Place) syncer.Translator[*unstructured.Unstructured] {
	id, o := r.Identity(at), syncer.TranslatorOptions{Kind: r.GVK(), Include: r.Include}
	o.Reserved = func(key string) bool {
		return slices.Contains(r.DropKeys, key) || r.From == hubv1.SyncFromRemote && IsReserved(key)
	}
	if len(r.KeepKeys) > 0 {
		o.Keep = func(key string) bool { return slices.Contains(r.KeepKeys, key) }
	}
	switch {
	case r.To.Naming == hubv1.SyncMirror:
		return syncer.NewMirror[*unstructured.Unstructured](id, o)
	case r.IsNamespaced():
		return syncer.NewNamespaced[*unstructured.Unstructured](id, o)
	}
	return syncer.NewCluster[*unstructured.Unstructured](id, o)
}

// CheckNamespaces wraps ErrNamespace if a template yields no usable namespace for a cluster, whose name Validate does
// not know.
func (r Rule) CheckNamespaces(cluster string) error {
	for _, template := range []string{r.Namespaces.Template, r.To.Namespace} {
		name := expand(template, cluster)
		if name != "" && (len(validation.IsDNS1123Label(name)) > 0 || !mayUse(name)) {
			return fmt.Errorf("%w: %s", ErrNamespace, name)
		}
		if name != template && isOfKubernetes(name) {
			return fmt.Errorf("%w: %s belongs to Kubernetes", ErrNamespace, name)
		}
	}
	if i := slices.IndexFunc(r.TargetNamespaces(cluster), isOfKubernetes); i >= 0 && r.From == hubv1.SyncFromRemote {
		return fmt.Errorf("%w: %s belongs to Kubernetes", ErrNamespace, r.TargetNamespaces(cluster)[i])
	}
	return nil
}

// isOfKubernetes: controllers trust what is there, such as bootstrap tokens.
func isOfKubernetes(namespace string) bool {
	return namespace == metav1.NamespaceSystem || namespace == metav1.NamespacePublic || namespace == corev1.NamespaceNodeLease
}

// TargetNamespaces are those of the copies; none if the rule keeps the originals' and selects them by labels.
func (r Rule) TargetNamespaces(cluster string) []string {
	if to := expand(r.To.Namespace, cluster); to != "" {
		return []string{to}
	}
	return r.SourceNamespaces(cluster)
}

const maxRecorded = 64

// Recorded returns hubv1.AnnotationHubNamespaces as it has to be before the rule works: those of the rule come first.
func (r Rule) Recorded() string {
	if r.From != hubv1.SyncFromRemote || !r.IsNamespaced() {
		return r.recorded
	}
	all := r.TargetNamespaces(clusterName)
	for _, earlier := range strings.Split(r.recorded, ",") {
		if earlier != "" && !slices.Contains(all, earlier) {
			all = append(all[:len(all):len(all)], earlier)
		}
	}
	return strings.Join(all[:min(len(all), maxRecorded)], ",")
}

// IsRecorded reports whether the annotation is so.
func (r Rule) IsRecorded() bool { return r.recorded == r.Recorded() }

// EarlierNamespaces are those of the hub in which the rule may have copies of a remote from before an edit, and which it does not watch.
func (r Rule) EarlierNamespaces(cluster string) []string {
	now := r.HubNamespaces()
	if r.From != hubv1.SyncFromRemote || len(now) == 0 || r.recorded == "" {
		return nil
	}
	var all []string
	for _, earlier := range strings.Split(r.recorded, ",") {
		if name := expand(earlier, cluster); !slices.Contains(now, name) {
			all = append(all, name)
		}
	}
	return all
}

// mayUse is for both directions.
func mayUse(namespace string) bool { return namespace != hubv1.DefaultNamespace }

// SourceNamespaces are those of the originals; none if the rule selects them by labels.
func (r Rule) SourceNamespaces(cluster string) []string {
	if r.Namespaces.Template != "" {
		return []string{expand(r.Namespaces.Template, cluster)}
	}
	return r.Namespaces.Names
}

// ClusterOf returns whose namespace it is, for a rule with a template.
func (r Rule) ClusterOf(namespace string) (string, bool) {
	before, after, ok := strings.Cut(r.Namespaces.Template, clusterName)
	rest, isBefore := strings.CutPrefix(namespace, before)
	name, isAfter := strings.CutSuffix(rest, after)
	return name, ok && isBefore && isAfter && name != ""
}

// IsReserved reports a key that controllers of Kubernetes and clusterfx trust, so it is not copied from remotes. Package
// translate reserves more.
func IsReserved(key string) bool {
	prefix, _, ok := strings.Cut(key, "/")
	if !ok || prefix == "app.kubernetes.io" {
		return false
	}
	return isOf(key, hubv1.GroupName) || isOf(key, "kubernetes.io") || isOf(key, "k8s.io")
}

func isOf(key, domain string) bool {
	prefix, _, ok := strings.Cut(key, "/")
	return ok && (prefix == domain || strings.HasSuffix(prefix, "."+domain))
}
