// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/internal/writegate"
)

var errShut = errors.New("this process may not write")

// A closed gate lets reads and reviews of the own permissions pass, and answers events as an API server that refuses them.
func TestWriteGate(t *testing.T) {
	t.Parallel()
	server := fleettest.Cluster(t, "hub")
	open, closed := guarded(t, server, func() error { return nil }), guarded(t, server, func() error { return errShut })

	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "guard-"}}
	_, err := closed.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(t.Context(), config, metav1.CreateOptions{})
	testkit.ErrorIs(t, err, errShut, "a create")
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, "UNHEARD-OF"} {
		err := closed.CoreV1().RESTClient().Verb(method).Namespace(metav1.NamespaceDefault).Resource("configmaps").Name("any").Do(t.Context()).Error()
		if !errors.Is(err, errShut) {
			t.Errorf("%s returns %v, want the error of the gate", method, err)
		}
	}
	_, err = closed.EventsV1().Events(metav1.NamespaceDefault).Create(t.Context(), &eventsv1.Event{}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("the creation of an event returns %v, want Forbidden", err)
	}
	must(t, testkit.Err(closed.CoreV1().ConfigMaps(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})))
	expectReviewsOnly(t, closed)
	must(t, testkit.Err(open.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(t.Context(), config, metav1.CreateOptions{})))
}

// expectReviewsOnly fails the test unless the only permitted writes of a client behind a closed gate are reviews of its
// own permissions.
func expectReviewsOnly(t *testing.T, closed kubernetes.Interface) {
	t.Helper()
	v1 := closed.AuthorizationV1()
	attributes := &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"}
	access, err := v1.SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes},
	}, metav1.CreateOptions{})
	must(t, err)
	if !access.Status.Allowed {
		t.Errorf("the access review has no result: %+v", access.Status)
	}
	rules, err := v1.SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: metav1.NamespaceDefault},
	}, metav1.CreateOptions{})
	must(t, err)
	if len(rules.Status.ResourceRules) == 0 {
		t.Errorf("the rules review has no result: %+v", rules.Status)
	}
	const reviews = "/apis/authorization.k8s.io/v1/"
	for _, request := range [][2]string{
		{http.MethodPost, reviews + "subjectaccessreviews"},
		{http.MethodPost, reviews + "namespaces/default/localsubjectaccessreviews"},
		{http.MethodPost, reviews + "selfsubjectaccessreviews/any"},
		{http.MethodPut, reviews + "selfsubjectaccessreviews"},
		{http.MethodDelete, reviews + "selfsubjectrulesreviews"},
		{http.MethodPost, "/api/v1/namespaces/default/services/any/proxy" + reviews + "selfsubjectaccessreviews"},
		{http.MethodPost, "/api/v1/nodes/any/proxy" + reviews + "selfsubjectrulesreviews"},
	} {
		err := closed.CoreV1().RESTClient().Verb(request[0]).AbsPath(request[1]).Body([]byte("{}")).Do(t.Context()).Error()
		if !errors.Is(err, errShut) {
			t.Errorf("%s %s returns %v, want the error of the gate", request[0], request[1], err)
		}
	}
}

func guarded(t *testing.T, c *fleet.Cluster, check func() error) kubernetes.Interface {
	t.Helper()
	config := c.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &writegate.Gate{Next: next, Check: check} })
	httpClient, err := rest.HTTPClientFor(config)
	must(t, err)
	t.Cleanup(func() { utilnet.CloseIdleConnectionsFor(httpClient.Transport) })
	set, err := kubernetes.NewForConfigAndClient(config, httpClient)
	must(t, err)
	return set
}

type sent func() (*http.Response, error)

func (f sent) RoundTrip(*http.Request) (*http.Response, error) { return f() }

// A write is counted before the gate is asked, until it is refused or has a response. One that has no response, or that of a gateway,
// counts for a time, since it may be on its way. A read is not counted.
func TestWriteGate_Count(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		g := &writegate.Gate{Count: func() func() {
			n++
			return func() { n-- }
		}}
		for name, c := range map[string]struct {
			method string
			status int // zero: no response
			shut   bool
			counts int
		}{
			"response": {http.MethodPut, http.StatusConflict, false, 0}, "refused": {http.MethodPut, 0, true, 0}, "read": {http.MethodGet, 0, false, 0},
			"canceled": {http.MethodPatch, 0, false, 1}, "gateway": {http.MethodDelete, http.StatusBadGateway, false, 1},
		} {
			g.Check = func() error {
				testkit.Equal(t, n, 1, "writes when the gate is asked")
				if c.shut {
					return errShut
				}
				return nil
			}
			g.Next = sent(func() (*http.Response, error) {
				if c.status == 0 {
					return nil, context.Canceled
				}
				return &http.Response{StatusCode: c.status, Body: http.NoBody}, nil
			})
			request, err := http.NewRequestWithContext(t.Context(), c.method, "https://hub/api", nil)
			must(t, err)
			response, err := g.RoundTrip(request)
			if err == nil {
				must(t, response.Body.Close())
			}
			testkit.Equal(t, n, c.counts, "writes after", name)
			<-time.After(time.Hour)
			testkit.Equal(t, n, 0, "writes a while after", name)
		}
	})
}
