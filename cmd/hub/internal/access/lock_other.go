// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package access

import "errors"

// DevHeld is never so: dev needs the locks of Unix.
func DevHeld(string) bool { return false }

func isPrivate(string) bool { return false }

func readOwn(string) ([]byte, error) { return nil, errors.ErrUnsupported }
