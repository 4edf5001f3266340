// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/clusterfx/clusterfx/e2e/fleet"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

// Server is a NATS server.
type Server struct {
	tb   testing.TB
	dir  string
	port int
	args []string // in addition to those of every server
	cmd  *exec.Cmd
	life *os.File // the server ends when it is closed
}

// guardScript runs "$@", and kills it when the other end of descriptor 3 is closed without a line.
const guardScript = `(read -r line <&3 && exit; kill -KILL $$) >/dev/null 2>&1 & exec "$@" 3<&-`

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
	s := &Server{tb: tb, dir: tb.TempDir(), port: freePort(tb)}
	tb.Cleanup(s.Kill)
	return s
}

// StartCluster starts servers that replicate their data, and returns when they have elected a leader.
func StartCluster(tb testing.TB, n int) []*Server {
	tb.Helper()
	var all []*Server
	var routes []string
	for range n {
		port := freePort(tb)
		s := New(tb)
		route := "nats://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
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

func freePort(tb testing.TB) int {
	tb.Helper()
	port, err := fleet.FreePort(tb.Context(), netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	if err != nil {
		tb.Fatal(err)
	}
	return port
}

// URL returns the address for clients.
func (s *Server) URL() string { return "nats://" + s.Address() }

// Address returns the host and port.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Dir returns the folder with the data of JetStream.
func (s *Server) Dir() string { return filepath.Join(s.dir, "data") }

// Restart starts a server that does not run, with its data, and returns when it responds.
func (s *Server) Restart() {
	s.tb.Helper()
	path, err := binary()
	if err != nil {
		s.tb.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		s.tb.Fatal(err)
	}
	var log bytes.Buffer
	s.cmd = exec.CommandContext(s.tb.Context(), "sh", append([]string{"-c", guardScript, "sh", path, //nolint:gosec // The path is ours.
		"--addr", "127.0.0.1", "--port", strconv.Itoa(s.port), "--jetstream", "--store_dir", s.Dir()}, s.args...)...)
	s.cmd.ExtraFiles, s.cmd.Stdout, s.cmd.Stderr = []*os.File{read}, &log, &log
	s.life = write
	if err := s.cmd.Start(); err != nil {
		s.tb.Fatal(err)
	}
	_ = read.Close() // The process has its own.
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
	_, _ = s.life.WriteString("ended\n")
	_ = s.life.Close()
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
