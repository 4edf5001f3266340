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
	known map[string]compiled
}

type compiled struct {
	uid        types.UID
	generation int64
	rule       func() (Rule, error)
}

// Compile is the function Compile, with a memory.
func (c *Compiler) Compile(of *hubv1.SyncRule) (Rule, error) {
	rule, err := c.of(of)()
	return rule.as(of), err
}

func (c *Compiler) of(rule *hubv1.SyncRule) func() (Rule, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, compile := c.known[rule.Name], sync.OnceValues(func() (Rule, error) { return Compile(rule) })
	isOf := known.uid == rule.UID && known.rule != nil
	switch {
	case isOf && known.generation == rule.Generation:
		return known.rule
	case isOf && known.generation > rule.Generation: // of an app that is late
		return compile
	case c.known == nil:
		c.known = map[string]compiled{}
	}
	c.known[rule.Name] = compiled{rule.UID, rule.Generation, compile}
	return compile
}

// Forget ends the memory of a rule.
func (c *Compiler) Forget(rule string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, rule)
}
