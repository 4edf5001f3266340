// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/internal/holds"
	"github.com/clusterfx/clusterfx/reconcilers/cluster"
)

// Deletes are the deletes that a hub holds.
type Deletes struct {
	Cluster   *access.Cluster
	Namespace string
}

// Listed is a hold in force.
type Listed struct {
	ID string
	holds.Saved
}

// What is the resource, with the cause.
func (h *Listed) What() string {
	return schema.GroupResource{Group: h.Group, Resource: h.Resource}.String() + holds.For(h.Cause)
}

// Where returns the clusters in which the deletes are held.
func (h *Listed) Where() string {
	switch {
	case h.Fleet:
		return "all clusters"
	case h.Cluster == "":
		return "the hub"
	}
	return h.Cluster
}

// ErrNone means that no deletes are held.
var ErrNone = errors.New("no deletes are held")

// Holds returns the holds in force, sorted by id, with an error for each entry that it cannot read.
func (h *Deletes) Holds(ctx context.Context) ([]Listed, error) {
	found, err := h.read(ctx)
	if err != nil {
		return nil, err
	}
	return holdsIn(found)
}

// read returns an empty ConfigMap if there is none.
func (h *Deletes) read(ctx context.Context) (*corev1.ConfigMap, error) {
	found := &corev1.ConfigMap{}
	err := h.Cluster.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: cluster.HoldsName}, found)
	if client.IgnoreNotFound(err) != nil {
		return nil, h.Cluster.Explain(fmt.Errorf("read the holds of deletes: %w", err))
	}
	return found, nil
}

func holdsIn(found *corev1.ConfigMap) (all []Listed, err error) {
	entries, err := holds.Read(found)
	byID := holds.ByID(entries)
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		all = append(all, Listed{id, byID[id]})
	}
	return all, err
}

// Print writes the holds in force to w; ErrNone for a table without a row.
func (h *Deletes) Print(ctx context.Context, format output.Format, w io.Writer) error {
	all, problem := h.Holds(ctx)
	if len(all) == 0 && format.Tabular() {
		return cmp.Or(problem, ErrNone)
	}
	list := output.List{
		Kind: "Hold", Wide: []string{"Names"},
		Columns: []string{"ID", "Module", "Cluster", "Resource", "Deleted", "Waiting", "Allowed", "Age"},
	}
	for _, h := range all {
		allowed := fmt.Sprint(h.Granted)
		if h.Granted > 0 {
			allowed = fmt.Sprintf("%d of %d done", h.Spent, h.Granted)
		}
		names := strings.Join(h.Names, ", ")
		if len(h.Names) < h.More && names != "" {
			names += ", ..."
		}
		list.Items = append(list.Items, output.Item{
			Name: h.ID,
			Cells: []any{
				h.ID, h.Module, h.Where(), h.What(), fmt.Sprint(h.Deleted), fmt.Sprintf("%d+", h.More), allowed,
				duration.HumanDuration(max(0, time.Since(h.Since.Time))), names,
			},
			Fields: map[string]any{
				"module": h.Module, "group": h.Group, "resource": h.Resource, "cluster": h.Cluster, "fleet": h.Fleet, "cause": h.Cause,
				"since": h.Since.UTC().Format(time.RFC3339), "deleted": int64(h.Deleted), "waiting": int64(h.More), "names": append([]string{}, h.Names...),
				"allowed": int64(h.Granted), "allowedDone": int64(h.Spent),
			},
		})
	}
	return errors.Join(problem, format.Print(w, list))
}

// Allowed is what Allow has allowed.
type Allowed struct {
	Hold Listed
	// Further are allowed beyond those before, Total by the hold in all. Further is 0 if as many were allowed already.
	Further, Total int
}

var errNotInForce = errors.New("no hold with this id is in force")

// Allow allows further deletes of a hold, or those known if further is 0. It keeps allowances of other holds.
func (h *Deletes) Allow(ctx context.Context, id string, further int) (done Allowed, err error) {
	backoff := wait.Backoff{Steps: 10, Duration: 20 * time.Millisecond, Factor: 1.5, Jitter: 1}
	err = retry.RetryOnConflict(backoff, func() error {
		done, err = h.allow(ctx, id, further)
		return err
	})
	return done, err
}

// allow fails with a conflict if the object has changed.
func (h *Deletes) allow(ctx context.Context, id string, further int) (Allowed, error) {
	found, err := h.read(ctx)
	if err != nil {
		return Allowed{}, err
	}
	all, problem := holdsIn(found)
	hold, err := pick(all, id)
	if err != nil {
		return Allowed{}, errors.Join(err, problem)
	}
	object, err := h.annotated(ctx, hold)
	if err != nil {
		return Allowed{}, err
	}
	// A part that cannot be read allows nothing, and is dropped.
	allowances, _ := holds.ParseAllowances(object.GetAnnotations()[hubv1.AnnotationAllowDeletes])
	before := max(hold.Granted, allowances[id])
	total := before + further
	if further == 0 {
		total = max(before, hold.Spent+hold.More)
	}
	done := Allowed{*hold, total - before, total}
	if total == before {
		return done, nil
	}
	for known := range allowances {
		if _, err := pick(all, known); err != nil {
			delete(allowances, known)
		}
	}
	allowances[id] = total
	return done, h.annotate(ctx, object, allowances.String())
}

func pick(all []Listed, id string) (*Listed, error) {
	var ids []string
	for i := range all {
		if all[i].ID == id {
			return &all[i], nil
		}
		ids = append(ids, all[i].ID)
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%s: %w: %w", id, errNotInForce, ErrNone)
	}
	return nil, fmt.Errorf("%s: %w; there are %s", id, errNotInForce, strings.Join(ids, ", "))
}

// annotated reads the object whose annotation allows deletes of a hold.
func (h *Deletes) annotated(ctx context.Context, hold *Listed) (*metav1.PartialObjectMetadata, error) {
	object, key := &metav1.PartialObjectMetadata{}, client.ObjectKey{Name: hold.Cluster}
	object.SetGroupVersionKind(hubv1.GroupVersion.WithKind("Cluster"))
	if hold.Fleet || hold.Cluster == "" {
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		key = client.ObjectKey{Namespace: h.Namespace, Name: cluster.HoldsName}
	}
	if err := h.Cluster.Get(ctx, key, object); err != nil {
		return nil, h.Cluster.Explain(fmt.Errorf("read the %s %s: %w", object.Kind, key.Name, err))
	}
	return object, nil
}

func (h *Deletes) annotate(ctx context.Context, object *metav1.PartialObjectMetadata, value string) error {
	patch := client.MergeFromWithOptions(object.DeepCopy(), client.MergeFromWithOptimisticLock{})
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, hubv1.AnnotationAllowDeletes, value)
	return h.Cluster.Failed("annotate the "+object.Kind+" "+object.Name, h.Cluster.Patch(ctx, object, patch, client.FieldOwner("clusterfx-cli")))
}
