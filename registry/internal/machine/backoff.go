// SPDX-License-Identifier: Apache-2.0

package machine

import "time"

// The backoff of failed apps, hub parts and trials. For apps and hub parts it starts again after RetryReset in health.
const (
	RetryBase  = time.Second
	retryMax   = 2 * time.Minute
	RetryReset = 10 * time.Minute
)

// Backoff returns the pause after so many consecutive failures. jitter in [0,1) changes it by at most 20 %.
func Backoff(failures int, jitter float64) time.Duration {
	delay := min(RetryBase<<min(failures, 16), retryMax)
	return time.Duration(float64(delay) * (0.8 + 0.4*jitter))
}
