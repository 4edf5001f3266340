// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// The answer to a delete tells the UID of the object, in every form that API servers send by default, and can be read again. Of other
// answers nothing is known.
func TestObjectIn(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u-1", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{NodeName: "n"},
	}
	gone := &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{UID: "u-1"},
	}
	encode := func(o runtime.Object) string {
		var to bytes.Buffer
		must(t, protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(o, &to))
		return to.String()
	}
	const long = `{"metadata":{"uid":"u-1"},"data":"`
	for name, c := range map[string]struct {
		code int
		body string
		uid  types.UID
		left bool
	}{
		"object":              {200, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"u-1"},"spec":{"nodeName":"n"}}`, "u-1", true},
		"accepted":            {202, `{"kind":"X","metadata":{"uid":"u-1"},"details":{"uid":"u-2"}}`, "u-1", true},
		"status":              {200, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"a","uid":"u-1"}}`, "u-1", false},
		"object, protobuf":    {200, encode(pod), "u-1", true},
		"status, protobuf":    {200, encode(gone), "u-1", false},
		"status without more": {200, `{"kind":"Status","status":"Success"}`, "", true},
		"failed":              {504, `{"metadata":{"uid":"u-1"}}`, "", true},
		"empty":               {200, "", "", true},
		"no object":           {200, "[]", "", true},
		"protobuf of nothing": {200, "k8s\x00\xff\xff", "", true},
		"too long":            {200, long + strings.Repeat("x", maxAnswer) + `"}`, "", true},
	} {
		response := &http.Response{StatusCode: c.code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(c.body))}
		if strings.HasPrefix(c.body, "k8s\x00") {
			response.Header.Set("Content-Type", runtime.ContentTypeProtobuf)
		}
		if uid, left := objectIn(response); uid != c.uid || left != c.left {
			t.Errorf("%s: %q, %t; want %q, %t", name, uid, left, c.uid, c.left)
		}
		if body, err := io.ReadAll(response.Body); err != nil || string(body) != c.body {
			t.Errorf("%s: %d of %d bytes can be read again: %v", name, len(body), len(c.body), err)
		}
		response.Body.Close()
	}
	if uid, left := objectIn(nil); uid != "" || !left {
		t.Errorf("no answer: %q, %t", uid, left)
	}
}
