// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/registry/rbac"
)

// crdTimeout is how long a definition may take at once. It is tried again.
const crdTimeout = 5 * time.Second

const inRemote, inHub = "the remote", "the hub"

// check returns what the rule lacks in this remote: what waits for a person, and is not an error. live asks the API servers for the
// objects, too, since discovery may be behind.
func (e *entry) check(ctx context.Context, live bool) (problems, error) {
	found := problems{}
	if err := e.CheckNamespaces(e.engine.cluster); err != nil {
		found[hubv1.SyncNamespaceMissing] = err.Error()
		return found, nil //nolint:nilerr // It is a problem, and no error.
	}
	if i := slices.IndexFunc(e.namespacesInHub(), e.params.HubObjects.IsHidden); i >= 0 {
		found[hubv1.SyncNamespaceMissing] = e.namespacesInHub()[i]
		return found, nil
	}
	hub, err := e.mapping(e.params.HubClient.RESTMapper(), inHub, found)
	if err != nil || hub == nil {
		return found, err
	}
	remote := hub
	if !e.BringsCRD() {
		if remote, err = e.mapping(e.params.RESTMapper, inRemote, found); err != nil {
			return nil, err
		}
	}
	if remote == nil {
		remote = hub // for the permissions
	}
	if err := e.review(ctx, hub, remote, found); err != nil || len(found) > 0 {
		return found, err
	}
	if e.BringsCRD() && e.Mode != hubv1.SyncObserve {
		if err := e.bring(ctx, found); err != nil || len(found) > 0 {
			return found, err
		}
		if _, err = e.mapping(e.params.RESTMapper, inRemote, found); err != nil {
			return nil, err
		}
	}
	if live && len(found) == 0 {
		err = e.look(ctx, found)
	}
	return found, err
}

func (e *entry) namespacesInHub() []string {
	if e.From == hubv1.SyncFromHub {
		return e.SourceNamespaces(e.engine.cluster)
	}
	return e.TargetNamespaces(e.engine.cluster)
}

// mapping is nil with a problem.
func (e *entry) mapping(kinds meta.RESTMapper, where string, found problems) (*meta.RESTMapping, error) {
	kind, reason := e.GVK(), hubv1.SyncKindMissing
	mapping, err := kinds.RESTMapping(kind.GroupKind(), kind.Version)
	what := fmt.Sprintf("%s %s in %s", kind.GroupVersion(), kind.Kind, where)
	switch {
	case meta.IsNoMatchError(err):
		if _, err := kinds.RESTMapping(kind.GroupKind()); err == nil {
			reason = hubv1.SyncVersionMissing
		}
	case err != nil:
		return nil, fmt.Errorf("find the kind %s in %s: %w", kind.Kind, where, err)
	case e.Kind.Resource != "" && e.Kind.Resource != mapping.Resource.Resource: // The policy for authors checks what the rule says.
		what = fmt.Sprintf("resource %s of %s", e.Kind.Resource, what)
	case (mapping.Scope.Name() == meta.RESTScopeNameNamespace) != e.IsNamespaced():
		reason = hubv1.SyncScopeDiffers
	default:
		return mapping, nil
	}
	found[reason] = what
	return nil, nil //nolint:nilnil // It is a problem, and no error.
}

// review asks both API servers for the permissions of the rule.
func (e *entry) review(ctx context.Context, hub, remote *meta.RESTMapping, found problems) error {
	inHubs, inRemotes := e.Rule, e.Rule
	inHubs.Kind.Resource, inRemotes.Kind.Resource = hub.Resource.Resource, remote.Resource.Resource
	e.hubRules = inHubs.Permissions().Hub
	lacking, err := e.engine.hub.Lacking(ctx, e.hubRules)
	if err != nil {
		return err
	}
	if len(lacking) > 0 {
		found[hubv1.SyncPermissionMissing] = inHub + ": " + strings.Join(lacking, ", ")
		return nil
	}
	var of []rbac.NamespacedRules
	for _, namespace := range e.remoteScopes() {
		of = append(of, rbac.NamespacedRules{Namespace: namespace, Rules: inRemotes.Permissions().Remote})
	}
	if lacking, err = e.engine.remote.Lacking(ctx, of); err == nil && len(lacking) > 0 {
		found[hubv1.SyncPermissionMissing] = inRemote + ": " + strings.Join(lacking, ", ")
	}
	return err
}

// remoteScopes are the namespaces that the Cluster is limited to.
func (e *entry) remoteScopes() []string {
	if limited := e.params.Namespaces; len(limited) > 0 {
		return limited
	}
	return []string{metav1.NamespaceAll}
}

func (e *entry) bring(ctx context.Context, found problems) error {
	pair, err := syncer.NewPair(syncer.PairOptions{
		Name: "sync-" + e.Name, Manager: e.params.Manager, Identity: e.Identity(placeOf(e.params)),
		Upstream: syncer.OfHub(e.params.Remote, e.hubSelection()), Downstream: syncer.OfRemote(e.params.Remote),
	})
	if err != nil {
		return err
	}
	ensuring, cancel := context.WithTimeout(ctx, crdTimeout)
	defer cancel()
	err = syncer.EnsureCRD(ensuring, pair, e.GVK())
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		found[hubv1.SyncRejected] = "CustomResourceDefinition of " + e.Kind.Kind
	default:
		found[hubv1.SyncKindMissing] = e.Kind.Kind + " in " + inRemote
	}
	e.params.Logger.Error(err, "Failed to bring a definition to a remote; it is tried again", "rule", e.Name)
	return nil
}

// look reads one object on each side.
func (e *entry) look(ctx context.Context, found problems) error {
	hub, remote := metav1.NamespaceAll, metav1.NamespaceAll
	if named := e.HubNamespaces(); len(named) > 0 {
		hub = named[0]
	}
	if e.IsNamespaced() {
		remote = e.remoteScopes()[0]
	}
	for _, one := range []struct {
		reader           client.Reader
		where, namespace string
	}{{e.params.HubClient, inHub, hub}, {e.params.APIReader, inRemote, remote}} {
		err := one.reader.List(ctx, metadataOf(e.GVK()), client.Limit(1), client.InNamespace(one.namespace))
		switch {
		case isAbsent(err):
			found[hubv1.SyncKindMissing] = e.Kind.Kind + " in " + one.where
		case apierrors.IsForbidden(err):
			found[hubv1.SyncPermissionMissing] = one.where + ": list " + e.Kind.Kind
		case err != nil:
			return fmt.Errorf("list %s in %s: %w", e.Kind.Kind, one.where, err)
		}
	}
	return nil
}

func isAbsent(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }
