// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"errors"
	"strings"

	"github.com/miekg/dns"
)

var (
	// errExists means that the name or its mark has records, so that nothing was created.
	errExists = errors.New("the name is in use")
	// errChanged means that the mark differs from the mark on which the change was based, so that nothing was changed.
	errChanged = errors.New("the mark has changed")
)

// state has the records of a zone at a place.
type state struct {
	owner   *owner   // nil without a mark
	records []record // read only for a mark of ours
}

// is reports whether there is this record and no other record.
func (s state) is(r record) bool { return len(s.records) == 1 && s.records[0] == r }

// owner reads the mark at a place.
func (s *session) owner(ctx context.Context, at place) (*owner, error) {
	found, err := s.query(ctx, at.mark, dns.TypeTXT)
	if err != nil {
		return nil, err
	}
	for _, rr := range found {
		if o, ok := readOwner(rr); ok {
			return &o, nil
		}
	}
	return nil, nil //nolint:nilnil // no mark is a state like any other
}

// records reads where the name leads to.
func (s *session) records(ctx context.Context, at place) ([]record, error) {
	var all []record
	for _, kind := range recordKinds() {
		found, err := s.query(ctx, at.name, kind)
		if err != nil {
			return nil, err
		}
		for _, rr := range found {
			if r, ok := read(rr); ok {
				all = append(all, r)
			}
		}
	}
	return all, nil
}

// query returns the records of one type that the server itself has for a name.
func (s *session) query(ctx context.Context, name string, kind uint16) ([]dns.RR, error) {
	request := new(dns.Msg).SetQuestion(name, kind)
	request.RecursionDesired = false
	answer, err := s.exchange(ctx, request)
	if err != nil {
		return nil, err
	}
	if answer.Rcode != dns.RcodeSuccess && answer.Rcode != dns.RcodeNameError {
		return nil, s.refused(answer)
	}
	if !answer.Authoritative {
		return nil, s.unreachable("is not authoritative for zone "+s.name+"; use the primary server of the zone", nil)
	}
	var found []dns.RR
	for _, rr := range answer.Answer {
		if rr.Header().Rrtype == kind && strings.EqualFold(rr.Header().Name, name) {
			found = append(found, rr)
		}
	}
	return found, nil
}

// create makes a record with its mark, if neither name has records; else the error is errExists. The server checks and
// acts in one step.
func (s *session) create(ctx context.Context, at place, r record, o owner) error {
	request := new(dns.Msg).SetUpdate(s.name)
	target, mark := r.at(at.name), o.at(at.mark, r.ttl)
	request.NameNotUsed([]dns.RR{target, mark})
	request.Insert([]dns.RR{target, mark})
	return s.update(ctx, request)
}

// replace makes the record the only record of its name, if the mark has not changed since it was read; else the error
// is errChanged.
func (s *session) replace(ctx context.Context, at place, r record, o owner) error {
	request := s.change(at, o)
	request.Insert([]dns.RR{r.at(at.name)})
	return s.update(ctx, request)
}

// remove removes record and mark, if the mark has not changed since it was read; else the error is errChanged. Foreign
// records of other types at the name stay.
func (s *session) remove(ctx context.Context, at place, o owner) error {
	request := s.change(at, o)
	request.RemoveRRset([]dns.RR{o.at(at.mark, 0)})
	return s.update(ctx, request)
}

// change returns a request that removes all records of a name whose mark is as it was read.
func (s *session) change(at place, o owner) *dns.Msg {
	request := new(dns.Msg).SetUpdate(s.name)
	request.Used([]dns.RR{o.at(at.mark, 0)})
	for _, kind := range recordKinds() {
		request.RemoveRRset([]dns.RR{&dns.ANY{Hdr: dns.RR_Header{Name: at.name, Rrtype: kind}}})
	}
	return request
}

func (s *session) update(ctx context.Context, request *dns.Msg) error {
	answer, err := s.exchange(ctx, request)
	if err != nil {
		return err
	}
	switch answer.Rcode {
	case dns.RcodeSuccess:
		return nil
	case dns.RcodeYXDomain:
		return errExists
	case dns.RcodeNXRrset, dns.RcodeNameError:
		return errChanged
	}
	return s.refused(answer)
}
