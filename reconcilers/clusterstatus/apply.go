// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	hubac "github.com/clusterfx/clusterfx/api/v1alpha1/applyconfiguration/api/v1alpha1"
)

// ApplyConfiguration leaves out fields that are not set, so that the API server removes them.
func ApplyConfiguration(status hubv1.ClusterStatus) *hubac.ClusterStatusApplyConfiguration {
	a := hubac.ClusterStatus().WithObservedGeneration(status.ObservedGeneration)
	for _, c := range status.Conditions {
		a.WithConditions(appliedCondition(c))
	}
	for _, m := range status.Modules {
		a.WithModules(appliedModule(m))
	}
	a.ID = optional(status.ID)
	a.Server = optional(status.Server)
	a.Version = optional(status.Version)
	a.ModuleSummary = optional(status.ModuleSummary)
	if status.Credentials.Type != "" {
		a.WithCredentials(appliedCredentials(status.Credentials))
	}
	if status.Runner.Name != "" {
		a.WithRunner(appliedRunner(status.Runner))
	}
	return a
}

func appliedRunner(r hubv1.RunnerStatus) *hubac.RunnerStatusApplyConfiguration {
	return hubac.RunnerStatus().WithName(r.Name).WithType(r.Type).WithVersion(r.Version).WithEpoch(r.Epoch).WithSince(r.Since)
}

func appliedCondition(c metav1.Condition) *metav1ac.ConditionApplyConfiguration {
	return metav1ac.Condition().
		WithType(c.Type).
		WithStatus(c.Status).
		WithReason(c.Reason).
		WithMessage(c.Message).
		WithObservedGeneration(c.ObservedGeneration).
		WithLastTransitionTime(c.LastTransitionTime)
}

func appliedModule(m hubv1.ModuleStatus) *hubac.ModuleStatusApplyConfiguration {
	a := hubac.ModuleStatus().WithName(m.Name).WithState(m.State)
	a.Reason, a.Message = optional(m.Reason), optional(m.Message)
	for _, c := range m.Controllers {
		one := hubac.ControllerStatus().WithName(c.Name).WithState(c.State)
		one.Reason, one.Message = optional(c.Reason), optional(c.Message)
		a.WithControllers(one)
	}
	return a
}

func appliedCredentials(c hubv1.CredentialsStatus) *hubac.CredentialsStatusApplyConfiguration {
	a := hubac.CredentialsStatus().WithType(c.Type).WithFingerprint(c.Fingerprint)
	if !c.ExpirationTime.IsZero() {
		a.WithExpirationTime(c.ExpirationTime)
	}
	return a
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
