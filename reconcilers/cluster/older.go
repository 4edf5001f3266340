// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"sync/atomic"
	"time"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// older says whether the CRD in the API server is one of an older version of the hub. The API server refuses a whole
// status with a field that its CRD does not have, and a hub may well be newer than its CRD for a while: then it reports
// what it can. The zero value takes the CRD for one of this version.
type older struct {
	until atomic.Int64 // in nanoseconds: until then it is known to be
}

// olderFor is how long a CRD that was refused a field counts as older. After that the field is tried again.
const olderFor = 10 * time.Minute

func (o *older) is(now time.Time) bool { return now.UnixNano() < o.until.Load() }

func (o *older) note(now time.Time) { o.until.Store(now.Add(olderFor).UnixNano()) }

// refusesField reports whether an API server does not know a field of what was applied. It has no reason for that
// which a program could tell.
func refusesField(err error) bool {
	return err != nil && strings.Contains(err.Error(), "field not declared in schema")
}

// withoutNewFields returns a status without what has come after the first version of its CRD.
func withoutNewFields(status hubv1.ClusterStatus) hubv1.ClusterStatus {
	modules := make([]hubv1.ModuleStatus, 0, len(status.Modules))
	for _, m := range status.Modules {
		m.Controllers = nil
		modules = append(modules, m)
	}
	status.Modules = modules
	return status
}
