// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
	"github.com/clusterfx/clusterfx/reconcilers/syncer"
	"github.com/clusterfx/clusterfx/reconcilers/syncer/translate"
)

// ErrPatch means that a patch does not fit. Its text has nothing of the object, which may be a Secret.
var ErrPatch = errors.New("the patch does not fit the object")

// Cluster is what patches know of one.
type Cluster struct {
	Name   string            `cel:"name"`   // the name of the Cluster
	Labels map[string]string `cel:"labels"` // the labels of the Cluster
}

const (
	maxCost    = 1_000_000 // maxCost bounds an expression for one object, in units of CEL
	checkEvery = 100       // after how many iterations an expression looks at its context
)

// step returns the patched object, which may be the changed argument.
type step func(ctx context.Context, c *Cluster, obj map[string]any) (map[string]any, error)

func (r *Rule) compilePatches() error {
	for i, patch := range r.Patches {
		patched, err := compile(patch)
		if err != nil {
			return fmt.Errorf("patches[%d]: %w", i, err)
		}
		when := labels.SelectorFromSet(plain(patch.When.MatchLabels))
		r.steps = append(r.steps, func(ctx context.Context, c *Cluster, obj map[string]any) (map[string]any, error) {
			if !when.Matches(labels.Set(c.Labels)) {
				return obj, nil
			}
			after, err := patched(ctx, c, obj)
			if err != nil {
				return nil, fmt.Errorf("patches[%d]: %w", i, err)
			}
			return after, nil
		})
	}
	return nil
}

// Patcher applies a rule's patches for one Cluster, from any goroutine.
type Patcher struct {
	steps   []step
	cluster Cluster
}

// Patcher returns the patches of the rule for a Cluster.
func (r Rule) Patcher(c Cluster) (*Patcher, error) {
	if len(r.steps) < len(r.Patches) { // Those of a rule that is being deleted are not compiled.
		if err := r.compilePatches(); err != nil {
			return nil, err
		}
	}
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	return &Patcher{r.steps, c}, nil
}

// Apply changes a copy. The error wraps ErrPatch, or is that of the context.
func (p *Patcher) Apply(ctx context.Context, copied *unstructured.Unstructured) error {
	for _, step := range p.steps {
		patched, err := step(ctx, &p.cluster, copied.Object)
		if err != nil {
			return err
		}
		copied.Object = patched
	}
	return nil
}

// Adopts reports whether an object with the copy's name becomes the copy. copied is the translator's result, before
// patches. A copy of another rule or hub is never adopted, nor an object without content, which is equal by chance, nor one of the hub,
// which a writer of a remote could take over. In the mode Create none is.
func (r Rule) Adopts(ctx context.Context, p *Patcher, copied, found *unstructured.Unstructured) bool {
	if r.Mode == hubv1.SyncCreate || r.Adopt != hubv1.SyncAdoptIfEqual || r.From == hubv1.SyncFromRemote || translate.IsCopy(found) {
		return false
	}
	copied = copied.DeepCopy()
	return p.Apply(ctx, copied) == nil && len(contentOf(found)) > 0 && IsEqual(copied, found, r.Include...)
}

func compile(patch hubv1.SyncPatch) (step, error) {
	if patch.CEL != "" {
		return expression(patch)
	}
	changes, err := operations(patch)
	if err != nil {
		return nil, err
	}
	options := jsonpatch.NewApplyOptions()
	options.AccumulatedCopySizeLimit = 1 << 20
	return func(_ context.Context, _ *Cluster, obj map[string]any) (map[string]any, error) {
		before, err := json.Marshal(obj)
		if err != nil {
			return nil, ErrPatch
		}
		after, err := changes.ApplyWithOptions(before, options)
		if err != nil {
			return nil, ErrPatch // The cause may repeat values.
		}
		var patched map[string]any
		if err := utiljson.Unmarshal(after, &patched); err != nil {
			return nil, ErrPatch
		}
		return patched, nil
	}, nil
}

func operations(p hubv1.SyncPatch) (jsonpatch.Patch, error) {
	text, err := json.Marshal(p.JSONPatch)
	if err != nil {
		return nil, fmt.Errorf("jsonPatch: %w", err)
	}
	return jsonpatch.DecodePatch(text)
}

func expression(patch hubv1.SyncPatch) (step, error) {
	program, err := programOf(patch.CEL)
	if err != nil {
		return nil, err
	}
	steps := pointer(patch.Path)
	return func(ctx context.Context, c *Cluster, obj map[string]any) (map[string]any, error) {
		result, _, err := program.ContextEval(ctx, map[string]any{"cluster": c, "object": obj})
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err != nil {
			return nil, ErrPatch
		}
		value, err := asJSON(result)
		if err != nil || !set(obj, steps, value) {
			return nil, ErrPatch
		}
		return obj, nil
	}, nil
}

func programOf(expression string) (cel.Program, error) {
	env, err := cel.NewEnv(
		cel.Variable("cluster", cel.ObjectType("rules.Cluster")), cel.Variable("object", cel.DynType),
		cel.OptionalTypes(), ext.Strings(), ext.Encoders(),
		ext.NativeTypes(reflect.TypeFor[*Cluster](), ext.ParseStructTags(true)), // The last: it replaces the provider of types.
	)
	if err != nil {
		return nil, fmt.Errorf("cel: %w", err)
	}
	checked, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, fmt.Errorf("cel: %w", issues.Err())
	}
	return env.Program(checked, cel.CostLimit(maxCost), cel.InterruptCheckFrequency(checkEvery))
}

func asJSON(result ref.Val) (value any, err error) {
	native, err := result.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(native)
	if err != nil {
		return nil, err
	}
	return value, utiljson.Unmarshal(text, &value)
}

// set makes the maps on the way. It does not reach into lists.
func set(obj map[string]any, steps []string, value any) bool {
	for _, step := range steps[:len(steps)-1] {
		next, ok := obj[step].(map[string]any)
		if !ok && obj[step] != nil {
			return false
		}
		if !ok {
			next = map[string]any{}
			obj[step] = next
		}
		obj = next
	}
	obj[steps[len(steps)-1]] = value
	return true
}

func checkPatch(p hubv1.SyncPatch) error {
	if len(p.JSONPatch) == 0 {
		if !mayChange(p.Path) {
			return fmt.Errorf("path: %q is no JSON pointer to a field that a patch may change", p.Path)
		}
		return nil // compile checks the expression.
	}
	for _, one := range p.JSONPatch {
		if err := checkOperation(one); err != nil {
			return err
		}
	}
	_, err := operations(p)
	return err
}

func checkOperation(o hubv1.SyncPatchOperation) error {
	kind := map[hubv1.SyncPatchOp]struct{ from, value bool }{
		"add": {value: true}, "replace": {value: true}, "test": {value: true}, "move": {from: true}, "copy": {from: true},
	}[o.Op]
	switch {
	case kind.value && (o.Value == nil || len(o.Value.Raw) == 0):
		return fmt.Errorf("jsonPatch: %s requires a value", o.Op)
	case kind.from && !isPointer(o.From), o.Op == "move" && !mayChange(o.From):
		return fmt.Errorf("jsonPatch: from %q is no JSON pointer to a field that a patch may read or move", o.From)
	case o.Op != "test" && !mayChange(o.Path), !isPointer(o.Path):
		return fmt.Errorf("jsonPatch: path %q is no JSON pointer to a field that a patch may change", o.Path)
	}
	return nil
}

func isPointer(text string) bool {
	return len(text) > 1 && strings.HasPrefix(text, "/") && !strings.HasSuffix(text, "/")
}

func pointer(text string) []string {
	steps := strings.Split(text[1:], "/")
	for i, step := range steps {
		steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
	}
	return steps
}

// mayChange: all but what the object is; of metadata only labels and annotations that are no marks.
func mayChange(text string) bool {
	if !isPointer(text) {
		return false
	}
	steps := pointer(text)
	switch steps[0] {
	case "apiVersion", "kind", "status":
		return false
	case "metadata":
		isOne := len(steps) == 3 && (steps[1] == "labels" || steps[1] == "annotations")
		return isOne && !(syncer.Identity{}).Keys().Has(steps[2])
	}
	return true
}
