package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"strings"

	"golang.org/x/oauth2"
)

func main() {
	ctx, state, verifier := context.Background(), oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
	fmt.Println(begin(state, verifier))
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	check(err)
	callback, err := url.Parse(strings.TrimSpace(line))
	check(err)
	if callback.Query().Get("state") != state {
		log.Fatal("another state came back")
	}
	first, err := exchange(ctx, callback.Query().Get("code"), verifier)
	check(err)
	read := func(tokens *oauth2.Token, want int) {
		address := fmt.Sprintf("%s/connect-svc/v1/grants/%s/daily-activity?from=%[3]s&to=%[3]s", os.Getenv("ISSUER"), first.Extra("grant_id"), first.Extra("history_from"))
		request, err := http.NewRequest(http.MethodGet, address, nil)
		check(err)
		tokens.SetAuthHeader(request)
		response, err := http.DefaultClient.Do(request)
		check(err)
		check(response.Body.Close())
		if response.StatusCode != want {
			log.Fatalf("a read is answered %d, not %d", response.StatusCode, want)
		}
	}
	read(first, http.StatusOK)
	second, err := refresh(ctx, first.RefreshToken)
	check(err)
	read(second, http.StatusOK)
	check(revoke(ctx, second))
	read(second, http.StatusUnauthorized)
	if revoke(ctx, &oauth2.Token{RefreshToken: strings.Repeat("x", 2049)}) == nil { // longer than any
		log.Fatal("a revocation that is refused is taken for done")
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
