// SPDX-License-Identifier: Apache-2.0

/*
Package scaffold writes the files that a new module begins with.

# Usage

	files, err := scaffold.Module("tenants", ".")   // in a Go module of one's own, or in this repository
	err = files.Write()

# How it works

The files are those of examples/quota, renamed. In a Go module of one's own the module becomes a folder of the
current one. If no package main of the Go module imports cmd/hub/app, and the root of the Go module has no Go files, the root
gets a main.go, a Dockerfile and a Makefile for the image, and the lines of .gitignore for build results and for the
credentials of the command dev. In the repository of clusterfx the module becomes a folder of modules, with the licence in
each file.

A name that the files use, with which they might not compile, is refused. Nothing is written then.
*/
package scaffold
