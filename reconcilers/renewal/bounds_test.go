// SPDX-License-Identifier: Apache-2.0

package renewal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/internal/testkit"
)

// The limits have the documented values, regardless of the constants.
func TestBounds(t *testing.T) {
	t.Parallel()
	now := time.Now()
	f, key := &writeLimit{}, client.ObjectKey{Namespace: "a", Name: "b"}
	f.wrote(key, now)
	for after, want := range map[time.Duration]time.Duration{0: 5 * time.Minute, 4 * time.Minute: time.Minute, 5 * time.Minute: 0} {
		testkit.Equal(t, f.wait(key, record{}, false, now.Add(after)), want, after, "after a write the hub waits")
	}
	begin := strings.TrimSpace(string(token(fmt.Sprintf(`{"iat":%d,"exp":%d}`, now.Unix(), now.Add(time.Hour).Unix()))))
	for size, ok := range map[int]bool{16 << 10: true, 16<<10 + 1: false} {
		if _, err := (plan{lifetime: time.Hour}).judge(begin+strings.Repeat("x", size-len(begin)), 0, now); (err == nil) != ok {
			t.Errorf("a token of %d bytes: got error %v", size, err)
		}
	}
}

// A token is sent in a header: any character but letters, digits, - and _ is refused, at both ends.
func TestJudge_Alphabet(t *testing.T) {
	t.Parallel()
	now := time.Now()
	good := strings.TrimSpace(string(token(fmt.Sprintf(`{"iat":%d,"exp":%d}`, now.Unix(), now.Add(time.Hour).Unix()))))
	for _, part := range []string{"A", "z", "0", "9", "-", "_"} {
		testkit.NoError(t, testkit.Err((plan{lifetime: time.Hour}).judge(good+part, 0, now)), part)
	}
	for _, part := range []string{
		"\n", "\r", "\t", " ", "\x00", "\x7f", "=", "+", "/", ",", ":", ";", "@", "[", "`", "{", "^", "~", "!", "\"", "é", "\xff", "a.b", ".",
	} {
		for _, bad := range []string{good + part, part + good} {
			testkit.ErrorHas(t, testkit.Err((plan{lifetime: time.Hour}).judge(bad, 0, now)), "not a JWT", part)
		}
	}
}
