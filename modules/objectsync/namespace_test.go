// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
)

// unreadable is a reader that fails.
type unreadable struct{ client.Reader }

var errRead = errors.New("the informer has no permission")

func (unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errRead
}

// An object whose Namespace cannot be read is not taken for one that is not selected: the reconcile ends before its copy is
// deleted.
func TestNeedsNamespace(t *testing.T) {
	t.Parallel()
	r := &entry{Rule: rules.Rule{SyncRuleSpec: hubv1.SyncRuleSpec{From: hubv1.SyncFromRemote, Namespaces: hubv1.SyncNamespaces{
		Selector: &hubv1.LabelSelector{MatchLabels: map[string]hubv1.LabelValue{"a": "b"}},
	}}}}
	r.namespaces, r.ctx = unreadable{}, t.Context()
	up := &unstructured.Unstructured{}
	testkit.NoError(t, testkit.Err(r.needsNamespace(t.Context(), up)), "an object without a namespace")
	up.SetNamespace("shop")
	testkit.ErrorIs(t, testkit.Err(r.needsNamespace(t.Context(), up)), errRead)
	r.Namespaces = hubv1.SyncNamespaces{Names: []string{"shop"}}
	testkit.NoError(t, testkit.Err(r.needsNamespace(t.Context(), up)), "a rule that names its namespaces")
}
