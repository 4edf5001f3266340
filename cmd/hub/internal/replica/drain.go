// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/cmd/hub/internal/shards"
)

// ErrNotDrained says that a Pod has shards after its time.
var ErrNotDrained = errors.New("the replica is not drained")

// lookEvery is between two looks at the shards, lookWithin how long one may take.
const lookEvery, lookWithin = 500 * time.Millisecond, 10 * time.Second

// Drain is the wish of an administrator that a Pod has no shards.
type Drain struct {
	Client         client.Client
	Namespace, Pod string
	// Progress gets what the Pod still has, when that changes. Default: no call.
	Progress func(text string)
}

// Set writes the wish, or ends it, by a key of the assignment, whatever its version, and returns how many shards the Pod has. To drain a
// Pod without a Lease is an error that lists those with one.
func (d Drain) Set(ctx context.Context, drained bool) (held int, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	s, err := ReadSurvey(ctx, d.Client, d.Namespace)
	if s == nil {
		return 0, err
	}
	if pods := s.Pods(); drained && !pods.Has(d.Pod) {
		return 0, errors.Join(fmt.Errorf("%s: no Pod of this name has a Lease; there are %s", d.Pod, strings.Join(sets.List(pods), ", ")), err)
	}
	value := "null"
	if drained {
		value = strconv.Quote(isSet)
	}
	data := fmt.Appendf(nil, `{"data":{%q:%s}}`, prefixDrained+d.Pod, value)
	wish := &corev1.ConfigMap{}
	wish.Namespace, wish.Name = d.Namespace, assignmentName
	if err := d.Client.Patch(ctx, wish, client.RawPatch(types.MergePatchType, data)); err != nil {
		return 0, fmt.Errorf("change the key %s%s of the ConfigMap %s/%s: %w", prefixDrained, d.Pod, d.Namespace, assignmentName, err)
	}
	return s.heldBy(d.Pod), nil
}

// Await returns when no record names the Pod, or with an error that matches ErrNotDrained and has the reason. A failed request is
// repeated, unless it is denied.
func (d Drain) Await(ctx context.Context, timeout time.Duration) error {
	last := ""
	err := wait.PollUntilContextTimeout(ctx, lookEvery, timeout, true, func(context.Context) (isDrained bool, err error) {
		problem, err := d.unfinished(ctx)
		if problem != "" && problem != last && d.Progress != nil {
			d.Progress(problem)
		}
		last = problem
		return problem == "", err
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case wait.Interrupted(err):
		return fmt.Errorf("%w after %s: %s", ErrNotDrained, timeout, last)
	}
	return err
}

// unfinished returns "" if the Pod has no shard.
func (d Drain) unfinished(ctx context.Context) (problem string, err error) {
	looking, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	s, err := ReadSurvey(looking, d.Client, d.Namespace)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.Is(err, ErrNoReplicas), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err): // Another request would fail, too.
		return "", err
	case err != nil: // A record that cannot be decoded may name the Pod.
		return err.Error(), nil
	}
	held := s.heldBy(d.Pod)
	if held == 0 {
		return "", nil
	}
	problem = fmt.Sprintf("%s has %d of %d shards", d.Pod, held, len(s.Holders))
	if s.IsDrainIgnored(time.Now()) {
		problem += "; all live replicas are drained, so that the hub ignores it: start another replica, or cancel the drain of one"
	}
	return problem, nil
}

func (s *Survey) heldBy(pod string) (n int) {
	for _, holder := range s.Holders {
		if holder != "" && shards.PodOf(holder) == pod {
			n++
		}
	}
	return n
}
