# The static binary and the certificates to reach a mail server with TLS, nothing else, not as root.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /connect-svc ./cmd/connect-svc && mkdir /keys

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /connect-svc /connect-svc
# A volume here belongs to the service, so that `keys create` can write its first keyset.
COPY --from=build --chown=65532:65532 /keys /keys
USER 65532:65532
EXPOSE 8443 9090
ENTRYPOINT ["/connect-svc"]
CMD ["serve"]
