// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

const (
	zoneName = "clusters.example.com."
	keyName  = "clusterfx."
	keyText  = "dGhlLWtleS1vZi10aGUtbmFtZXNlcnZlci1pcy1hLXNlY3JldA=="
)

// nameserver is the primary server of a zone. It accepts signed updates (RFC 2136) over UDP and TCP.
type nameserver struct {
	t       testing.TB
	address string

	mu       sync.Mutex // protects the fields below
	zone     map[string][]dns.RR
	accepted []update
	behave   behavior
	watch    func(stage) // is called for each stage, without the lock
}

// behavior is a fault of the server.
type behavior struct {
	silent bool // reads requests and never responds
	mute   bool // applies updates and never responds to them
	refuse bool // refuses updates
	bare   bool // responds without a signature
}

// stage is the progress of a request, usually an update.
type stage int

const (
	received stage = iota // not applied yet
	applied               // no response yet
	asked                 // a query whose response is about to be sent
)

// update is an update that changed the zone.
type update struct {
	name    string // of the record
	created bool   // required that the name did not exist
	text    string
}

// newNameserver starts a server that stops with the test.
func newNameserver(t testing.TB) *nameserver {
	t.Helper()
	n := &nameserver{t: t, zone: map[string][]dns.RR{}}
	n.zone[zoneName] = []dns.RR{rr(t, zoneName+" 60 IN SOA ns.example.com. root.example.com. 1 60 60 60 60")}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	n.address = tcp.Addr().String()
	udp, err := net.ListenPacket("udp", n.address)
	must(t, err)
	for _, s := range []*dns.Server{{Listener: tcp}, {PacketConn: udp}} {
		n.serve(s)
	}
	return n
}

func (n *nameserver) serve(s *dns.Server) {
	n.t.Helper()
	started, done := make(chan struct{}), make(chan struct{})
	s.Handler = dns.HandlerFunc(n.handle)
	s.TsigSecret = map[string]string{keyName: keyText}
	s.MsgAcceptFunc = func(dns.Header) dns.MsgAcceptAction { return dns.MsgAccept }
	s.NotifyStartedFunc = func() { close(started) }
	go func() {
		defer close(done)
		_ = s.ActivateAndServe()
	}()
	<-started
	n.t.Cleanup(func() {
		_ = s.Shutdown()
		<-done
	})
}

func (n *nameserver) set(b behavior) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.behave = b
}

// onStage calls f at each stage of each request.
func (n *nameserver) onStage(f func(stage)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.watch = f
}

func (n *nameserver) tell(s stage) {
	n.mu.Lock()
	f := n.watch
	n.mu.Unlock()
	if f != nil {
		f(s)
	}
}

func (n *nameserver) handle(w dns.ResponseWriter, request *dns.Msg) {
	n.mu.Lock()
	b := n.behave
	n.mu.Unlock()
	answer := new(dns.Msg).SetReply(request)
	tsig := request.IsTsig()
	switch {
	case b.silent:
		return
	case tsig == nil:
		answer.Rcode = dns.RcodeRefused
	case w.TsigStatus() != nil:
		answer.Rcode = dns.RcodeNotAuth
	case request.Opcode == dns.OpcodeUpdate:
		n.tell(received)
		answer.Rcode = n.update(request, b)
		n.tell(applied)
		if b.mute {
			return
		}
	default:
		n.answer(answer)
		n.tell(asked)
	}
	if tsig != nil && w.TsigStatus() == nil && !b.bare {
		answer.SetTsig(tsig.Hdr.Name, tsig.Algorithm, 300, time.Now().Unix())
	}
	_ = w.WriteMsg(answer)
}

func (n *nameserver) answer(m *dns.Msg) {
	n.mu.Lock()
	defer n.mu.Unlock()
	m.Authoritative = true
	q := m.Question[0]
	for _, rr := range n.zone[q.Name] {
		if kind := rr.Header().Rrtype; kind == q.Qtype || kind == dns.TypeCNAME {
			m.Answer = append(m.Answer, dns.Copy(rr))
		}
	}
	if len(n.zone[q.Name]) == 0 {
		m.Rcode = dns.RcodeNameError
	}
}

// update implements section 3 of RFC 2136, completely under the lock.
func (n *nameserver) update(request *dns.Msg, b behavior) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if b.refuse || request.Question[0].Name != zoneName {
		return dns.RcodeRefused
	}
	if code := n.prerequisites(request.Answer); code != dns.RcodeSuccess {
		return code
	}
	u := update{text: fmt.Sprint(request.Ns)}
	for _, p := range request.Answer {
		u.created = u.created || p.Header().Class == dns.ClassNONE
	}
	for _, rr := range request.Ns {
		if !strings.HasPrefix(rr.Header().Name, "_") {
			u.name = strings.TrimSuffix(rr.Header().Name, "."+zoneName)
		}
		n.change(rr)
	}
	n.accepted = append(n.accepted, u)
	return dns.RcodeSuccess
}

func (n *nameserver) prerequisites(all []dns.RR) int {
	for _, p := range all {
		h := p.Header()
		has := n.zone[h.Name]
		switch {
		case h.Class == dns.ClassNONE && h.Rrtype == dns.TypeANY && len(has) > 0:
			return dns.RcodeYXDomain
		case h.Class == dns.ClassINET:
			set := n.rrset(h.Name, h.Rrtype)
			if len(set) != 1 || !dns.IsDuplicate(set[0], p) {
				return dns.RcodeNXRrset
			}
		case h.Class == dns.ClassANY:
			return dns.RcodeNotImplemented
		}
	}
	return dns.RcodeSuccess
}

func (n *nameserver) rrset(name string, kind uint16) []dns.RR {
	return slices.DeleteFunc(slices.Clone(n.zone[name]), func(rr dns.RR) bool { return rr.Header().Rrtype != kind })
}

func (n *nameserver) change(rr dns.RR) {
	h := rr.Header()
	if h.Class == dns.ClassANY {
		n.zone[h.Name] = slices.DeleteFunc(n.zone[h.Name], func(rr dns.RR) bool { return rr.Header().Rrtype == h.Rrtype })
		if len(n.zone[h.Name]) == 0 {
			delete(n.zone, h.Name)
		}
		return
	}
	others := slices.ContainsFunc(n.zone[h.Name], func(has dns.RR) bool {
		return (has.Header().Rrtype == dns.TypeCNAME) != (h.Rrtype == dns.TypeCNAME)
	})
	if !others { // else the server ignores it silently
		n.zone[h.Name] = append(n.zone[h.Name], rr)
	}
}

// add adds a foreign record to the zone. take removes all records of a name.
func (n *nameserver) add(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	added := rr(n.t, text)
	n.zone[added.Header().Name] = append(n.zone[added.Header().Name], added)
}

func (n *nameserver) take(names ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range names {
		delete(n.zone, name+"."+zoneName)
	}
}

// has returns the records of a name as texts, without the records of its children.
func (n *nameserver) has(name string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []string
	for _, rr := range n.zone[name+"."+zoneName] {
		h := rr.Header()
		all = append(all, fmt.Sprintf("%d %s %s", h.Ttl, dns.TypeToString[h.Rrtype], strings.TrimPrefix(rr.String(), h.String())))
	}
	slices.Sort(all)
	return all
}

// names returns the number of names in the zone, without the zone's own.
func (n *nameserver) names() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.zone) - 1
}

// updates returns the accepted updates of a name.
func (n *nameserver) updates(name string) []update {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.accepted), func(u update) bool { return u.name != name })
}

func rr(t testing.TB, text string) dns.RR {
	t.Helper()
	parsed, err := dns.NewRR(text)
	must(t, err)
	return parsed
}

// created returns the number of times that the record of a name was created.
func (n *nameserver) created(name string) int {
	made := 0
	for _, u := range n.updates(name) {
		if u.created {
			made++
		}
	}
	return made
}

// isEmpty fails as long as the zone has more than its own record.
func (n *nameserver) isEmpty() error {
	if left := n.names(); left > 0 {
		return fmt.Errorf("got %d names in the zone, want 0", left)
	}
	return nil
}
