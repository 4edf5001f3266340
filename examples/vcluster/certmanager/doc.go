// SPDX-License-Identifier: Apache-2.0

/*
Package certmanager is vcluster's cert-manager plugin: cert-manager runs in the host, and serves the Certificates of the tenant.

Certificates, Issuers and the Secrets that they use go down, with names translated, and their status comes back. An issued
Secret comes back, also after a renewal. cert-manager records whose it is: the copy of the Certificate has an annotation in its
secretTemplate. Each field that the API calls a SecretRef is a reference, and a hook finds out whether a Secret is used. Left out
are Certificates for an Ingress in the host, and the key of an ACME account.

The definitions must exist in both clusters. Lists are requests unless the manager's client caches unstructured objects. The
test is in crdtest, a Go module with cert-manager's definitions.

	original    certificates, secrets and issuers, plugin with SDK v0.4.0    810 lines, with Certificates for an Ingress
	this one    certmanager.go                                               221 lines
*/
package certmanager
