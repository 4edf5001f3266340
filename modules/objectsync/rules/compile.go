// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// maxPatches bounds all patches of a rule, in bytes of JSON.
const maxPatches = 64 << 10

// Compile returns what a SyncRule says, or why it can work nowhere. The error is for the condition Valid.
func Compile(of *hubv1.SyncRule) (Rule, error) {
	s := of.Spec
	r := Rule{
		Name: of.Name, UID: of.UID, Generation: of.Generation,
		From: s.From, Kind: s.Kind,
		Clusters:   selector(s.Clusters),
		Namespaces: Namespaces{Names: s.Namespaces.Names, Selector: selector(s.Namespaces.Selector), Template: s.Namespaces.Template},
		Objects:    selector(s.Objects.Selector), ObjectNames: s.Objects.Names,
		To: To{
			Names: s.To.Naming, Namespace: s.To.Namespace, CreateNamespace: s.To.CreateNamespace == hubv1.SyncCreateIfAbsent,
		},
		Status: s.Status == hubv1.SyncReturnStatus, BringCRD: s.BringCRD == hubv1.SyncCreateIfAbsent,
		OnTargetDeletion: s.OnTargetDeletion, OnDeregister: s.OnDeregister, DeletionPolicy: s.DeletionPolicy, Adopt: s.Adopt, Mode: s.Mode,
		Exclude: s.Exclude, Include: s.Include, KeepKeys: s.KeepKeys, DropKeys: s.DropKeys, TakeOver: s.TakeOver,
	}
	size := 0
	for _, p := range s.Patches {
		one := patchOf(p)
		r.Patches = append(r.Patches, one)
		text, err := json.Marshal(one)
		if err != nil {
			return Rule{}, errors.New("patches: a value is not JSON")
		}
		size += len(text)
	}
	if size > maxPatches {
		return Rule{}, fmt.Errorf("patches: use at most %d bytes", maxPatches)
	}
	if r = r.complete().as(of); r.IsTerminating {
		return r, nil // An invalid rule ends, too: its copies are known by their marks.
	}
	if err := errors.Join(r.problems()...); err != nil {
		return Rule{}, err
	}
	return r, r.compilePatches()
}

// as adds what changes without a generation.
func (r Rule) as(of *hubv1.SyncRule) Rule {
	r.IsTerminating, r.recorded = !of.DeletionTimestamp.IsZero(), of.Annotations[hubv1.AnnotationHubNamespaces]
	return r
}

func (r *Rule) compilePatches() error {
	for i, p := range r.Patches {
		var program cel.Program
		if p.CEL != "" {
			var err error
			if program, err = compile(p.CEL); err != nil {
				return fmt.Errorf("patches[%d]: %w", i, err)
			}
		}
		r.programs = append(r.programs, program)
	}
	return nil
}

func patchOf(p hubv1.SyncPatch) Patch {
	one := Patch{When: When{MatchLabels: plain(p.When.MatchLabels)}, Path: p.Path, CEL: p.CEL}
	for _, o := range p.JSONPatch {
		operation := Operation{Op: string(o.Op), Path: o.Path, From: o.From}
		if o.Value != nil {
			operation.Value = o.Value.Raw
		}
		one.JSONPatch = append(one.JSONPatch, operation)
	}
	return one
}

func selector(of *hubv1.LabelSelector) *metav1.LabelSelector {
	if of == nil {
		return nil
	}
	s := &metav1.LabelSelector{MatchLabels: plain(of.MatchLabels)}
	for _, r := range of.MatchExpressions {
		one := metav1.LabelSelectorRequirement{Key: r.Key, Operator: metav1.LabelSelectorOperator(r.Operator)}
		for _, value := range r.Values {
			one.Values = append(one.Values, string(value))
		}
		s.MatchExpressions = append(s.MatchExpressions, one)
	}
	return s
}

func plain(of map[string]hubv1.LabelValue) map[string]string {
	all := make(map[string]string, len(of))
	for key, value := range of {
		all[key] = string(value)
	}
	return all
}

// Compiler compiles a generation of a SyncRule once for all apps, from any goroutine.
type Compiler struct {
	mu    sync.Mutex // protects known
	known map[string]*compiled
}

type compiled struct {
	uid        types.UID
	generation int64
	once       sync.Once
	rule       Rule
	err        error
}

// Compile is the function Compile, with a memory.
func (c *Compiler) Compile(of *hubv1.SyncRule) (Rule, error) {
	one := c.of(of)
	one.once.Do(func() { one.rule, one.err = Compile(of) })
	return one.rule.as(of), one.err
}

func (c *Compiler) of(rule *hubv1.SyncRule) *compiled {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.known[rule.Name]
	isOf := one != nil && one.uid == rule.UID
	switch {
	case isOf && one.generation == rule.Generation:
		return one
	case isOf && one.generation > rule.Generation: // of an app that is late
		return &compiled{}
	case c.known == nil:
		c.known = map[string]*compiled{}
	}
	one = &compiled{uid: rule.UID, generation: rule.Generation}
	c.known[rule.Name] = one
	return one
}

// Forget ends the memory of a rule.
func (c *Compiler) Forget(rule string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, rule)
}
