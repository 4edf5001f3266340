// SPDX-License-Identifier: Apache-2.0

/*
Package scaffold writes the files that a new module begins with.

# Usage

	files, err := scaffold.Module("tenants", ".")   // in a Go module of one's own, or in this repository
	err = files.Write()

# How it works

The files are templates that are compiled into the program. In a Go module of one's own the module becomes a folder of the
current one; if there is no program yet, it gets a main.go, and what an image needs: a Dockerfile and a Makefile. In the
repository of clusterfx the module becomes a folder of modules, with the licence in each file.

# Considerations

The module does something small, with all that a module most often has: a reconciler, a configuration, rights and cleanup.
It is easier to take out what is not needed than to know what is missing. A test compiles the files and runs their tests.
*/
package scaffold
