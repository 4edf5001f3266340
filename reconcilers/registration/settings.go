// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"cmp"
	"time"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// Settings configure the controller. The zero value is valid.
type Settings struct {
	Namespace       string        // the only one whose Secrets are read. Default clusterfx-system.
	Concurrency     int           // how many pairs are reconciled at once. Default 50.
	DeregisterAfter time.Duration // how long a Cluster outlives its Secret. Default 60 s.
}

const (
	defaultPairs           = 50
	defaultDeregisterAfter = time.Minute
)

func (s Settings) withDefaults() Settings {
	s.Namespace = cmp.Or(s.Namespace, hubv1.DefaultNamespace)
	s.Concurrency = cmp.Or(max(s.Concurrency, 0), defaultPairs)
	s.DeregisterAfter = cmp.Or(max(s.DeregisterAfter, 0), defaultDeregisterAfter)
	return s
}
