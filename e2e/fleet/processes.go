// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// etcdSocket is the Unix socket of etcd, in its own folder. etcd requires the form host:port; the name is relative,
// because the length of a socket's path is limited.
const etcdSocket = "etcd:0"

// etcdDir is the folder of etcd in the fleet's folder; no cluster can have that name.
const etcdDir = "_etcd"

// rareCollection lets the programs collect garbage seldom, whatever GOGC is for this process: an API server collects twice
// while it starts and not six times as with GOGC=200, in a sixth less processor time, or a quarter on a busy machine. Its
// heap grows up to the limit, which the environment can change, and which a server with little data does not reach soon.
func rareCollection() []string {
	limit := "GOMEMLIMIT=450MiB"
	if own := os.Getenv("GOMEMLIMIT"); own != "" {
		limit = "GOMEMLIMIT=" + own
	}
	return []string{"GOGC=800", limit}
}

// processes is the provider that runs a kube-apiserver per cluster and one etcd for all.
type processes struct {
	options  Options
	binaries map[string]string
	etcd     *process
}

var _ provider = (*processes)(nil)

// startProcesses starts etcd; fleeting is true if the fleet's folder is removed with this process.
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

// openProcesses finds the etcd of a fleet that another process started. Closing such a fleet needs no binary; if a
// binary is missing, the first restart fails.
func openProcesses(o Options) (provider, error) {
	p, _ := newProcesses(o)
	var err error
	p.etcd, err = p.etcdProgram().adopt()
	return p, err
}

// newProcesses returns a provider without an etcd, and an error if a binary is missing.
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
	return program{path: p.binaries[binary], args: args, env: rareCollection(), dir: dir, detached: p.options.Detached}
}

// etcdProgram is an etcd that only the owner of its folder can reach, and that trades safety of data on a power loss,
// which no fleet survives, for speed.
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

// awaitEtcd returns when etcd accepts connections. An API server that is too early tries again only
// after a second.
func (p *processes) awaitEtcd(ctx context.Context) error {
	socket := filepath.Join(p.etcd.dir, etcdSocket)
	err := poll(ctx, gonePeriod, func() bool {
		_, err := os.Stat(socket)
		return err == nil || p.etcd.gone()
	})
	return errors.Join(err, p.etcd.died())
}

// create starts the programs of a cluster, on another port if the first one was taken meanwhile.
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
		port, err := FreePort(ctx, p.bindAddress())
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		c, err := p.assemble(record{Name: r.name, Port: port, Flags: r.flags}, authority)
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

// adopt returns a cluster with its running programs.
func (p *processes) adopt(r record) (*Cluster, error) {
	authority, err := loadAuthority(filepath.Join(p.options.Dir, r.Name))
	if err != nil {
		return nil, err
	}
	c, err := p.assemble(r, authority)
	if err != nil {
		return nil, err
	}
	return c, c.machine.(*programs).adopt()
}

// assemble describes a cluster that does not run yet.
func (p *processes) assemble(r record, authority *authority) (*Cluster, error) {
	dir := filepath.Join(p.options.Dir, r.Name)
	c, err := newCluster(dir, r, authority)
	if err != nil {
		return nil, err
	}
	c.machine = &programs{
		cluster:           c,
		etcd:              p.etcd,
		apiServer:         p.apiServer(r, dir),
		controllerManager: p.controllerManager(dir),
	}
	return c, nil
}

// bindAddress is loopback unless that is not enough. A listener on a part of 127.0.0.0/8 is impossible: it has one
// address, or all addresses of the machine.
func (p *processes) bindAddress() netip.Addr {
	if len(p.options.Addresses) > 0 {
		return netip.IPv4Unspecified()
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// close ends etcd, and in a detached fleet also the programs of a process that was killed before it could record them.
func (p *processes) close(context.Context) error {
	errs := []error{p.etcd.kill()}
	locks, err := filepath.Glob(filepath.Join(p.options.Dir, "*", "*"+lockSuffix))
	errs = append(errs, err)
	for _, lock := range locks {
		stray, err := program{path: strings.TrimSuffix(lock, lockSuffix), dir: filepath.Dir(lock)}.adopt()
		errs = append(errs, err, stray.kill())
	}
	return errors.Join(errs...)
}
