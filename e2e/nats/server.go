// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// Server is a NATS server.
type Server struct {
	tb   testing.TB
	dir  string
	at   string   // host and port
	args []string // in addition to those of every server
	cmd  *exec.Cmd
	gone func() // tells the guard that the server has ended
}

const startTimeout = 30 * time.Second

// Start starts a server with a file store, until the end of the test.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s := New(tb)
	s.Restart()
	return s
}

// New returns a server that does not run, for Configure.
func New(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{tb: tb, dir: tb.TempDir(), at: fleettest.FreeAddress(tb)}
	tb.Cleanup(s.Kill)
	return s
}

// StartCluster starts servers that replicate their data, and returns when they have elected a leader.
func StartCluster(tb testing.TB, n int) []*Server {
	tb.Helper()
	var all []*Server
	var routes []string
	for range n {
		s := New(tb)
		route := "nats://" + fleettest.FreeAddress(tb)
		routes = append(routes, route)
		s.args = []string{"--server_name", fmt.Sprintf("s%d", len(all)), "--cluster_name", "test", "--cluster", route}
		all = append(all, s)
	}
	for _, s := range all {
		s.args = append(s.args, "--routes", strings.Join(routes, ","))
		s.Restart()
	}
	_, js := Connect(tb, all[0].URL())
	testkit.Eventually(tb, func() error {
		return testkit.Err(js.AccountInfo(tb.Context()))
	})
	return all
}

// Configure sets the configuration for Restart of a server that does not run, such as its users.
func (s *Server) Configure(text string) {
	s.tb.Helper()
	path := filepath.Join(s.dir, "server.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.tb.Fatal(err)
	}
	s.args = []string{"--config", path}
}

// URL returns the address for clients.
func (s *Server) URL() string { return "nats://" + s.Address() }

// Address returns the host and port.
func (s *Server) Address() string { return s.at }

// Dir returns the folder with the data of JetStream.
func (s *Server) Dir() string { return filepath.Join(s.dir, "data") }

// Restart starts a server that does not run, with its data, and returns when it responds.
func (s *Server) Restart() {
	s.tb.Helper()
	path, err := binary()
	if err != nil {
		s.tb.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(s.at)
	var log bytes.Buffer
	s.cmd = exec.CommandContext(s.tb.Context(), path, append([]string{ //nolint:gosec // The path is ours.
		"--addr", host, "--port", port, "--jetstream", "--store_dir", s.Dir(),
	}, s.args...)...)
	s.cmd.Stdout, s.cmd.Stderr = &log, &log
	if s.gone, err = fleet.StartTied(s.cmd, ""); err != nil {
		s.tb.Fatal(err)
	}
	deadline := time.Now().Add(startTimeout)
	for {
		conn, err := nats.Connect(s.URL(), nats.Timeout(time.Second))
		if conn != nil {
			conn.Close()
		}
		var untrusted *tls.CertificateVerificationError
		if err == nil || errors.Is(err, nats.ErrAuthorization) || errors.As(err, &untrusted) { // It responds.
			return
		}
		if time.Now().After(deadline) {
			s.tb.Fatalf("the NATS server does not respond: %v\n%s", err, log.String())
		}
	}
}

// Kill kills the server.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // It was killed.
	s.gone()
	s.cmd = nil
}

// Empty removes the data of a server that does not run, and starts it.
func (s *Server) Empty() {
	s.tb.Helper()
	s.remove()
	s.Restart()
}

func (s *Server) remove() {
	if err := os.RemoveAll(s.Dir()); err != nil {
		s.tb.Fatal(err)
	}
}

// Save returns a function that restores the present data of a server that does not run.
func (s *Server) Save() (restore func()) {
	s.tb.Helper()
	backup := filepath.Join(s.tb.TempDir(), "backup")
	if err := os.CopyFS(backup, os.DirFS(s.Dir())); err != nil {
		s.tb.Fatal(err)
	}
	return func() {
		s.tb.Helper()
		s.remove()
		if err := os.CopyFS(s.Dir(), os.DirFS(backup)); err != nil {
			s.tb.Fatal(err)
		}
	}
}

// Freeze stops the server without closing its connections, until Thaw.
func (s *Server) Freeze() { _ = s.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen server run again.
func (s *Server) Thaw() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }

// Connect returns a connection as the hub has: it comes back, and buffers no writes meanwhile.
func Connect(tb testing.TB, url string) (*nats.Conn, jetstream.JetStream) {
	tb.Helper()
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.ReconnectWait(100*time.Millisecond),
		nats.PingInterval(2*time.Second), nats.MaxPingsOutstanding(2), nats.RetryOnFailedConnect(true))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		tb.Fatal(err)
	}
	return conn, js
}

// Bucket creates a bucket with some history.
func Bucket(tb testing.TB, js jetstream.JetStream, name string) jetstream.KeyValue {
	tb.Helper()
	const history = 5
	kv, err := js.CreateKeyValue(tb.Context(), jetstream.KeyValueConfig{Bucket: name, History: history})
	if err != nil {
		tb.Fatal(fmt.Errorf("create bucket %s: %w", name, err))
	}
	return kv
}
