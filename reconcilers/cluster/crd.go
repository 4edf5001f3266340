// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// lenient has an API server drop the fields of a status that its CRD lacks, without a warning for each write.
const lenient = client.FieldValidation(metav1.FieldValidationIgnore)

// tellMissing logs once which fields of a status the CRD in the hub's cluster lacks.
func (r *reconciler) tellMissing(ctx context.Context) {
	if !r.hasToldMissing.CompareAndSwap(false, true) {
		return
	}
	fields, err := MissingFields(ctx, r.Client)
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to find out which fields of the status the CRD lacks")
	} else if len(fields) > 0 {
		log.FromContext(ctx).Info("The CRD is older than the hub; the status leaves out the fields that it lacks. "+
			"Apply the CRD of this version", "fields", fields)
	}
}

// unknownField and inList (the index of an element) match an API server's error, which quotes the object after the fields.
var (
	unknownField = regexp.MustCompile(`unknown field "(status\.[A-Za-z0-9_.\[\]]+)"`)
	inList       = regexp.MustCompile(`\[[0-9]*\]`)
)

// MissingFields returns fields of a status, sorted, that the CRD lacks, by a dry run that needs permission to create Clusters.
func MissingFields(ctx context.Context, c client.Client) ([]string, error) {
	full := &hubv1.Cluster{ObjectMeta: metav1.ObjectMeta{GenerateName: "dry-run-"}, Status: fullStatus()}
	full.Spec.KubeconfigSecretRef.Name = "none"
	err := c.Create(ctx, full, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
	if err == nil {
		return nil, nil
	}
	var fields []string
	for _, found := range unknownField.FindAllStringSubmatch(err.Error(), -1) {
		fields = append(fields, inList.ReplaceAllString(found[1], ""))
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("ask which fields the CRD of Clusters lacks: %w", err)
	}
	slices.Sort(fields)
	return slices.Compact(fields), nil
}

func fullStatus() hubv1.ClusterStatus {
	const text = "x"
	one := resource.MustParse("1")
	now := metav1.NewTime(time.Unix(1, 0))
	return hubv1.ClusterStatus{
		Conditions: []metav1.Condition{{
			Type: hubv1.ConditionReady, Status: metav1.ConditionTrue, Reason: hubv1.ReasonReady, Message: text,
			ObservedGeneration: 1, LastTransitionTime: now,
		}},
		ObservedGeneration: 1, ID: text, Server: text, Version: text, ModuleSummary: text,
		Runner:      hubv1.RunnerStatus{Name: text, Type: hubv1.RunnerHub, Version: text, Epoch: 1, Since: now},
		Tunnel:      hubv1.TunnelStatus{Replica: text, AgentVersion: text, KeyFingerprint: text, ConnectedTime: now, LastSeenTime: now},
		Credentials: hubv1.CredentialsStatus{Type: "Token", Fingerprint: text, ExpirationTime: now},
		Modules: []hubv1.ModuleStatus{{
			Name: text, State: hubv1.ModuleRunning, Reason: text, Message: text,
			Controllers: []hubv1.ControllerStatus{{Name: text, State: hubv1.ModuleRunning, Reason: text, Message: text}},
		}},
		Remains: []hubv1.SyncRemains{{
			Rule: text, UID: text, From: hubv1.SyncFromHub, Kind: hubv1.SyncKind{APIVersion: text, Kind: text, Resource: text},
			HubID: text, Policy: hubv1.SyncKeep,
		}},
		Inventory: hubv1.InventoryStatus{
			Nodes: new(int32(1)), ReadyNodes: new(int32(1)), Allocatable: hubv1.AllocatableStatus{CPU: &one, Memory: &one},
		},
	}
}
