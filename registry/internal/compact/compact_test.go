// SPDX-License-Identifier: Apache-2.0

package compact

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

// seeds is the number of random objects of each type.
const seeds = 8

// eachObject calls f with random objects of every type that is packed.
func eachObject(t *testing.T, f func(t *testing.T, obj message)) {
	t.Helper()
	types := NewTypes()
	seen := map[reflect.Type]bool{}
	for of := range types.packable {
		if one, ok := reflect.New(of).Interface().(message); ok && types.kindOf(one) != nil && !seen[of] {
			seen[of] = true
			t.Run(of.String(), func(t *testing.T) {
				t.Parallel()
				for seed := range int64(seeds) {
					filler := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(seed), serializer.NewCodecFactory(scheme.Scheme))
					obj, _ := reflect.New(of).Interface().(message)
					filler.Fill(obj)
					obj.SetManagedFields(nil)
					f(t, obj)
				}
			})
		}
	}
	if len(seen) < 100 {
		t.Errorf("%d types are packed, want all kinds of client-go", len(seen))
	}
}

// An object that was decoded from protobuf, as from an API server, is the same after it was packed: of every type that
// client-go knows, filled at random.
func TestPack_EveryType(t *testing.T) {
	t.Parallel()
	types := NewTypes()
	eachObject(t, func(t *testing.T, obj message) {
		t.Helper()
		want := decoded(t, obj)
		for range 2 { // The second one may share its body with the first.
			packed := types.Pack(want)
			if got := types.Unpack(packed); !reflect.DeepEqual(got, want) {
				t.Fatalf("unpacked:\n%+v\nwant\n%+v", got, want)
			}
			expectMetadata(t, packed, want)
		}
	})
}

// decoded returns the object that comes of its message.
func decoded(t *testing.T, obj message) message {
	t.Helper()
	bytes := make([]byte, obj.Size())
	if _, err := obj.MarshalToSizedBuffer(bytes); err != nil {
		t.Fatal(err)
	}
	one, _ := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(message)
	if err := one.Unmarshal(bytes); err != nil {
		t.Fatal(err)
	}
	return one
}

// expectMetadata expects that each getter of a packed object returns what that of the object does.
func expectMetadata(t *testing.T, packed any, want metav1.Object) {
	t.Helper()
	got, err := meta.Accessor(packed)
	if err != nil {
		t.Fatal(err)
	}
	getters := reflect.TypeFor[metav1.Object]()
	for i := range getters.NumMethod() {
		if name := getters.Method(i).Name; strings.HasPrefix(name, "Get") {
			a := reflect.ValueOf(got).MethodByName(name).Call(nil)[0].Interface()
			b := reflect.ValueOf(want).MethodByName(name).Call(nil)[0].Interface()
			if !apiequality.Semantic.DeepEqual(a, b) {
				t.Errorf("%s is %v, want %v", name, a, b)
			}
		}
	}
}

// An object that was decoded from JSON means the same after it was packed.
func TestPack_FromJSON(t *testing.T) {
	t.Parallel()
	types := NewTypes()
	eachObject(t, func(t *testing.T, obj message) {
		t.Helper()
		bytes, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(message)
		if err := json.Unmarshal(bytes, want); err != nil {
			t.Fatal(err)
		}
		if got := types.Unpack(types.Pack(want)); !apiequality.Semantic.DeepEqual(got, want) {
			t.Fatalf("unpacked:\n%+v\nwant\n%+v", got, want)
		}
	})
}

// The apiVersion and the kind stay as they were, also if they are empty or change.
func TestPack_TypeMeta(t *testing.T) {
	t.Parallel()
	types := NewTypes()
	for _, want := range []metav1.TypeMeta{{}, {APIVersion: "v1", Kind: "Pod"}, {Kind: "Pod"}, {APIVersion: "a/b/c"}} {
		packed, _ := types.Pack(&corev1.Pod{TypeMeta: want}).(*Object)
		one, _ := packed.DeepCopyObject().(*corev1.Pod)
		if one.TypeMeta != want {
			t.Errorf("the type is %+v, want %+v", one.TypeMeta, want)
		}
		if got := packed.GetObjectKind().GroupVersionKind(); got != one.GroupVersionKind() {
			t.Errorf("the kind is %s, want %s", got, one.GroupVersionKind())
		}
	}
}

// What is no object of a known kind stays as it is.
func TestPack_Others(t *testing.T) {
	t.Parallel()
	types := NewTypes()
	for _, obj := range []any{nil, "text", &metav1.Status{}, &corev1.PodList{}, &metav1.DeleteOptions{}, corev1.Pod{}} {
		if got := types.Pack(obj); !reflect.DeepEqual(got, obj) {
			t.Errorf("%T became %T", obj, got)
		}
		if got := types.Unpack(obj); !reflect.DeepEqual(got, obj) {
			t.Errorf("%T became %T", obj, got)
		}
	}
}

// A change of an object that was packed or unpacked changes no other one.
func TestPack_Mutation(t *testing.T) {
	t.Parallel()
	types := NewTypes()
	original := configMap("one", strings.Repeat("x", 2*minShared))
	want := original.DeepCopy()
	first, second := types.Pack(original), types.Pack(original)
	original.Labels["app"], original.Data["text"], original.BinaryData["bytes"][0] = "other", "other", 'y'
	for _, packed := range []any{first, second} {
		one, _ := types.Unpack(packed).(*corev1.ConfigMap)
		one.Labels["app"], one.BinaryData["bytes"][0] = "other", 'z'
		if again := types.Unpack(packed); !reflect.DeepEqual(again, want) {
			t.Errorf("the object is %+v, want %+v", again, want)
		}
	}
}

func configMap(name, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}},
		Data:       map[string]string{"text": text}, BinaryData: map[string][]byte{"bytes": []byte("x")},
	}
}

// The setters of the metadata refuse.
func TestObject_ReadOnly(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("the name was set")
		}
	}()
	one, _ := meta.Accessor(NewTypes().Pack(&corev1.Pod{}))
	one.SetName("other")
}

// Equal bodies take memory once from the second object on, and count in full.
func TestPack_Shared(t *testing.T) {
	t.Parallel()
	types := NewTypes()
	var all []*Object
	for i := range 3 {
		one, _ := types.Pack(configMap(fmt.Sprint("one-", i), strings.Repeat("equal ", minShared))).(*Object)
		all = append(all, one)
	}
	if all[0].hasBody() || !all[1].hasBody() || all[1].body != all[2].body {
		t.Error("want a body that the second object and the third share")
	}
	if all[0].Size() != all[1].Size() || all[1].Size() != all[2].Size() {
		t.Errorf("the sizes are %d, %d and %d, want equal ones", all[0].Size(), all[1].Size(), all[2].Size())
	}
	small, _ := types.Pack(configMap("small", "equal")).(*Object)
	again, _ := types.Pack(configMap("small", "equal")).(*Object)
	if small.hasBody() || again.hasBody() {
		t.Error("a small body is shared")
	}
}

// Objects whose bodies are shared are packed, read and dropped at the same time.
func TestPack_Races(t *testing.T) {
	t.Parallel()
	types := NewTypes()
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			var kept []any
			for i := range 300 {
				want := configMap("one", strings.Repeat(fmt.Sprintf("%03d", i%10), minShared))
				kept = append(kept, types.Pack(want))
				if got := types.Unpack(kept[len(kept)-1]); !reflect.DeepEqual(got, want) {
					t.Errorf("unpacked %+v, want %+v", got, want)
					return
				}
				if i%20 == 0 {
					kept = nil
				}
				if i%100 == worker {
					runtime.GC() // drops the bodies that no object has
				}
			}
		})
	}
	all.Wait()
}
