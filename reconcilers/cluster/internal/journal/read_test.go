// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"fmt"
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/registry"
)

// A journal adds the ends of another one, and the starts as ends if the other process has ended. It takes over nothing
// of the Clusters of others, and a journal that does not exist is empty.
func TestJournal_ReadsAnother(t *testing.T) {
	t.Parallel()
	start, _ := journaling(t)
	begin := func(p *process, name string) {
		t.Helper()
		_, err := p.Suspicion(t.Context(), name, types.UID("uid of "+name))
		must(t, err)
		must(t, p.Begin(t.Context(), registry.ClusterName(name), false))
	}
	p := start()
	begin(p, "crashed")
	p.crash()
	p = start()
	begin(p, "starting") // It writes the crash of the first process, too.
	p.crash()
	key := p.base.key
	all := func(types.UID) bool { return true }
	i := 0
	for what, tc := range map[string]struct {
		other    string
		hasEnded bool
		isOurs   func(types.UID) bool
		want     map[string]int
	}{
		"it has ended":   {other: key.Name, hasEnded: true, isOurs: all, want: map[string]int{"crashed": 1, "starting": 1}},
		"it runs":        {other: key.Name, isOurs: all, want: map[string]int{"crashed": 1}},
		"of one Cluster": {other: key.Name, hasEnded: true, isOurs: func(uid types.UID) bool { return uid == "uid of starting" }, want: map[string]int{"starting": 1}},
		"does not exist": {other: "none", hasEnded: true, isOurs: all, want: map[string]int{}},
	} {
		i++
		start, record := journalingAs(t, client.ObjectKey{Namespace: key.Namespace, Name: fmt.Sprintf("reader-%d", i)})
		reader := start()
		adopt, err := reader.Read(t.Context(), tc.other, tc.hasEnded)
		must(t, err)
		adopt(tc.isOurs)
		adopt(tc.isOurs) // As for another shard.
		reader.end()
		got := map[string]int{}
		for name, e := range record() {
			got[name] = e.suspicion().Ends
		}
		if !maps.Equal(got, tc.want) {
			t.Errorf("%s: got the ends %v, want %v", what, got, tc.want)
		}
	}
}
