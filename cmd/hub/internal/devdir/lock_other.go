// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package devdir

import "errors"

// Held is never so: dev needs the locks of Unix.
func Held(string) bool { return false }

func isPrivate(string) bool { return false }

func readOwn(string) ([]byte, error) { return nil, errors.ErrUnsupported }
