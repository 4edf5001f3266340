// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"sync"

	"go.uber.org/fx"
)

// shutdown detects a call of fx.Shutdowner. App.Wait of fx would detect it, too, but takes
// over SIGINT and SIGTERM for the whole process; it is called only after the shutdown was requested, for the
// exit code.
type shutdown struct {
	requested chan struct{}
	close     func() // closes requested
}

func newShutdown() *shutdown {
	requested := make(chan struct{})
	return &shutdown{requested: requested, close: sync.OnceFunc(func() { close(requested) })}
}

// option decorates the Shutdowner of fx for all functions that take one.
func (s *shutdown) option() fx.Option {
	return fx.Decorate(func(inner fx.Shutdowner) fx.Shutdowner { return &shutdowner{Shutdowner: inner, shutdown: s} })
}

// code returns the exit status that was requested with the shutdown, as an error unless it
// is 0.
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

// Shutdown requests the shutdown of the hub.
func (s *shutdowner) Shutdown(options ...fx.ShutdownOption) error {
	defer s.shutdown.close()
	return s.Shutdowner.Shutdown(options...)
}

// ExitError ends the program with its exit status. The function that returns it has printed why.
type ExitError int

// Error names the exit status.
func (e ExitError) Error() string {
	return fmt.Sprintf("the hub was asked to end with exit status %d", int(e))
}
