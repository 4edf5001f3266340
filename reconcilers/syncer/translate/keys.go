// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// isOfOneCluster reports whether a label or annotation is a fact of one cluster, or the mark of a tool that would
// take the copy for its own and delete it. app.kubernetes.io/instance is copied, since Services select by it: tell
// Argo CD to track by annotation.
func isOfOneCluster(key string) bool {
	domain, _, hasDomain := strings.Cut(key, "/")
	return slices.Contains(singleKeys(), key) || strings.HasPrefix(key, "olm.owner") ||
		strings.HasPrefix(key, "kubernetes.io/service-account.") || hasDomain && slices.Contains(singleDomains(), domain) ||
		hasDomain && (domain == ownDomain || strings.HasSuffix(domain, "."+ownDomain))
}

const ownDomain = "clusterfx.dev"

func singleKeys() []string {
	return []string{
		"endpointslice.kubernetes.io/managed-by",
		"argocd.argoproj.io/tracking-id", "argocd.argoproj.io/instance",
		// A copy of it would repeat the whole object, and make kubectl remove fields of the copy.
		"kubectl.kubernetes.io/last-applied-configuration",
	}
}

func singleDomains() []string {
	return []string{
		"pv.kubernetes.io", "volume.kubernetes.io", "volume.beta.kubernetes.io", "deployment.kubernetes.io", "batch.kubernetes.io",
		"control-plane.alpha.kubernetes.io", "autoscaling.alpha.kubernetes.io",
		"kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io", "meta.helm.sh", "objectset.rio.cattle.io", "kapp.k14s.io",
		"applyset.kubernetes.io", "configmanagement.gke.io", "configsync.gke.io",
	}
}

// IsCopy reports whether an object has the marks of a copy, of any pair, and names itself in them. No pair copies it
// again: two pairs in opposite directions would copy without end.
func IsCopy(obj metav1.Object) bool {
	notes := obj.GetAnnotations()
	for key, name := range notes {
		prefix, isHost := strings.CutSuffix(key, hostName)
		if isHost && prefix != vclusterPrefix && name == obj.GetName() && notes[prefix+hostNamespace] == obj.GetNamespace() &&
			notes[prefix+objectName] != "" && obj.GetLabels()[prefix+managedBy] != "" {
			return true
		}
	}
	return false
}

// vclusterPrefix is vcluster's prefix of marks with the same names: its host objects are originals like others.
const vclusterPrefix = "vcluster.loft.sh"

// Names of marks, behind the prefix.
const (
	managedBy     = "/managed-by"
	objectName    = "/object-name"
	hostName      = "/object-host-name"
	hostNamespace = "/object-host-namespace"
)
