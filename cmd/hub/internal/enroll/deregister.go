// SPDX-License-Identifier: Apache-2.0

package enroll

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/cmd/hub/internal/access"
)

// Deregistration undoes a registration. Place.Remote may be nil.
type Deregistration struct {
	Place
	// Force leaves the account in a remote that cannot be reached or no longer exists.
	Force bool

	cluster *hubv1.Cluster // nil if there is none
	record  *record        // nil if register has not made the Secret
	// rehearsal is the account that may only dry-run; nil for none.
	rehearsal *record
	source    string // the Secret that the hub has made the Cluster from, or empty
}

var errStuck = errors.New("the hub has not released the Cluster: is it running? Run the same command again to resume")

// Prepare finds the objects to delete, and changes nothing.
func (d *Deregistration) Prepare(ctx context.Context) error {
	hubID, err := d.Hub.ID(ctx)
	if err != nil {
		return err
	}
	cluster, key := &hubv1.Cluster{}, client.ObjectKey{Namespace: d.Namespace, Name: d.Name}
	switch err := d.Hub.Get(ctx, client.ObjectKey{Name: d.Name}, cluster); {
	case err == nil:
		d.cluster, key.Name = cluster, cluster.Spec.KubeconfigSecretRef.Name
		d.source = cluster.Annotations[hubv1.AnnotationSecretName]
	case !apierrors.IsNotFound(err):
		return d.Hub.Explain(err)
	}
	owner := ownerOf(hubID, d.Name)
	if d.record, err = d.recordOf(ctx, key, owner); err != nil {
		return err
	}
	rehearsal := client.ObjectKey{Namespace: hubv1.RehearsalNamespace, Name: d.Name}
	if d.rehearsal, err = d.recordOf(ctx, rehearsal, rehearsalOf(owner)); err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	if d.cluster == nil && d.record == nil {
		return fmt.Errorf("there is no Cluster %s in %s, and nothing that register has made for it", d.Name, d.Hub.What)
	}
	return d.checkRemote(ctx)
}

// recordOf returns nil for a Secret of another Cluster.
func (d *Deregistration) recordOf(ctx context.Context, key client.ObjectKey, owner string) (*record, error) {
	found, err := readRecord(ctx, d.Hub, key)
	if found != nil && found.account.Owner != owner {
		found = nil
	}
	return found, err
}

// checkRemote fails if the context leads elsewhere. A remote is required unless it has no account, or Force is set.
func (d *Deregistration) checkRemote(ctx context.Context) error {
	switch {
	case d.record == nil:
		d.Remote = nil // No account in it is known.
		return nil
	case d.Force && d.Remote == nil:
		return nil
	case d.Remote == nil:
		return fmt.Errorf("the hub has an account in the remote, %s/%s: say how to reach the remote with --cluster-context, "+
			"or leave the account there with --force", d.record.account.Namespace, d.record.account.Name)
	}
	id, err := d.Remote.ID(ctx)
	if err != nil && d.Force && ctx.Err() == nil {
		d.Terminal.Warn("%v", err)
		d.Remote = nil
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w; if the remote no longer exists, use --force", err)
	}
	return sameCluster(d.cluster, d.Remote.What, id)
}

// sameCluster fails if the Cluster is known to be another one than that with this id.
func sameCluster(cluster *hubv1.Cluster, what, id string) error {
	if cluster == nil {
		return nil
	}
	if known := cluster.Annotations[hubv1.AnnotationID]; known != "" && known != id {
		return fmt.Errorf("%s is cluster %s, and Cluster %s represents %s: choose another context", what, id, cluster.Name, known)
	}
	return nil
}

// RequireRights returns an error that names the missing permissions of the user, in the hub or in the remote.
func (d *Deregistration) RequireRights(ctx context.Context) error {
	err := d.Hub.Require(ctx, hubRights(d.Namespace, verbGet, verbPatch, verbDelete))
	if d.Remote == nil {
		return err
	}
	return errors.Join(err, d.Remote.Require(ctx, d.record.account.rights()))
}

// Run prints its plan, asks for confirmation, deletes the Cluster, waits until the hub has stopped its app, and deletes
// the account and the Secret.
func (d *Deregistration) Run(ctx context.Context) error {
	d.Plan()
	if !d.Yes {
		if err := d.Terminal.Ask(ctx, "Deregister the remote?"); err != nil {
			return err
		}
	}
	if err := d.announce(ctx); err != nil {
		return err
	}
	if err := d.removeSource(ctx); err != nil {
		return err
	}
	if err := d.removeCluster(ctx); err != nil {
		return err
	}
	for _, of := range d.accounts() {
		if err := d.removeAccount(ctx, of); err != nil {
			return err
		}
	}
	return nil
}

// accounts are that of rehearsals and that of the hub, if they are there.
func (d *Deregistration) accounts() []*record {
	return slices.DeleteFunc([]*record{d.rehearsal, d.record}, func(of *record) bool { return of == nil })
}

// removeAccount deletes an account in the remote, and last the Secret that says where it is.
func (d *Deregistration) removeAccount(ctx context.Context, of *record) error {
	if d.Remote == nil {
		return d.remove(ctx, &of.secret)
	}
	removed, err := of.account.remove(ctx, d.Remote)
	if namespace := of.secret.Annotations[annotationAgent]; namespace != "" {
		agent := Agent{Namespace: namespace}
		bad := agent.remove(ctx, d.Remote, of.account.Owner)
		if err = errors.Join(err, bad); bad == nil {
			removed = append(removed, "the agent with the namespace "+namespace)
		}
	}
	for _, one := range removed {
		d.Terminal.Done("%s is deleted in the remote", one)
	}
	if err != nil {
		return err
	}
	return d.remove(ctx, &of.secret)
}

// Plan prints the objects that Run deletes.
func (d *Deregistration) Plan() {
	t := d.Terminal
	t.Text("In %s, %s:", d.Hub.What, d.Hub.Config.Host)
	if d.source != "" {
		t.Text("  delete secret %s/%s, from which the hub has made the Cluster", d.Namespace, d.source)
	}
	if d.cluster != nil {
		t.Text("  delete cluster.%s/%s, which has the modules clean up in the remote", hubv1.GroupName, d.Name)
	}
	for _, of := range d.accounts() {
		if d.Remote == nil {
			t.Warn("the account %s/%s, its role and its tokens stay in the remote", of.account.Namespace, of.account.Name)
		} else {
			d.planRemote(of)
		}
		t.Text("In %s:", d.Hub.What)
		t.Text("  delete %s", nameOf(&of.secret))
	}
}

func (d *Deregistration) planRemote(of *record) {
	t := d.Terminal
	t.Text("In %s, %s:", d.Remote.What, d.Remote.Config.Host)
	for _, o := range of.account.objects() {
		t.Text("  delete %s", nameOf(o))
	}
	t.Text("  delete its tokens")
	if namespace := of.secret.Annotations[annotationAgent]; namespace != "" {
		t.Text("  delete namespace %s with the agent", namespace)
	}
}

// announce keeps the limit of the fleet from holding the removal by a person.
func (d *Deregistration) announce(ctx context.Context) error {
	if d.cluster == nil {
		return nil
	}
	before := d.cluster.DeepCopy()
	metav1.SetMetaDataAnnotation(&d.cluster.ObjectMeta, hubv1.AnnotationDeregister, string(d.cluster.UID))
	err := client.IgnoreNotFound(d.Hub.Patch(ctx, d.cluster, client.MergeFrom(before)))
	return d.Hub.Failed("annotate Cluster "+d.Name, err)
}

// removeSource deletes the Secret from which the hub would make the Cluster again.
func (d *Deregistration) removeSource(ctx context.Context) error {
	if d.source == "" {
		return nil
	}
	return d.remove(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.source}})
}

func (d *Deregistration) removeCluster(ctx context.Context) error {
	if d.cluster == nil {
		return nil
	}
	uid := d.cluster.UID
	err := d.Hub.Delete(ctx, d.cluster, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return d.Hub.Failed("delete Cluster "+d.Name, err)
	}
	d.Terminal.Step("waiting until the hub has ended the app of the remote")
	ctx, cancel := context.WithTimeoutCause(ctx, d.Timeout, errStuck)
	defer cancel()
	err = access.Poll(ctx, pollPeriod, func() (bool, error) {
		var now hubv1.Cluster
		err := d.Hub.Get(ctx, client.ObjectKey{Name: d.Name}, &now)
		gone := apierrors.IsNotFound(err) || err == nil && now.UID != uid
		return gone, d.Hub.Explain(client.IgnoreNotFound(err))
	})
	if err == nil {
		d.Terminal.Done("the Cluster is gone")
	}
	return err
}

func (d *Deregistration) remove(ctx context.Context, secret *corev1.Secret) error {
	return d.Hub.Failed("delete "+nameOf(secret), client.IgnoreNotFound(d.Hub.Delete(ctx, secret)))
}
