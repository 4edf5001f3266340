// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/pool"
)

// Tests wait on mu only for lookups.
type suite struct {
	mu       sync.Mutex
	fleet    func() (*fleet.Fleet, error)
	clusters map[string]func() (*fleet.Cluster, error)
	lender   pool.Lender
	close    []func() error
}

var shared suite //nolint:gochecknoglobals // a test binary has one fleet; see the package comment

// A Check runs when all tests have passed and the shared fleet is closed.
type Check func() error

// NoLeaks fails if goroutines are left, but for connections to clusters of the shared fleet.
func NoLeaks(options ...goleak.Option) Check {
	return func() error {
		options = append(options,
			// klog starts it on import and cannot stop it.
			goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
		if os.Getenv(pool.Socket) != "" { // The servers of the run do not end with the tests of this binary, nor do connections to them.
			options = append(options,
				goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run"),
				goleak.IgnoreAnyFunction("net/http.(*http2clientConnReadLoop).run"),
				goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).healthCheck"), // of a frozen server
				goleak.IgnoreAnyFunction("net/http.(*http2ClientConn).healthCheck"))
		}
		return goleak.Find(options...)
	}
}

// Main runs the tests, stops the shared fleet and returns the exit code:
//
//	func TestMain(m *testing.M) { os.Exit(fleettest.Main(m)) }
//
// pgregory.net/rapid writes no file into the tree after a failure, unless -rapid.nofailfile=false is set.
func Main(m *testing.M, checks ...Check) int {
	if err := exitAtOnce(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "fleettest:", err)
		return 1
	}
	if flag.Lookup(noFailFile) != nil {
		if err := flag.Set(noFailFile, "true"); err != nil { // The flag on the command line is parsed later and wins.
			_, _ = fmt.Fprintln(os.Stderr, "fleettest:", err)
			return 1
		}
	}
	code := m.Run()
	err := shared.stop()
	if code == 0 {
		for _, check := range checks {
			err = errors.Join(err, check())
		}
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "fleettest:", err)
		return max(code, 1)
	}
	return code
}

// AtOnce lets so many parallel tests run, for tests that mostly wait. Call it before Main. More processors, or -parallel, win.
func AtOnce(tests int) {
	if tests > runtime.GOMAXPROCS(0) {
		_ = flag.Set("test.parallel", strconv.Itoa(tests)) // Every test binary has the flag.
	}
}

// FreeAddress returns an address without a listener, for a program whose port a test has to know.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	address, err := fleet.FreeAddress(tb.Context())
	if err != nil {
		tb.Fatalf("look for a free port: %v", err)
	}
	return address
}

// exitAtOnce: a program with the race detector sleeps for a second before it exits, and tests start hundreds.
func exitAtOnce() error {
	const options = "GORACE"
	if os.Getenv(options) != "" {
		return nil
	}
	return os.Setenv(options, "atexit_sleep_ms=20")
}

const noFailFile = "rapid.nofailfile"

// New returns a fleet that is closed with the test.
func New(tb testing.TB, o fleet.Options) *fleet.Fleet {
	tb.Helper()
	if o.Log == nil {
		o.Log = tb.Output()
	}
	f, err := fleet.New(tb.Context(), o)
	if err != nil {
		tb.Fatalf("start a fleet: %v", err)
	}
	tb.Cleanup(func() {
		if err := f.Close(context.WithoutCancel(tb.Context())); err != nil {
			tb.Errorf("close the fleet: %v", err)
		}
	})
	return f
}

// Shared returns the binary's fleet, started at the first call. It needs a TestMain with Main.
func Shared(tb testing.TB) *fleet.Fleet {
	tb.Helper()
	f, err := shared.get(context.WithoutCancel(tb.Context()))
	if err != nil {
		tb.Fatalf("start the shared fleet: %v", err)
	}
	return f
}

// Cluster returns the binary's cluster of that name, from the pool at the first call.
func Cluster(tb testing.TB, name string) *fleet.Cluster {
	tb.Helper()
	return Clusters(tb, name)[0]
}

// Lender is the pool of all tests: that of the run, whose socket is in the environment, or one in this binary's fleet.
func Lender() pool.Lender {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.lender != nil {
		return shared.lender
	}
	if socket := os.Getenv(pool.Socket); socket != "" {
		folder, _ := os.Getwd() // It names the borrower in a report only.
		b := pool.Borrow(socket, folder)
		shared.close = append(shared.close, func() error { b.Close(); return nil })
		shared.lender = b
		return b
	}
	own := pool.New(func(ctx context.Context, name string) (*fleet.Cluster, error) {
		f, err := shared.get(context.WithoutCancel(ctx))
		if err != nil {
			return nil, fmt.Errorf("start the shared fleet: %w", err)
		}
		return f.Create(ctx, name)
	})
	shared.close = append(shared.close, func() error { own.CloseIdleConnections(); return nil })
	shared.lender = own
	return own
}

// Clusters is Cluster for several, which start at the same time.
func Clusters(tb testing.TB, names ...string) []*fleet.Cluster {
	tb.Helper()
	lender := Lender()
	clusters, errs := make([]*fleet.Cluster, len(names)), make([]error, len(names))
	var starting sync.WaitGroup
	for i, name := range names {
		starting.Go(func() {
			clusters[i], errs[i] = shared.cluster(name, func() (*fleet.Cluster, error) {
				// Another test may wait for this cluster, and shall have it also if tb ends.
				return lender.Take(context.WithoutCancel(tb.Context()), pool.Remote)
			})
		})
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		tb.Fatal(err)
	}
	return clusters
}

// The context is for its end, too.
func (s *suite) get(ctx context.Context) (*fleet.Fleet, error) {
	s.mu.Lock()
	if s.fleet == nil {
		s.fleet = sync.OnceValues(func() (*fleet.Fleet, error) {
			return fleet.New(ctx, fleet.Options{Log: log()})
		})
		s.close = append(s.close, func() error {
			if f, err := s.fleet(); err == nil {
				return f.Close(ctx)
			}
			return nil // A test reported it.
		})
	}
	start := s.fleet
	s.mu.Unlock()
	return start()
}

func log() io.Writer {
	if testing.Verbose() {
		return os.Stderr
	}
	return io.Discard
}

func (s *suite) cluster(name string, create func() (*fleet.Cluster, error)) (*fleet.Cluster, error) {
	s.mu.Lock()
	once, known := s.clusters[name]
	if !known {
		once = sync.OnceValues(create)
		if s.clusters == nil {
			s.clusters = map[string]func() (*fleet.Cluster, error){}
		}
		s.clusters[name] = once
	}
	s.mu.Unlock()
	return once()
}

func (s *suite) stop() error {
	s.mu.Lock()
	stop := slices.Clone(s.close)
	s.mu.Unlock()
	var errs []error
	for _, one := range stop {
		errs = append(errs, one())
	}
	return errors.Join(errs...)
}
