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
		{Name: "gzip bomb", Does: "responds to lists with 2 MiB of gzip that are 2 GiB of spaces", lies: onLists(gzipBomb)},
		{Name: "endless list", Does: "responds to lists with objects without an end", lies: onLists(endless(jsonType, listHead+small(0), ","+small(1)))},
		{Name: "endless spaces", Does: "responds to lists with spaces without an end", lies: onLists(endless(jsonType, listHead, " "))},
		{Name: "endless garbage", Does: "responds to lists with bytes without an end that are no Kubernetes", lies: onLists(endless("application/octet-stream", "", "\x00\xff"))},
		{Name: "dripping list", Does: "responds to lists with a space every 50 ms", lies: onLists(drip(jsonType, listHead, ' ', 50*time.Millisecond))},
		{Name: "half a list", Does: "responds to lists with JSON that stops in the middle", lies: onLists(text(http.StatusOK, jsonType, listHead+`{"metadata":{"na`))},
		{Name: "half a protobuf", Does: "responds to lists with protobuf that stops in the middle", lies: onLists(text(http.StatusOK, protobufType, protobufMagic+"\x0a\x0f\x0a\x02v1\x12\x09Config"))},
		{Name: "garbage in protobuf", Does: "responds to lists with protobuf of random bytes", lies: onLists(text(http.StatusOK, protobufType, protobufMagic+strings.Repeat("\xff\x07\xa5\x80", 1000)))},
		{Name: "protobuf of a giant", Does: "responds to lists with protobuf that announces 2 GiB", lies: onLists(text(http.StatusOK, protobufType, protobufMagic+"\x12\xff\xff\xff\xff\x07x"))},
		{Name: "nested list", Does: "responds to lists with ten million nested lists", lies: onLists(long(jsonType, repeated{listHead, "[", 10_000_000, ""}))},
		{Name: "list in yaml", Does: "responds to lists with 4 MB of YAML", lies: onLists(long("application/yaml", repeated{"kind: ConfigMapList\napiVersion: v1\nitems:\n", "- {}\n", 800_000, ""}))},
		{Name: "list as text", Does: "responds to lists truthfully, as text/plain", lies: onLists(text(http.StatusOK, "text/plain", emptyList))},
		{Name: "list is a table", Does: "responds to lists with a Table", lies: onLists(text(http.StatusOK, jsonType, `{"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":[],"rows":[]}`))},
		{Name: "list is a status", Does: "responds to lists with 200 and the Status of a failure", lies: onLists(status(http.StatusOK, "Expired", "too old"))},
		{Name: "an object that does not fit", Does: "responds to lists with a number in place of a text", lies: onLists(text(http.StatusOK, jsonType,
			`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"a","namespace":"default"},"data":{"x":5}}]}`))},
		{Name: "list is null", Does: "responds to lists with null", lies: onLists(text(http.StatusOK, jsonType, "null"))},
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
		{Name: "endless pages", Does: "responds to lists with an empty page and where to go on", lies: onLists(text(http.StatusOK, jsonType, head+listTail))},
		{
			Name: "endless large pages", Does: "responds to lists with pages of 4 MiB and where to go on",
			lies: onLists(long(jsonType, repeated{head + small(0), `,{"metadata":{"name":"large"},"data":{"x":"` + filler + `"}}`, 4, listTail})),
		},
		{
			Name: "expired pages", Does: "says of every page after the first that it has expired (410)",
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
