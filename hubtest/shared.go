// SPDX-License-Identifier: Apache-2.0

package hubtest

import (
	"sync"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterfx/clusterfx/registry"
)

// prepareProcess does what app.Main does: a panic in a goroutine of client-go is counted against its module. A logger that
// was set stays.
var prepareProcess = sync.OnceFunc(func() { //nolint:gochecknoglobals // a process is configured once
	utilruntime.ReallyCrash = false
	utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, registry.CountPanic)
	ctrl.SetLogger(logr.Discard())
})
