// SPDX-License-Identifier: Apache-2.0

package renewal

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// record is the value of the annotation that the hub writes together with a new token.
type record struct {
	// Time is when the hub wrote the token, by its own clock.
	Time metav1.MicroTime `json:"time"`
	// LifetimeSeconds is the lifetime that the hub requested.
	LifetimeSeconds int64 `json:"lifetimeSeconds"`
	// GrantedSeconds is the lifetime in the response of the remote, if that is shorter.
	GrantedSeconds int64 `json:"grantedSeconds,omitempty"`
	// ExpirationTime is when the token expires by its claims. It ties the record to the token.
	ExpirationTime metav1.Time `json:"expirationTime"`
}

// recordOf returns the record of a Secret. Without a record it returns the zero value. isBad reports that the Secret has
// an unusable record: it cannot be decoded, or its time is in the future.
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

// write puts the record into the Secret.
func (r record) write(secret *corev1.Secret) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, hubv1.AnnotationTokenRenewal, string(text))
	return nil
}

// isOf reports whether the record belongs to the token with this life.
func (r record) isOf(l life) bool { return !r.Time.IsZero() && r.ExpirationTime.Time.Equal(l.expires) }

// newRecord returns the record of a token that the hub has just requested and accepted.
func newRecord(l life, lifetime, granted time.Duration, now time.Time) record {
	r := record{Time: metav1.NewMicroTime(now), LifetimeSeconds: secondsOf(lifetime), ExpirationTime: metav1.NewTime(l.expires)}
	if granted > 0 && granted < lifetime {
		r.GrantedSeconds = secondsOf(granted)
	}
	return r
}

// plan returns the plan that follows from the record: the token is due after two thirds of the requested or the granted
// lifetime, whichever is shorter, by the clock of the hub. A token that expires earlier is due earlier.
func (r record) plan() plan {
	lifetime := within(time.Duration(min(r.LifetimeSeconds, secondsOf(longest))) * time.Second)
	lives := min(lifetime, r.ExpirationTime.Sub(r.Time.Time))
	if r.GrantedSeconds > 0 && r.GrantedSeconds < secondsOf(lives) {
		lives = time.Duration(r.GrantedSeconds) * time.Second
	}
	return plan{due: r.Time.Add(lives / 3 * 2), lifetime: lifetime}
}
