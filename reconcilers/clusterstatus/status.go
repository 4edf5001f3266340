// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Credentials describe those in a Cluster's Secret.
type Credentials struct {
	Valid    state.Condition         // the condition CredentialsValid
	Reported hubv1.CredentialsStatus // status.credentials, only if the Secret was parsed
}

// Usable reports whether the credentials can be used.
func (c Credentials) Usable() bool { return c.Valid.Status == metav1.ConditionTrue }

// Of returns the hub's part of the status.
func Of(cluster *hubv1.Cluster, found Credentials, info registry.Status) hubv1.ClusterStatus {
	before := &cluster.Status
	status := hubv1.ClusterStatus{
		Conditions:         conditionsOf(cluster, stepsOf(cluster, found, info)),
		ObservedGeneration: cluster.Generation,
		ID:                 cmp.Or(cluster.Annotations[hubv1.AnnotationID], info.ID),
		Server:             cut(info.Server, hubv1.MaxServerLength),
		Version:            cmp.Or(info.Version, before.Version), // the version at the last contact
		Credentials:        found.Reported,
		Modules:            modulesOf(info.Modules),
	}
	if inUse := info.Name != "" && !IsPaused(cluster); inUse && !found.Usable() {
		status.Credentials = before.Credentials // The app keeps its last good credentials.
	}
	if len(info.Modules) > 0 {
		status.ModuleSummary = fmt.Sprintf("%d/%d", countRunning(info.Modules), len(info.Modules))
	}
	return status
}

// LastReported is for a report that does not read the Secret.
func LastReported(cluster *hubv1.Cluster) Credentials {
	found := Credentials{Valid: unknown(hubv1.ReasonPending, messageWaiting), Reported: cluster.Status.Credentials}
	if c := meta.FindStatusCondition(cluster.Status.Conditions, hubv1.ConditionCredentialsValid); c != nil {
		found.Valid = state.Condition{Status: c.Status, Reason: c.Reason, Message: c.Message}
	}
	return found
}

func modulesOf(infos []state.ModuleStatus) []hubv1.ModuleStatus {
	var modules []hubv1.ModuleStatus
	for _, m := range infos[:min(len(infos), hubv1.MaxModules)] {
		modules = append(modules, hubv1.ModuleStatus{
			Name:    m.Name,
			State:   hubv1.ModuleState(m.State),
			Reason:  cut(m.Reason, hubv1.MaxModuleReasonLength),
			Message: cut(WithAdvice(m.Message, m.Problem), hubv1.MaxModuleMessageLength),

			Controllers: controllersOf(m.Controllers),
		})
	}
	return modules
}

// controllersOf omits, if there are too many, first those that run.
func controllersOf(infos []state.ControllerStatus) []hubv1.ControllerStatus {
	if len(infos) > hubv1.MaxControllers {
		infos = slices.Clone(infos)
		slices.SortStableFunc(infos, func(a, b state.ControllerStatus) int { return runs(a) - runs(b) })
		infos = infos[:hubv1.MaxControllers]
	}
	var controllers []hubv1.ControllerStatus
	for _, c := range infos {
		controllers = append(controllers, hubv1.ControllerStatus{
			Name:    cut(c.Name, hubv1.MaxControllerNameLength),
			State:   hubv1.ModuleState(c.State),
			Reason:  cut(c.Reason, hubv1.MaxModuleReasonLength),
			Message: cut(WithAdvice(c.Message, c.Problem), hubv1.MaxControllerMessageLength),
		})
	}
	return controllers
}

func runs(c state.ControllerStatus) int {
	if c.State == state.ModuleRunning {
		return 1
	}
	return 0
}

// Ours returns the part that Of returns, in the same form.
func Ours(status hubv1.ClusterStatus) hubv1.ClusterStatus {
	all := status.Conditions
	status.Inventory, status.Remains, status.Conditions = hubv1.InventoryStatus{}, nil, nil
	for _, kind := range ourTypes() {
		if c := meta.FindStatusCondition(all, kind); c != nil {
			status.Conditions = append(status.Conditions, *c)
		}
	}
	return status
}

// Merged returns a status with the part for which Of is responsible replaced: status.inventory,
// status.remains and the conditions of other writers stay.
func Merged(all, ours hubv1.ClusterStatus) hubv1.ClusterStatus {
	ours.Inventory, ours.Remains = all.Inventory, all.Remains
	others := slices.DeleteFunc(slices.Clone(all.Conditions), func(c metav1.Condition) bool { return slices.Contains(ourTypes(), c.Type) })
	ours.Conditions = slices.Concat(ours.Conditions, others)
	return ours
}

func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	runes := []rune(strings.ToValidUTF8(text, "?"))
	return string(runes[:min(len(runes), limit)])
}
