// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/roles"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// Rehearsal returns the objects with which the command rehearse runs in the hub's cluster: a namespace, an account that may only
// dry-run there and reads no Secret of the hub, and a suspended CronJob, of which each rehearsal is a Job. unlimited are aggregated groups.
func Rehearsal(o Options, unlimited []string) ([]*unstructured.Unstructured, error) {
	everywhere, err := roles.Rehearsing(o.Rules.Everywhere, unlimited)
	if err != nil {
		return nil, err
	}
	meta := labelled(hubv1.RehearsalNamespace, roles.RehearsalAccount)
	account, hub := roles.Account(meta.Namespace, meta.Name), roles.Account(o.Namespace, roles.HubRole)
	secrets := func(verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: verbs}
	}
	all := slices.Concat(
		[]client.Object{&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: labelled("", meta.Namespace)}},
		roles.DryRunOnly(meta, everywhere, secrets("get")),
		roles.Bound(labelled(meta.Namespace, hub.Name), []rbacv1.PolicyRule{secrets("get", "patch")}, hub),
	)
	own := rbac.NamespacedRules{Namespace: o.Namespace, Rules: rbac.WithoutSecrets(o.Rules.Own)}
	for _, needed := range append([]rbac.NamespacedRules{own}, o.Rules.Modules...) {
		limited, err := roles.Rehearsing(needed.Rules, unlimited)
		if err != nil {
			return nil, err
		}
		all = append(all, roles.Bound(labelled(needed.Namespace, meta.Name), limited, account)...)
	}
	if o.Config != "" {
		configMap := o.configMap()
		configMap.Namespace = meta.Namespace
		all = append(all, configMap)
	}
	job, err := o.rehearsalJob(meta)
	if err != nil {
		return nil, err
	}
	return loose(append(all, job)...)
}

// rehearsalJob never runs by itself: kubectl create job --from=cronjob/clusterfx-rehearsal. Its Pods are like the hub's.
func (o Options) rehearsalJob(meta metav1.ObjectMeta) (client.Object, error) {
	objects, err := Objects(Options{Namespace: o.Namespace, Image: o.Image})
	if err != nil {
		return nil, err
	}
	var hub appsv1.Deployment
	if err := edit(deploymentIn(objects), func(d *appsv1.Deployment) { hub = *d }); err != nil {
		return nil, fmt.Errorf("read the Deployment: %w", err)
	}
	from, suspended, once := hubOf(&hub), true, int32(0)
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels}, Spec: corev1.PodSpec{
		ServiceAccountName: meta.Name, RestartPolicy: corev1.RestartPolicyNever, SecurityContext: hub.Spec.Template.Spec.SecurityContext,
		Containers: []corev1.Container{{
			Name: "rehearse", Image: from.Image, Args: []string{"rehearse", "--credentials-namespace=" + o.Namespace},
			SecurityContext: from.SecurityContext, Resources: from.Resources,
		}},
	}}
	if o.Config != "" {
		pod.Spec.Containers[0].Args = append(pod.Spec.Containers[0].Args, configArgument)
		o.mountConfig(&pod, &pod.Spec.Containers[0])
	}
	return &batchv1.CronJob{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "CronJob"}, ObjectMeta: meta,
		Spec: batchv1.CronJobSpec{
			Schedule: "0 0 1 1 *", Suspend: &suspended, ConcurrencyPolicy: batchv1.ForbidConcurrent,
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{BackoffLimit: &once, Template: pod}},
		},
	}, nil
}
