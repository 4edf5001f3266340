# SPDX-License-Identifier: Apache-2.0
#
# The image of the stock hub: one static binary, with no shell and no root.
#
#   docker buildx build --platform linux/amd64,linux/arm64 -t ghcr.io/clusterfx/hub:v0.1.0 .
#   docker build --build-arg BASE=scratch -t ghcr.io/clusterfx/hub:v0.1.0 .
#
# The base can be any image that has the authorities' certificates, for Secrets that name no CA of their own. It can be
# scratch, too: they are copied from the stage that builds.
#
#   docker build --build-arg PROGRAM=./examples/quota -t registry.example.com/quota-hub:v1 .
#
# That is for another hub in this repository. A hub in a repository of its own is built as docs/modules.md says.
ARG GO=golang:1.26
ARG BASE=gcr.io/distroless/static-debian12:nonroot

# Go builds for every platform on the one that it runs on, so nothing is emulated.
FROM --platform=$BUILDPLATFORM ${GO} AS build
# With a default the values of the platform that is asked for would not be seen.
ARG TARGETOS
ARG TARGETARCH
ARG PROGRAM=./cmd/hub
WORKDIR /src
# Modules change less often than code: they are a layer of their own.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# The version in the binary is the tag that is checked out, which Go takes from .git.
# An image needs no clusters to try things with: nodev leaves out the command dev, and kind with it.
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -tags nodev -trimpath -ldflags='-s -w' -o /out/hub ${PROGRAM}

FROM ${BASE}
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/hub /hub
# The number and not the name, so that Kubernetes can see that it is not root.
USER 65532:65532
EXPOSE 8080 8081
ENTRYPOINT ["/hub"]
CMD ["run"]
