// SPDX-License-Identifier: Apache-2.0

package objectsync_test

import (
	"errors"
	"testing"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/modules/objectsync/rules"
)

// Promise: without allow in hub.yaml all rules are followed but for kinds that give permissions and namespaces of Kubernetes; with it
// only those that an entry allows.
func TestAllow(t *testing.T) {
	t.Parallel()
	secrets := rules.Rule{SyncRuleSpec: hubv1.SyncRuleSpec{
		From: hubv1.SyncFromHub, Kind: hubv1.SyncKind{APIVersion: "v1", Kind: "Secret"}, To: hubv1.SyncTarget{Namespace: "apps"},
		Namespaces: hubv1.SyncNamespaces{Names: []string{"shop"}},
	}}
	changed := func(change func(*rules.Rule)) rules.Rule {
		r := secrets
		change(&r)
		return r
	}
	role := changed(func(r *rules.Rule) { r.Kind = hubv1.SyncKind{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"} })
	system := changed(func(r *rules.Rule) { r.Namespaces.Names = []string{"shop", "kube-system"} })
	selected := changed(func(r *rules.Rule) { r.Namespaces = hubv1.SyncNamespaces{Template: "shop-{{cluster}}"} })
	back := changed(func(r *rules.Rule) { r.From = hubv1.SyncFromRemote })
	for name, test := range map[string]struct {
		allow rules.Allow
		rule  rules.Rule
		want  bool
	}{
		"by default":                             {nil, secrets, true},
		"from remotes by default":                {nil, back, true},
		"roles by default":                       {nil, role, false},
		"roles by an entry for all":              {rules.Allow{{Kinds: []string{"*"}}}, role, false},
		"roles by name":                          {rules.Allow{{Kinds: []string{"Role.rbac.authorization.k8s.io"}}}, role, true},
		"the group of roles":                     {rules.Allow{{Kinds: []string{"*.rbac.authorization.k8s.io"}}}, role, true},
		"kube-system by default":                 {nil, system, false},
		"kube-system by its beginning":           {rules.Allow{{HubNamespaces: []string{"shop", "kube-*"}}}, system, false},
		"kube-system by name":                    {rules.Allow{{HubNamespaces: []string{"shop", "kube-system"}}}, system, true},
		"another kind":                           {rules.Allow{{Kinds: []string{"ConfigMap"}}}, secrets, false},
		"another direction":                      {rules.Allow{{From: hubv1.SyncFromRemote}}, secrets, false},
		"another namespace of the hub":           {rules.Allow{{HubNamespaces: []string{"apps"}}}, secrets, false},
		"another namespace of remotes":           {rules.Allow{{RemoteNamespaces: []string{"shop"}}}, secrets, false},
		"from remotes, namespaces change places": {rules.Allow{{HubNamespaces: []string{"apps"}, RemoteNamespaces: []string{"shop"}}}, back, true},
		"the second of two entries":              {rules.Allow{{From: hubv1.SyncFromRemote}, {Kinds: []string{"Secret"}}}, secrets, true},
		"no one of two entries":                  {rules.Allow{{From: hubv1.SyncFromRemote}, {Kinds: []string{"Secret"}, HubNamespaces: []string{"x"}}}, secrets, false},
		"a template by its beginning":            {rules.Allow{{HubNamespaces: []string{"shop-*"}}}, selected, true},
		"a template by one of its namespaces":    {rules.Allow{{HubNamespaces: []string{"shop-edge"}}}, selected, false},
	} {
		if err := test.allow.Check(test.rule); (err == nil) != test.want || err != nil && !errors.Is(err, rules.ErrNotAllowed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
