// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func TestCluster_AuditEvents(t *testing.T) {
	fleettest.Slow(t, "nothing: clusters of the pool have no audit log")
	t.Parallel()
	g := NewWithT(t)
	f := fleettest.New(t, fleet.Options{Audit: true})
	c, err := f.Create(t.Context(), "audited")
	g.Expect(err).NotTo(HaveOccurred())
	config := c.Config()
	config.UserAgent = "tester/1"
	client := clientFor(t, config)
	begin := time.Now()

	write(t, client, "first")
	g.Expect(read(t.Context(), client, "nothing")).NotTo(Succeed())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"key": "hidden"}}
	_, err = client.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())

	events, err := c.AuditEvents(fleet.ByAgent("tester/"), fleet.Since(begin))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(events).To(HaveLen(3))
	create, get, createSecret := events[0], events[1], events[2]
	g.Expect(create.Writes()).To(BeTrue())
	g.Expect(create.Response.Code).To(Equal(201))
	g.Expect(create.Object).To(Equal(fleet.AuditObject{Resource: "configmaps", Namespace: "default", Name: "first"}))
	g.Expect(string(create.Body)).To(ContainSubstring(`"name":"first"`))
	g.Expect(create.Received).To(And(BeTemporally(">=", begin), BeTemporally("<=", create.Stamped)))
	g.Expect(create.User.Username).To(Equal("clusterfx-fleet-admin"))
	g.Expect(get.Writes()).To(BeFalse())
	g.Expect(get.String()).To(HaveSuffix("get /api/v1/namespaces/default/configmaps/nothing?timeout=2s 404 by tester/1 (clusterfx-fleet-admin)"))
	g.Expect(createSecret.Body).To(BeEmpty())

	// An informer sends one list or one watch that lists, which the log contains before the watch ends.
	factory := informers.NewSharedInformerFactory(client, 0)
	factory.Core().V1().ConfigMaps().Informer()
	stop := make(chan struct{})
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
	lists, err := c.AuditEvents(fleet.ByAgent("tester/"), fleet.AuditEvent.Lists)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(lists).To(HaveLen(1))
	g.Expect(lists[0].Stage).To(Or(Equal("ResponseStarted"), Equal("ResponseComplete")))
	close(stop)
	factory.Shutdown()

	// The log continues after a restart.
	g.Expect(c.Restart(t.Context())).To(Succeed())
	g.Expect(c.AuditEvents(fleet.ByAgent("tester/"))).To(ContainElement(HaveField("ID", create.ID)))
}

func TestCluster_AuditEvents_withoutALog(t *testing.T) {
	t.Parallel()
	_, err := fleettest.Cluster(t, "a").AuditEvents()
	testkit.ErrorHas(t, err, "start the fleet with Options.Audit")
}
