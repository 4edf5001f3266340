// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
	"github.com/clusterfx/clusterfx/registry/state"
)

func configOf(cluster *hubv1.Cluster, found credentials, suspicion state.CrashRecord) state.Desired {
	spec := &cluster.Spec
	config := state.Desired{
		Endpoint:   found.connection.Endpoint,
		Credential: found.connection.Credential,

		CredentialName:   found.Reported.Fingerprint,
		AcceptCredential: accepts(cluster, found.Reported.Fingerprint),

		Labels:      cluster.Labels,
		Annotations: cluster.Annotations,
		Identity: state.Identity{
			Known:    cluster.Annotations[hubv1.AnnotationID],
			Accepted: cluster.Annotations[hubv1.AnnotationAcceptID],
		},
		CrashRecord: suspicion,
		Since:       cluster.CreationTimestamp.Time,
		AllowHub:    cluster.Annotations[hubv1.AnnotationAllowHub] == hubv1.AnnotationAllowHubValue,
		Paused:      clusterstatus.IsPaused(cluster),
		Probe: state.Probe{
			Period:           seconds(spec.Probe.PeriodSeconds),
			Timeout:          seconds(spec.Probe.TimeoutSeconds),
			FailureThreshold: int(spec.Probe.FailureThreshold),
			SuccessThreshold: int(spec.Probe.SuccessThreshold),
		},
		Client: state.ClientLimits{
			QPS:     float64(spec.Client.QPS),
			Burst:   int(spec.Client.Burst),
			Timeout: seconds(spec.Client.TimeoutSeconds),
		},
		Modules:    spec.Modules,
		Namespaces: spec.Namespaces,
		// It neither blocks the Cluster's deletion nor makes it a controller.
		Owner: metav1.OwnerReference{APIVersion: hubv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID},
	}
	config.Revision = fmt.Sprintf("%s/%d/%s/%s/%t/%t/%v", cluster.UID, cluster.Generation, found.version,
		config.Identity.Accepted, config.AcceptCredential, config.AllowHub, suspicion)
	return config
}

// isOf: the snapshot is not of an earlier Cluster of the same name. A new remote has no revision yet.
func isOf(info registry.Status, cluster *hubv1.Cluster) bool {
	return info.Revision == "" || strings.HasPrefix(info.Revision, string(cluster.UID)+"/")
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// Desired returns what a hub with these Settings would post for a Cluster with this Secret, without crashes and deletion.
func Desired(cluster *hubv1.Cluster, secret map[string][]byte, settings Settings) (state.Desired, error) {
	connection, err := kubeconfig.Parse(secret, OptionsOf(cluster), settings.Policy)
	if err != nil {
		return state.Desired{}, err
	}
	found := credentials{connection: connection}
	found.Reported = describe(connection.Credential, settings.HubID)
	return configOf(cluster, found, state.CrashRecord{}), nil
}
