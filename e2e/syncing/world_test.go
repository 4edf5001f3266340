// SPDX-License-Identifier: Apache-2.0

package syncing_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
)

// world is a pair with two namespaces upstream and one downstream, with a network that can be broken, and with a witness of all
// that happens downstream.
type world struct {
	setting
	t          testing.TB
	people     [2]client.WithWatch // of upstream and downstream, without faults
	network    [2]*fault.Proxy
	downstream *fleet.Cluster
	translator syncer.Translator[*corev1.ConfigMap]
	witness    *witness
}

// The two clusters of a world.
const (
	above = iota
	below
)

// newWorld makes the namespaces of a world. The names of the namespaces upstream are such that "a" in one of them and "a-x-id"
// in the other one have the same name downstream in the scheme of vcluster. The pair copies ConfigMaps.
func newWorld(t testing.TB, all []*fleet.Cluster, id string) *world {
	t.Helper()
	w := &world{t: t, downstream: all[below], setting: setting{
		namespaces: []string{id + "-x-q" + id, "q" + id}, target: "t" + id, oneToOne: true, identity: syncer.Identity{Tenant: id},
		bodies: &bodies{all: map[string][]byte{}},
	}}
	w.identity.TargetNamespace = w.target
	for i, c := range all {
		w.people[i] = fleettest.Client(t, c)
		w.network[i] = fleettest.Proxy(t, c.Server())
	}
	w.up, w.down = all[above].Config(), all[below].Config()
	w.up.Host, w.down.Host = "https://"+w.network[above].Addr(), "https://"+w.network[below].Addr()
	for _, name := range w.namespaces {
		namespace(t, w.people[above], name)
	}
	namespace(t, w.people[below], w.target)
	full, err := w.identity.WithDefaults()
	must(t, err)
	w.identity = full
	w.translator, err = translate.Bind(syncer.NewNamespaced[*corev1.ConfigMap](full, syncer.TranslatorOptions{}), full,
		corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	must(t, err)
	w.witness = newWitness(t, w.people[below], w.target)
	return w
}

// witness has every state of every ConfigMap in a namespace, by resourceVersion.
type witness struct {
	mu  sync.Mutex // protects the map
	all map[string]*corev1.ConfigMap
}

func newWitness(t testing.TB, c client.WithWatch, namespace string) *witness {
	t.Helper()
	w := &witness{all: map[string]*corev1.ConfigMap{}}
	fleettest.Watch(t, fleettest.Watched{
		Client: c, List: &corev1.ConfigMapList{}, Options: []client.ListOption{client.InNamespace(namespace)},
	}, w.see)
	return w
}

func (w *witness) see(o client.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one, ok := o.(*corev1.ConfigMap); ok {
		w.all[one.ResourceVersion] = one
	}
}

func (w *witness) at(revision string) *corev1.ConfigMap {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all[revision]
}

// catchUp waits until the witness has seen everything that has happened.
func (w *world) catchUp() {
	w.t.Helper()
	last := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.target, GenerateName: "witness-"}}
	must(w.t, w.people[below].Create(w.t.Context(), last))
	eventually(w.t, func() error {
		if w.witness.at(last.ResourceVersion) == nil {
			return errors.New("the witness is behind")
		}
		return nil
	})
	must(w.t, w.people[below].Delete(w.t.Context(), last))
}

// checkWrites reads from the audit log which objects downstream the pair has written. Each of them was new, or had the marks of
// the pair in the very state that the pair has changed. It returns the number of writes.
func (w *world) checkWrites() (writes int) {
	w.t.Helper()
	w.catchUp()
	events, err := w.downstream.AuditEvents(fleet.ByAgent(w.agent()), fleet.AuditEvent.Writes)
	must(w.t, err)
	for _, e := range events {
		if e.Response.Code < 200 || e.Response.Code >= 300 {
			continue
		}
		writes++
		testkit.NoError(w.t, w.checkWrite(e), e)
	}
	return writes
}

func (w *world) checkWrite(e fleet.AuditEvent) error {
	if e.Object.Resource != "configmaps" || e.Object.Namespace != w.target {
		return errors.New("the pair has nothing to write there")
	}
	var body struct {
		Metadata      metav1.ObjectMeta    `json:"metadata"`
		Preconditions metav1.Preconditions `json:"preconditions"`
	}
	data := []byte(e.Body)
	if e.Verb == "delete" {
		data = w.bodies.of(e.ID)
	}
	if err := json.Unmarshal(data, &body); err != nil {
		return fmt.Errorf("decode the body: %w", err)
	}
	revision := body.Metadata.ResourceVersion
	if p := body.Preconditions.ResourceVersion; p != nil {
		revision = *p
	}
	if e.Verb == "patch" && e.Response.Code == 201 {
		return nil
	}
	before := w.witness.at(revision)
	switch {
	case e.Verb != "patch" && e.Verb != "delete":
		return errors.New("want an apply or a delete")
	case before == nil || before.Name != e.Object.Name:
		return fmt.Errorf("there was no object with the resourceVersion %q", revision)
	}
	if _, ours := w.translator.ToUpstream(before); !ours {
		return fmt.Errorf("the object had no marks of the pair: %s", short(before))
	}
	return nil
}

// short describes an object.
func short(c *corev1.ConfigMap) string {
	data, err := json.Marshal(map[string]any{
		"name": c.Namespace + "/" + c.Name, "uid": c.UID, "data": c.Data, "labels": c.Labels, "annotations": c.Annotations,
		"finalizers": c.Finalizers, "deleted": c.DeletionTimestamp,
	})
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(data))
}
