// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"sync"

	"go.uber.org/fx"
)

// shutdown notices fx.Shutdowner. App.Wait takes over SIGINT and SIGTERM, so it is called only after the request, for the code.
type shutdown struct {
	requested chan struct{}
	close     func() // closes requested
}

func newShutdown() *shutdown {
	requested := make(chan struct{})
	return &shutdown{requested: requested, close: sync.OnceFunc(func() { close(requested) })}
}

func (s *shutdown) option() fx.Option {
	return fx.Decorate(func(inner fx.Shutdowner) fx.Shutdowner { return &shutdowner{Shutdowner: inner, shutdown: s} })
}

// code is an error unless the requested exit status is 0.
func (s *shutdown) code(app *fx.App) error {
	if code := (<-app.Wait()).ExitCode; code != 0 {
		return ExitError(code)
	}
	return nil
}

type shutdowner struct {
	fx.Shutdowner
	shutdown *shutdown
}

func (s *shutdowner) Shutdown(options ...fx.ShutdownOption) error {
	defer s.shutdown.close()
	return s.Shutdowner.Shutdown(options...)
}

// ExitError ends the program with its status. Whoever returns it must have printed why.
type ExitError int

// Error names the exit status.
func (e ExitError) Error() string {
	return fmt.Sprintf("the hub was asked to end with exit status %d", int(e))
}
