// SPDX-License-Identifier: Apache-2.0

package holds

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AllCauses is the Cause of a hold of deletes that anything asks for.
const AllCauses = "all causes"

// For returns a cause as a phrase after a space; "" for none.
func For(cause string) string {
	if cause == "" {
		return ""
	}
	return " for " + cause
}

// Kept is the value of a key in the ConfigMap: all holds of a Cluster under its UID, or under KeyOf.
type Kept struct {
	// Term numbers the replicas that have had the Cluster; zero for a hub alone, and under KeyOf.
	Term  int64            `json:"term,omitempty"`
	Holds map[string]Saved `json:"holds"` // Holds has them by id.
}

// hubPrefix cannot begin a UID, nor a name.
const hubPrefix = "hub_"

// KeyOf returns the key for a replica's holds of the hub and of all Clusters together. The name is empty for a hub alone.
func KeyOf(replica string) string { return hubPrefix + replica }

// ReplicaOf reads a key made by KeyOf.
func ReplicaOf(key string) (replica string, ok bool) { return strings.CutPrefix(key, hubPrefix) }

// Saved is one hold.
type Saved struct {
	Module   string `json:"module"`
	Group    string `json:"group,omitempty"`
	Resource string `json:"resource"`
	// Cluster is the remote; empty for the hub. Fleet: all clusters.
	Cluster string `json:"cluster,omitempty"`
	Fleet   bool   `json:"fleet,omitempty"`
	// Cause asks for the deletes; empty for none, AllCauses for any.
	Cause string      `json:"cause,omitempty"`
	Since metav1.Time `json:"since"`
	// Deleted objects were deleted before the hold; More refused ones are known.
	Deleted int `json:"deleted"`
	More    int `json:"more"`
	// Names are some refused objects; Note is for the operator.
	Names []string `json:"names,omitempty"`
	Note  string   `json:"note,omitempty"`
	// Granted is what operators have allowed in all, Spent what was sent when the entry was written, Used what counts
	// as sent after a restart.
	Granted int `json:"granted,omitempty"`
	Spent   int `json:"spent,omitempty"`
	Used    int `json:"used,omitempty"`
}

// errEntry does not quote the entry, which has texts of remotes.
var errEntry = errors.New("it has no holds of deletes")

// Parse reads the Text of a Kept.
func Parse(text string) (Kept, error) {
	var e Kept
	if json.Unmarshal([]byte(text), &e) != nil || len(e.Holds) == 0 {
		return Kept{}, errEntry
	}
	for _, one := range e.Holds {
		if one.Module == "" || one.Resource == "" {
			return Kept{}, errEntry
		}
	}
	return e, nil
}

// Text returns the value in the ConfigMap.
func (e Kept) Text() (string, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return "", fmt.Errorf("encode holds of deletes: %w", err)
	}
	return string(text), nil
}

// Read returns the entries of the ConfigMap by key, also beside an error for those that it cannot read.
func Read(from *corev1.ConfigMap) (map[string]Kept, error) {
	all := map[string]Kept{}
	var problems []error
	for _, key := range slices.Sorted(maps.Keys(from.Data)) {
		entry, err := Parse(from.Data[key])
		if err != nil {
			problems = append(problems, fmt.Errorf("read the key %q of the ConfigMap %s/%s: %w; remove the key", key, from.Namespace, from.Name, err))
			continue
		}
		all[key] = entry
	}
	return all, errors.Join(problems...)
}

// ByID returns the holds of all entries.
func ByID(entries map[string]Kept) map[string]Saved {
	all := map[string]Saved{}
	for _, entry := range entries {
		maps.Copy(all, entry.Holds)
	}
	return all
}
