// SPDX-License-Identifier: Apache-2.0

/*
Command release makes the files of a release, and checks them. Run make release VERSION=v0.1.0 on the commit of the tag, or

	cd tools/release && go run . make -repository ../.. -version v0.1.0 -key ~/release.pem
	cd tools/release && go run . verify -key release.pub ../../dist/v0.1.0

It needs Go and git. The files are the same bytes wherever they are made with the same version of Go: the commit gives every time,
and the binaries hold no path. The image is made of the binaries of the archives and of the authorities of Mozilla, which are a Go
module; nothing is compiled twice, and no registry is asked.

What would make a release that cannot be repeated is refused before anything is built: changed files, another commit than that of
the tag, a nested module or a chart of another version. The files appear in dist/VERSION when all are complete.
*/
package main
