// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// pieces feeds a meter with a text in pieces of random sizes.
func pieces(t *rapid.T, m Meter, text []byte) error {
	for len(text) > 0 {
		n := rapid.IntRange(1, min(len(text), 40)).Draw(t, "piece")
		if err := m.Read(text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// anyJSON draws a value, and adds its cost.
func anyJSON(t *rapid.T, depth int, inList bool, cost *int64) any {
	kind := rapid.IntRange(0, 4).Draw(t, "kind")
	if depth == 0 {
		kind = min(kind, 1)
	}
	switch kind {
	case 0:
		return rapid.Int().Draw(t, "number")
	case 1:
		return rapid.StringMatching(`[a-z{}\[\]"\\,:]{0,8}`).Draw(t, "text")
	case 2, 3:
		list := []any{}
		for range rapid.IntRange(0, 4).Draw(t, "length") {
			list = append(list, anyJSON(t, depth-1, true, cost))
		}
		*cost += costOfObject + costOfValue*int64(max(len(list)-1, 0))
		return list
	}
	if inList {
		*cost += costOfElement
	}
	object := map[string]any{}
	for i := range rapid.IntRange(0, 4).Draw(t, "fields") {
		object[fmt.Sprint(rapid.StringMatching(`[a-z{}\[\]"\\]{0,4}`).Draw(t, "name"), i)] = anyJSON(t, depth-1, false, cost)
	}
	*cost += costOfObject + costOfField*int64(max(len(object)-1, 0))
	if len(object) > 0 {
		*cost += costOfFields
	}
	return object
}

// The meter finds the same values regardless of the contents of strings and the boundaries of the pieces.
func TestJSONMeter_FindsEveryValue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := int64(costOfObject + costOfFields)
		text, err := json.Marshal(map[string]any{"x": anyJSON(t, 5, false, &want)})
		must(t, err)
		m := &jsonMeter{bill: noBill}
		must(t, pieces(t, m, text))
		if m.sum != want || m.depth != 0 || m.quoted || m.size != int64(len(text)) {
			t.Fatalf("%s: got meter %+v, want a sum of %d", text, m, want)
		}
	})
}

// noBill is a bill without a limit.
var noBill = bill{limit: math.MaxInt64}

func TestJSONMeter_BoundsEachEventByItself(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &jsonMeter{bill: bill{limit: 3*(costOfObject+costOfElement) + 2*costOfValue + costOfField + 2*costOfObject + costOfFields}, stream: true}
		for range rapid.IntRange(1, 5).Draw(t, "events") {
			event := `{"items":[{},{},{}],"text":"` + rapid.StringMatching(`[a-z{}]{0,8}`).Draw(t, "text") + `"}` + "\n"
			must(t, pieces(t, m, []byte(event)))
		}
		if err := pieces(t, m, []byte(`{"items":[{},{},{},{}]}`)); !errors.Is(err, ErrTooLarge) {
			t.Fatalf("got error %v, want ErrTooLarge", err)
		}
	})
}

func TestJSONMeter_Refuses(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 1<<20)
	const keep = 1 << 20
	few := bill{limit: keep}
	for name, c := range map[string]struct {
		Meter      jsonMeter
		head, part string
		want       int // number of parts that exceed the limit
	}{
		"an event without an end":  {jsonMeter{bill: noBill, stream: true}, `{"x":"`, text, maxEvent >> 20},
		"spaces without an end":    {jsonMeter{bill: noBill, stream: true}, "", strings.Repeat(" ", 1<<20), maxEvent>>20 + 1},
		"lists in lists":           {jsonMeter{bill: noBill}, "", "[", maxNesting + 1},
		"objects in objects":       {jsonMeter{bill: noBill}, "", `{"x":`, maxNesting + 1},
		"empty objects in a list":  {jsonMeter{bill: few}, `[`, "{},", keep/(costOfElement+costOfObject+costOfValue) + 1},
		"objects in an object":     {jsonMeter{bill: few}, ``, `{"":{}},`, keep/(2*costOfObject+costOfFields+costOfField) + 1},
		"empty objects in a field": {jsonMeter{bill: few}, ``, `{},`, keep/(costOfObject+costOfField) + 1},
		"numbers":                  {jsonMeter{bill: few}, `[`, `1,`, (keep-costOfObject)/costOfValue + 1},
		"fields":                   {jsonMeter{bill: few}, `{`, `"":1,`, (keep-costOfObject-costOfFields)/costOfField + 1},
		"empty lists":              {jsonMeter{bill: few}, `[`, `[],`, keep / (costOfObject + costOfValue)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.Meter.Read([]byte(c.head))
			n := 0
			for ; err == nil && n <= c.want; n++ {
				err = c.Meter.Read([]byte(c.part))
			}
			if !errors.Is(err, ErrTooLarge) || n != c.want {
				t.Errorf("got %v after %d parts, want ErrTooLarge after %d", err, n, c.want)
			}
		})
	}
}
