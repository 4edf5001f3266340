// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
)

// An informer whose streamed lists are refused ends at once with its app, although it waits for the next attempt: client-go
// would wait to the end.
func TestInformer_EndsWhileItWaits(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]error{
		"connection refused": fmt.Errorf("dial: %w", syscall.ECONNREFUSED),
		"429":                apierrors.NewTooManyRequests("later", 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				attempts := 0
				lw := &toolscache.ListWatch{
					ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, refusal },
					WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
						attempts++
						return nil, refusal
					},
				}
				of := &selection{budget: newBudget(someOptions(ctx, scheme.Scheme, nil))}
				one := of.newInformer(lw, &corev1.Event{}, 0, toolscache.Indexers{})
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					one.RunWithContext(ctx)
				}()
				time.Sleep(5 * time.Minute) //nolint:forbidigo // The time of a bubble costs none.
				synctest.Wait()
				if attempts < 5 || attempts > 50 {
					t.Errorf("%d attempts in 5 minutes", attempts)
				}
				cancel()
				synctest.Wait()
				select {
				case <-ended:
				default:
					t.Error("the informer has not ended with its app")
					<-ended
				}
			})
		})
	}
}
