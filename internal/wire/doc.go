// SPDX-License-Identifier: Apache-2.0

/*
Package wire knows how Kubernetes writes bodies in JSON and in protobuf. Decode reads one, and Replace takes the text
of a server out of its responses, so that it reaches no error, log, event or status.

A refusal gets a Status with only checked tokens. An accepting response passes, except what client-go would quote in
an error: an unknown media type, a Status of failure, a kind that is no valid name, the Status in an ERROR event of a
watch. Responses of any size pass in pieces. The judges of bytes are here, and not in a decoder, because
controller-runtime sets the decoders of its clients itself. kubeconfig passes a function that redacts credentials;
tests go through kubeconfig.Discreet and a client, because client-go decides what an error quotes.
*/
package wire
