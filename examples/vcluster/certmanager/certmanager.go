// SPDX-License-Identifier: Apache-2.0

package certmanager

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/registry"
)

const (
	group, version = "cert-manager.io", "v1"
	certificate    = "Certificate"
	issuer         = "Issuer"
	spec           = "spec"
	// used is an annotation of a Secret that a Certificate or an Issuer uses. It exists in memory only.
	used = "certificates.example.com/used"
	// issuedFor is the annotation of an issued Secret downstream, as tenant/namespace/name. cert-manager sets it, because the
	// copy of the Certificate has it in its secretTemplate.
	issuedFor = "certificates.example.com/issued-for"
)

// Items copies Certificates, Issuers and the Secrets that they use downstream, and issued Secrets upstream.
func Items(id syncer.Identity) []syncer.Item {
	s := &secrets{Copy: syncer.Copy[*corev1.Secret]{Called: "secrets"}, id: id}
	hook := syncer.ClientHook[*corev1.Secret]{Name: "used", Upstream: syncer.Mutators[*corev1.Secret]{Get: s.markUsed}}
	return []syncer.Item{
		objects(id, certificate, func(up, down *unstructured.Unstructured, names translator) error {
			return toHost(id, up, down, names)
		}),
		objects(id, issuer, func(up, down *unstructured.Unstructured, names translator) error {
			eachSecret(down.Object[spec], func(name string) string { return nameOf(names, up.GetNamespace(), name) })
			return nil
		}),
		syncer.Of(s, syncer.NewNamespaced[*corev1.Secret](id, syncer.TranslatorOptions{ExcludedAnnotations: []string{used, issuedFor}}),
			syncer.Options[*corev1.Secret]{
				Hooks:  []syncer.ClientHook[*corev1.Secret]{hook},
				Select: func(s *corev1.Secret) bool { return s.Annotations[used] != "" },
			}),
	}
}

type translator = syncer.Translator[*unstructured.Unstructured]

// objects copies a kind of cert-manager, and brings its status back.
func objects(id syncer.Identity, kind string, mutate func(up, down *unstructured.Unstructured, names translator) error) syncer.Item {
	names := syncer.NewNamespaced[*unstructured.Unstructured](id, syncer.TranslatorOptions{})
	return syncer.Of(&syncer.Copy[*unstructured.Unstructured]{
		Called: strings.ToLower(kind) + "s", Status: true,
		Mutate: func(_ context.Context, up, down *unstructured.Unstructured) error { return mutate(up, down, names) },
	}, names, syncer.Options[*unstructured.Unstructured]{Kind: kindOf(kind)})
}

func kindOf(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
}

// nameOf returns the name of the copy of an object.
func nameOf(names translator, namespace, name string) string {
	return names.ToDownstream(types.NamespacedName{Namespace: namespace, Name: name})[0].Name
}

// toHost renames the references of a Certificate, and makes cert-manager annotate the Secret.
func toHost(id syncer.Identity, up, down *unstructured.Unstructured, names translator) error {
	renamed := func(name string) string { return nameOf(names, up.GetNamespace(), name) }
	eachSecret(down.Object[spec], renamed)
	kind, _, _ := unstructured.NestedString(down.Object, spec, "issuerRef", "kind")
	name, _, _ := unstructured.NestedString(down.Object, spec, "issuerRef", "name")
	if kind == "" || kind == issuer {
		if err := unstructured.SetNestedField(down.Object, renamed(name), spec, "issuerRef", "name"); err != nil {
			return err
		}
	}
	secret := issuedSecret(up)
	if err := unstructured.SetNestedField(down.Object, renamed(secret.Name), spec, "secretName"); err != nil {
		return err
	}
	origin := id.Tenant + "/" + secret.Namespace + "/" + secret.Name
	return unstructured.SetNestedField(down.Object, origin, spec, "secretTemplate", "annotations", issuedFor)
}

// issuedSecret returns the name of the Secret that cert-manager makes for a Certificate.
func issuedSecret(c *unstructured.Unstructured) types.NamespacedName {
	name, _, _ := unstructured.NestedString(c.Object, spec, "secretName")
	return types.NamespacedName{Namespace: c.GetNamespace(), Name: name}
}

// eachSecret replaces the name in each reference to a Secret. The API of cert-manager calls each of them a SecretRef, with one
// exception.
func eachSecret(value any, rename func(string) string) {
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			eachSecret(one, rename)
		}
	case map[string]any:
		for key, field := range v {
			reference, ok := field.(map[string]any)
			name, _, _ := unstructured.NestedString(reference, "name")
			isRef := strings.HasSuffix(strings.ToLower(key), "secretref") || key == "credentialsRef"
			switch {
			case ok && isRef && name != "":
				reference["name"] = rename(name)
			case key == "secretName" && v["issuerRef"] == nil: // ca.secretName of an Issuer
				if name, ok := field.(string); ok {
					v[key] = rename(name)
				}
			default:
				eachSecret(field, rename)
			}
		}
	}
}

// secrets copies used Secrets downstream, and issued Secrets upstream.
type secrets struct {
	syncer.Copy[*corev1.Secret]
	id   syncer.Identity
	pair *syncer.Pair
}

func (s *secrets) Init(_ context.Context, p *syncer.Pair) error {
	s.pair = p
	return nil
}

// ModifyController requests all Secrets that a Certificate or an Issuer names when it changes.
func (s *secrets) ModifyController(p *syncer.Pair, b *registry.ControllerBuilder[reconcile.Request]) (*registry.ControllerBuilder[reconcile.Request], error) {
	for _, kind := range []string{certificate, issuer} {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(kindOf(kind))
		source, err := p.WatchUpstream(obj, func(_ context.Context, obj client.Object) []types.NamespacedName {
			u, ok := obj.(*unstructured.Unstructured)
			if !ok {
				return nil
			}
			return append(inputs(u), issuedSecret(u))
		})
		if err != nil {
			return nil, err
		}
		b = b.WatchesRawSource(source)
	}
	return b, nil
}

// inputs returns the Secrets that an object uses.
func inputs(u *unstructured.Unstructured) (all []types.NamespacedName) {
	eachSecret(u.DeepCopy().Object[spec], func(name string) string {
		all = append(all, types.NamespacedName{Namespace: u.GetNamespace(), Name: name})
		return name
	})
	return all
}

// isNamed reports whether f returns the Secret for any upstream object of these kinds.
func (s *secrets) isNamed(ctx context.Context, secret types.NamespacedName, f func(*unstructured.Unstructured) []types.NamespacedName, kinds ...string) (bool, error) {
	named := false
	err := s.pair.With(ctx, func(ctx context.Context, up, _ syncer.Access) error {
		for _, kind := range kinds {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kindOf(kind + "List"))
			if err := up.Client.List(ctx, list, client.InNamespace(secret.Namespace)); err != nil {
				return err
			}
			for i := range list.Items {
				named = named || slices.Contains(f(&list.Items[i]), secret)
			}
		}
		return nil
	})
	return named, err
}

// markUsed annotates a Secret that is used, when it is read.
func (s *secrets) markUsed(ctx context.Context, up *corev1.Secret) (*corev1.Secret, error) {
	isUsed, err := s.isNamed(ctx, client.ObjectKeyFromObject(up), inputs, certificate, issuer)
	delete(up.Annotations, used)
	if isUsed {
		metav1.SetMetaDataAnnotation(&up.ObjectMeta, used, "true")
	}
	return up, err
}

// UpstreamName returns the name of an issued Secret.
func (s *secrets) UpstreamName(down *corev1.Secret) (types.NamespacedName, bool) {
	parts := strings.Split(down.Annotations[issuedFor], "/")
	if len(parts) != 3 || parts[0] != s.id.Tenant || down.Namespace != s.id.TargetNamespace || down.Labels[s.id.Keys().ManagedBy] != "" {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: parts[1], Name: parts[2]}, true
}

// SyncUp creates an issued Secret upstream, while its Certificate exists there.
func (s *secrets) SyncUp(ctx context.Context, e syncer.Up[*corev1.Secret]) (reconcile.Result, error) {
	issued := func(c *unstructured.Unstructured) []types.NamespacedName {
		return []types.NamespacedName{issuedSecret(c)}
	}
	wanted, err := s.isNamed(ctx, e.Key(), issued, certificate)
	if err != nil || !wanted {
		return reconcile.Result{}, err
	}
	made := &corev1.Secret{Type: e.Downstream.Type}
	s.fill(made, e.Downstream)
	return reconcile.Result{}, e.CreateUpstream(ctx, made)
}

// Sync brings an issued Secret upstream, or the copy of a used Secret, up to date.
func (s *secrets) Sync(ctx context.Context, e syncer.Both[*corev1.Secret]) (reconcile.Result, error) {
	if !e.Imported {
		return s.Copy.Sync(ctx, e)
	}
	now := e.Upstream.DeepCopy()
	s.fill(e.Upstream, e.Downstream)
	if equality.Semantic.DeepEqual(now, e.Upstream) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, e.UpdateUpstream(ctx, e.Upstream)
}

// fill copies the data, the labels and the annotations of cert-manager.
func (s *secrets) fill(up, down *corev1.Secret) {
	notCertManager := func(key, _ string) bool { return !strings.Contains(key, group+"/") }
	labels, notes := maps.Clone(down.Labels), maps.Clone(down.Annotations)
	maps.DeleteFunc(labels, notCertManager)
	maps.DeleteFunc(notes, notCertManager)
	if mark, ok := up.Annotations[s.id.Keys().Imported]; ok {
		notes[s.id.Keys().Imported] = mark
	}
	up.Data, up.Labels, up.Annotations = down.Data, labels, notes
}
