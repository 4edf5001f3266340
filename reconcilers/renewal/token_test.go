// SPDX-License-Identifier: Apache-2.0

package renewal

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"
)

func token(claims string) []byte {
	return []byte("e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln\n")
}

func TestLifeOf(t *testing.T) {
	t.Parallel()
	l, err := lifeOf(token(`{"iat":1000,"exp":4600}`))
	if err != nil {
		t.Fatal(err)
	}
	if l.length() != time.Hour || l.seconds() != 3600 || !l.due().Equal(time.Unix(3400, 0)) {
		t.Errorf("length %s, due %s", l.length(), l.due())
	}
	short, err := lifeOf(token(`{"iat":1000,"exp":1030}`))
	if err != nil || short.length() != 10*time.Minute || !short.due().Equal(time.Unix(1020, 0)) {
		t.Errorf("a short life: %s, due %s (%v); want ten minutes, which Kubernetes asks for at least", short.length(), short.due(), err)
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
			t.Errorf("%q has a life", text)
		} else if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("the error has bytes of the token: %v", err)
		}
	}
}
