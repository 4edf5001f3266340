// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	listHead  = `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[`
	listTail  = `]}`
	emptyList = listHead + listTail
)

func list(items ...string) answer {
	return text(http.StatusOK, jsonType, listHead+strings.Join(items, ",")+listTail)
}

func lists() []Script {
	return []Script{
		{Name: "gzip bomb", lies: onLists(gzipBomb)},
		{Name: "endless list", lies: onLists(endless(jsonType, listHead+small(0), ","+small(1)))},
		{Name: "endless spaces", lies: onLists(endless(jsonType, listHead, " "))},
		{Name: "endless garbage", lies: onLists(endless("application/octet-stream", "", "\x00\xff"))},
		{Name: "dripping list", lies: onLists(drip(listHead, " ", 50*time.Millisecond))},
		{Name: "half a list", lies: onLists(text(http.StatusOK, jsonType, listHead+`{"metadata":{"na`))},
		{Name: "half a protobuf", lies: onLists(text(http.StatusOK, protobufType, protobufMagic+"\x0a\x0f\x0a\x02v1\x12\x09Config"))},
		{Name: "garbage in protobuf", lies: onLists(text(http.StatusOK, protobufType, protobufMagic+strings.Repeat("\xff\x07\xa5\x80", 1000)))},
		{Name: "protobuf of a giant", lies: onLists(text(http.StatusOK, protobufType, protobufMagic+"\x12\xff\xff\xff\xff\x07x"))},
		{Name: "nested list", lies: onLists(long(jsonType, repeated{listHead, "[", 10_000_000, ""}))},
		{Name: "list in yaml", lies: onLists(long("application/yaml", repeated{"kind: ConfigMapList\napiVersion: v1\nitems:\n", "- {}\n", 800_000, ""}))},
		{Name: "list as text", lies: onLists(text(http.StatusOK, "text/plain", emptyList))},
		{Name: "list is a table", lies: onLists(text(http.StatusOK, jsonType, `{"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":[],"rows":[]}`))},
		{Name: "list is a status", lies: onLists(status(http.StatusOK, "Expired", "too old"))},
		{Name: "an object that does not fit", lies: onLists(text(http.StatusOK, jsonType,
			`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"a","namespace":"default"},"data":{"x":5}}]}`))},
		{Name: "list is null", lies: onLists(text(http.StatusOK, jsonType, "null"))},
	}
}

const protobufMagic = "k8s\x00"

func small(i int) string {
	return fmt.Sprintf(`{"metadata":{"name":"small-%d","namespace":"default"}}`, i)
}

// gzipBomb sends the same compressed megabyte over and over: gzip can be put together from parts.
func gzipBomb(_ *Server, w http.ResponseWriter, _ *http.Request) {
	const size = 1 << 20
	begin, part := compressed(listHead), compressed(strings.Repeat(" ", size))
	w.Header().Set("Content-Type", jsonType)
	w.Header().Set("Content-Encoding", "gzip")
	repeated{begin, part, 2 << 30 / size, compressed(listTail)}.writeTo(w)
}

func compressed(text string) string {
	var b strings.Builder
	z := gzip.NewWriter(&b) // its errors come from the Builder, which returns none
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return b.String()
}

func pages() []Script {
	const head = `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1","continue":"more"},"items":[`
	filler := strings.Repeat("x", 1<<20)
	return []Script{
		{Name: "endless pages", lies: onLists(text(http.StatusOK, jsonType, head+listTail))},
		{
			Name: "endless large pages",
			lies: onLists(long(jsonType, repeated{head + small(0), `,{"metadata":{"name":"large"},"data":{"x":"` + filler + `"}}`, 4, listTail})),
		},
		{
			Name: "expired pages",
			lies: onLists(func(s *Server, w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("continue") != "" {
					status(http.StatusGone, "Expired", "the continue parameter is too old")(s, w, r)
					return
				}
				text(http.StatusOK, jsonType, head+small(0)+listTail)(s, w, r)
			}),
		},
	}
}
