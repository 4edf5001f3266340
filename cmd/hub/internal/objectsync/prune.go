// SPDX-License-Identifier: Apache-2.0

package objectsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/output"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

// Prune configures the deletion of the copies that a removed rule has left.
type Prune struct {
	Fleet
	Terminal *output.Terminal
	// Rule is the name of the rule.
	Rule string
	// Clusters are names of Clusters: their remotes are searched, and the hub for copies from there. A name without a Cluster
	// is for copies of a Cluster that was deleted. Default: all Clusters.
	Clusters []string
	// Kinds are the kinds of the copies. Default: all that the target can list and delete.
	Kinds []schema.GroupVersionKind
	// Force also deletes copies of a rule that the configuration has. A hub that runs makes them again.
	Force bool
	// Yes deletes without confirmation, and DryRun only prints the plan.
	Yes, DryRun bool
}

// ErrConfigured means that a rule is not removed.
var ErrConfigured = errors.New("the configuration of the hub has this rule")

// errChanged means that an object is no longer the copy that was found.
var errChanged = errors.New("it has changed since it was found, and is not deleted")

// Check returns ErrConfigured if the rule must not be pruned.
func (p *Prune) Check() error {
	if p.Config.Has(p.Rule) && !p.Force {
		return fmt.Errorf("rule %s: %w; remove it there first, or use --force", p.Rule, ErrConfigured)
	}
	return nil
}

// Run finds the copies in the hub and in each remote, and deletes them cluster by cluster: it prints what it has found, asks for
// confirmation, and deletes. It continues with the other clusters after an error. The result is the number of deleted copies, or
// with DryRun of copies that were found.
func (p *Prune) Run(ctx context.Context) (int, error) {
	if err := p.Check(); err != nil {
		return 0, err
	}
	present, missing, err := p.named(ctx)
	if err != nil {
		return 0, err
	}
	hub, err := sideOf(p.Hub)
	if err != nil {
		return 0, err
	}
	tenants := []string{}
	for _, c := range present {
		tenants = append(tenants, rules.Rule{Name: p.Rule, From: rules.FromRemote}.Tenant(p.at(c.Name)))
	}
	for _, name := range missing {
		tenants = append(tenants, rules.Rule{Name: p.Rule, From: rules.FromRemote}.Tenant(p.at(name)))
	}
	total, err := p.in(ctx, hub, tenants)
	all := []error{err}
	for i := range present {
		err := p.with(ctx, &present[i], func(remote *side) error {
			n, err := p.in(ctx, remote, []string{rules.Rule{Name: p.Rule, From: rules.FromHub}.Tenant(p.at(present[i].Name))})
			total += n
			return err
		})
		all = append(all, err)
		if ctx.Err() != nil {
			break
		}
	}
	return total, errors.Join(all...)
}

// named returns the Clusters, and the names without a Cluster.
func (p *Prune) named(ctx context.Context) (present []hubv1.Cluster, missing []string, err error) {
	if len(p.Clusters) == 0 {
		present, err = p.clusters(ctx, nil)
		return present, nil, err
	}
	for _, name := range p.Clusters {
		found, err := p.clusters(ctx, []string{name})
		switch {
		case apierrors.IsNotFound(err):
			p.Terminal.Warn("there is no Cluster %s: only the hub is searched for copies from it", name)
			missing = append(missing, name)
		case err != nil:
			return nil, nil, err
		default:
			present = append(present, found...)
		}
	}
	return present, missing, nil
}

// in deletes the copies of some tenants in one cluster, and returns how many.
func (p *Prune) in(ctx context.Context, s *side, tenants []string) (int, error) {
	found, err := p.find(ctx, s, tenants)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	s.printPlan(p, found)
	if p.DryRun {
		return len(found), nil
	}
	if !p.Yes {
		if err := p.Terminal.Ask(ctx, fmt.Sprintf("Delete %d objects in %s?", len(found), s.What)); err != nil {
			return 0, err
		}
	}
	deleted := 0
	var all []error
	for i := range found {
		err := s.remove(ctx, &found[i])
		if err != nil {
			all = append(all, s.explain(found[i].kind, fmt.Errorf("delete %s: %w", s.copyName(&found[i]), err)))
			continue
		}
		deleted++
	}
	p.Terminal.Done("%d objects are deleted in %s", deleted, s.What)
	return deleted, errors.Join(all...)
}

// copied is a copy that was found.
type copied struct {
	metav1.PartialObjectMetadata

	kind schema.GroupVersionKind
}

// isMarked reports whether an object is a copy of a tenant: it has the label, and its marks name the object itself and its kind.
func isMarked(obj metav1.Object, kind schema.GroupVersionKind, tenant string) bool {
	keys := (syncer.Identity{}).Keys()
	mark := obj.GetAnnotations()[keys.ObjectKind]
	isKind := strings.HasPrefix(mark, kind.Group+"/") && strings.HasSuffix(mark, ", Kind="+kind.Kind)
	return rules.IsCopy(obj) && isKind && obj.GetLabels()[keys.ManagedBy] == tenant
}

// find returns the copies of some tenants in a cluster.
func (p *Prune) find(ctx context.Context, s *side, tenants []string) ([]copied, error) {
	if len(tenants) == 0 {
		return nil, nil
	}
	kinds := p.Kinds
	if len(kinds) == 0 {
		var err error
		if kinds, err = s.kinds(p.Terminal); err != nil {
			return nil, err
		}
	}
	found := search{label: (syncer.Identity{}).Keys().ManagedBy, strict: len(p.Kinds) > 0}
	for _, kind := range kinds {
		for _, tenant := range tenants {
			if err := found.add(ctx, s, kind, tenant); err != nil {
				return nil, s.explain(kind, err)
			}
		}
	}
	p.report(s, &found)
	return found.copies, nil
}

// search collects copies.
type search struct {
	label     string
	strict    bool // a kind that cannot be listed is an error
	copies    []copied
	forbidden []string
	others    int
}

// add adds the copies of one kind and tenant.
func (f *search) add(ctx context.Context, s *side, kind schema.GroupVersionKind, tenant string) error {
	found, err := s.list(ctx, kind, client.MatchingLabels{f.label: tenant})
	switch {
	case err == nil:
	case f.strict:
		return err
	case apierrors.IsForbidden(err):
		if name := kind.GroupKind().String(); !slices.Contains(f.forbidden, name) {
			f.forbidden = append(f.forbidden, s.Token(name))
		}
		return nil
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		return nil
	default:
		return err
	}
	for _, one := range found {
		switch {
		case !isMarked(&one, kind, tenant):
			f.others++
		case one.DeletionTimestamp == nil:
			f.copies = append(f.copies, copied{one, kind})
		}
	}
	return nil
}

// report warns of objects that are not deleted.
func (p *Prune) report(s *side, f *search) {
	if len(f.forbidden) > 0 {
		p.Terminal.Warn("in %s these kinds cannot be listed, and their copies stay: %s; use an account with more permissions, or name the kinds with --kind",
			s.What, strings.Join(f.forbidden, ", "))
	}
	if f.others > 0 {
		p.Terminal.Warn("in %s %d objects have the label of the rule and the marks of other objects; they stay", s.What, f.others)
	}
}

// printPlan prints the copies to delete; without DryRun only the first of many.
func (s *side) printPlan(p *Prune, found []copied) {
	const most = 50
	p.Terminal.Text("In %s, %s:", s.What, s.Config.Host)
	for i := range found {
		if i == most && !p.DryRun {
			p.Terminal.Text("  and %d more; --dry-run prints all of them", len(found)-most)
			return
		}
		p.Terminal.Text("  delete %s", s.copyName(&found[i]))
	}
}

func (s *side) copyName(c *copied) string {
	return s.Token(strings.ToLower(c.kind.GroupKind().String())) + " " + s.name(c)
}

// remove deletes a copy, if it still is the copy that was found.
func (s *side) remove(ctx context.Context, c *copied) error {
	now, err := s.get(ctx, c.kind, client.ObjectKeyFromObject(c))
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	tenant := c.Labels[(syncer.Identity{}).Keys().ManagedBy]
	if now.UID != c.UID || !isMarked(now, c.kind, tenant) {
		return errChanged
	}
	err = s.all.Delete(ctx, now, client.Preconditions{UID: &now.UID, ResourceVersion: &now.ResourceVersion},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if apierrors.IsConflict(err) {
		return errChanged
	}
	return client.IgnoreNotFound(err)
}
