// SPDX-License-Identifier: Apache-2.0

package machine

import "time"

// The backoff of failed apps, of failed hub parts and of trials doubles from RetryBase to retryMax. For apps and hub
// parts it starts at RetryBase again after they have been healthy for RetryReset.
const (
	RetryBase  = time.Second
	retryMax   = 2 * time.Minute
	RetryReset = 10 * time.Minute
)

// Backoff returns how long to wait before the next try after a number of earlier consecutive failures. jitter is in [0,1)
// and changes the delay by at most 20 % in either direction.
func Backoff(failures int, jitter float64) time.Duration {
	delay := min(RetryBase<<min(failures, 16), retryMax)
	return time.Duration(float64(delay) * (0.8 + 0.4*jitter))
}
