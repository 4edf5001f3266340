// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// Variables that are read here. All others are the SDK's to read.
const (
	disabledVar       = "OTEL_SDK_DISABLED"
	exporterVar       = "OTEL_TRACES_EXPORTER"
	endpointVar       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	tracesEndpointVar = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	protocolVar       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	tracesProtocolVar = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
)

// Values of exporterVar and of the protocols.
const (
	exporterOTLP = "otlp"
	exporterNone = "none"
	protocolHTTP = "http/protobuf"
	protocolGRPC = "grpc"
)

// environment is what somebody wants.
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
	wanted := environment{true, cmp.Or(os.Getenv(tracesProtocolVar), os.Getenv(protocolVar), protocolHTTP)}
	if wanted.protocol != protocolHTTP && wanted.protocol != protocolGRPC {
		return off, fmt.Errorf("%s or %s is %q: use %s or %s",
			protocolVar, tracesProtocolVar, wanted.protocol, protocolHTTP, protocolGRPC)
	}
	return wanted, nil
}

// checkEndpoint refuses what the SDK would not use, and would say nowhere. The value may hold a password and is
// not repeated.
func checkEndpoint(name, value string) error {
	if value == "" {
		return nil
	}
	if u, err := url.Parse(value); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%s is not a URL: write it as http://collector:4318, or https://collector:4318", name)
	}
	return nil
}
