// SPDX-License-Identifier: Apache-2.0

package objectsync_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/hubtest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/modules/objectsync"
)

const ofTwoHubs = `
settings:
  from: Hub
  kind: {apiVersion: v1, kind: ConfigMap}
  namespaces: {names: [platform]}
  to: {naming: Mirror, namespace: default}
reports:
  from: Remote
  kind: {apiVersion: v1, kind: ConfigMap}
  namespaces: {names: [shop]}
  objects: {selector: {matchLabels: {report: "true"}}}
  to: {naming: Translated, namespace: inbox}
`

// Two hubs with equal rules and one remote leave each other's copies alone.
// Promise: two hubs with equal rules and one remote: each leaves the copies of the other one alone.
func TestTwoHubs(t *testing.T) {
	t.Parallel()
	first := hubOf(t, ofTwoHubs)
	second := hubtest.New(t, hubtest.Modules(objectsync.Quick(), objectsync.RulesModule))
	create(second, rulesOf(t, ofTwoHubs))
	remote := first.Remote("a")
	remote.Create(namespace("shop", nil))
	first.Create(namespace("platform", nil), namespace("inbox", nil), configMap("platform", "mine", nil), configMap("platform", "both", nil))
	copied := map[string]types.UID{}
	for _, name := range []string{"mine", "both"} {
		one := configMap("default", name, nil)
		exists(remote, one)
		copied[name] = one.UID
	}

	second.Create(namespace("platform", nil), namespace("inbox", nil), configMap("platform", "theirs", nil), configMap("platform", "both", nil))
	second.Create(&corev1.Secret{
		ObjectMeta: meta(hubv1.DefaultNamespace, "a", map[string]string{hubv1.LabelCluster: hubv1.LabelClusterValue}),
		Data:       map[string][]byte{"kubeconfig": remote.Kubeconfig()},
	})
	exists(remote, configMap("default", "theirs", nil))
	hasEvent(t, &second.Server, configMap("platform", "both", nil), "NameConflict")

	report := configMap("shop", "report", map[string]string{"report": "true"})
	remote.Create(report)
	for _, hub := range []*hubtest.Hub{first, second} {
		hub.Eventually(func() error {
			if found := copiesIn(t, hub.Client(), "inbox"); found["report"] != 1 {
				return fmt.Errorf("no copy of the report: %v", found)
			}
			return nil
		})
	}
	second.Delete(configMap("platform", "theirs", nil))
	remote.WaitGone(configMap("default", "theirs", nil))
	remote.Delete(report)
	remote.WaitGone(report)
	for _, hub := range []*hubtest.Hub{first, second} {
		hub.Eventually(func() error {
			if found := copiesIn(t, hub.Client(), "inbox"); len(found) != 0 {
				return fmt.Errorf("left: %v", found)
			}
			return nil
		})
	}
	for name, uid := range copied {
		one := configMap("default", name, nil)
		testkit.Must(t, remote.Client().Get(t.Context(), client.ObjectKeyFromObject(one), one))
		if one.UID != uid || !strings.HasPrefix(one.Labels["sync.clusterfx.dev/managed-by"], "hub-settings-") {
			t.Errorf("%s is another object or has other marks: %v", name, one.ObjectMeta)
		}
	}
}
