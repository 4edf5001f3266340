// SPDX-License-Identifier: Apache-2.0

package regression_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/e2e/fault"
	"github.com/clusterfx/clusterfx/registry"
	"github.com/clusterfx/clusterfx/registry/state"
)

// D8. The ancestor used a kubeconfig as it was: plugins ran in the controller, the controller read its own files and
// sent them to any server that the kubeconfig named, and it did not verify certificates.
func TestAncestor_KubeconfigActsInTheHub(t *testing.T) {
	t.Parallel()
	h := sharedHub(t)
	aside := h.registerBystander(one)
	attacker, contacts := newAttacker(t)
	dir := t.TempDir()
	canary, fifo := filepath.Join(dir, "canary"), filepath.Join(dir, "fifo")
	must(t, syscall.Mkfifo(fifo, 0o600))
	const secret = "c4n4ry-that-nobody-may-see"
	type entry struct {
		cluster *clientcmdapi.Cluster
		user    *clientcmdapi.AuthInfo
	}
	cases := map[string]func(entry){
		hubv1.ReasonExecNotAllowed: func(e entry) {
			e.user.Exec = &clientcmdapi.ExecConfig{
				APIVersion: "client.authentication.k8s.io/v1", Command: "/bin/sh", Args: []string{"-c", "touch " + canary},
				InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
			}
		},
		hubv1.ReasonAuthProviderNotAllowed: func(e entry) {
			e.user.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: "gcp", Config: map[string]string{"cmd-path": "/bin/sh"}}
		},
		hubv1.ReasonFilePathNotAllowed: func(e entry) { // a read of it would never end
			e.user.Token, e.user.TokenFile = "", fifo
		},
		hubv1.ReasonFilePathNotAllowed + "/key":  func(e entry) { e.user.ClientCertificate, e.user.ClientKey = canary, canary },
		hubv1.ReasonFilePathNotAllowed + "/ca":   func(e entry) { e.cluster.CertificateAuthority = "/etc/hosts" },
		hubv1.ReasonInsecureTLSNotAllowed:        func(e entry) { e.cluster.InsecureSkipTLSVerify, e.cluster.CertificateAuthorityData = true, nil },
		hubv1.ReasonImpersonationNotAllowed:      func(e entry) { e.user.Impersonate = "system:admin" },
		hubv1.ReasonBasicAuthNotAllowed:          func(e entry) { e.user.Token, e.user.Username, e.user.Password = "", "admin", secret },
		hubv1.ReasonSchemeNotAllowed:             func(e entry) { e.cluster.Server = "http://" + attacker },
		hubv1.ReasonProxyNotAllowed:              func(e entry) { e.cluster.ProxyURL = "http://" + attacker },
		hubv1.ReasonAddressNotAllowed:            func(e entry) { e.cluster.Server = "https://169.254.169.254" },
		hubv1.ReasonInvalidKubeconfig + "/empty": func(e entry) { e.user.Token = "" },
	}
	names := map[string]string{}
	for reason, spoil := range cases {
		c, err := clientcmd.Load(clusterOf(t, one).Kubeconfig())
		must(t, err)
		for _, one := range c.Clusters {
			one.Server = "https://" + attacker
			for name := range c.AuthInfos {
				c.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: secret}
				spoil(entry{one, c.AuthInfos[name]})
			}
		}
		data, err := clientcmd.Write(*c)
		must(t, err)
		name := unique("spoilt")
		h.register(name, data, nil)
		names[name], _, _ = strings.Cut(reason, "/")
	}
	for name, reason := range names {
		kind := hubv1.ConditionCredentialsValid
		c := h.expect(name, kind, metav1.ConditionFalse, reason)
		shown, err := json.Marshal(c)
		must(t, err)
		if strings.Contains(string(shown), secret) {
			t.Errorf("the status of %s contains its credentials", name)
		}
	}
	var events eventsv1.EventList
	must(t, h.List(t.Context(), &events))
	for _, e := range events.Items {
		if strings.Contains(e.Note, secret) {
			t.Errorf("an event of %s contains its credentials", e.Regarding.Name)
		}
	}
	if _, err := os.Stat(canary); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a command of a kubeconfig ran: got %v, want no file", err)
	}
	if n := contacts(); n != 0 {
		t.Errorf("got %d connections to the server of rejected kubeconfigs, want 0", n)
	}
	aside.expectUnaware()
}

// newAttacker listens, and counts connections.
func newAttacker(t *testing.T) (address string, contacts func() int64) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	var count atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			connection, err := l.Accept()
			if err != nil {
				return
			}
			count.Add(1)
			_ = connection.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String(), count.Load
}

// D9. The ancestor read the Secret before it checked whether the object was being deleted: an object whose Secret was
// deleted first could never be deleted.
func TestAncestor_ClusterWithoutSecretCannotBeDeleted(t *testing.T) {
	t.Parallel()
	h := newHub(t, nil)
	h.start()
	p, data := proxyTo(t, one)
	silent, silentData := proxyTo(t, one)
	set(t, silent, fault.Blackhole())
	alive, dead, never := unique("alive"), unique("dead"), unique("never")
	unknown, known := unique("unknown"), unique("known") // by the process that deletes them
	h.register(alive, clusterOf(t, one).Kubeconfig(), nil)
	h.register(dead, data, nil)
	h.register(never, silentData, nil)
	h.register(unknown, data, nil)
	h.register(known, data, nil)
	for _, name := range []string{alive, dead, unknown, known} {
		h.expectReady(name)
	}
	h.expectUnreachable(never, hubv1.ReasonTimedOut)
	set(t, p, fault.Blackhole())
	h.expectUnreachable(dead, hubv1.ReasonTimedOut)
	for _, name := range []string{alive, dead, never, unknown} {
		h.deleteSecret(name)
		h.expect(name, hubv1.ConditionCredentialsValid, metav1.ConditionFalse, hubv1.ReasonSecretNotFound)
	}
	gone := func(name, what string) time.Duration {
		h.remove(name)
		took := h.expectGone(name)
		t.Logf("%s is gone after %s", what, took)
		return took
	}
	goneSoon := func(name, what string) {
		if took := gone(name, what); took > soon/2 {
			t.Errorf("%s is gone only after %s", what, took)
		}
	}
	goneSoon(alive, "a Cluster whose remote is well")
	goneSoon(dead, "a Cluster whose remote is dead")
	goneSoon(never, "a Cluster whose remote was never seen")
	h.stop()
	h.start()
	h.expect(unknown, hubv1.ConditionCredentialsValid, metav1.ConditionFalse, hubv1.ReasonSecretNotFound)
	goneSoon(unknown, "a Cluster of which the process knows nothing")
	eventually(t, func() error {
		if info, _ := h.registry.Status(registry.ClusterName(known)); info.State != state.StateUnreachable {
			return fmt.Errorf("the remote is %s, want Unreachable", info.State)
		}
		return nil
	})
	h.deleteSecret(known)
	// This process has never reached the remote, and cannot know whether modules have something to clean up there: it
	// waits for the remote to return, and gives up before expectGone does.
	gone(known, "a Cluster whose remote is dead since before the process began")
	h.expectRuns()
}
