// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"encoding/binary"
	"net/http"
	"strings"
)

// objects are readable, but no API server would store them.
func objects() []Script {
	versioned := func(version string) string {
		return `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"` + version + `"},"items":[` +
			`{"metadata":{"name":"versioned","namespace":"default","resourceVersion":"` + version + `"}}]}`
	}
	plain := func(body string) []lie { return onLists(text(http.StatusOK, jsonType, body)) }
	return []Script{
		{
			Name: "a string of 64 MiB",
			lies: onLists(long(jsonType, repeated{listHead + `{"metadata":{"name":"huge","namespace":"default"},"data":{"x":"`, "x", 64 << 20, `"}}` + listTail})),
		},
		{Name: "a million empty objects", lies: onLists(long(jsonType, repeated{listHead + "{}", ",{}", 1_000_000, listTail}))},
		{Name: "a million empty protobufs", lies: onLists(emptyProtobufs(1_000_000))},
		{
			Name: "a million empty owners",
			lies: onLists(long(jsonType, repeated{listHead + `{"metadata":{"name":"owned","namespace":"default","ownerReferences":[{}`, ",{}", 1_000_000, `]}}` + listTail})),
		},
		{Name: "owners in protobuf", lies: onLists(ownersInProtobuf(500_000))},
		{Name: "containers in protobuf", lies: onLists(containersInProtobuf(1_000_000))},
		{Name: "objects without metadata", lies: onLists(list(`{}`, `{"data":{"a":"b"}}`, `{"metadata":null}`, `null`))},
		{Name: "objects of another kind", lies: onLists(list(
			`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"secret","namespace":"default"},"data":{"a":"Yg=="}}`,
			`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"pod","namespace":"default"},"spec":{"containers":[]}}`))},
		{Name: "names that are none", lies: onLists(list(
			`{"metadata":{"name":"../../../etc/passwd","namespace":"default","labels":{"test":"yes"}}}`,
			`{"metadata":{"name":"a\nb\u0000c\u001b[2J","namespace":"de/fault","labels":{"test":"yes"}}}`,
			`{"metadata":{"name":"%2e%2e?x=y#z","namespace":"..","labels":{"test":"yes"}}}`,
			`{"metadata":{"name":"`+strings.Repeat("n", 1<<20)+`","namespace":"default","labels":{"test":"yes"}}}`))},
		{Name: "the same name over and over", lies: onLists(
			long(jsonType, repeated{listHead + small(0), "," + small(0), 100_000, listTail}))},
		{Name: "a version that is no number", lies: plain(versioned("banana"))},
		{Name: "a version that is too large", lies: plain(versioned(strings.Repeat("9", 1000)))},
		{Name: "a version of nothing", lies: plain(versioned(""))},
		{Name: "a version for the address", lies: plain(versioned("0&watch=false&x=../.."))},
		{Name: "versions that go back", lies: onLists(
			func(s *Server, w http.ResponseWriter, r *http.Request) {
				text(http.StatusOK, jsonType, versioned(number(1_000_000-int(s.lies.Load()))))(s, w, r)
			})},
	}
}

// emptyProtobufs are of two bytes each.
func emptyProtobufs(n int) answer {
	const item = "\x12\x00" // field 2 (items) of the list, of no length
	return long(protobufType, repeated{head: protobufHead(len(item) * n), part: item, times: n})
}

// The owners have two bytes each.
func ownersInProtobuf(n int) answer {
	const owner = "\x6a\x00" // field 13 (ownerReferences) of the metadata, of no length
	metadata := "\x0a" + varint(len(owner)*n)
	item := "\x12" + varint(len(metadata)+len(owner)*n) + metadata
	return long(protobufType, repeated{head: protobufHead(len(item)+len(owner)*n) + item, part: owner, times: n})
}

// The decoder follows the kind in the response.
func containersInProtobuf(n int) answer {
	const container = "\x12\x00" // field 2 (containers) of the spec, of no length
	spec := "\x12" + varint(len(container)*n)
	item := "\x12" + varint(len(spec)+len(container)*n) + spec
	return long(protobufType, repeated{head: headOf("PodList", len(item)+len(container)*n) + item, part: container, times: n})
}

func containersInEvent(n int) answer {
	const container = "\x12\x00"
	spec := "\x12" + varint(len(container)*n)
	pod := headOf("Pod", len(spec)+len(container)*n) + spec
	raw := "\x0a" + varint(len(pod)+len(container)*n)
	event := "\x0a\x05ADDED" + "\x12" + varint(len(raw)+len(pod)+len(container)*n) + raw + pod
	length := binary.BigEndian.AppendUint32(nil, uint32(len(event)+len(container)*n)) //nolint:gosec // A few megabytes.
	return long(protobufType+";stream=watch", repeated{head: string(length) + event, part: container, times: n})
}

func protobufHead(size int) string { return headOf("ConfigMapList", size) }

func headOf(kind string, size int) string {
	typed := "\x0a\x02v1" + "\x12" + varint(len(kind)) + kind // fields 1 and 2 of the type
	return protobufMagic + "\x0a" + varint(len(typed)) + typed + "\x12" + varint(size)
}

func varint(n int) string {
	var b []byte
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return string(append(b, byte(n)))
}
