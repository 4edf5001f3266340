// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"fmt"
	"strings"

	"github.com/miekg/dns"
	"k8s.io/apimachinery/pkg/types"
)

// owner is whose a record is.
type owner struct {
	hub     string    // the id of the hub
	cluster types.UID // of the Cluster
	attempt string    // the guard's attempt that made it
}

// markFormat is the text of a mark. It begins with its version.
const markFormat = "clusterfx/1 hub=%s cluster=%s attempt=%s"

func (o owner) String() string { return fmt.Sprintf(markFormat, o.hub, o.cluster, o.attempt) }

// isOf reports whether it is that hub's record of that Cluster, whichever attempt made it.
func (o owner) isOf(hub string, cluster types.UID) bool { return o.hub == hub && o.cluster == cluster }

// at returns the mark as a resource record of a message.
func (o owner) at(name string, ttl uint32) dns.RR {
	return &dns.TXT{
		Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: ttl},
		Txt: []string{o.String()},
	}
}

// readOwner returns the owner that a mark names, or false for any other record.
func readOwner(rr dns.RR) (owner, bool) {
	txt, ok := rr.(*dns.TXT)
	if !ok {
		return owner{}, false
	}
	text := strings.Join(txt.Txt, "")
	fields := strings.Fields(text)
	if len(fields) != 4 {
		return owner{}, false
	}
	hub, _ := strings.CutPrefix(fields[1], "hub=")
	cluster, _ := strings.CutPrefix(fields[2], "cluster=")
	attempt, _ := strings.CutPrefix(fields[3], "attempt=")
	o := owner{hub: hub, cluster: types.UID(cluster), attempt: attempt}
	return o, o.String() == text
}
