// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"

	"github.com/clusterfx/clusterfx/registry/internal/telemetry"
	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

func (l *Life) stage(ctx context.Context, name string, f func(context.Context) error) (err error) {
	ctx, span := l.Tracer.Start(ctx, name, string(l.Name), telemetry.EpochKey.Int64(l.Number))
	defer func() { telemetry.End(span, err, ReasonOf) }()
	return f(ctx)
}

// ReasonError is the reason of an error whose cause is not known.
const ReasonError = "Error"

// ReasonOf returns the reason of any error of an App. Reasons are the reasons of conditions.
func ReasonOf(err error) string {
	var ofModule *ModuleError
	var ofRemote *remoteError
	switch {
	case isCanceled(err):
		return telemetry.ReasonCanceled
	case errors.As(err, &ofModule), errors.Is(err, errManagerEnded):
		return Describe(err).Reason
	case errors.As(err, &ofRemote):
		return ReasonOfRequest(ofRemote)
	}
	return ReasonError
}

// ReasonOfRequest returns the reason of the error of a request to a remote.
func ReasonOfRequest(err error) string {
	if isCanceled(err) {
		return telemetry.ReasonCanceled
	}
	reason, _ := kubeconfig.Classify(err)
	return reason
}

func isCanceled(err error) bool {
	return errors.Is(err, ErrStopped) || errors.Is(err, context.Canceled)
}
