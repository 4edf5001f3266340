// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"fmt"

	"github.com/clusterfx/clusterfx/registry/kubeconfig"
)

var errHuge = fmt.Errorf("the response has a number with far too many digits: %w", kubeconfig.ErrNotKubernetes)

// number finds, piece by piece, numbers that resource.Quantity takes very long to parse: it writes out all digits of an
// exponent, and nothing can interrupt that. 1e-10000000 takes five seconds, 1e-2000000000 hours and gigabytes. A few
// digits with a large positive exponent are rounded at once.
type number struct {
	other    bool // it is no number
	mantissa int  // digits
	hasE     bool
	negative bool // the exponent
	exponent int  // digits, without zeros in front
}

const (
	maxDigits         = 100_000
	maxDigitsWithE    = 18 // of the mantissa of a number with a large exponent
	maxExponentDigits = 3
)

func (n *number) add(piece []byte) {
	for _, c := range piece {
		if n.other {
			return
		}
		n.take(c)
	}
}

func (n *number) take(c byte) {
	switch {
	case c >= '0' && c <= '9' && !n.hasE:
		n.mantissa++
	case c >= '1' && c <= '9', c == '0' && n.exponent > 0:
		n.exponent++
	case (c == 'e' || c == 'E') && !n.hasE && n.mantissa > 0:
		n.hasE, n.negative, n.exponent = true, false, 0
	case c == '-' && n.hasE:
		n.negative = true
	case c == '-', c == '+', c == '.', c == ' ', c == '0':
	default:
		n.other = true
	}
}

func (n *number) isHuge() bool {
	return !n.other && (n.mantissa > maxDigits ||
		n.hasE && n.exponent > maxExponentDigits && (n.negative || n.mantissa > maxDigitsWithE))
}
