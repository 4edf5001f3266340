// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strconv"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/cluster/internal/journal"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// JournalName is the prefix of JournalNames. The ConfigMap of that name, in which earlier versions of the hub kept the journal,
// is read and deleted.
const JournalName = "clusterfx-starting"

// JournalNames returns the names of the ConfigMaps, in the credentials namespace, in which the hub records which apps are being
// started, and with which apps it has crashed. Each has a part of the fleet.
func JournalNames() []string { return journal.Names(JournalName) }

// JournalOf returns the name of the journal of a replica, for Settings.Journal, where several share the Clusters. The name of a
// replica is a DNS label, which has no dot: so no ConfigMap of the journal is one of another replica, or one of JournalNames.
func JournalOf(replica string) string { return JournalName + "-" + replica + ".replica" }

// Journal records which apps are being started, and with which apps the hub has crashed.
type Journal = journal.Journal

// NewJournal returns the journal of a hub and adds it to the hub's manager. It sends no requests. Give
// it to the registry, as registry.Options.Journal, and to Setup.
func NewJournal(mgr ctrl.Manager, s Settings) (*Journal, error) {
	s = s.withDefaults()
	return journal.New(mgr, client.ObjectKey{Namespace: s.Namespace, Name: s.Journal})
}

// suspects is the part of the Journal that the reconciler uses.
type suspects interface {
	Suspicion(ctx context.Context, name string, a journal.Attempt) (state.CrashRecord, error)
	Acquit(name string)
	Forget(name string)
}

var _ suspects = (*Journal)(nil)

// noSuspects is the journal of a hub that has none.
type noSuspects struct{}

func (noSuspects) Suspicion(context.Context, string, journal.Attempt) (state.CrashRecord, error) {
	return state.CrashRecord{}, nil
}
func (noSuspects) Acquit(string) {}
func (noSuspects) Forget(string) {}

// attemptOf returns the digests of the desired state that would be started.
func (r *reconciler) attemptOf(cluster *hubv1.Cluster, found credentials) journal.Attempt {
	return journal.Attempt{
		UID:    cluster.UID,
		Spec:   journal.Digest(strconv.FormatInt(cluster.Generation, 10), cluster.Annotations[hubv1.AnnotationRetry]),
		Secret: journal.Digest(r.settings.HubID, found.connection.Endpoint.Fingerprint(), found.Reported.Fingerprint),
	}
}

// provenAfter is how long a suspected app must be Ready until it is no longer suspected.
const provenAfter = 5 * time.Second

// weigh acquits a suspected app that has been Ready for long enough. It returns when to reconcile again, or zero if that
// is not necessary.
func (r *reconciler) weigh(s state.CrashRecord, info registry.Status, now time.Time) time.Duration {
	if s.Crashes == 0 || info.State != state.StateReady {
		return 0
	}
	if wait := provenAfter - now.Sub(info.Since); wait > 0 {
		return wait
	}
	r.suspects.Acquit(string(info.Name))
	return time.Millisecond // to post the acquittal to the registry
}

const messageQuarantined = "The hub crashed %d times in a row while this app was starting, so the app is quarantined " +
	"until %s; find the cause in the log of the hub's last run"

// describeQuarantine adds the crashes and the end of a quarantine, which only the journal knows, to the condition.
func describeQuarantine(app state.Condition, s state.CrashRecord) state.Condition {
	if app.Reason == hubv1.ReasonQuarantined && s.Crashes > 0 {
		app.Message = fmt.Sprintf(messageQuarantined, s.Crashes, s.Until.UTC().Format(time.RFC3339))
		app.Problem = state.Problem{Kind: state.ProblemQuarantined}
	}
	return app
}
