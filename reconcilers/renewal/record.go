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
	// LifetimeSeconds is what the hub asked for.
	LifetimeSeconds int64 `json:"lifetimeSeconds"`
	// GrantedSeconds is the lifetime that the remote stated beside the token, if that is shorter.
	GrantedSeconds int64 `json:"grantedSeconds,omitempty"`
	// ExpirationTime is when the token expires by its claims. It ties the record to the token.
	ExpirationTime metav1.Time `json:"expirationTime"`
}

// recordOf returns the record of a Secret. It is the zero one where there is none; isBad says that there is one that
// cannot be used: it cannot be decoded, or the clock of the hub has not come to its time.
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

// isOf reports whether the record is that of the token with this life.
func (r record) isOf(l life) bool { return !r.Time.IsZero() && r.ExpirationTime.Time.Equal(l.expires) }

// newRecord returns the record of a token that the hub asked for and judged just now.
func newRecord(l life, lifetime, granted time.Duration, now time.Time) record {
	r := record{Time: metav1.NewMicroTime(now), LifetimeSeconds: secondsOf(lifetime), ExpirationTime: metav1.NewTime(l.expires)}
	if granted > 0 && granted < lifetime {
		r.GrantedSeconds = secondsOf(granted)
	}
	return r
}

// plan returns what follows from the record: two thirds of the lifetime that was asked for, or of that which was granted,
// are over, by the clock of the hub. A token that ends earlier is due earlier.
func (r record) plan() plan {
	lifetime := within(time.Duration(min(r.LifetimeSeconds, secondsOf(longest))) * time.Second)
	lives := min(lifetime, r.ExpirationTime.Sub(r.Time.Time))
	if r.GrantedSeconds > 0 && r.GrantedSeconds < secondsOf(lives) {
		lives = time.Duration(r.GrantedSeconds) * time.Second
	}
	return plan{due: r.Time.Add(lives / 3 * 2), lifetime: lifetime}
}
