// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// etcdSocket is relative, because the length of a socket's path is limited. etcd requires host:port.
const etcdSocket = "etcd:0"

// No cluster can have that name.
const etcdDir = "_etcd"

// rareCollection makes an API server collect garbage twice while it starts and not six times as with GOGC=200, in a
// sixth less processor time. The environment can change the limit of its heap, which a server with little data does not
// reach soon.
func rareCollection() []string {
	limit := "GOMEMLIMIT=450MiB"
	if own := os.Getenv("GOMEMLIMIT"); own != "" {
		limit = "GOMEMLIMIT=" + own
	}
	return []string{"GOGC=800", limit}
}

// One etcd for all.
type processes struct {
	options  Options
	binaries map[string]string
	etcd     *process
}

var _ provider = (*processes)(nil)

// fleeting: the folder is removed with this process.
func startProcesses(ctx context.Context, o Options, fleeting bool) (provider, error) {
	p, err := newProcesses(o)
	if err != nil {
		return nil, err
	}
	program := p.etcdProgram()
	if fleeting {
		program.remove = o.Dir
	}
	if err := os.MkdirAll(program.dir, 0o700); err != nil {
		return nil, err
	}
	if p.etcd, err = program.start(); err != nil {
		return nil, err
	}
	if err := p.awaitEtcd(ctx); err != nil {
		return nil, errors.Join(err, p.etcd.kill())
	}
	return p, nil
}

func newProcesses(o Options) (*processes, error) {
	p := &processes{options: o, binaries: map[string]string{}}
	names := []string{etcdBinary, apiServerBinary}
	if o.ControllerManager {
		names = append(names, controllerManagerBinary)
	}
	var errs []error
	for _, name := range names {
		path, err := Binary(name)
		p.binaries[name] = path
		errs = append(errs, err)
	}
	return p, errors.Join(errs...)
}

func (p *processes) program(binary, dir string, args []string) program {
	return program{path: p.binaries[binary], args: args, env: rareCollection(), dir: dir}
}

// etcdProgram is for the owner of its folder, and trades safety on a loss of power, which no fleet survives, for speed.
func (p *processes) etcdProgram() program {
	return p.program(etcdBinary, filepath.Join(p.options.Dir, etcdDir), []string{
		"--name=fleet",
		"--data-dir=data",
		"--listen-client-urls=unix://" + etcdSocket,
		"--advertise-client-urls=unix://" + etcdSocket,
		"--listen-peer-urls=unix://peer:0",
		"--initial-advertise-peer-urls=unix://peer:0",
		"--initial-cluster=fleet=unix://peer:0",
		"--unsafe-no-fsync",
		"--enable-grpc-gateway=false",
		// It elects itself, and need not give others time to object.
		"--heartbeat-interval=20",
		"--election-timeout=100",
		"--log-level=warn",
	})
}

// awaitEtcd: an API server that is too early tries again only after a second.
func (p *processes) awaitEtcd(ctx context.Context) error {
	socket := filepath.Join(p.etcd.dir, etcdSocket)
	err := poll(ctx, gonePeriod, func() bool {
		_, err := os.Stat(socket)
		return err == nil || p.etcd.gone()
	})
	return errors.Join(err, p.etcd.died())
}

// create tries another port if the first was taken.
func (p *processes) create(ctx context.Context, r request) (*Cluster, error) {
	authority, err := createAuthority(r.dir, r.name)
	if err != nil {
		return nil, fmt.Errorf("make keys: %w", err)
	}
	if err := authority.writeServerKeys(r.dir, p.options.Addresses); err != nil {
		return nil, fmt.Errorf("make keys: %w", err)
	}
	if p.options.Audit {
		if err := os.WriteFile(filepath.Join(r.dir, auditPolicyFile), []byte(auditPolicy), 0o600); err != nil {
			return nil, fmt.Errorf("write the audit policy: %w", err)
		}
	}
	for attempt := 1; ; attempt++ {
		port, err := freePort(ctx, p.bindAddress())
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		c, err := p.assemble(r, port, authority)
		if err != nil {
			return nil, err
		}
		err = c.machine.start(ctx)
		if err == nil {
			return c, nil
		}
		err = errors.Join(err, c.machine.kill())
		if attempt == portAttempts || !strings.Contains(err.Error(), "address already in use") {
			return nil, err
		}
	}
}

func (p *processes) assemble(r request, port int, authority *authority) (*Cluster, error) {
	c, err := newCluster(Loan{Dir: r.dir, Name: r.name, Port: port}, authority)
	if err != nil {
		return nil, err
	}
	c.machine = &programs{
		cluster:           c,
		etcd:              p.etcd,
		apiServer:         p.apiServer(r, port),
		controllerManager: p.controllerManager(r.dir),
	}
	return c, nil
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1}) //nolint:gochecknoglobals // a constant

// bindAddress is loopback if that is enough. A listener on 127.0.0.0/8 has one address, or all of the machine.
func (p *processes) bindAddress() netip.Addr {
	if len(p.options.Addresses) > 0 {
		return netip.IPv4Unspecified()
	}
	return loopback
}

func (p *processes) close(context.Context) error { return p.etcd.kill() }

// Below the ports of outgoing connections, so that the port of a stopped cluster is not taken by chance.
const (
	firstPort = 20000
	lastPort  = 29999
)

const portAttempts = 20

// FreeAddress returns an address of loopback with a port that is free, and that outgoing connections do not use. Another process may
// take it first.
func FreeAddress(ctx context.Context) (string, error) {
	port, err := freePort(ctx, loopback)
	return net.JoinHostPort(loopback.String(), strconv.Itoa(port)), err
}

func freePort(ctx context.Context, addr netip.Addr) (int, error) {
	var config net.ListenConfig
	var failures []error
	for range portAttempts {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(addr.String(), strconv.Itoa(port)))
		if err == nil {
			return port, listener.Close()
		}
		failures = append(failures, err)
	}
	return 0, errors.Join(failures...)
}
