// SPDX-License-Identifier: Apache-2.0

/*
Package kubeconfig turns the data of a Secret into a validated connection, and provides its transport, whose
credential can be replaced while it is in use.

	connection, err := kubeconfig.Parse(secret.Data, kubeconfig.Options{}, policy)
	transport, err := kubeconfig.NewTransport(connection, policy)
	defer transport.Close()
	c, err := client.New(kubeconfig.RESTConfig(connection.Endpoint, transport), client.Options{})
	...
	err = transport.Swap(renewed.Credential) // c uses it from now on

A new Credential is swapped under running clients; a new Endpoint needs a new Transport. Fingerprints reveal changes;
a Credential's is keyed, so that it can be published. Parse reads Options.Key, or the first of these keys:

	kubeconfig, value, value.yaml   a kubeconfig (ours, Cluster API, Flux)
	config, with server             Argo CD's JSON
	config                          a kubeconfig (vcluster)
	token, with server              a ServiceAccount token, with ca.crt or caBundle; without, the
	                                system's CAs. The Cluster may have the server instead.

A kubeconfig is untrusted input that decides where the hub connects, and as whom. Used are server (https),
certificate-authority-data, tls-server-name, and either token or client-certificate-data with client-key-data;
proxy-url (http, socks5) and insecure-skip-tls-verify need the operator's Policy. All else is refused, each with its
Reason, in all entries, because one edit changes the context. Only a missing or expired credential and a denied
address count for the selected context alone. A token beside a certificate is refused: servers differ in which they
check first.

clientcmd is not called: it opens the files that a kubeconfig names. The shape is judged on the YAML's syntax tree,
and decoded with kubectl's decoder, so that no input means one thing to a reviewer and another to the hub. An Error
wraps nothing and names positions by index, since parsers quote their input. Messages of Classify have nothing from
the server, which would reveal services in the hub's network; Discreet keeps a server's text out of errors, since it
may echo the hub's token.

Addresses are judged when they are dialled, after name resolution. Requests for another host are refused, and a proxy
cannot use https: any TLS server may request the client certificate. Two tokens share connections; a new certificate
needs new ones, and the old are closed after Transport.Drain.

Everything from Parse is immutable. A Transport is safe for many goroutines, and locks are held for map operations
only.
*/
package kubeconfig
