// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterfx/clusterfx/internal/allocated"
	"github.com/clusterfx/clusterfx/internal/testkit"
)

func entry(manager, version, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: version, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(fields),
	}
}

func by(e metav1.ManagedFieldsEntry, o metav1.ManagedFieldsOperationType, subresource string) metav1.ManagedFieldsEntry {
	e.Operation, e.Subresource = o, subresource
	return e
}

var kinds = map[string]schema.GroupVersionKind{
	"Service": {Version: "v1", Kind: "Service"}, "Job": {Group: "batch", Version: "v1", Kind: "Job"}, "Pod": {Version: "v1", Kind: "Pod"},
	"PersistentVolumeClaim": {Version: "v1", Kind: "PersistentVolumeClaim"}, "PersistentVolume": {Version: "v1", Kind: "PersistentVolume"},
	"ServiceAccount": {Version: "v1", Kind: "ServiceAccount"}, "Deployment": {Group: "apps", Version: "v1", Kind: "Deployment"},
}

// What is left of an object, with the managedFields as they were read and as a cache keeps them, is the same.
func TestWithout(t *testing.T) {
	t.Parallel()
	const (
		service = `{"spec":{"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack",
			"healthCheckNodePort":31000,"ports":[{"port":80,"protocol":"TCP","nodePort":30080},{"port":443,"protocol":"TCP","nodePort":30443}]}}`
		bare = `{"spec":{"ports":[{"port":80,"protocol":"TCP"},{"port":443,"protocol":"TCP"}]}}`
		pod  = `{"spec":{"nodeName":"n","priority":0,"preemptionPolicy":"P","volumes":[{"name":"kube-api-access-x"},{"name":"v"}],
			"containers":[{"name":"c","volumeMounts":[{"name":"v","mountPath":"/v"},
				{"name":"kube-api-access-x","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}]}],
			"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"k"}]}}`
		barePod = `{"spec":{"volumes":[{"name":"v"}],"containers":[{"name":"c","volumeMounts":[{"name":"v","mountPath":"/v"}]}],
			"tolerations":[{"key":"k"}]}}`
		job = `{"spec":{"selector":{"matchLabels":{"controller-uid":"1"}},"template":{"metadata":{"labels":{"controller-uid":"1","job-name":"j",
			"batch.kubernetes.io/controller-uid":"1","batch.kubernetes.io/job-name":"j"}},"spec":{"restartPolicy":"Never"}}}}`
		owned = `{"f:spec":{"f:clusterIP":{},"f:ports":{".":{},"k:{\"port\":443,\"protocol\":\"TCP\"}":{".":{},"f:nodePort":{},"f:port":{}}}}}`
	)
	for name, c := range map[string]struct {
		kind      string
		obj, want string
		managed   []metav1.ManagedFieldsEntry
		include   []string
	}{
		"service": {kind: "Service", obj: service, want: bare},
		"with an owner": {
			kind: "Service", obj: service, managed: []metav1.ManagedFieldsEntry{entry("kubectl", "v1", owned)},
			want: `{"spec":{"clusterIP":"10.0.0.1","ports":[{"port":80,"protocol":"TCP"},{"port":443,"protocol":"TCP","nodePort":30443}]}}`,
		},
		"two owners": {
			kind: "Service", obj: service, managed: []metav1.ManagedFieldsEntry{
				by(entry("a", "v1", `{"f:spec":{"f:clusterIPs":{}}}`), metav1.ManagedFieldsOperationApply, ""),
				by(entry("b", "v1", `{"f:spec":{"f:ipFamilies":{}}}`), metav1.ManagedFieldsOperationUpdate, "scale"),
			},
			want: `{"spec":{"clusterIPs":["10.0.0.1"],"ipFamilies":["IPv4"],"ports":[{"port":80,"protocol":"TCP"},{"port":443,"protocol":"TCP"}]}}`,
		},
		"no owners that count": {kind: "Service", obj: service, want: bare, managed: []metav1.ManagedFieldsEntry{
			entry("before-first-apply", "v1", owned), entry("a", "v2", owned), by(entry("b", "v1", owned), metav1.ManagedFieldsOperationUpdate, "status"), entry("c", "v1", `{}`),
			entry("d", "v1", `[]`),
			{Manager: "e", APIVersion: "v1"},
		}},
		"headless": {kind: "Service", obj: `{"spec":{"clusterIP":"None","clusterIPs":["None"]}}`, want: `{"spec":{"clusterIP":"None","clusterIPs":["None"]}}`},
		"included": {kind: "Service", obj: service, include: []string{"/spec/clusterIP", "/spec/ports"}, want: `{"spec":{"clusterIP":"10.0.0.1",
			"ports":[{"port":80,"protocol":"TCP","nodePort":30080},{"port":443,"protocol":"TCP","nodePort":30443}]}}`},
		"pod": {kind: "Pod", obj: pod, want: barePod},
		"pod that was placed, with all tolerations": {
			kind: "Pod", obj: pod, managed: []metav1.ManagedFieldsEntry{entry("a", "v1", `{"f:spec":{"f:nodeName":{},"f:tolerations":{}}}`)},
			want: `{"spec":{"nodeName":"n","volumes":[{"name":"v"}],"containers":[{"name":"c","volumeMounts":[{"name":"v","mountPath":"/v"}]}],
				"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},{"key":"k"}]}}`,
		},
		"pod with tolerations alone": {
			kind: "Pod", managed: []metav1.ManagedFieldsEntry{entry("a", "v1", `{"f:spec":{"f:tolerations":{}}}`)},
			obj:  `{"spec":{"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":30}]}}`,
			want: `{"spec":{"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":30}]}}`,
		},
		"pod with the token of another cluster, as applied": {
			kind: "Pod", obj: `{"spec":{"volumes":[{"name":"kube-api-access-x"}],"containers":[{"name":"c","volumeMounts":[
				{"name":"kube-api-access-x","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}]}]}}`,
			managed: []metav1.ManagedFieldsEntry{entry("a", "v1", `{"f:spec":{"f:volumes":{"k:{\"name\":\"kube-api-access-x\"}":{".":{},"f:name":{}}},
				"f:containers":{"k:{\"name\":\"c\"}":{"f:volumeMounts":{"k:{\"mountPath\":\"/var/run/secrets/kubernetes.io/serviceaccount\"}":{".":{}}}}}}}`)},
			want: `{"spec":{"volumes":[{"name":"kube-api-access-x"}],"containers":[{"name":"c","volumeMounts":[
				{"name":"kube-api-access-x","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}]}]}}`,
		},
		"job":                        {kind: "Job", obj: job, want: `{"spec":{"template":{"spec":{"restartPolicy":"Never"}}}}`},
		"job with a manual selector": {kind: "Job", obj: `{"spec":{"manualSelector":true,"selector":{"a":"b"}}}`, want: `{"spec":{"manualSelector":true,"selector":{"a":"b"}}}`},
		"claim that the controller has bound": {
			kind: "PersistentVolumeClaim", managed: []metav1.ManagedFieldsEntry{entry("kube-controller-manager", "v1", `{"f:spec":{"f:volumeName":{}}}`)},
			obj:  `{"metadata":{"annotations":{"pv.kubernetes.io/bound-by-controller":"yes"}},"spec":{"volumeName":"pv"}}`,
			want: `{"metadata":{"annotations":{"pv.kubernetes.io/bound-by-controller":"yes"}}}`,
		},
		"claim of a chosen volume": {kind: "PersistentVolumeClaim", obj: `{"spec":{"volumeName":"pv"}}`, want: `{"spec":{"volumeName":"pv"}}`},
		"volume": {
			kind: "PersistentVolume", obj: `{"spec":{"claimRef":{"name":"c","uid":"1","resourceVersion":"2"}}}`, want: `{"spec":{"claimRef":{"name":"c"}}}`,
			managed: []metav1.ManagedFieldsEntry{entry("a", "v1", `{"f:spec":{"f:claimRef":{"f:uid":{}}}}`)},
		},
		"account": {kind: "ServiceAccount", obj: `{"secrets":[{"name":"x"}]}`, want: `{}`},
		"another": {kind: "Deployment", obj: `{"spec":{"replicas":2,"selector":{}}}`, want: `{"spec":{"replicas":2,"selector":{}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want map[string]any
			decode(t, c.want, &want)
			cached := &metav1.ObjectMeta{ManagedFields: c.managed}
			allocated.Reduce(kinds[c.kind], cached)
			for form, managed := range map[string][]metav1.ManagedFieldsEntry{"whole": c.managed, "reduced": cached.ManagedFields} {
				var obj map[string]any
				decode(t, c.obj, &obj)
				allocated.Without(kinds[c.kind], obj, managed, c.include)
				if !reflect.DeepEqual(obj, want) {
					t.Errorf("%s: got %v, want %v", form, obj, want)
				}
			}
			if len(cached.ManagedFields) > 1 {
				t.Errorf("%d entries are left", len(cached.ManagedFields))
			}
		})
	}
}

func decode(t *testing.T, text string, into *map[string]any) {
	t.Helper()
	testkit.Must(t, json.Unmarshal([]byte(text), into))
}

// A cache keeps less than 200 bytes, in each form of an object, and of most objects nothing.
func TestReduce(t *testing.T) {
	t.Parallel()
	const all = `{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:clusterIP":{},"f:ports":{".":{},
		"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:nodePort":{},"f:port":{}}},"f:selector":{},"f:type":{}}}`
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{entry("kubectl", "v1", all)}}}
	asMap, err := runtime.DefaultUnstructuredConverter.ToUnstructured(service.DeepCopy())
	testkit.Must(t, err)
	for _, obj := range []metav1.Object{service, &unstructured.Unstructured{Object: asMap}} {
		allocated.Reduce(kinds["Service"], obj)
		kept := obj.GetManagedFields()
		if size := len(fmt.Sprint(kept[0].Manager, kept[0].Operation, kept[0].APIVersion, kept[0].FieldsV1.GetRawString())); len(kept) != 1 || size > 200 {
			t.Errorf("%T: kept %d entries of %d bytes: %s", obj, len(kept), size, kept[0].FieldsV1.GetRawString())
		}
	}
	volumes := []metav1.ManagedFieldsEntry{entry("k", "v1", `{"f:spec":{"f:volumes":{"k:{\"name\":\"v\"}":{}}}}`)}
	placed := []metav1.ManagedFieldsEntry{entry("k", "v1", `{"f:spec":{"f:nodeName":{}}}`)}
	untyped := &unstructured.Unstructured{Object: map[string]any{}}
	untyped.SetManagedFields(placed)
	for obj, kind := range map[metav1.Object]string{
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: volumes}}:                  "Pod",
		&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ManagedFields: placed}}: "Pod",
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{ManagedFields: placed}}:                "Deployment", // A kind that the table lacks.
		untyped: "Deployment",
	} {
		if allocated.Reduce(kinds[kind], obj); obj.GetManagedFields() != nil {
			t.Errorf("%T: kept %v", obj, obj.GetManagedFields())
		}
	}
}
