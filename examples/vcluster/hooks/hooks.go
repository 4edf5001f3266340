// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterfx/clusterfx/reconcilers/syncer"
)

const (
	// Label is the label of each Pod that is copied.
	Label = "hooks.example.com/created-by"
	// Forced is the annotation that selects a Secret. It exists in memory only.
	Forced = "hooks.example.com/force-sync"
	// Port is the port that each copied Service has in addition.
	Port = 19000
)

// Items copies all Pods and Services, and one Secret, which is created when the pair starts.
func Items(id syncer.Identity, secret types.NamespacedName) []syncer.Item {
	return []syncer.Item{
		syncer.Of(&syncer.Copy[*corev1.Pod]{Called: "pods"}, syncer.NewNamespaced[*corev1.Pod](id, syncer.TranslatorOptions{}),
			syncer.Options[*corev1.Pod]{Hooks: []syncer.ClientHook[*corev1.Pod]{both("pod", label)}}),
		syncer.Of(&syncer.Copy[*corev1.Service]{Called: "services"}, syncer.NewNamespaced[*corev1.Service](id, syncer.TranslatorOptions{}),
			syncer.Options[*corev1.Service]{
				Hooks:   []syncer.ClientHook[*corev1.Service]{both("service", port)},
				Exclude: []string{"/spec/clusterIP", "/spec/clusterIPs"}, // Each cluster has its own addresses.
			}),
		syncer.Of(&secrets{Copy: syncer.Copy[*corev1.Secret]{Called: "secrets"}, name: secret},
			syncer.NewNamespaced[*corev1.Secret](id, syncer.TranslatorOptions{ExcludedAnnotations: []string{Forced}}),
			syncer.Options[*corev1.Secret]{
				Hooks:  []syncer.ClientHook[*corev1.Secret]{force(secret)},
				Select: func(s *corev1.Secret) bool { return s.Annotations[Forced] != "" },
			}),
	}
}

// both returns a hook that changes each copy that is created or updated.
func both[T client.Object](name string, change syncer.Mutate[T]) syncer.ClientHook[T] {
	return syncer.ClientHook[T]{Name: name, Downstream: syncer.Mutators[T]{Create: change, Update: change}}
}

func label(_ context.Context, p *corev1.Pod) (*corev1.Pod, error) {
	metav1.SetMetaDataLabel(&p.ObjectMeta, Label, "pod-hook")
	return p, nil
}

func port(_ context.Context, s *corev1.Service) (*corev1.Service, error) {
	isPort := func(p corev1.ServicePort) bool { return p.Port == Port && p.Protocol == corev1.ProtocolTCP }
	if !slices.ContainsFunc(s.Spec.Ports, isPort) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "plugin", Protocol: corev1.ProtocolTCP, Port: Port})
	}
	return s, nil
}

// force returns a hook that adds the annotation to one Secret when it is read.
func force(name types.NamespacedName) syncer.ClientHook[*corev1.Secret] {
	return syncer.ClientHook[*corev1.Secret]{Name: "secret", Upstream: syncer.Mutators[*corev1.Secret]{
		Get: func(_ context.Context, s *corev1.Secret) (*corev1.Secret, error) {
			if client.ObjectKeyFromObject(s) == name {
				metav1.SetMetaDataAnnotation(&s.ObjectMeta, Forced, "true")
			}
			return s, nil
		},
	}}
}

// secrets copies the Secret, and creates it.
type secrets struct {
	syncer.Copy[*corev1.Secret]
	name types.NamespacedName
}

// Init creates the Secret upstream, unless the name is taken.
func (s *secrets) Init(ctx context.Context, p *syncer.Pair) error {
	return p.With(ctx, func(ctx context.Context, up, _ syncer.Access) error {
		return client.IgnoreAlreadyExists(up.Client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.name.Namespace, Name: s.name.Name},
			StringData: map[string]string{"my-data": "my-data"},
		}))
	})
}
