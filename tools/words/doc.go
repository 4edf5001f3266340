// SPDX-License-Identifier: Apache-2.0

// Command words measures the English of this repository. It counts the words in the comments of Go code, and how often
// each pattern of a private dialect occurs per 10 000 of them, for every package and for all of them together:
//
//	make words                                        # every package, and the total
//	cd tools && go run ./words ../registry            # the packages below one folder
//	cd tools && go run ./words -list goes-on ..       # every place with one pattern (-list all: with any pattern)
//	cd tools && go run ./words -of strings ..         # string literals: errors, log messages, events, help
//	cd tools && go run ./words -of pages -list all .. # Markdown pages, without their blocks of code
//	cd tools && go run ./words -check ..              # exit code 1 if a total is over its limit
//
// Generated code, the literals of tests, testdata, directives and licence lines do not count. The patterns, each with its limit, are in
// patterns.go. Most of them have a plainer form: a noun for "what" and "the one that", a component and a verb for
// "nobody" and "is told", the term of the field for "answer". The limit is a rate where the pattern is also good
// English now and then, and zero where it never is.
package main
