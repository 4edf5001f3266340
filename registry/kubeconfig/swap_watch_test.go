// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// configMaps serves an empty list of ConfigMaps, and counts lists and resumed watches.
type configMaps struct{ lists, resumed atomic.Int32 }

func (c *configMaps) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	query := r.URL.Query()
	if query.Get("watch") == "" {
		c.lists.Add(1)
		_, _ = fmt.Fprint(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"10"},"items":[]}`)
		return
	}
	if query.Get("sendInitialEvents") == "true" { // a list in the form of a watch
		c.lists.Add(1)
	} else if query.Get("resourceVersion") == "10" {
		c.resumed.Add(1)
	}
	_, _ = fmt.Fprint(w, `{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"10",`+
		`"annotations":{"k8s.io/initial-events-end":"true"}}}}`)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func TestTransport_Swap_makesNoReflectorList(t *testing.T) {
	t.Parallel()
	p := shared(t)
	served := &configMaps{}
	server := serve(t, served.ServeHTTP, nil)
	transport := dial(t, server.URL, credential(t, "", p.client))
	transport.Drain = 1100 * time.Millisecond // client-go relists after watches of less than a second
	clients, err := kubernetes.NewForConfig(kubeconfig.RESTConfig(kubeconfig.Endpoint{Server: server.URL}, transport))
	must(t, err)
	source := cache.NewListWatchFromClient(clients.CoreV1().RESTClient(), "configmaps", corev1.NamespaceAll, fields.Everything())
	reflector := cache.NewReflectorWithOptions(source, &corev1.ConfigMap{}, cache.NewStore(cache.MetaNamespaceKeyFunc), cache.ReflectorOptions{})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		reflector.Run(stop)
	}()
	defer func() {
		close(stop)
		transport.Close()
		<-stopped
	}()
	testkit.Until(t, "the list", func() bool { return reflector.LastSyncResourceVersion() == "10" })
	before := served.resumed.Load()
	swap(t, transport, credential(t, "", p.second))
	testkit.Until(t, "the watch to resume", func() bool { return served.resumed.Load() > before })
	if n := served.lists.Load(); n != 1 {
		t.Errorf("got %d lists, want 1", n)
	}
}
