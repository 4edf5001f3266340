// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// Rehearsal returns the objects with which the command rehearse runs in the hub's cluster: a namespace, an account that may only
// dry-run there and reads no Secret of the hub, and a suspended CronJob, of which each rehearsal is a Job.
func Rehearsal(o Options) ([]*unstructured.Unstructured, error) {
	o.Namespace = cmp.Or(o.Namespace, hubv1.DefaultNamespace)
	everywhere, err := roles.Rehearsing(o.Rules.Everywhere, nil)
	if err != nil {
		return nil, err
	}
	const name, space = roles.RehearsalAccount, roles.RehearsalNamespace
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: space}
	meta := metav1.ObjectMeta{Name: name, Labels: map[string]string{"app.kubernetes.io/name": "clusterfx"}}
	inSpace := *meta.DeepCopy()
	inSpace.Namespace = space
	all := []runtime.Object{
		&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: meta},
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: inSpace},
	}
	for _, one := range roles.DryRunOnly(meta, space, name) {
		all = append(all, one)
	}
	kind := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	all = append(all,
		&rbacv1.ClusterRole{TypeMeta: kind("ClusterRole"), ObjectMeta: meta, Rules: everywhere},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: kind("ClusterRoleBinding"), ObjectMeta: meta, Subjects: []rbacv1.Subject{account},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		})
	reads := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}
	renews := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "patch"}}
	hub := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: roles.HubRole, Namespace: o.Namespace}
	all = append(all, roleAndBinding(rbac.NamespacedRules{Namespace: space, Rules: []rbacv1.PolicyRule{reads, roles.OwnAccount(name)}}, name, account)...)
	all = append(all, roleAndBinding(rbac.NamespacedRules{Namespace: space, Rules: []rbacv1.PolicyRule{renews}}, roles.HubRole, hub)...)
	for _, needed := range o.Rules.Modules {
		if needed.Rules, err = roles.Rehearsing(needed.Rules, nil); err != nil {
			return nil, err
		}
		all = append(all, roleAndBinding(needed, name, account)...)
	}
	if o.Config != "" {
		configMap := o.configMap()
		configMap.Namespace = space
		all = append(all, configMap)
	}
	return loose(append(all, o.rehearsalJob(inSpace))...)
}

// rehearsalJob never runs by itself: kubectl create job --from=cronjob/clusterfx-rehearsal.
func (o Options) rehearsalJob(meta metav1.ObjectMeta) runtime.Object {
	yes, no, once, user := true, false, int32(0), int64(65532)
	container := corev1.Container{
		Name: "rehearse", Image: cmp.Or(o.Image, "ghcr.io/clusterfx/hub:latest"),
		Args: []string{"rehearse", "--credentials-namespace=" + o.Namespace},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
		},
	}
	pod := corev1.PodSpec{
		ServiceAccountName: meta.Name, RestartPolicy: corev1.RestartPolicyNever, EnableServiceLinks: &no,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels}, Spec: pod}
	if o.Config != "" {
		container.Args = append(container.Args, configArgument)
		o.mountConfig(&template, &container)
	}
	template.Spec.Containers = []corev1.Container{container}
	return &batchv1.CronJob{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "CronJob"}, ObjectMeta: meta,
		Spec: batchv1.CronJobSpec{
			Schedule: "0 0 1 1 *", Suspend: &yes, ConcurrencyPolicy: batchv1.ForbidConcurrent,
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{BackoffLimit: &once, Template: template}},
		},
	}
}
