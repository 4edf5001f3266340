// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
	"time"
)

type doorMode int

const (
	doorOpen doorMode = iota // connections come about
	doorShut                 // they are refused
	doorDeaf                 // connections get no response
)

// One goroutine at a time uses a door.
type door struct {
	addr   netip.AddrPort
	accept func(*net.TCPConn) // called by the door's goroutine; must not wait

	mode      doorMode
	listener  *net.TCPListener // nil while shut
	filler    net.Conn         // takes the last place in the queue while deaf
	accepting chan struct{}    // closed when the goroutine has ended
}

// Below the ports of outgoing connections, beside those of e2e/fleet, so that a shut door keeps its port.
const (
	firstPort    = 10000
	lastPort     = 19999
	portAttempts = 20
)

const listenTimeout = 5 * time.Second

func newDoor(accept func(*net.TCPConn)) (*door, error) {
	var failures []error
	for range portAttempts {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		d := &door{addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port)), accept: accept}
		err := d.listen()
		if err == nil {
			d.open()
			return d, nil
		}
		failures = append(failures, err)
	}
	return nil, fmt.Errorf("find a free port: %w", errors.Join(failures...))
}

// to returns when the new mode is in effect. A door that cannot get its port back stays shut.
func (d *door) to(mode doorMode) error {
	if mode == d.mode {
		return nil
	}
	d.stopAccepting()
	if mode == doorShut {
		d.shut()
		return nil
	}
	if d.listener == nil {
		if err := d.relisten(); err != nil {
			return err
		}
	}
	if mode == doorDeaf {
		return d.deafen()
	}
	if err := d.backlog(fullBacklog); err != nil {
		return err
	}
	d.open()
	return nil
}

func (d *door) listen() error {
	listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(d.addr))
	if err != nil {
		return err
	}
	d.listener = listener
	return nil
}

// relisten waits a while if another process has the port.
func (d *door) relisten() error {
	deadline := time.Now().Add(listenTimeout)
	for {
		err := d.listen()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-time.After(10 * time.Millisecond)
	}
}

func (d *door) open() {
	d.mode, d.accepting = doorOpen, make(chan struct{})
	_ = d.listener.SetDeadline(time.Time{}) // fails only when closed, which the goroutine notices
	filler := d.filler
	d.filler = nil
	go func() {
		defer close(d.accepting)
		if filler != nil {
			defer func() { _ = filler.Close() }()
		}
		for {
			conn, err := d.listener.AcceptTCP()
			if err != nil {
				return
			}
			if filler != nil && conn.RemoteAddr().String() == filler.LocalAddr().String() {
				_ = conn.Close()
				continue
			}
			d.accept(conn)
		}
	}()
}

func (d *door) stopAccepting() {
	if d.mode != doorOpen {
		return
	}
	_ = d.listener.SetDeadline(time.Now())
	<-d.accepting
	d.mode = doorDeaf // as long as nothing else is done
}

func (d *door) shut() {
	if d.filler != nil {
		_ = d.filler.Close()
		d.filler = nil
	}
	if d.listener != nil {
		// A program that is being started has a copy of the socket for a moment, and would hold it open.
		_ = d.control(func(fd int) error { return syscall.Shutdown(fd, syscall.SHUT_RD) })
		_ = d.listener.Close()
		d.listener = nil
	}
	d.mode = doorShut
}

// fillTimeout is for the last place in the queue.
const fillTimeout = 200 * time.Millisecond

const fullBacklog = 128

// deafen makes the kernel drop new connections, by a full queue. One of length zero has room for one connection.
func (d *door) deafen() error {
	if err := d.backlog(0); err != nil {
		return err
	}
	// It fails where a client was faster, whose connection then waits in the queue. That is as good.
	filler, err := (&net.Dialer{Timeout: fillTimeout}).Dial("tcp", d.addr.String())
	if err == nil {
		d.filler = filler
	}
	d.mode = doorDeaf
	return nil
}

func (d *door) backlog(n int) error {
	return d.control(func(fd int) error { return syscall.Listen(fd, n) })
}

func (d *door) control(do func(fd int) error) error {
	raw, err := d.listener.SyscallConn()
	if err != nil {
		return err
	}
	var doing error
	err = raw.Control(func(fd uintptr) { doing = do(int(fd)) })
	return errors.Join(err, doing)
}
