// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"strings"
	"unicode"
)

// All other variables are the SDK's to read.
const (
	disabledVar       = "OTEL_SDK_DISABLED"
	exporterVar       = "OTEL_TRACES_EXPORTER"
	endpointVar       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	tracesEndpointVar = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	protocolVar       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	tracesProtocolVar = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	headersVar        = "OTEL_EXPORTER_OTLP_HEADERS"
	tracesHeadersVar  = "OTEL_EXPORTER_OTLP_TRACES_HEADERS"
)

const (
	exporterOTLP = "otlp"
	exporterNone = "none"
	protocolHTTP = "http/protobuf"
	protocolGRPC = "grpc"
)

type environment struct {
	on       bool
	protocol string
}

func fromEnvironment() (environment, error) {
	off, endpoint := environment{}, os.Getenv(endpointVar)+os.Getenv(tracesEndpointVar)
	if strings.EqualFold(os.Getenv(disabledVar), "true") {
		return off, nil
	}
	switch exporter := os.Getenv(exporterVar); {
	case exporter == exporterNone, exporter == "" && endpoint == "":
		return off, nil
	case exporter != "" && exporter != exporterOTLP:
		return off, fmt.Errorf("%s=%q: use %s or %s", exporterVar, exporter, exporterOTLP, exporterNone)
	}
	for _, name := range []string{endpointVar, tracesEndpointVar} {
		if err := checkEndpoint(name, os.Getenv(name)); err != nil {
			return off, err
		}
	}
	for _, name := range []string{headersVar, tracesHeadersVar} {
		if err := checkHeaders(name, os.Getenv(name)); err != nil {
			return off, err
		}
	}
	wanted := environment{true, cmp.Or(os.Getenv(tracesProtocolVar), os.Getenv(protocolVar), protocolHTTP)}
	if wanted.protocol != protocolHTTP && wanted.protocol != protocolGRPC {
		return off, fmt.Errorf("%s or %s is %q: use %s or %s",
			protocolVar, tracesProtocolVar, wanted.protocol, protocolHTTP, protocolGRPC)
	}
	return wanted, nil
}

// checkEndpoint refuses what the SDK would ignore silently. The value may hold a password and is not repeated.
func checkEndpoint(name, value string) error {
	if value == "" {
		return nil
	}
	if u, err := url.Parse(value); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%s is not a URL: write it as http://collector:4318, or https://collector:4318", name)
	}
	return nil
}

// checkHeaders refuses what the SDK would ignore and write to stderr, with the secret.
func checkHeaders(name, value string) error {
	for header := range strings.SplitSeq(value, ",") {
		if strings.TrimSpace(header) == "" {
			continue
		}
		key, text, found := strings.Cut(header, "=")
		_, err := url.PathUnescape(text)
		if !found || err != nil || !isHeaderKey(strings.TrimSpace(key)) {
			return fmt.Errorf("%s is not a list of headers: write it as name=value,name=value, "+
				"and encode characters of a value that are no letters or digits as in a URL (%%20 for a space)", name)
		}
	}
	return nil
}

func isHeaderKey(key string) bool {
	strange := func(r rune) bool {
		return r <= ' ' || r > unicode.MaxASCII || strings.ContainsRune(`"(),/:;<=>?@[\]{}`+"\x7f", r)
	}
	return key != "" && !strings.ContainsFunc(key, strange)
}
