// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/state"
)

// Usable reports whether an app may run on this connection.
func (m *Machine) Usable(c *Connection) bool {
	return c.Endpoint != "" && c.Contact == ContactOK && m.blocked(c) == nil
}

// blocked is nil if the identity of the remote forbids no app.
func (m *Machine) blocked(c *Connection) *state.Condition {
	refuse := func(reason string, problem state.Problem, message string) *state.Condition {
		return &state.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message, Problem: problem}
	}
	switch {
	case c.id == "":
		return nil
	case c.isHub:
		return refuse(state.ReasonIsHub, state.Problem{Kind: state.ProblemIsHub}, "the credentials lead to the hub's own cluster")
	case !m.Expects(c.id):
		return refuse(state.ReasonIdentityChanged, state.Problem{Kind: state.ProblemIdentityChanged, ClusterID: c.id},
			fmt.Sprintf("the credentials lead to cluster %s, but this name belongs to %s", c.id, m.KnownID()))
	}
	if holder := m.holder(c); holder != "" {
		return refuse(state.ReasonDuplicate, state.Problem{}, fmt.Sprintf(
			"cluster %s is already registered as %q; delete one of the two registrations", c.id, holder))
	}
	return nil
}

// holder is the older remote, of this hub or another, that is this cluster, or "".
func (m *Machine) holder(c *Connection) state.ClusterName {
	if c.holder == "" && c.id == m.want.Identity.Known {
		return m.want.Identity.Rival
	}
	return c.holder
}

// Expects reports whether the remote may have this id. It does not claim one that is not expected.
func (m *Machine) Expects(id string) bool {
	known := m.KnownID()
	return known == "" || known == id || m.want.Identity.Accepted == id
}

// KnownID returns the id that the remote had at its first contact, or "".
func (m *Machine) KnownID() string {
	if m.want.Identity.Known != "" {
		return m.want.Identity.Known
	}
	return m.knownID
}
