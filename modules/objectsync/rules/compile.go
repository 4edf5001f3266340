// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	hubv1 "github.com/clusterfx/clusterfx/api/v1alpha1"
)

// Compile returns what a SyncRule says, or why it can work nowhere. The error is for the condition Valid.
func Compile(of *hubv1.SyncRule) (Rule, error) {
	r := Rule{SyncRuleSpec: of.Spec, Name: of.Name, UID: of.UID, Generation: of.Generation}.as(of)
	if r.IsTerminating {
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
