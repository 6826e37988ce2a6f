package users_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/app"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
)

// A stored time zone makes nothing fail, neither one that nobody knows nor one by a name that PostgreSQL's machine may lack: the user
// consents, the partner reads, and the account pages, the receipt and the console show the user's times.
func TestStoredTimezone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ timezone, day, clock string }{
		{"Mars/Olympus", "2026-03-10", "23:00"},
		{"Asia/Calcutta", "2026-03-11", "04:30"},
		{"US/Pacific", "2026-03-10", "16:00"},
	} {
		t.Run(test.timezone, func(t *testing.T) {
			t.Parallel()
			e := e2e.New(t, func(c *app.Config) { c.Operators, c.Accounts.Receipts = edgetest.Operators(t), true })
			e.DB.Clock.Set(time.Until(time.Date(2026, 3, 10, 23, 0, 30, 0, time.UTC)))
			e.DB.Exec(t, "update users set timezone = $1 where user_id = $2", test.timezone, e.User.ID)

			_, token := e.Connect(t)
			if day := token.Extra("history_from"); day != test.day {
				t.Errorf("history_from %v, want %s", day, test.day)
			}
			if status := e.Read(t, token); status != http.StatusOK {
				t.Errorf("a read answers %d", status)
			}
			if _, err := e.App.Activity.SampleData(t.Context(), e.User.ID, 3, 1); err != nil {
				t.Errorf("sample data: %v", err)
			}
			if receipt := e.Mail.NextNotice(t); !strings.Contains(receipt.Text, test.clock) {
				t.Errorf("the receipt has no %s:\n%s", test.clock, receipt.Text)
			}

			browser := edgetest.Visit(t, e.Server, e.Base)
			browser.Location(browser.Post("/account/sign-in", "email", e.User.Email))
			browser.Location(browser.Post("/account/code", "code", e.Mail.Next(t).Code))
			if account := browser.Get("/account"); account.StatusCode != http.StatusOK || !strings.Contains(account.Source, e.Partner.Name) {
				t.Errorf("the account page answers %d", account.StatusCode)
			}

			ask := func(method, target string, session []*http.Cookie, form url.Values) *httptest.ResponseRecorder {
				request := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+target, strings.NewReader(form.Encode()))
				request.Header.Set("Sec-Fetch-Site", "same-origin")
				request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				if session == nil {
					request.Header.Set("Authorization", "Bearer "+edgetest.UnnamedToken)
				}
				for _, cookie := range session {
					request.AddCookie(cookie)
				}
				answer := httptest.NewRecorder()
				e.App.PrivateHandler().ServeHTTP(answer, request)
				return answer
			}
			shown := ask(http.MethodGet, "/operator/v1/users/"+e.User.ID.String(), nil, nil)
			if shown.Code != http.StatusOK || !strings.Contains(shown.Body.String(), test.timezone) {
				t.Errorf("the operator API answers %d: %s", shown.Code, shown.Body)
			}
			session := ask(http.MethodPost, "/console/sign-in", nil, url.Values{"token": {edgetest.UnnamedToken}}).Result().Cookies()
			for _, page := range []string{"", "/change", "/delete"} {
				if shown := ask(http.MethodGet, "/console/users/"+e.User.ID.String()+page, session, nil); shown.Code != http.StatusOK {
					t.Errorf("the console answers %d to %q", shown.Code, page)
				}
			}
		})
	}
}
