// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"strconv"
	"strings"

	"github.com/clusterfx/clusterfx/registry/internal/cache"
	"github.com/clusterfx/clusterfx/registry/state"
)

func controllerInfo(w *cache.Controller, blocks map[string]cache.Block) state.ControllerStatus {
	begun, synced := w.Progress()
	if synced {
		return state.ControllerStatus{Name: w.Name, State: state.ModuleRunning}
	}
	one := state.ControllerStatus{Name: w.Name, State: state.ModuleStarting, Reason: state.ReasonStarting}
	missing := w.Missing()
	var kinds []string
	found := map[string]cache.Block{}
	for _, k := range missing {
		kinds = append(kinds, k.Kind)
		if b, known := blocks[k.Type]; known {
			found[k.Type] = b
		}
	}
	slices.Sort(kinds)
	switch worst := worstOf(found); {
	case worst != cache.Block{}:
		one.State, one.Reason, one.Message = state.ModuleWaiting, reasonFor(worst), state.Sanitize(worst.Message)
		one.Problem = worst.Problem
	case len(kinds) > 0:
		one.Message = state.Sanitize("waits for the initial objects of " + strings.Join(slices.Compact(kinds), ", "))
	case begun:
		one.Message = "waits for a source of its own"
	default:
		one.Message = "waits for its turn"
	}
	return one
}

func uniqueName(base string, others []*cache.Controller) string {
	name := base
	for n := 2; slices.ContainsFunc(others, func(w *cache.Controller) bool { return w.Name == name }); n++ {
		name = base + "-" + strconv.Itoa(n)
	}
	return name
}
