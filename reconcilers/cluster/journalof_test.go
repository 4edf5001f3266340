// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/validation"

	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/reconcilers/cluster/internal/journal"
)

// No replica has a ConfigMap of the journal of leader mode, or of another replica, whatever their names: a journal reads and
// deletes the ConfigMap of its own name, and writes the others.
func TestJournalOf(t *testing.T) {
	t.Parallel()
	owners := map[string]string{cluster.JournalName: "leader mode"}
	for _, name := range cluster.JournalNames() {
		owners[name] = "leader mode"
	}
	for _, replica := range []string{"0", "1", "1-0", "hub", "hub-0", "hub-0-1", "in", "in-1", "replica", "a-replica", strings.Repeat("a", 63)} {
		of := cluster.JournalOf(replica)
		for _, name := range append(journal.Names(of), of) {
			if other, taken := owners[name]; taken {
				t.Errorf("%s is of %s and of the replica %s", name, other, replica)
			}
			owners[name] = replica
			if wrong := validation.NameIsDNSSubdomain(name, false); len(wrong) > 0 || !strings.HasPrefix(name, cluster.JournalName) {
				t.Errorf("%s is no name of a ConfigMap of a journal: %q", name, wrong)
			}
		}
	}
}
