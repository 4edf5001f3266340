// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterfx/clusterfx/e2e/fleet/fleettest"
	module "github.com/clusterfx/clusterfx/examples/dns"
)

// bindConfig is a configuration for BIND. Its zone is the zone of the package documentation.
const bindConfig = `
options {
	directory %[1]q;
	listen-on port %[2]s { 127.0.0.1; };
	listen-on-v6 { none; };
	pid-file none;
	recursion no;
	dnssec-validation no;
	notify no;
};
controls { };
key "clusterfx" {
	algorithm hmac-sha256;
	secret "%[3]s";
};
zone "clusters.example.com" {
	type primary;
	file "clusters.example.com.zone";
	allow-query { key clusterfx; };
	update-policy { grant clusterfx zonesub A AAAA CNAME TXT; };
};
`

const bindZone = `$TTL 60
@	IN SOA ns root 1 60 60 60 60
	IN NS ns
ns	IN A 127.0.0.1
taken	IN A 192.0.2.99
*	IN TXT "anything"
`

// The same test as with the small server, with BIND, where it is installed.
func TestRecord_InBIND(t *testing.T) {
	t.Parallel()
	fleettest.Slow(t, "nothing: it shows that BIND takes the updates which the small server of the other tests takes")
	named, err := exec.LookPath("named")
	if err != nil {
		t.Skip("BIND is not installed; apt-get install bind9")
	}
	b := startBIND(t, named)
	s := siteFor(t, b.address, keyText)
	s.register("taken", at10)
	s.waitReady("taken", metav1.ConditionFalse, module.ReasonNameTaken)
	s.register(edge, at10)
	s.waitReady(edge, metav1.ConditionTrue, "Ready")
	must(t, b.has("edge", dns.TypeA, "192.0.2.10"))
	s.moved(edge, "https://api.example.org:6443")
	s.Eventually(func() error { return b.has("edge", dns.TypeCNAME, "api.example.org.") })
	s.moved(edge, "https://[2001:db8::1]:6443")
	s.Eventually(func() error { return b.has("edge", dns.TypeAAAA, "2001:db8::1") })
	s.deregister("taken")
	s.deregister(edge)
	must(t, b.has("edge", dns.TypeAAAA))
	must(t, b.has("_clusterfx.edge", dns.TypeTXT, `"anything"`)) // from the wildcard, which is not an ownership mark
	must(t, b.has("taken", dns.TypeA, "192.0.2.99"))

	s.rekey(map[string]string{"secret": wrongKey})
	s.register("late", at11)
	s.waitReady("late", metav1.ConditionFalse, module.ReasonRefused)
	s.rekey(map[string]string{"secret": keyText}, "late")
	s.waitReady("late", metav1.ConditionTrue, "Ready")
	b.stop()
	if n := strings.Count(b.log.String(), "adding an RR at '_clusterfx.edge."); n != 1 {
		t.Errorf("record was created %d times, want 1", n)
	}
}

// bind is a process of named.
type bind struct {
	t       testing.TB
	address string
	log     bytes.Buffer // read after stop
	stop    func()
}

func startBIND(t testing.TB, named string) *bind {
	t.Helper()
	dir, port := t.TempDir(), freePort(t)
	must(t, os.WriteFile(filepath.Join(dir, "clusters.example.com.zone"), []byte(bindZone), 0o600))
	config := filepath.Join(dir, "named.conf")
	must(t, os.WriteFile(config, fmt.Appendf(nil, bindConfig, dir, port, keyText), 0o600))
	b := &bind{t: t, address: net.JoinHostPort("127.0.0.1", port)}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), named, "-g", "-n", "1", "-c", config)
	cmd.Stderr = &b.log
	must(t, cmd.Start())
	b.stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(b.log.String())
		}
	}
	t.Cleanup(b.stop)
	return b
}

// has fails unless the server responds with exactly these records of a type for a name.
func (b *bind) has(name string, kind uint16, want ...string) error {
	request := new(dns.Msg).SetQuestion(name+"."+zoneName, kind)
	request.SetTsig(keyName, dns.HmacSHA256, 300, time.Now().Unix())
	c := &dns.Client{Net: "tcp", TsigSecret: map[string]string{keyName: keyText}}
	answer, _, err := c.ExchangeContext(b.t.Context(), request, b.address)
	if err != nil {
		return err
	}
	var got []string
	for _, rr := range answer.Answer {
		got = append(got, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("records of %s: got %q, want %q", name, got, want)
	}
	return nil
}

func freePort(t testing.TB) string {
	t.Helper()
	_, port, err := net.SplitHostPort(fleettest.FreeAddress(t))
	must(t, err)
	return port
}
