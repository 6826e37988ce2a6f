# The static binary and the certificates to reach a mail server with TLS, nothing else, not as root.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /connect-svc ./cmd/connect-svc

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /connect-svc /connect-svc
USER 65532:65532
EXPOSE 8443 9090
ENTRYPOINT ["/connect-svc"]
CMD ["serve"]
