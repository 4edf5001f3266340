// SPDX-License-Identifier: Apache-2.0

// Package servertext replaces the text of a server in its responses, so that it reaches no error, log, event or status.
//
// Replace is called for each response. A response that refuses a request gets a Status that has only checked tokens of
// the server. A response that accepts a request passes, except for the parts that client-go would quote in an error: an
// unknown media type, a Status of failure, a kind that is not a valid name, and the Status in an ERROR event of a watch.
// Responses of any size pass in pieces, and little of them is kept in memory.
//
// The package knows no credentials and no connections: kubeconfig passes a function that redacts the credentials, and
// replaces the text of errors of connections itself. Its tests call it through kubeconfig.Discreet and a client of
// client-go, because client-go decides what an error quotes.
package servertext
