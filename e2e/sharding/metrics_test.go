// SPDX-License-Identifier: Apache-2.0

package sharding_test

import (
	"context"
	"fmt"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

func (r *replica) series(name string) ([]*dto.Metric, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return seriesFrom(r.t.Context(), client, "http://"+r.metrics+"/metrics", name)
}

func seriesFrom(ctx context.Context, client *http.Client, address, name string) ([]*dto.Metric, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	return families[name].GetMetric(), err
}

func label(m *dto.Metric, name string) string {
	for _, one := range m.GetLabel() {
		if one.GetName() == name {
			return one.GetValue()
		}
	}
	return ""
}

// expectExported waits until the replicas export each shard once, and the condition Ready of each Cluster once.
func (s *stage) expectExported(replicas ...string) {
	s.t.Helper()
	eventually(s.t, func() error {
		shards, clusters := map[string]int{}, map[string]int{}
		for _, name := range replicas {
			epochs, err := s.replicas[name].series("clusterfx_shard_epoch")
			if err != nil {
				return err
			}
			for _, m := range epochs {
				shards[label(m, "shard")]++ // also the one without Clusters
			}
			conditions, err := s.replicas[name].series("clusterfx_cluster_condition")
			if err != nil {
				return err
			}
			for _, m := range conditions {
				if label(m, "type") == "Ready" {
					clusters[label(m, "cluster")]++
				}
			}
		}
		return errorUnless(len(shards) == shardCount+1 && len(clusters) == len(s.names) && allOnce(shards) && allOnce(clusters),
			"the replicas export the shards %v and the Clusters %v", shards, clusters)
	})
}

func allOnce(counts map[string]int) bool {
	for _, n := range counts {
		if n != 1 {
			return false
		}
	}
	return true
}

func errorUnless(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}
