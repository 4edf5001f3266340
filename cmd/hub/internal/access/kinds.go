// SPDX-License-Identifier: Apache-2.0

package access

import (
	"errors"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// kinds adds the kinds that commands use to a scheme, and returns where they are found.
func kinds(scheme *runtime.Scheme) (meta.RESTMapper, error) {
	err := errors.Join(
		authenticationv1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme),
		corev1.AddToScheme(scheme), rbacv1.AddToScheme(scheme), hubv1.AddToScheme(scheme),
	)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind, scope := range map[schema.GroupVersionKind]meta.RESTScope{
		hubv1.GroupVersion.WithKind("Cluster"):                                 meta.RESTScopeRoot,
		corev1.SchemeGroupVersion.WithKind("Namespace"):                        meta.RESTScopeRoot,
		corev1.SchemeGroupVersion.WithKind("Secret"):                           meta.RESTScopeNamespace,
		corev1.SchemeGroupVersion.WithKind("ConfigMap"):                        meta.RESTScopeNamespace,
		corev1.SchemeGroupVersion.WithKind("ServiceAccount"):                   meta.RESTScopeNamespace,
		corev1.SchemeGroupVersion.WithKind("Event"):                            meta.RESTScopeNamespace,
		coordinationv1.SchemeGroupVersion.WithKind("Lease"):                    meta.RESTScopeNamespace,
		rbacv1.SchemeGroupVersion.WithKind("Role"):                             meta.RESTScopeNamespace,
		rbacv1.SchemeGroupVersion.WithKind("RoleBinding"):                      meta.RESTScopeNamespace,
		rbacv1.SchemeGroupVersion.WithKind("ClusterRole"):                      meta.RESTScopeRoot,
		rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"):               meta.RESTScopeRoot,
		authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"):      meta.RESTScopeRoot,
		authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"): meta.RESTScopeRoot,
		authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectRulesReview"):  meta.RESTScopeRoot,
	} {
		mapper.Add(kind, scope)
	}
	return mapper, err
}
