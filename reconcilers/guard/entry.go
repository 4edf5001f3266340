// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"crypto/sha256"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterfx/clusterfx/reconcilers/guard/lock"
	"github.com/clusterfx/clusterfx/reconcilers/internal/object"
)

// entry is the lock and the condition of one type, which are always written together.
type entry struct {
	lock      lock.State
	condition metav1.Condition // no type: there is no condition yet
}

func (e *entry) differs(other entry) bool {
	return e.lock.AttemptID != other.lock.AttemptID || e.lock.Runs != other.lock.Runs ||
		e.lock.Settled != other.lock.Settled ||
		e.condition.Status != other.condition.Status || e.condition.Reason != other.condition.Reason
}

// begin takes the lock for the first run of a new attempt, or the next run of the open one.
func (e *entry) begin(uid types.UID, intent, holder string, ttl time.Duration) Attempt {
	l := &e.lock
	if l.Runs == 0 {
		l.Attempt++
		l.AttemptID = attemptID(uid, l.Type, l.Attempt)
		l.Intent = object.Shortened(intent, maxIntent)
	}
	l.Runs++
	l.Holder, l.TTLSeconds = holder, int32(ttl/time.Second)
	return Attempt{ID: l.AttemptID, Number: l.Attempt, Recovering: l.Runs > 1, Intent: l.Intent}
}

func (e *entry) stamp(now time.Time, acquired bool) {
	at := metav1.NewTime(now)
	e.lock.RenewedAt = &at
	if acquired {
		e.lock.AcquiredAt = &at
	}
}

func (e *entry) release() {
	e.lock.Holder, e.lock.TTLSeconds, e.lock.AcquiredAt, e.lock.RenewedAt = "", 0, nil, nil
}

func (e *entry) end() {
	e.release()
	e.lock.Runs, e.lock.Intent = 0, ""
}

// attemptID returns the same UUID (version 8 of RFC 9562) wherever it is computed.
func attemptID(uid types.UID, conditionType string, attempt int64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d", uid, conditionType, attempt))
	id := sum[:16]
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
