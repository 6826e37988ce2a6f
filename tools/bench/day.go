package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/net/html"
)

type dayCommand struct {
	settings
	Users    int           `default:"2000000" help:"Users in the database: two thirds as many connections again, and 2.7 times as many entries of the audit log."`
	Partners int           `default:"10000" help:"Partners in the database. The first has half of the users."`
	Times    int           `default:"40" help:"How often each step is taken, each time for another user and partner."`
	Bound    time.Duration `default:"200ms" help:"What 99 of 100 pages and answers of the API stay within."`
	Out      string        `default:"bin/day.txt" help:"File for the table."`
}

// step is one thing that an operator does: a command, a page, a form or a request. It fails if the answer is not what it should be.
type step struct {
	name string
	take func(ctx context.Context, n int) error
}

// call is what somebody asks the operator, and the ways to answer it. Each has three steps at most.
type call struct {
	name                      string
	commands, requests, pages []step
}

// operatorDesk is what operators use: the command line, the API and a session of the console.
type operatorDesk struct {
	*stage
	size    *dayCommand
	service *service
	session string // cookie
}

// Run builds a large world and plays the calls of a day in it. It fails if a step fails, or if a page or an answer of the API is slow.
func (c *dayCommand) Run(ctx context.Context) error {
	s := newStage(c.settings)
	defer s.close()
	if err := errors.Join(s.startDatabase(ctx), s.populateDay(ctx, c.Users, c.Partners)); err != nil {
		return err
	}
	served, err := s.serve(ctx, "day", false)
	if err != nil {
		return err
	}
	d := &operatorDesk{s, c, served, ""}
	if err := errors.Join(d.awaitDays(ctx), d.signIn(ctx)); err != nil {
		return err
	}
	file, err := os.Create(c.Out)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // closed below, but for an error that is returned
	table := tabwriter.NewWriter(io.MultiWriter(os.Stdout, file), 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "call\tstep\tp50 ms\tp99 ms\t")
	var wrong []error
	for _, asked := range d.calls() {
		for _, way := range []struct {
			steps []step
			bound time.Duration
		}{{asked.commands, 0}, {asked.requests, c.Bound}, {asked.pages, c.Bound}} {
			if len(way.steps) > 3 && asked.name != everyPage {
				wrong = append(wrong, fmt.Errorf("%s takes %d steps", asked.name, len(way.steps)))
			}
			for _, step := range way.steps {
				took := make([]time.Duration, c.Times)
				for n := range took {
					began := time.Now()
					if err := step.take(ctx, n); err != nil {
						wrong = append(wrong, fmt.Errorf("%s: %s: %w", asked.name, step.name, err))
						break
					}
					took[n] = time.Since(began)
				}
				slices.Sort(took)
				p50, p99 := took[len(took)/2], took[len(took)*99/100]
				fmt.Fprintf(table, "%s\t%s\t%.0f\t%.0f\t\n", asked.name, step.name, 1000*p50.Seconds(), 1000*p99.Seconds())
				if way.bound > 0 && p99 > way.bound {
					wrong = append(wrong, fmt.Errorf("%s: %s took %s, more than %s", asked.name, step.name, p99.Round(time.Millisecond), way.bound))
				}
			}
		}
	}
	return errors.Join(append(wrong, table.Flush(), file.Close())...)
}

// awaitDays waits until the service has counted the days of the past, which it does once.
func (d *operatorDesk) awaitDays(ctx context.Context) error {
	for counted := false; !counted; until(time.Now().Add(time.Second), ctx.Done()) {
		if err := errors.Join(ctx.Err(), d.conn.QueryRow(ctx, "select exists (select 1 from usage_days where day = current_date and metric = 'now_authorized' and n > 0)").Scan(&counted)); err != nil {
			return err
		}
	}
	return nil
}

// run is a step at the command line. Its arguments are made for each user and partner.
func (d *operatorDesk) run(args func(n int) string) step {
	return step{"connect-svc " + generic(args(0)), func(ctx context.Context, n int) error {
		return d.command(ctx, strings.Split(args(n), " ")...)
	}}
}

// ask is a step with the operator API: a method, a path and a body, if there is one.
func (d *operatorDesk) ask(request func(n int) string) step {
	return step{generic(request(0)), func(ctx context.Context, n int) error {
		method, rest, _ := strings.Cut(request(n), " ")
		path, body, _ := strings.Cut(rest, " ")
		_, err := d.send(ctx, method, "/operator/v1/"+path, body, operatorHeader)
		return err
	}}
}

// look is a step in the console: a page, or what a search leads to.
func (d *operatorDesk) look(path func(n int) string) step {
	return step{"GET /console/" + generic(path(0)), func(ctx context.Context, n int) error {
		_, err := d.page(ctx, path(n))
		return err
	}}
}

func (d *operatorDesk) page(ctx context.Context, path string) ([]byte, error) {
	return d.send(ctx, http.MethodGet, strings.TrimSuffix("/console/"+path, "/"), "", http.Header{"Cookie": {d.session}})
}

// fill is a step in the console: the form of a page with some fields filled in, name=value, and all others as they are.
func (d *operatorDesk) fill(path func(n int) string, fields ...string) step {
	return step{"form /console/" + generic(path(0)), func(ctx context.Context, n int) error {
		page, err := d.page(ctx, path(n))
		if err != nil {
			return err
		}
		form, err := formOf(page)
		if err != nil {
			return err
		}
		for _, field := range fields {
			name, value, _ := strings.Cut(field, "=")
			form.Set(name, value)
		}
		_, err = d.send(ctx, http.MethodPost, "/console/"+path(n), form.Encode(), http.Header{
			"Cookie": {d.session}, "Content-Type": {"application/x-www-form-urlencoded"}, "Sec-Fetch-Site": {"same-origin"}})
		return err
	}}
}

var anyID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
var anyAddress = regexp.MustCompile(`user-[0-9]+(@|%40)user.example`)

// generic is a text without the ids and addresses in it.
func generic(text string) string {
	return anyAddress.ReplaceAllString(anyID.ReplaceAllString(text, "ID"), "EMAIL")
}

// send asks the private listener, and keeps the session.
func (d *operatorDesk) send(ctx context.Context, method, path, body string, header http.Header) ([]byte, error) {
	answer, cookies, err := d.service.ask(ctx, method, path, body, header)
	for _, cookie := range cookies {
		d.session = cookie.Name + "=" + cookie.Value
	}
	return answer, err
}

func (d *operatorDesk) signIn(ctx context.Context) error {
	_, err := d.send(ctx, http.MethodPost, "/console/sign-in", url.Values{"token": {secret}, "to": {""}}.Encode(), http.Header{
		"Content-Type": {"application/x-www-form-urlencoded"}, "Sec-Fetch-Site": {"same-origin"}})
	if err == nil && d.session == "" {
		err = errors.New("the console gave no session")
	}
	return err
}

// formOf returns the fields of the last form on a page, with what is in them.
func formOf(page []byte) (url.Values, error) {
	root, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		return nil, err
	}
	var fields url.Values
	for node := range root.Descendants() {
		attribute := map[string]string{}
		for _, a := range node.Attr {
			attribute[a.Key] = a.Val
		}
		_, isChecked := attribute["checked"]
		switch name := attribute["name"]; {
		case node.Type != html.ElementNode:
		case node.Data == "form":
			fields = url.Values{}
		case fields == nil || name == "" || node.Data == "button":
		case node.Data == "textarea" && node.FirstChild != nil:
			fields.Set(name, node.FirstChild.Data)
		case node.Data == "input" && (attribute["type"] != "radio" && attribute["type"] != "checkbox" || isChecked):
			fields.Add(name, attribute["value"])
		}
	}
	if fields == nil {
		return nil, errors.New("a page without a form")
	}
	return fields, nil
}
