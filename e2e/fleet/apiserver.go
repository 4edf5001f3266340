// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// serviceIP is the first address for Services.
const (
	serviceRange = "10.0.0.0/16"
	serviceIP    = "10.0.0.1"
)

// writeServerKeys is for loopback and Options.Addresses.
func (a *authority) writeServerKeys(dir string, addresses []netip.Addr) error {
	ips := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.ParseIP(serviceIP)}
	for _, addr := range addresses {
		ips = append(ips, addr.AsSlice())
	}
	cert, key, err := a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		NotAfter:    a.ca.NotAfter,
		IPAddresses: ips,
		DNSNames: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local",
		},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, serverCertFile), cert, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, serverKeyFile), key, 0o600)
}

// apiServer is complete, with authentication, RBAC, admission, priority and fairness and watch caches. Only what needs
// other machines is left out.
func (p *processes) apiServer(r request, port int) program {
	flags := []string{
		"--etcd-servers=unix://../" + etcdDir + "/" + etcdSocket,
		"--etcd-prefix=/registry/" + r.name,
		"--bind-address=" + p.bindAddress().String(),
		"--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + serverCertFile,
		"--tls-private-key-file=" + serverKeyFile,
		"--client-ca-file=" + caCertFile,
		"--service-account-issuer=" + issuer,
		"--service-account-key-file=" + tokenKeyFile,
		"--service-account-signing-key-file=" + tokenKeyFile,
		"--authorization-mode=RBAC",
		"--service-cluster-ip-range=" + serviceRange,
		"--allow-privileged=true",
		"--profiling=false",
		// A loopback address cannot be an endpoint of the Service kubernetes, and no client uses it.
		"--endpoint-reconciler-type=none",
	}
	if !p.options.ControllerManager {
		// This plugin requires a default service account for each Pod, and no controller creates it.
		flags = append(flags, "--disable-admission-plugins=ServiceAccount")
	}
	if p.options.Audit {
		flags = append(flags, auditFlags()...)
	}
	server := p.program(apiServerBinary, r.dir, slices.Concat(flags, r.flags))
	if path, err := apiServerOf(r.version); err == nil {
		server.path = path
	}
	return server
}

// controllerManager is nil if the fleet has none.
func (p *processes) controllerManager(dir string) program {
	if !p.options.ControllerManager {
		return program{}
	}
	return p.program(controllerManagerBinary, dir, []string{
		"--kubeconfig=" + adminKubeconfig,
		"--leader-elect=false",
		"--secure-port=0",
		"--profiling=false",
		"--root-ca-file=" + caCertFile,
		"--service-account-private-key-file=" + tokenKeyFile,
		"--cluster-signing-cert-file=" + caCertFile,
		"--cluster-signing-key-file=" + caKeyFile,
		// Nodes here have no kubelet: the controller would mark them as not ready after a while.
		"--controllers=*,-node-lifecycle-controller",
	})
}
