// SPDX-License-Identifier: Apache-2.0

package renewal

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func token(claims string) []byte {
	return []byte("e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln\n")
}

// A token that the hub has not requested is due by its claims, and the hub requests a token with the same lifetime.
func TestFirstPlan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		claims   string
		due      int64
		lifetime time.Duration
	}{
		{`{"iat":1000,"exp":4600}`, 3400, time.Hour},
		{`{"iat":1000,"exp":1030}`, 1020, 20 * time.Minute}, // the minimum of a request
		{`{"iat":2059,"exp":5659}`, 4459, time.Hour},        // The clock of the remote is a little ahead.
		{`{"iat":2061,"exp":5661}`, 2000, time.Hour},        // It is ahead by more: the end of the token is unknown.
	} {
		l, err := lifeOf(token(c.claims))
		testkit.Must(t, err)
		if p := l.first(time.Unix(2000, 0)); !p.due.Equal(time.Unix(c.due, 0)) || p.lifetime != c.lifetime {
			t.Errorf("%s: got due %d and lifetime %s, want %d and %s", c.claims, p.due.Unix(), p.lifetime, c.due, c.lifetime)
		}
	}
}

func TestLifeOf_Refused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "opaque", "a.b.c", string(token(`{}`)), string(token(`{"exp":4600}`)), string(token(`{"iat":4600,"exp":1000}`)),
		string(token(`{"iat":-1,"exp":1000}`)), string(token(`{"iat":1,"exp":1e300}`)), string(token(`{"iat":"SECRET"`)),
	} {
		_, err := lifeOf([]byte(text))
		if err == nil {
			t.Errorf("got a lifetime of %q, want an error", text)
		} else if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("the error contains bytes of the token: %v", err)
		}
	}
}

// The limits of accepted tokens are exact to the second.
func TestJudge(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		old, issued, expires, granted int64 // from now, in seconds; old is the end of the old token
		refused                       string
	}{
		{9000, 0, 3600, 0, ""},
		{9000, 0, 1800, 3600, ""},
		{9000, 0, 1799, 3600, "lives for 29m59s, but the hub requested 1h0m0s"},
		{9000, 0, 3600, 1600, "lives for 26m40s"},    // by the lifetime that the remote states beside the token
		{9000, -2600, 1000, 3600, ""},                // The clock of the remote is behind.
		{9000, 3600, 7200, 3600, ""},                 // It is ahead.
		{9000, 3600, 5200, 1600, "lives for 26m40s"}, // It is ahead, and the remote limits the lifetime.
		{1600, 0, 1600, 1600, "the old token ends later"},
		{1599, 0, 1600, 1600, ""}, // The remote has lowered its limit, and the old token ends first.
		{0, -3000, 600, 3600, "less than 10m0s"},
	} {
		next := plan{old: life{expires: now.Add(time.Duration(c.old) * time.Second)}, lifetime: time.Hour}
		text := strings.TrimSpace(string(token(fmt.Sprintf(`{"iat":%d,"exp":%d}`, now.Unix()+c.issued, now.Unix()+c.expires))))
		_, err := next.judge(text, time.Duration(c.granted)*time.Second, now)
		if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%d to %d: got error %v, want %q", c.issued, c.expires, err, c.refused)
		}
	}
	padding := func(n int) string { return strings.Repeat("x", n) }
	claims := strings.TrimSpace(string(token(fmt.Sprintf(`{"iat":%d,"exp":%d}`, now.Unix(), now.Unix()+3600))))
	testkit.NoError(t, testkit.Err((plan{lifetime: time.Hour}).judge(claims+padding(maxToken-len(claims)), 0, now)), "a token of 16 KiB")
	if _, err := (plan{lifetime: time.Hour}).judge(claims+padding(maxToken-len(claims)+1), 0, now); err == nil {
		t.Error("a token of 16 KiB and a byte: got no error, want an error")
	}
}

func secretWith(annotation string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}
	if annotation != "" {
		secret.Annotations = map[string]string{hubv1.AnnotationTokenRenewal: annotation}
	}
	return secret
}

// The record determines the time at which a token that the hub has requested is due, not the claims of the token.
func TestPlan_Recorded(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	now := at.Add(30 * time.Minute)
	for _, c := range []struct {
		about, record string
		issued        time.Time
		wait          time.Duration
		lifetime      time.Duration
	}{
		{
			"lives as long as was asked for", `{"time":"2026-01-02T03:00:00.000000Z","lifetimeSeconds":3600,"expirationTime":"2026-01-02T04:00:00Z"}`,
			at.Add(-1000 * time.Hour), 10 * time.Minute, time.Hour,
		},
		{
			"lives for half of it", `{"time":"2026-01-02T03:00:00.000000Z","lifetimeSeconds":7200,"expirationTime":"2026-01-02T04:00:00Z"}`,
			at, 10 * time.Minute, 2 * time.Hour,
		},
		{
			"lives for longer", `{"time":"2026-01-02T03:00:00.000000Z","lifetimeSeconds":2700,"expirationTime":"2026-01-02T04:00:00Z"}`,
			at, 0, 45 * time.Minute,
		},
		{
			"is another one", `{"time":"2026-01-02T03:00:00.000000Z","lifetimeSeconds":864000,"expirationTime":"2026-01-12T03:00:00Z"}`,
			at.Add(30 * time.Minute), 20 * time.Minute, 30 * time.Minute,
		},
	} {
		r := reconciler{}
		got, wait := r.planOf(secretWith(c.record), life{c.issued, at.Add(time.Hour)}, now)
		if wait != c.wait || got.lifetime != c.lifetime {
			t.Errorf("a token that %s: got due in %s and lifetime %s, want %s and %s", c.about, wait, got.lifetime, c.wait, c.lifetime)
		}
	}
}

// If the claims of a token state a longer lifetime than the remote has granted, because the clock of the remote is
// ahead, the granted lifetime determines the time at which the token is due.
func TestPlan_OfAGrantedLifetime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		ahead, granted, wait time.Duration
	}{
		{30 * time.Minute, time.Hour, 40 * time.Minute},
		{0, 2 * time.Hour, 80 * time.Minute},
		{0, 0, 80 * time.Minute}, // The remote states no lifetime.
		{30 * time.Minute, 3 * time.Hour, 80 * time.Minute},
	} {
		expires := now.Add(c.ahead + min(c.granted, 2*time.Hour))
		if c.granted == 0 {
			expires = now.Add(2 * time.Hour)
		}
		text := strings.TrimSpace(string(token(fmt.Sprintf(`{"iat":%d,"exp":%d}`, now.Add(c.ahead).Unix(), expires.Unix()))))
		l, err := (plan{lifetime: 2 * time.Hour}).judge(text, c.granted, now)
		testkit.Must(t, err)
		secret := secretWith("")
		testkit.Must(t, newRecord(l, 2*time.Hour, c.granted, now).write(secret))
		r := reconciler{}
		if next, wait := r.planOf(secret, l, now); wait != c.wait || next.lifetime != 2*time.Hour {
			t.Errorf("granted %s: got due in %s and lifetime %s, want due in %s", c.granted, wait, next.lifetime, c.wait)
		}
	}
}

// A remote that lowers its longest lifetime, however far, is always renewed: the hub has a valid token at any time, although
// it tries only every five minutes. When the remote raises its limit again, the hub gets the lifetime that it asks for.
func TestPlan_LowerLimit(t *testing.T) {
	t.Parallel()
	const wanted = 30 * 24 * time.Hour
	for _, limit := range []time.Duration{16 * time.Minute, time.Hour, 24 * time.Hour, 20 * 24 * time.Hour} {
		now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
		r, secret, renewals := reconciler{}, secretWith(""), 0
		old := life{now, now.Add(wanted)}
		for end := now.Add(wanted * 3); now.Before(end) && renewals < 100; now = now.Add(pause) {
			next, wait := r.planOf(secret, old, now)
			if next.lifetime != wanted || !now.Before(old.expires) {
				t.Fatalf("limit %s: after %d renewals the hub asks for %s at %s, with a token that expires at %s", limit, renewals, next.lifetime, now, old.expires)
			}
			text := strings.TrimSpace(string(token(fmt.Sprintf(`{"iat":%d,"exp":%d}`, now.Unix(), now.Add(limit).Unix()))))
			renewed, err := next.judge(text, limit, now)
			if wait > 0 || err != nil {
				continue // The hub tries again.
			}
			testkit.Must(t, newRecord(renewed, next.lifetime, limit, now).write(secret))
			old = renewed
			renewals++
		}
		if renewals < 2 {
			t.Errorf("limit %s: the token was renewed %d times, want at least twice", limit, renewals)
		}
	}
}

// Five minutes pass between two writes, also in the next process. An unusable record delays a write by the same time at
// most.
func TestFloor_Records(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	due := life{at.Add(-time.Hour), at.Add(time.Minute)}
	for about, record := range map[string]string{
		"written just now": `{"time":"2026-01-02T03:00:00.000000Z","lifetimeSeconds":3600,"expirationTime":"2026-01-02T03:00:10Z"}`,
		"in the future":    `{"time":"9999-01-02T03:00:00.000000Z","lifetimeSeconds":3600,"expirationTime":"2026-01-02T03:01:00Z"}`,
		"not decodable":    `{"time":`, "empty": `{}`, "no object": `7`,
		"a date that is none": `{"time":"yesterday","lifetimeSeconds":3600,"expirationTime":"2026-01-02T03:01:00Z"}`,
		"without a lifetime":  `{"time":"2026-01-02T03:00:00.000000Z","expirationTime":"2026-01-02T03:01:00Z"}`,
	} {
		r := reconciler{}
		for _, c := range []struct{ now, wait time.Duration }{{0, pause}, {time.Minute, pause - time.Minute}, {pause, 0}} {
			if _, wait := r.planOf(secretWith(record), due, at.Add(c.now)); max(wait, 0) != c.wait {
				t.Errorf("%s: after %s the hub waits %s, want %s", about, c.now, wait, c.wait)
			}
		}
	}
}

// Within a process the limit needs no record: neither a removed record nor a clock that is set back lets a write come
// earlier.
func TestFloor_NoRecord(t *testing.T) {
	t.Parallel()
	at := time.Now()
	r := reconciler{}
	secret, due := secretWith(""), life{at.Add(-time.Hour), at.Add(time.Minute)}
	key := client.ObjectKeyFromObject(secret)
	if _, wait := r.planOf(secret, due, at); wait > 0 {
		t.Errorf("a due token without a record waits %s, want no wait", wait)
	}
	r.writes.wrote(key, at)
	if _, wait := r.planOf(secret, due, at.Add(pause-1)); wait != 1 {
		t.Errorf("just before the end of the pause the hub waits %s, want 1ns", wait)
	}
	if _, wait := r.planOf(secret, due, at.Add(pause)); wait > 0 {
		t.Errorf("after the pause the hub waits %s, want no wait", wait)
	}
	back := life{at.Add(-3 * time.Hour), at.Add(-time.Hour)}
	if _, wait := r.planOf(secret, back, at.Add(-time.Hour)); wait < pause {
		t.Errorf("with the clock set back by an hour the hub waits %s, want at least %s", wait, pause)
	}
	r.writes.wrote(key, at.Add(pause))
	r.writes.forget(key)
	_, remembers := r.writes.last.Load(key)
	testkit.Equal(t, remembers, false, "the write limit remembers a deleted Secret")
}
