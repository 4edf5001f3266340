// SPDX-License-Identifier: Apache-2.0

package renewal

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

type record struct {
	// Time is when the hub wrote the token, by its clock.
	Time metav1.MicroTime `json:"time"`
	// LifetimeSeconds was requested.
	LifetimeSeconds int64 `json:"lifetimeSeconds"`
	// GrantedSeconds is what the remote stated, if shorter.
	GrantedSeconds int64 `json:"grantedSeconds,omitempty"`
	// ExpirationTime is by the token's claims, and ties the record to it.
	ExpirationTime metav1.Time `json:"expirationTime"`
}

// recordOf is zero without a record. isBad: it cannot be decoded, or is from the future.
func recordOf(secret *corev1.Secret, now time.Time) (r record, isBad bool) {
	text, found := secret.Annotations[hubv1.AnnotationTokenRenewal]
	if !found {
		return record{}, false
	}
	err := json.Unmarshal([]byte(text), &r)
	if err != nil || r.Time.IsZero() || r.Time.After(now) || r.LifetimeSeconds <= 0 {
		return record{}, true
	}
	return r, false
}

func (r record) write(secret *corev1.Secret) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, hubv1.AnnotationTokenRenewal, string(text))
	return nil
}

func (r record) isOf(l life) bool { return !r.Time.IsZero() && r.ExpirationTime.Time.Equal(l.expires) }

func newRecord(l life, lifetime, granted time.Duration, now time.Time) record {
	r := record{Time: metav1.NewMicroTime(now), LifetimeSeconds: secondsOf(lifetime), ExpirationTime: metav1.NewTime(l.expires)}
	if granted > 0 && granted < lifetime {
		r.GrantedSeconds = secondsOf(granted)
	}
	return r
}

// plan: due after two thirds of the requested or granted lifetime, the shorter, by the hub's clock; earlier if the
// token expires earlier.
func (r record) plan() plan {
	lifetime := within(time.Duration(min(r.LifetimeSeconds, secondsOf(longest))) * time.Second)
	lives := min(lifetime, r.ExpirationTime.Sub(r.Time.Time))
	if r.GrantedSeconds > 0 && r.GrantedSeconds < secondsOf(lives) {
		lives = time.Duration(r.GrantedSeconds) * time.Second
	}
	return plan{due: r.Time.Add(lives / 3 * 2), lifetime: lifetime}
}
