// SPDX-License-Identifier: Apache-2.0

package holds

import (
	"encoding/json"
	"errors"
	"fmt"

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

// Saved is one hold, under its id in the ConfigMap.
type Saved struct {
	Module   string `json:"module"`
	Group    string `json:"group,omitempty"`
	Resource string `json:"resource"`
	// Cluster is the remote; empty for the hub. Fleet: all clusters.
	Cluster string `json:"cluster,omitempty"`
	Fleet   bool   `json:"fleet,omitempty"`
	// Cause asks for the deletes; empty for none, AllCauses for any.
	Cause string `json:"cause,omitempty"`
	// Replica exceeded the limit, for a hold of the hub or of all clusters if replicas share the Clusters.
	Replica string      `json:"replica,omitempty"`
	Since   metav1.Time `json:"since"`
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
var errEntry = errors.New("it is no hold")

// Parse reads the Text of an Entry.
func Parse(text string) (Saved, error) {
	var e Saved
	if err := json.Unmarshal([]byte(text), &e); err != nil || e.Module == "" || e.Resource == "" {
		return Saved{}, errEntry
	}
	return e, nil
}

// Text returns the value in the ConfigMap.
func (e *Saved) Text() (string, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return "", fmt.Errorf("encode a hold: %w", err)
	}
	return string(text), nil
}
