// SPDX-License-Identifier: Apache-2.0

package holds

import (
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AllCauses is the Cause of a hold of deletes that any thing asks for.
const AllCauses = "all causes"

// For returns a cause as a phrase after a space; "" for none.
func For(cause string) string {
	if cause == "" {
		return ""
	}
	return " for " + cause
}

// Entry is one hold. Its key in the ConfigMap is the id of the hold.
type Entry struct {
	Module   string `json:"module"`
	Group    string `json:"group,omitempty"`
	Resource string `json:"resource"`
	// Cluster is the remote; empty for the hub. Fleet says that the hold is in force in all clusters.
	Cluster string `json:"cluster,omitempty"`
	Fleet   bool   `json:"fleet,omitempty"`
	// Cause is the thing that asks for the deletes; empty for none, and AllCauses for any.
	Cause string `json:"cause,omitempty"`
	// Replica is the replica whose limit was exceeded, for a hold of the hub or of all clusters in a hub whose replicas share
	// the Clusters.
	Replica string      `json:"replica,omitempty"`
	Since   metav1.Time `json:"since"`
	// Deleted is how many objects were deleted before the hold, More how many refused deletes are known.
	Deleted int `json:"deleted"`
	More    int `json:"more"`
	// Names are some of the refused objects, and Note is what an operator has to know in addition.
	Names []string `json:"names,omitempty"`
	Note  string   `json:"note,omitempty"`
	// Granted is how many deletes operators have allowed in all, Spent how many of them were sent when the entry was
	// written, and Used how many count as sent after a restart.
	Granted int `json:"granted,omitempty"`
	Spent   int `json:"spent,omitempty"`
	Used    int `json:"used,omitempty"`
}

// errEntry does not quote the entry, which has texts of remotes.
var errEntry = errors.New("it is no hold")

// Parse returns the Entry with this text.
func Parse(text string) (Entry, error) {
	var e Entry
	if err := json.Unmarshal([]byte(text), &e); err != nil || e.Module == "" || e.Resource == "" {
		return Entry{}, errEntry
	}
	return e, nil
}

// Text returns the text of the Entry.
func (e *Entry) Text() (string, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return "", fmt.Errorf("encode a hold: %w", err)
	}
	return string(text), nil
}
