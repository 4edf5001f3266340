// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/clusterfx/clusterfx/internal/testkit"
	"github.com/clusterfx/clusterfx/registry/internal/cache"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/registry/internal/transport"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

// The errors of a client do not repeat the text of a decoder, even if the error is a Status, or if the context of the
// caller has ended meanwhile. Then the error matches the cause of its end.
func TestCall(t *testing.T) {
	t.Parallel()
	spoken := errors.New("SPOKEN")
	failure := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Message: "SPOKEN"}}
	stopped := errors.New("stopped by the test")
	for name, c := range map[string]struct {
		codes []int
		err   error
		ends  bool // whether the context ends
		want  error
	}{
		"decoder":           {[]int{200}, spoken, false, kubeconfig.ErrNotKubernetes},
		"ended":             {[]int{200}, spoken, true, stopped},
		"Status":            {[]int{200}, failure, false, kubeconfig.ErrNotKubernetes},
		"Status, ended":     {[]int{201}, failure, true, stopped},
		"refused":           {[]int{422}, failure, false, failure},
		"refused at last":   {[]int{200, 410}, failure, false, failure},
		"no response":       {nil, spoken, false, spoken},
		"end, and response": {[]int{200}, context.Canceled, true, stopped},
		"end, not sent":     {nil, context.Canceled, true, stopped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			err := cache.CheckDecoded(ctx, "get x", func(ctx context.Context) error {
				for _, code := range c.codes {
					transport.ExchangeOf(ctx).Answered(&http.Response{StatusCode: code})
				}
				if c.ends {
					cancel(stopped)
				}
				return c.err
			})
			if c.ends && errors.Is(c.err, context.Canceled) && !errors.Is(err, c.err) {
				t.Errorf("error %v does not match %v", err, c.err)
			}
			isKept := errors.Is(c.want, c.err)
			if !errors.Is(err, c.want) || !isKept && strings.Contains(err.Error(), "SPOKEN") {
				t.Errorf("got error %v", err)
			}
		})
	}
}

// An object that the Go type of its kind cannot hold is named by its field and types, without its value, and is no sign of another
// server than Kubernetes.
func TestCall_Misfit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"items":[{"metadata":{"name":5}}]}`:   "the field metadata.name has a JSON number, which the Go type string cannot hold",
		`{"items":[{"data":{"x":["SPOKEN"]}}]}`: "the field data has a JSON array, which the Go type string cannot hold",
	} {
		err := cache.CheckDecoded(t.Context(), "list x", func(ctx context.Context) error {
			transport.ExchangeOf(ctx).Answered(&http.Response{StatusCode: http.StatusOK})
			return json.Unmarshal([]byte(text), &corev1.ConfigMapList{})
		})
		_, message := kubeconfig.Classify(err)
		if !errors.Is(err, cache.ErrMisfit) || errors.Is(err, kubeconfig.ErrNotKubernetes) ||
			!strings.Contains(message, want) || strings.Contains(err.Error()+message, "SPOKEN") {
			t.Errorf("%s: got %v, %q", text, err, message)
		}
	}
	err := cache.CheckDecoded(t.Context(), "list x", func(ctx context.Context) error {
		transport.ExchangeOf(ctx).Answered(&http.Response{StatusCode: http.StatusOK})
		return json.Unmarshal([]byte(`"html"`), &corev1.ConfigMapList{})
	})
	testkit.ErrorIs(t, err, kubeconfig.ErrNotKubernetes, "a response that is no object")
}
