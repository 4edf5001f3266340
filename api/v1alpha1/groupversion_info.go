// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of every kind in this package, and the prefix of every label,
// annotation and finalizer.
const GroupName = "clusterfx.dev"

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// SchemeGroupVersion is GroupVersion, by the name that generated code expects.
var SchemeGroupVersion = GroupVersion

// AddToScheme registers the kinds of this package, and the options and lists of metav1 that clients
// need with them. It may be called more than once with the same scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	builder := runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
		s.AddKnownTypes(GroupVersion, &Cluster{}, &ClusterList{}, &SyncRule{}, &SyncRuleList{})
		metav1.AddToGroupVersion(s, GroupVersion)

		return nil
	})

	return builder.AddToScheme(scheme)
}
