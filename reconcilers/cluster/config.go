// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"maps"
	"time"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/registry"
)

// revision is an annotation of the registry's view of a remote, not of the Cluster. It tells
// which generation and which Secret a snapshot is about.
const revision = hubv1.GroupName + "/revision"

// configOf returns what the registry is to make true.
func configOf(cluster *hubv1.Cluster, found credentials) registry.Config {
	spec := &cluster.Spec
	annotations := maps.Clone(cluster.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[revision] = fmt.Sprintf("%d/%s", cluster.Generation, found.version)
	return registry.Config{
		Endpoint:    found.connection.Endpoint,
		Credential:  found.connection.Credential,
		Labels:      cluster.Labels,
		Annotations: annotations,
		Identity: registry.Identity{
			Known:    cluster.Annotations[hubv1.AnnotationID],
			Accepted: cluster.Annotations[hubv1.AnnotationAcceptID],
		},
		Paused: paused(cluster),
		Probe: registry.Probe{
			Period:           seconds(spec.Probe.PeriodSeconds),
			Timeout:          seconds(spec.Probe.TimeoutSeconds),
			FailureThreshold: int(spec.Probe.FailureThreshold),
			SuccessThreshold: int(spec.Probe.SuccessThreshold),
		},
		Client: registry.Client{
			QPS:     float64(spec.Client.QPS),
			Burst:   int(spec.Client.Burst),
			Timeout: seconds(spec.Client.TimeoutSeconds),
		},
		Modules:    spec.Modules,
		Namespaces: spec.Namespaces,
	}
}

// shows reports whether a snapshot is about a configuration, or about an earlier one.
func shows(info registry.Info, config registry.Config) bool {
	return info.Annotations[revision] == config.Annotations[revision]
}

func paused(cluster *hubv1.Cluster) bool { return cluster.Spec.State == hubv1.ClusterPaused }

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }
