// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/registry"
)

type suite struct {
	prepared sync.Once
	ids      atomic.Int64
}

var shared suite //nolint:gochecknoglobals // a process is configured once

// prepare configures the process as app.Main does: a panic in a goroutine of client-go is counted against its module.
// A logger that was set stays.
func (s *suite) prepare() {
	s.prepared.Do(func() {
		utilruntime.ReallyCrash = false
		utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, registry.CountPanic)
		ctrl.SetLogger(logr.Discard())
	})
}

func (s *suite) nextID() string { return strconv.FormatInt(s.ids.Add(1), 10) }
