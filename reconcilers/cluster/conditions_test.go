// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

const (
	yes     = metav1.ConditionTrue
	no      = metav1.ConditionFalse
	unclear = metav1.ConditionUnknown
)

const (
	// maxRestarts is the number of restarts at which an app makes its Cluster Stalled.
	maxRestarts = 5
	// messagePaused is the message of the conditions of a paused Cluster.
	messagePaused = "The Cluster is paused; set spec.state to Active to start it"
)

// outcome is a drawn state, and the conditions that follow from it, by type.
type outcome struct {
	cluster    *hubv1.Cluster
	info       registry.Status
	conditions map[string]metav1.Condition
}

func (o outcome) has(kind string) bool { return o.conditions[kind].Status != "" }

func (o outcome) is(kind string, status metav1.ConditionStatus) bool {
	return o.conditions[kind].Status == status
}

func (o outcome) reached() bool { return o.is(hubv1.ConditionReachable, yes) }

func (o outcome) unknownIdentityIsAllowed() bool {
	return o.conditions[hubv1.ConditionIdentityConfirmed].Reason == hubv1.ReasonForbidden && o.is(hubv1.ConditionIdentityConfirmed, unclear)
}

// keepsLastGood reports whether the last good credentials are in use, in place of the credentials in the Secret.
func (o outcome) keepsLastGood() bool {
	reason := o.conditions[hubv1.ConditionCredentialsValid].Reason
	return reason == hubv1.ReasonNotInUse ||
		reason == hubv1.ReasonExpired && o.info.CredentialName == "old" && o.info.State != state.StatePaused
}

// stays reports whether the modules run at the previous server, because the new server cannot be used.
func (o outcome) stays() bool { return o.info.State == state.StateReady }

// firstOpen returns the first condition on the way to Ready that is not True.
func (o outcome) firstOpen() metav1.Condition {
	for _, kind := range []string{
		hubv1.ConditionCredentialsValid, hubv1.ConditionReachable, hubv1.ConditionIdentityConfirmed, hubv1.ConditionModulesReady,
	} {
		fine := o.is(kind, yes) || kind == hubv1.ConditionIdentityConfirmed && o.unknownIdentityIsAllowed() ||
			kind == hubv1.ConditionCredentialsValid && o.keepsLastGood()
		if !fine {
			return o.conditions[kind]
		}
	}
	return metav1.Condition{}
}

// agreements are the rules for the conditions of every Cluster, in all states of the registry and the Secret.
var agreements = map[string]func(outcome) bool{
	"what is Ready has nothing open, and the other way round": func(o outcome) bool {
		stopped := clusterstatus.IsPaused(o.cluster) || !o.cluster.DeletionTimestamp.IsZero()
		return stopped && !o.is(hubv1.ConditionReady, yes) || !stopped && o.is(hubv1.ConditionReady, yes) == (o.firstOpen().Status == "")
	},
	"Ready says what the first open condition says": func(o outcome) bool {
		ready, open := o.conditions[hubv1.ConditionReady], o.firstOpen()
		return open.Status == "" || clusterstatus.IsPaused(o.cluster) || !o.cluster.DeletionTimestamp.IsZero() ||
			ready.Status == open.Status && ready.Reason == open.Reason && ready.Message == open.Message
	},
	"what cannot be reached is not confirmed": func(o outcome) bool {
		return o.reached() || !o.is(hubv1.ConditionIdentityConfirmed, yes)
	},
	"what cannot be reached allows and forbids nothing": func(o outcome) bool {
		return o.reached() || !o.has(hubv1.ConditionAuthorized) || o.is(hubv1.ConditionAuthorized, unclear)
	},
	"modules run where the remote is reached": func(o outcome) bool {
		return !o.is(hubv1.ConditionModulesReady, yes) || o.reached() || o.stays()
	},
	"no module runs in another cluster": func(o outcome) bool {
		return !o.is(hubv1.ConditionModulesReady, yes) || !o.is(hubv1.ConditionIdentityConfirmed, no) || o.stays()
	},
	"what is paused is neither reached nor runs": func(o outcome) bool {
		reachable, modules := o.conditions[hubv1.ConditionReachable], o.conditions[hubv1.ConditionModulesReady]
		return !clusterstatus.IsPaused(o.cluster) || reachable.Reason == hubv1.ReasonPaused && modules.Reason == hubv1.ReasonPaused &&
			reachable.Status == unclear && modules.Status == unclear && modules.Message == messagePaused
	},
	"tools wait, or give up, or are done": func(o outcome) bool {
		done := o.is(hubv1.ConditionReady, yes) || o.conditions[hubv1.ConditionReady].Reason == hubv1.ReasonPaused
		waits, gaveUp := o.has(hubv1.ConditionReconciling), o.has(hubv1.ConditionStalled)
		return done && !waits && !gaveUp || !done && waits != gaveUp
	},
	"what has given up is not Ready, for the same reason": func(o outcome) bool {
		return !o.has(hubv1.ConditionStalled) || o.is(hubv1.ConditionReady, no) &&
			o.conditions[hubv1.ConditionStalled].Reason == o.conditions[hubv1.ConditionReady].Reason
	},
	"every condition says why": func(o outcome) bool {
		for _, one := range o.conditions {
			if one.Status == "" || one.Reason == "" || one.Message == "" {
				return false
			}
		}
		return true
	},
}

// No two conditions contradict each other in any combination of states, including combinations that the registry never
// reports. Whether a module can run depends on reachability and identity together, so each draw is combined with all
// values of both.
func TestConditionsOf_AgreeWithEachOther(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cluster, found, info := drawInfo(t)
		for _, info.Reachable = range reachables() {
			for _, info.Identity = range identities() {
				o := outcomeOf(cluster, found, info)
				for what, holds := range agreements {
					if !holds(o) {
						t.Errorf("the rule %s does not hold: %+v", what, o.conditions)
					}
				}
			}
		}
	})
}

func reachables() []state.Condition {
	return []state.Condition{
		{},
		facet(yes, hubv1.ReasonProbeSucceeded), facet(unclear, hubv1.ReasonPending), facet(no, hubv1.ReasonUnreachable),
		facet(no, hubv1.ReasonTLSFailed), facet(no, hubv1.ReasonUnauthorized), facet(no, hubv1.ReasonForbidden),
		facet(no, hubv1.ReasonAddressNotAllowed),
	}
}

func identities() []state.Condition {
	return []state.Condition{
		{},
		facet(yes, hubv1.ReasonSameCluster), facet(yes, hubv1.ReasonFirstContact), facet(unclear, hubv1.ReasonForbidden),
		facet(unclear, hubv1.ReasonPending), facet(no, hubv1.ReasonIdentityChanged),
	}
}

func drawInfo(t *rapid.T) (*hubv1.Cluster, credentials, registry.Status) {
	draw := func(name string, facets ...state.Condition) state.Condition {
		return rapid.SampledFrom(facets).Draw(t, name)
	}
	none := state.Condition{}
	cluster := &hubv1.Cluster{}
	cluster.Spec.State = rapid.SampledFrom([]hubv1.ClusterState{hubv1.ClusterActive, hubv1.ClusterPaused}).Draw(t, "state")
	if rapid.Bool().Draw(t, "deleted") {
		cluster.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	found := credentials{Credentials: clusterstatus.Credentials{Valid: draw("credentials", facet(yes, hubv1.ReasonValid), facet(yes, hubv1.ReasonExpiringSoon),
		facet(no, hubv1.ReasonSecretNotFound), facet(no, hubv1.ReasonInvalidKubeconfig), facet(no, hubv1.ReasonExpired))}}
	found.Reported.Fingerprint = "new"
	info := registry.Status{
		Name: "a",
		State: rapid.SampledFrom([]state.State{
			state.StatePending, state.StateStarting, state.StateReady, state.StateUnreachable,
			state.StateFailed, state.StatePaused, state.StateStopping, state.StateWarm,
		}).Draw(t, "info.State"),
		App: draw("app", none, facet(yes, hubv1.ReasonRunning), facet(yes, hubv1.ReasonStale), facet(no, hubv1.ReasonStale),
			facet(unclear, hubv1.ReasonStarting), facet(no, hubv1.ReasonModuleFailed), facet(no, hubv1.ReasonQuarantined)),
		Authorized:     draw("authorized", none, facet(yes, hubv1.ReasonAllowed), facet(no, hubv1.ReasonRightsMissing)),
		NewServer:      draw("new server", none, facet(no, hubv1.ReasonTLSFailed), facet(no, hubv1.ReasonUnauthorized)),
		NewCredential:  draw("new credential", none, facet(no, hubv1.ReasonNotInUse), facet(unclear, hubv1.ReasonNotInUse)),
		CredentialName: rapid.SampledFrom([]string{"", "old", "new"}).Draw(t, "credential in use"),
		Restarts:       rapid.IntRange(0, maxRestarts).Draw(t, "restarts"),
	}
	return cluster, found, info
}

func outcomeOf(cluster *hubv1.Cluster, found credentials, info registry.Status) outcome {
	o := outcome{cluster: cluster, conditions: map[string]metav1.Condition{}}
	found, o.info = remote{info: info}.inUse(found, cluster, client.ObjectKey{Namespace: "ns", Name: "a"})
	for _, one := range clusterstatus.Of(cluster, found.Credentials, o.info).Conditions {
		o.conditions[one.Type] = one
	}
	return o
}
