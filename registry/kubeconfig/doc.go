// SPDX-License-Identifier: Apache-2.0

// Package kubeconfig turns the data of a Secret into a validated connection to a remote, and provides its transport,
// whose credential can be replaced while it is in use.
//
// # Usage
//
// Parse reads the data, a Transport carries the requests, RESTConfig passes it to client-go, and Classify explains why
// a request failed:
//
//	connection, err := kubeconfig.Parse(secret.Data, kubeconfig.Options{}, policy)
//	transport, err := kubeconfig.NewTransport(connection, policy)
//	defer transport.Close()
//	c, err := client.New(kubeconfig.RESTConfig(connection.Endpoint, transport), client.Options{})
//	...
//	err = transport.Swap(renewed.Credential) // c uses it from now on
//
// A Connection has two parts that change for different reasons. A new Credential at the same Endpoint is swapped under
// running clients. A new Endpoint may be another server, and needs a new Transport. Each has a Fingerprint that reveals
// a change; the Fingerprint of a Credential is keyed, so that it can be published.
//
// # Input
//
// Without a key in Options, Parse reads the first of these keys that the data has:
//
//	kubeconfig, value, value.yaml   a kubeconfig (ours, Cluster API, Flux)
//	config, with server             Argo CD's JSON
//	config                          a kubeconfig (vcluster)
//	token, with server              a ServiceAccount token, with ca.crt or caBundle; without, the
//	                                system's CAs. The Cluster may have the server instead.
//
// A key in Options is read as a kubeconfig, and config and token as above.
//
// # Accepted values
//
// A kubeconfig is untrusted input that decides where the hub connects to, and with which identity. Only these fields
// are used: server (https), certificate-authority-data, tls-server-name, and either token or client-certificate-data
// with client-key-data. proxy-url (http, socks5) and insecure-skip-tls-verify need the operator's Policy. Every other
// value that acts on the hub or hides the identity is refused with its own Reason: commands, plugins, files,
// impersonation, basic authentication. Unknown values are refused, too. All entries are judged, not only the entries of
// the current context, because one edit changes the context. Only three checks are limited to the selected context,
// because a failure elsewhere does no harm: whether there is a credential, whether it has expired, and whether the
// server's address may be dialled.
//
// A token beside a client certificate is refused. Servers differ in which of the two they check first, so the identity
// of the hub would be undefined; and the rotation of one would look like the rotation of both.
//
// # Locking and lifetime
//
// Parse and everything that it returns is immutable. A Transport may be used by any number of goroutines. It starts no
// waiting goroutines: a replaced client certificate leaves a timer, and net/http's goroutines end with their
// connections, which Close closes. Locks are held for map operations only.
//
// # Considerations
//
// The package uses the types of client-go's clientcmd, and calls none of its functions: clientcmd opens the files that
// a kubeconfig names, so that parsing alone could send the hub's own token to a foreign server, or never return. The
// package judges the shape of the YAML on its syntax tree: no aliases, tags or second documents, and limited in size.
// It decodes with kubectl's decoder, so that no input means one thing to a reviewer and another thing to the hub; a
// fuzz target compares the two.
//
// An Error wraps nothing and never includes errors of parsers, because they quote their input. Positions are indices,
// because the author of the kubeconfig chooses the names of entries. Likewise the messages of Classify contain nothing
// from the server: otherwise registering a remote would reveal the services inside the hub's network.
//
// For the same reason a Transport keeps the text of the server out of errors, with Discreet: a server that echoes the
// headers of a request would put the hub's token into every text that quotes the error. The price is that the body of a
// response of 400 and above is lost, also if a proxy in the remote passes it on, and that a module sees which field was
// refused but not the explanation. In a watch the Status of an ERROR event is replaced in the same way; events with
// objects pass as they arrive. A Redactor replaces the credentials of many remotes in the log, including their previous
// credentials.
//
// Addresses are judged when they are dialled, after name resolution, because a name that was harmless when it was
// checked may resolve to another address a moment later. Parse also judges addresses in a URL, to report them early.
// With a proxy, the proxy's address is dialled and judged.
//
// Requests for another host are refused rather than sent without the token: any TLS server may request a client
// certificate, and would get it. For the same reason a proxy cannot use https.
//
// Two tokens share connections. A client certificate is part of a connection, so its successor needs new connections:
// the next request uses a new http.Transport, and the connections of the old http.Transport are closed after
// Transport.Drain. client-go sees the end of a connection, after which a watch resumes at its position, without a list.
package kubeconfig
