// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/miekg/dns"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// record is where a name leads to.
type record struct {
	kind  uint16 // dns.TypeA, TypeAAAA or TypeCNAME
	value string // an address, or a domain name with a dot at the end
	ttl   uint32
}

// recordKinds are the types of the records that the module writes, apart from marks.
func recordKinds() []uint16 { return []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeCNAME} }

// recordOf returns the record of a remote at that URL. An empty URL has no record.
func recordOf(server string, ttl uint32) (*record, error) {
	if server == "" {
		return nil, nil //nolint:nilnil // the desired state is no record
	}
	parsed, err := url.Parse(server)
	if err != nil || parsed.Hostname() == "" {
		return nil, errors.New("status.server is not a URL with a host")
	}
	address, err := netip.ParseAddr(parsed.Hostname())
	if err != nil {
		if _, ok := dns.IsDomainName(parsed.Hostname()); !ok {
			return nil, errors.New("the host of status.server is neither an address nor a domain name")
		}
		return &record{dns.TypeCNAME, dns.CanonicalName(parsed.Hostname()), ttl}, nil
	}
	address = address.Unmap().WithZone("")
	if address.Is4() {
		return &record{dns.TypeA, address.String(), ttl}, nil
	}
	return &record{dns.TypeAAAA, address.String(), ttl}, nil
}

// at returns the record as a resource record of a message.
func (r record) at(name string) dns.RR {
	header := dns.RR_Header{Name: name, Rrtype: r.kind, Class: dns.ClassINET, Ttl: r.ttl}
	switch r.kind {
	case dns.TypeA:
		return &dns.A{Hdr: header, A: netip.MustParseAddr(r.value).AsSlice()}
	case dns.TypeAAAA:
		return &dns.AAAA{Hdr: header, AAAA: netip.MustParseAddr(r.value).AsSlice()}
	}
	return &dns.CNAME{Hdr: header, Target: r.value}
}

// read returns the record of a message, and false for a record of another type.
func read(rr dns.RR) (record, bool) {
	r := record{kind: rr.Header().Rrtype, ttl: rr.Header().Ttl}
	switch rr := rr.(type) {
	case *dns.A:
		r.value = rr.A.String()
	case *dns.AAAA:
		r.value = rr.AAAA.String()
	case *dns.CNAME:
		r.value = dns.CanonicalName(rr.Target)
	default:
		return r, false
	}
	return r, true
}

// String returns the record for messages to people.
func (r record) String() string {
	return fmt.Sprintf("%s %s", dns.TypeToString[r.kind], strings.TrimSuffix(r.value, "."))
}

// place has the names of a Cluster's record and of the mark that identifies its owner. A name with a CNAME can have no
// other records, so the mark has a separate name, which no Cluster can have.
type place struct{ name, mark string }

// markLabel is put before the name of a record.
const markLabel = "_clusterfx"

// maxZone is how long the name of a zone may be: the rest is for a Cluster's name, which has 63 characters at most,
// and the label of the mark.
const maxZone = 253 - len(markLabel+".") - 63 - len(".")

func placeOf(c *hubv1.Cluster, zone string) place {
	name := dns.CanonicalName(c.Name + "." + zone)
	return place{name: name, mark: markLabel + "." + name}
}
