// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/cluster/internal/journal"
	"github.com/clusterfx/clusterfx/reconcilers/internal/hubcontroller"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// JournalName is the ConfigMap of the credentials namespace with the starts.
const JournalName = "clusterfx-starting"

// Journal records which apps are being started, and which were when processes of the hub ended.
type Journal = journal.Journal

// NewJournal sends no requests. Give the result to registry.Options.Journal and to Setup.
func NewJournal(mgr ctrl.Manager, s Settings) (*Journal, error) {
	s = s.withDefaults()
	return journal.New(mgr, client.ObjectKey{Namespace: s.Namespace, Name: JournalName}, s.Replica)
}

type suspects interface {
	Suspicion(ctx context.Context, name string, uid types.UID, term int64) (journal.Suspicion, error)
	Name(name string, uid types.UID)
	Acquit(name string)
	Forget(name string)
}

var _ suspects = (*Journal)(nil)

type noSuspects struct{} // noSuspects is the journal of a hub that has none.

func (noSuspects) Suspicion(context.Context, string, types.UID, int64) (journal.Suspicion, error) {
	return journal.Suspicion{}, nil
}
func (noSuspects) Name(string, types.UID) {}
func (noSuspects) Acquit(string)          {}
func (noSuspects) Forget(string)          {}

// Crash is an end of the hub's process by an app.
type Crash struct {
	// Cluster is the name of the Cluster. Module is that of the module, or empty.
	Cluster string `json:"-"`
	Module  string `json:"module,omitempty"`
	// At is when the process ended, or when it began to start the app. It names the crash: a later report of it does not count.
	At time.Time `json:"at"`
	// Recorded says that the process has written on its way down whose goroutine it was.
	Recorded bool `json:"recorded,omitempty"`
}

// crashes are the value of AnnotationCrashes: the last crash, their number, and what the Cluster was then.
type crashes struct {
	Crash
	Count      int    `json:"count"`
	Generation int64  `json:"generation"`
	Retry      string `json:"retry,omitempty"`
}

const (
	quarantineBase, quarantineMax = time.Minute, 24 * time.Hour // quarantineBase is how long an app is not started after its first crash. It doubles with every further one, up to quarantineMax.
	// forgivenAfter of Ready forgets crashes; provenAfter, ends of processes where the app was merely present.
	forgivenAfter, provenAfter = 10 * time.Minute, 5 * time.Second
)

func crashesOf(cluster *hubv1.Cluster) (c crashes) {
	if json.Unmarshal([]byte(cluster.Annotations[hubv1.AnnotationCrashes]), &c) != nil {
		return crashes{}
	}
	return c
}

func (c crashes) quarantine() time.Duration {
	return min(quarantineBase<<min(max(c.Count-1, 0), 16), quarantineMax)
}

// until is zero for now: a changed spec and a retry are the operator's, who wants to see.
func (c crashes) until(cluster *hubv1.Cluster) time.Time {
	if c.Count == 0 || c.Generation != cluster.Generation || c.Retry != cluster.Annotations[hubv1.AnnotationRetry] {
		return time.Time{}
	}
	return c.At.Add(c.quarantine())
}

// Convict records a crash in its Cluster, if that exists.
func Convict(ctx context.Context, c client.Client, crash Crash) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		found := &hubv1.Cluster{}
		if err := c.Get(ctx, client.ObjectKey{Name: crash.Cluster}, found); err != nil {
			return err
		}
		return convict(ctx, c, found, crash)
	})
	return client.IgnoreNotFound(err)
}

func convict(ctx context.Context, c client.Client, cluster *hubv1.Cluster, crash Crash) error {
	before := crashesOf(cluster)
	now := before.with(crash)
	if now == before {
		return nil
	}
	now.Generation, now.Retry = cluster.Generation, cluster.Annotations[hubv1.AnnotationRetry]
	return writeCrashes(ctx, c, cluster, now)
}

// with adds a crash. Of two processes that have panicked, the later one may start again first.
func (c crashes) with(crash Crash) crashes {
	isLater := crash.At.After(c.At)
	if isLater || crash.Recorded && c.Recorded && !crash.At.Equal(c.At) {
		c.Count++
	}
	if isLater {
		c.Crash = crash
	}
	return c
}

func writeCrashes(ctx context.Context, c client.Client, cluster *hubv1.Cluster, now crashes) error {
	before := cluster.DeepCopy()
	delete(cluster.Annotations, hubv1.AnnotationCrashes)
	if now.Count > 0 {
		text, err := json.Marshal(now)
		if err != nil {
			return fmt.Errorf("encode the crashes: %w", err)
		}
		metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, hubv1.AnnotationCrashes, string(text))
	}
	if err := hubcontroller.Patch(ctx, c, before, cluster); err != nil {
		return fmt.Errorf("write the annotation %s of the Cluster: %w", hubv1.AnnotationCrashes, err)
	}
	return nil
}

func (r *reconciler) crashRecordOf(ctx context.Context, cluster *hubv1.Cluster, role Role) (state.CrashRecord, error) {
	_, runner := r.share.RoleOf(registry.ClusterName(cluster.Name), cluster.UID)
	s, err := r.suspects.Suspicion(ctx, cluster.Name, cluster.UID, int64(runner.Epoch))
	if err != nil {
		return state.CrashRecord{}, err
	}
	if !s.Convicted.IsZero() && role == RoleRunner {
		if err := convict(ctx, r.Client, cluster, Crash{At: s.Convicted}); err != nil {
			return state.CrashRecord{}, err
		}
		r.suspects.Acquit(cluster.Name)
		r.memory.of(cluster.Name).written = cluster.DeepCopy()
	}
	c := crashesOf(cluster)
	return state.CrashRecord{
		Crashes: s.Ends, Alone: s.Ends >= journal.SuspectAfter || c.Count > 0 && !c.Recorded, Until: c.until(cluster),
	}, nil
}

// weigh acquits a suspect, or forgets crashes, after long enough Ready. It returns when to reconcile again, or zero.
func (r *reconciler) weigh(ctx context.Context, cluster *hubv1.Cluster, runs remote, now time.Time) (time.Duration, error) {
	c, isSuspect := crashesOf(cluster), runs.suspicion.Crashes > 0
	readyFor := now.Sub(runs.info.Since)
	switch {
	case runs.info.State != state.StateReady, !isSuspect && c.Count == 0:
		return 0, nil
	case isSuspect && readyFor < provenAfter:
		return provenAfter - readyFor, nil
	case isSuspect:
		r.suspects.Acquit(cluster.Name)
		return time.Millisecond, nil // to post the acquittal to the registry
	}
	if wait := max(c.quarantine(), forgivenAfter) - readyFor; wait > 0 {
		return wait, nil
	}
	return 0, writeCrashes(ctx, r.Client, cluster, crashes{})
}

const messageQuarantined = "Crash %d of the hub's process by this app, at %s: %s. The app is not started before %s; to start it now: " +
	"kubectl annotate clusters.clusterfx.dev %s --overwrite " + hubv1.AnnotationRetry + "=$(date +%%s)"

func describeQuarantine(app state.Condition, cluster *hubv1.Cluster) state.Condition {
	c := crashesOf(cluster)
	if app.Reason != hubv1.ReasonQuarantined || c.Count == 0 {
		return app
	}
	evidence := "the process ended without a panic while this app alone was being started"
	if c.Recorded {
		evidence = "a goroutine panicked, of the module " + cmp.Or(c.Module, "unknown")
	}
	app.Message = fmt.Sprintf(messageQuarantined, c.Count, c.At.UTC().Format(time.RFC3339), evidence,
		c.At.Add(c.quarantine()).UTC().Format(time.RFC3339), cluster.Name)
	return app
}
