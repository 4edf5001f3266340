// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"sync"

	"go.uber.org/fx"
)

// shutdown learns when somebody calls fx.Shutdowner. fx's own way to learn of it, App.Wait, takes
// over SIGINT and SIGTERM for the whole process; it is asked only once the end has come, for the
// exit code.
type shutdown struct {
	asked chan struct{} // closed when the end was asked for
	close func()
}

func newShutdown() *shutdown {
	asked := make(chan struct{})
	return &shutdown{asked: asked, close: sync.OnceFunc(func() { close(asked) })}
}

// option puts the ending between fx's Shutdowner and everybody who asks for one.
func (e *shutdown) option() fx.Option {
	return fx.Decorate(func(s fx.Shutdowner) fx.Shutdowner { return &shutdowner{Shutdowner: s, ending: e} })
}

// code returns what the program shall exit with once the end was asked for, as an error unless it
// is 0.
func (e *shutdown) code(app *fx.App) error {
	if code := (<-app.Wait()).ExitCode; code != 0 {
		return ExitError(code)
	}
	return nil
}

type shutdowner struct {
	fx.Shutdowner
	ending *shutdown
}

// Shutdown asks for the end of the hub.
func (s *shutdowner) Shutdown(options ...fx.ShutdownOption) error {
	defer s.ending.close()
	return s.Shutdowner.Shutdown(options...)
}

// ExitError ends the program with a code of its own. Whoever returns it to execute has said why.
type ExitError int

// Error says what the program exits with.
func (e ExitError) Error() string {
	return fmt.Sprintf("the hub was asked to end with exit status %d", int(e))
}
