// SPDX-License-Identifier: Apache-2.0

/*
Package scaffold writes the files that a new module begins with.

	files, err := scaffold.Module("tenants", ".")   // in a Go module of one's own, or in this repository
	err = files.Write()

The files are those of examples/quota, renamed. In a Go module of one's own the module becomes a folder of the
current one. If the Go module has no Go files yet, its root gets a main.go, a Dockerfile and a Makefile for the image, and a
.gitignore. In the repository of clusterfx the module becomes a folder of modules, with the licence in each file.

A name that the files use, with which they might not compile, is refused. Nothing is written then.
*/
package scaffold
