// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/inspect"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/partreport"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/project"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/replica"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
	"github.com/clusterfx/clusterfx/registry/state"
)

// Installation is a hub to check.
type Installation struct {
	Hub       *access.Cluster
	Namespace string
}

// The checks of the hub's cluster.
const (
	checkServer    = "server"
	checkCRD       = "crd"
	checkPolicy    = "policy"
	checkNamespace = "namespace"
	checkReplicas  = "replicas"
	checkClusters  = "clusters"
	checkModules   = "modules"
	checkDeletes   = "deletes"
)

// Check runs all checks of the installation.
func (i Installation) Check(ctx context.Context) Report {
	var r Report
	if !i.server(ctx, &r) {
		return r
	}
	Server(ctx, i.Hub, &r)
	if !i.crd(ctx, &r) {
		return r
	}
	i.policy(ctx, &r)
	i.namespace(ctx, &r)
	reports, err := partreport.Read(ctx, i.Hub, i.Namespace)
	i.replicas(ctx, &r, reports)
	i.clusters(ctx, &r)
	i.modules(&r, reports, err)
	i.deletes(ctx, &r)
	return r
}

func (i Installation) server(ctx context.Context, r *Report) bool {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := i.Hub.ID(ctx); err != nil && !apierrors.IsForbidden(err) {
		r.fail(checkServer, "check --kubeconfig and --context", "%v", err)
		return false
	}
	r.ok(checkServer, "%s responds", i.Hub.Config.Host)
	return true
}

func (i Installation) crd(ctx context.Context, r *Report) bool {
	const advice = project.InstallCRD
	if _, isFresh, err := readCRD(ctx, i.Hub, "syncrules"); apierrors.IsNotFound(err) || err == nil && !isFresh {
		r.warn(checkCRD, advice, "the hub's cluster does not know SyncRules, or with a schema other than the schema of this program")
	}
	served, isFresh, err := readCRD(ctx, i.Hub, "clusters")
	switch {
	case err == nil && isFresh:
		r.ok(checkCRD, "Clusters are served as %s, with the schema of this program", strings.Join(served, ", "))
	case err == nil:
		r.warn(checkCRD, advice, "Clusters are served as %s, with a schema other than the schema of this program%s",
			strings.Join(served, ", "), i.missing(ctx))
	case apierrors.IsNotFound(err):
		r.fail(checkCRD, advice, "the hub's cluster does not know Cluster objects")
		return false
	default:
		r.warn(checkCRD, "", "the schema of Clusters is unknown: %v", err)
	}
	return true
}

// missing names the fields that the hub's cluster drops from a status; it is empty if there are none, or if that cannot be asked.
func (i Installation) missing(ctx context.Context) string {
	fields, err := cluster.MissingFields(ctx, i.Hub)
	if err != nil || len(fields) == 0 {
		return ""
	}
	return ", so that a hub of this version works, but cannot report " + strings.Join(fields, ", ")
}

func (i Installation) namespace(ctx context.Context, r *Report) {
	err := i.Hub.Get(ctx, client.ObjectKey{Name: i.Namespace}, &corev1.Namespace{})
	switch {
	case err == nil:
		r.ok(checkNamespace, "the credentials namespace %s exists", i.Namespace)
	case apierrors.IsNotFound(err):
		r.fail(checkNamespace, "create it, or name another one with --credentials-namespace", "the credentials namespace %s does not exist", i.Namespace)
	default:
		r.warn(checkNamespace, "", "%v", i.Hub.Explain(err))
	}
}

// policy reports whether others than administrators are limited in the SyncRules that they write.
func (i Installation) policy(ctx context.Context, r *Report) {
	const name = "clusterfx-syncrules"
	var policy admissionv1.ValidatingAdmissionPolicy
	var binding admissionv1.ValidatingAdmissionPolicyBinding
	key := client.ObjectKey{Name: name}
	err := errors.Join(i.Hub.Get(ctx, key, &policy), i.Hub.Get(ctx, key, &binding))
	const advice = "hub install, the chart and the manifests of a release install it; until then let only administrators of the cluster write SyncRules"
	closed := policy.Spec.FailurePolicy == nil || *policy.Spec.FailurePolicy == admissionv1.Fail
	denies := slices.Contains(binding.Spec.ValidationActions, admissionv1.Deny) && binding.Spec.PolicyName == name && binding.Spec.MatchResources == nil
	switch {
	case apierrors.IsNotFound(err):
		r.warn(checkPolicy, advice, "whoever may write SyncRules can have the hub copy what they must not read: there is no policy %s with its binding", name)
	case err != nil:
		r.warn(checkPolicy, "", "whether a policy limits the authors of SyncRules is unknown: %v", i.Hub.Explain(err))
	case !closed || !denies:
		r.warn(checkPolicy, advice, "the policy %s was changed, and does not limit all authors of SyncRules", name)
	default:
		r.ok(checkPolicy, "authors of SyncRules need the permissions that the hub uses for them")
	}
}

func (i Installation) clusters(ctx context.Context, r *Report) {
	var list hubv1.ClusterList
	if err := i.Hub.List(ctx, &list); err != nil {
		r.fail(checkClusters, "", "%v", i.Hub.Explain(err))
		return
	}
	var unseen, unready []string
	byID := map[string][]string{}
	for _, c := range list.Items {
		if id := c.Annotations[hubv1.AnnotationID]; id != "" {
			byID[id] = append(byID[id], c.Name)
		}
		switch {
		case c.Status.ObservedGeneration != c.Generation:
			unseen = append(unseen, c.Name)
		case !meta.IsStatusConditionTrue(c.Status.Conditions, hubv1.ConditionReady) && c.Spec.State != hubv1.ClusterPaused:
			unready = append(unready, c.Name)
		}
	}
	if len(unseen) > 0 {
		r.fail(checkClusters, "check whether a hub runs, and read its log", "the hub has not processed %s", some(unseen))
	}
	if len(unready) > 0 {
		r.warn(checkClusters, "see kubectl get fxc, and hub check NAME", "%s not Ready", some(unready))
	}
	for id, names := range byID {
		if len(names) > 1 {
			slices.Sort(names)
			r.warn(checkClusters, "deregister all names but one", "cluster %s has several names: %s", id, strings.Join(names, ", "))
		}
	}
	if len(unseen)+len(unready) == 0 {
		r.ok(checkClusters, "%d, and all that are not paused are Ready", len(list.Items))
	}
}

func (i Installation) modules(r *Report, reports []partreport.Report, err error) {
	switch {
	case err != nil:
		r.warn(checkModules, "", "%v", i.Hub.Explain(err))
		return
	case len(reports) == 0:
		r.warn(checkModules, "start a hub, or grant the hub the permissions that hub rbac --in hub prints", "no hub has reported the state of hub parts in ConfigMap %s/%s",
			i.Namespace, partreport.Name)
		return
	}
	well, n := true, 0
	for _, one := range reports {
		well = parts(r, one) && well
		n = max(n, len(one.Parts))
	}
	switch in := namesOf(reports); {
	case well && n == 0:
		r.ok(checkModules, "no module has a hub part in %s", in)
	case well:
		r.ok(checkModules, "%d hub parts run in %s", n, in)
	}
}

func namesOf(reports []partreport.Report) string {
	var replicas []string
	for _, one := range reports {
		replicas = append(replicas, one.Replica)
	}
	return some(replicas)
}

func parts(r *Report, report partreport.Report) (well bool) {
	well = true
	for _, part := range report.Parts {
		text := fmt.Sprintf("the hub part of module %s is %s in %s since %s", part.Module, &part, report.Replica, part.Since.UTC().Format(time.RFC3339))
		if part.Message != "" {
			text += ": " + part.Message
		}
		switch part.State {
		case state.ModuleRunning, state.ModuleStandby:
			continue
		case state.ModuleWaiting, state.ModuleFailed:
			r.fail(checkModules, adviceFor(part), "%s", text)
		default:
			r.warn(checkModules, adviceFor(part), "%s", text)
		}
		well = false
	}
	return well
}

func (i Installation) deletes(ctx context.Context, r *Report) {
	hub := inspect.Deletes{Cluster: i.Hub, Namespace: i.Namespace}
	all, err := hub.Holds(ctx)
	if err != nil {
		r.warn(checkDeletes, "", "%v", err)
	}
	for _, h := range all {
		r.warn(checkDeletes, "find out why the module deletes: see hub deletes ls -o wide",
			"deletes of %s by module %s are held in %s, at least %d (%s)", h.What(), h.Module, h.Where(), h.More, h.ID)
	}
	if len(all) == 0 && err == nil {
		r.ok(checkDeletes, "no deletes are held")
	}
}

func adviceFor(part partreport.Part) string {
	if part.Reason == state.ReasonRightsMissing {
		return "grant the permissions that hub rbac --in hub prints"
	}
	return "see the hub's log"
}

// some: there may be thousands.
func some(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// replicas reports whether a hub works. A hub that is alone, as in dev, has no lease; the report on hub parts shows that a hub has
// worked and has not ended in good order.
func (i Installation) replicas(ctx context.Context, r *Report, reports []partreport.Report) {
	survey, err := replica.ReadSurvey(ctx, i.Hub, i.Namespace)
	alone := worksAlone(survey, reports)
	switch {
	case (errors.Is(err, replica.ErrNoReplicas) || err == nil) && len(alone) > 0:
		r.ok(checkReplicas, "hub %s works alone, unless it was killed", namesOf(alone))
		return
	case errors.Is(err, replica.ErrNoReplicas):
		r.warn(checkReplicas, "start a hub", "no hub has run in %s", i.Namespace)
		return
	case err != nil:
		r.warn(checkReplicas, "", "not everything is known about the replicas: %v", i.Hub.Explain(err))
	}
	if survey != nil {
		reportReplicas(r, survey)
	}
}

// worksAlone returns the reports of hubs without a Lease, if no replica is live.
func worksAlone(survey *replica.Survey, reports []partreport.Report) []partreport.Report {
	switch {
	case survey == nil:
		return reports
	case len(survey.Live(time.Now())) > 0:
		return nil
	}
	pods := survey.Pods()
	return slices.DeleteFunc(slices.Clone(reports), func(r partreport.Report) bool { return pods.Has(r.Replica) })
}

// Advice if no replica is live, and if shards have no live holder.
const (
	adviceReplicas = "start replicas of the hub, or check its Pods and their logs"
	adviceUnheld   = "check again in a minute, because live replicas take over within 15 s; then see kubectl get lease and the logs of the hub's Pods"
)

func reportReplicas(r *Report, s *replica.Survey) {
	now := time.Now()
	live, unheld, all := len(s.Live(now)), s.Unheld(now), len(s.Holders)
	const idle = "%s live, and %d of %d shards have no live holder, so the apps of their Clusters do not run"
	switch {
	case live == 0:
		r.fail(checkReplicas, adviceReplicas, idle, "no replica is", unheld, all)
	case unheld == 0:
		r.ok(checkReplicas, "%s live, and all %d shards have a live holder", countOf(live), all)
	case unheld == all:
		r.fail(checkReplicas, adviceUnheld, idle, countOf(live), unheld, all)
	default:
		r.warn(checkReplicas, adviceUnheld, idle, countOf(live), unheld, all)
	}
	if s.IsDrainIgnored(now) {
		r.warn(checkReplicas, "start another replica, or run hub drain POD --cancel for one of them", "all live replicas are drained, so the hub ignores it")
	}
}

// countOf begins a sentence.
func countOf(replicas int) string {
	if replicas == 1 {
		return "1 replica is"
	}
	return strconv.Itoa(replicas) + " replicas are"
}
