// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/clusterstatus"
	"github.com/clusterfx/clusterfx/registry"
)

// A Secret that cannot be used has a reason and a message in CredentialsValid, and is Stalled if only a person can help.
func TestReading(t *testing.T) {
	t.Parallel()
	config := func(server, user string) map[string][]byte {
		return map[string][]byte{"kubeconfig": fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"m",
			"clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u","user":%s}],
			"contexts":[{"name":"m","context":{"cluster":"c","user":"u"}}]}`, server, user)}
	}
	const server = "https://api.example.com"
	part := base64.RawURLEncoding.EncodeToString
	expired := config(server, fmt.Sprintf(`{"token":%q}`, part([]byte(`{"alg":"none"}`))+"."+part([]byte(`{"exp":1700000000}`))+".x"))
	valid := config(server, `{"token":"abc"}`)
	r := &reconciler{}
	key := client.ObjectKey{Namespace: "ns", Name: "s"}
	assess := func(c *hubv1.Cluster, data map[string][]byte) credentials {
		return r.assess(r.parse(&corev1.Secret{Data: data}, c), key, time.Now()).accepting(c)
	}
	for what, tc := range map[string]struct {
		ref     hubv1.KubeconfigSecretRef
		data    map[string][]byte
		reason  string
		says    string
		stalled bool
	}{
		"a token":                   {data: valid, reason: hubv1.ReasonValid},
		"another key":               {ref: hubv1.KubeconfigSecretRef{Key: "mine"}, data: map[string][]byte{"kubeconfig": nil, "mine": valid["kubeconfig"]}, reason: hubv1.ReasonValid},
		"a context that is missing": {ref: hubv1.KubeconfigSecretRef{Context: "none"}, data: valid, reason: hubv1.ReasonInvalidKubeconfig, stalled: true},
		"a wrong key":               {data: map[string][]byte{"oops": valid["kubeconfig"]}, reason: hubv1.ReasonKeyNotFound, says: "kubeconfig"},
		"an exec plugin":            {data: config(server, `{"exec":{"command":"aws","apiVersion":"client.authentication.k8s.io/v1"}}`), reason: hubv1.ReasonExecNotAllowed, says: "exec", stalled: true},
		"a forbidden address":       {data: config("https://169.254.169.254", `{"token":"abc"}`), reason: hubv1.ReasonAddressNotAllowed, says: "169.254.169.254", stalled: true},
		"an expired token":          {data: expired, reason: hubv1.ReasonExpired, says: "expired", stalled: true},
		"no authority beside a token": {
			data:   map[string][]byte{"token": []byte("abc"), "server": []byte(server), "ca.crt": []byte("hello")},
			reason: hubv1.ReasonInvalidKubeconfig, says: "ca.crt", stalled: true,
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := &hubv1.Cluster{Spec: hubv1.ClusterSpec{KubeconfigSecretRef: tc.ref}}
			found := assess(c, tc.data)
			if found.Valid.Reason != tc.reason || !strings.Contains(found.Valid.Message, tc.says) || found.Usable() != (tc.reason == hubv1.ReasonValid) {
				t.Errorf("got %+v, want the reason %s and a message with %q", found.Valid, tc.reason, tc.says)
			}
			conditions := clusterstatus.Of(c, found.Credentials, registry.Status{}).Conditions
			if meta.IsStatusConditionTrue(conditions, hubv1.ConditionStalled) != tc.stalled {
				t.Errorf("got %+v, want Stalled %t", conditions, tc.stalled)
			}
		})
	}
	t.Run("expired, and demanded by the operator", func(t *testing.T) {
		t.Parallel()
		c := &hubv1.Cluster{}
		found := assess(c, expired)
		fingerprint := found.Reported.Fingerprint
		if !strings.Contains(found.Valid.Message, hubv1.AnnotationAcceptCredentials+"="+fingerprint) {
			t.Errorf("the message has no fingerprint to accept: %s", found.Valid.Message)
		}
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, hubv1.AnnotationAcceptCredentials, fingerprint)
		if found = assess(c, expired); !found.Usable() || found.Valid.Reason != hubv1.ReasonExpired {
			t.Errorf("got %+v, want that the remote decides", found.Valid)
		}
	})
}
