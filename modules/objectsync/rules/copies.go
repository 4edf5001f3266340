// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

const patchAgain = 5 * time.Minute

// Copies returns what makes the copies of the rule in one place, and how, but for the selection of originals. The labels are those of the
// Cluster. An original that a patch does not fit is tried again when it changes, and from time to time.
func (r Rule) Copies(
	at Place, labels func() map[string]string,
) (*syncer.Copy[*unstructured.Unstructured], syncer.Options[*unstructured.Unstructured]) {
	patcher := func() (*Patcher, error) { return r.Patcher(Cluster{Name: at.Cluster, Labels: labels()}) }
	mutate := func(ctx context.Context, _, copied *unstructured.Unstructured) error {
		p, err := patcher()
		if err == nil {
			err = p.Apply(ctx, copied)
		}
		if errors.Is(err, ErrPatch) {
			return &syncer.LaterError{After: patchAgain, Reason: ReasonPatchFailed, Why: fmt.Sprintf("Rule %s does not copy this object: %v.", r.Name, err)}
		}
		return err
	}
	adopt := func(ctx context.Context, up, down *unstructured.Unstructured) bool {
		if r.Takes(at, up, down) {
			return true
		}
		p, err := patcher()
		return err == nil && r.Adopts(ctx, p, r.Translator(at).Metadata(up, client.ObjectKeyFromObject(down)), down)
	}
	return &syncer.Copy[*unstructured.Unstructured]{Called: "copies", Status: r.ReturnsStatus(), Mutate: mutate, Adopt: adopt},
		syncer.Options[*unstructured.Unstructured]{
			Kind: r.GVK(), Exclude: r.Exclude, Observe: r.Mode == hubv1.SyncObserve, CreateOnly: r.Mode == hubv1.SyncCreate, Moves: true,
			OnDownstreamDeletion: syncer.DeletionPolicy(r.OnTargetDeletion),
		}
}
