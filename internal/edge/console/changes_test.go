package console

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/admin/portal"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
)

// formOf returns the fields of the form on a page, with some replaced.
func formOf(p edgetest.Page, change ...string) (fields []string) {
	replaced := map[string]string{}
	for i := 0; i < len(change); i += 2 {
		replaced[change[i]] = change[i+1]
	}
	for _, input := range p.Find("main form").First().Find("input").EachIter() {
		name, value := input.AttrOr("name", ""), input.AttrOr("value", "")
		if _, checked := input.Attr("checked"); input.AttrOr("type", "") == "checkbox" && !checked {
			continue
		}
		if other, is := replaced[name]; is {
			value = other
		}
		fields = append(fields, name, value)
	}
	return fields
}

// An engineer asks for a change, the operator compares and approves or refuses it, and the engineer reads the answer.
func TestChanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t, func(c *pgtest.Client) { c.Name = "Ride Club" })
	f.DB.Client(t, func(c *pgtest.Client) { c.Name = "Ríde" })
	kim, ada := f.engineer(t, f.portal(t), partner.ID), f.signedIn(t, edgetest.AdaToken)
	own, desk := portal.Path+"/"+partner.ID.String()+"/changes", pathOf(partner.ID)+"/changes"
	kim.shows(kim.Get(own), "Ride Club", "Nothing was requested.", "Request a change")
	kim.shows(kim.Get(own+"/request"), "Request a change of Ride Club", "Nothing changes until the operator approves it.")
	ada.shows(ada.Get(Path), "Overview", "Nothing needs attention.")

	form := kim.Get(own + "/request")
	kim.goes(kim.Post(own+"/request", formOf(form)...), own+"?done=change_same")
	kim.shows(kim.Get(own+"?done=change_same"), "Ride Club", "Nothing differs from the registration as it is", "Nothing was requested.")
	wrong := kim.Post(own+"/request", formOf(form, "callback", "http://ride.example/cb", "burst", "70")...)
	if wrong.StatusCode != http.StatusUnprocessableEntity || wrong.Find("#p-callback").Length() != 1 || wrong.Find("#f-burst").AttrOr("value", "") != "70" {
		t.Errorf("a wrong callback: status %d", wrong.StatusCode)
	}
	kim.goes(kim.Post(own+"/request", formOf(form, "name", "Ride", "burst", "70")...), own+"?done=change_requested")
	kim.shows(kim.Get(own+"?done=change_requested"), "Ride Club", "Nothing changes until it is approved.", "open", "partner:kim", "Burst", "70", "Withdraw")
	toApprove := func() string { return ada.Get(desk).Find(".acts a").First().AttrOr("href", "") }
	asked := toApprove()
	kim.shows(kim.Post(own+"/request", formOf(form, "burst", "80")...), "Request a change of Ride Club") // of before: shown again, with what is there now
	if got := toApprove(); got != asked {
		t.Errorf("a form that was not accepted replaces the request %s by %s", asked, got)
	}
	ada.shows(ada.Get(Path), "Overview", "1 request for a change waits")
	ada.shows(ada.Get(changesPath), "Requests for changes", "Ride Club", "partner:kim")
	ada.shows(ada.Get(pathOf(partner.ID)), "Ride Club", "A change is requested by partner:kim since 2026-03-10 12:34")
	compared := ada.Get(desk)
	ada.shows(compared, "Ride Club", "partner:kim", "Users could take the new name", "Ríde")
	if strings.Contains(kim.Get(own).Source, "Ríde") {
		t.Error("an engineer sees another partner")
	}

	approve := toApprove()
	ada.shows(ada.Get(approve), "Approve the request of Ride Club?")
	form = kim.Get(own + "/request")
	kim.goes(kim.Post(own+"/request", formOf(form, "burst", "80")...), own+"?done=change_requested")
	ada.fails(ada.Post(approve), http.StatusConflict, "The request is no longer open") // it was replaced
	refuse := ada.Get(desk).Find(".acts a").Last().AttrOr("href", "")
	ada.shows(ada.Post(refuse, "answer", ""), "Refuse the request of Ride Club?", "must be 1 to 500 characters")
	ada.goes(ada.Post(refuse, "answer", "Not before your load test."), desk+"?done=change_refused")
	answered := kim.Get(own)
	kim.shows(answered, "Ride Club", "refused", "Not before your load test.")
	if strings.Contains(answered.Find("main").Text(), "ada") {
		t.Error("the page of the answer names the operator")
	}

	var body bytes.Buffer
	parts := multipart.NewWriter(&body)
	file, err := parts.CreateFormFile("logo", "logo.svg")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = file.Write([]byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><path d="M0 0h1"/></svg>`))
	_ = parts.Close()
	kim.goes(kim.Send(http.MethodPost, own+"/logo", parts.FormDataContentType(), body.String()), own+"?done=change_requested")
	ada.Look = nil // files have headers of their own
	for _, v := range []struct {
		visitor
		page string
	}{{kim, own}, {ada, desk}} {
		if picture := v.Get(v.Get(v.page).Find("td img").AttrOr("src", "")); picture.StatusCode != http.StatusOK || picture.Header.Get("Content-Type") != "image/svg+xml" {
			t.Errorf("%s: the logo that is asked for answers %d", v.page, picture.StatusCode)
		}
	}
	kim.goes(kim.Post(kim.Get(own).Find(".acts a.grave").AttrOr("href", "")), own+"?done=change_withdrawn")
	if n := pgtest.Value[int](t, f.DB, "select count(*) from change_requests"); n != 0 {
		t.Error("the request is not withdrawn")
	}
	kim.goes(kim.Post(own+"/request", formOf(kim.Get(own+"/request"), "burst", "90")...), own+"?done=change_requested")
	ada.goes(ada.Post(toApprove()), desk+"?done=change_approved")
	if now, err := f.Clients.Get(t.Context(), partner.ID); err != nil || now.Policy.Burst != 90 || now.Name != "Ride Club" {
		t.Errorf("approved: %+v, %v", now, err)
	}
	kim.shows(kim.Get(own), "Ride Club", "approved")
	kim.shows(kim.Get(portal.Path+"/"+partner.ID.String()+"/log"), "Ride Club", "client.change_approved", "partner:kim")

	kim.goes(kim.Post(own+"/request", formOf(kim.Get(own+"/request"), "burst", "91")...), own+"?done=change_requested")
	f.DB.Exec(t, `update change_requests set wanted = '{"callback_url": "http://ride.example/"}'`)
	ada.goes(ada.Post(toApprove()), desk+"?done=change_stale")
	kim.shows(kim.Get(own), "Ride Club", "refused", "callback must begin with https://")
	ada.fails(ada.Get(desk+"/approve?request="+uuid.NewString()), http.StatusConflict, "The request is no longer open")
}

// A request is approved beside the registration that the operator has compared it with: if somebody else has changed that, the operator looks again.
func TestApprovalOfWhatWasCompared(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t, func(c *pgtest.Client) { c.Name = "Ride Club" })
	kim, ada := f.engineer(t, f.portal(t), partner.ID), f.signedIn(t, edgetest.AdaToken)
	own, desk := portal.Path+"/"+partner.ID.String()+"/changes", pathOf(partner.ID)+"/changes"
	const asked, told, later = "https://ride.example/asked", "https://ride.example/told-by-telephone", "https://ride.example/later"
	kim.goes(kim.Post(own+"/request", formOf(kim.Get(own+"/request"), "callback", asked)...), own+"?done=change_requested")
	toApprove := func() string { return ada.Get(desk).Find(".acts a").First().AttrOr("href", "") }
	compared := toApprove()
	ada.shows(ada.Get(compared), "Approve the request of Ride Club?")
	update := func(callback string) {
		t.Helper()
		if _, err := f.Clients.Update(work.WithActor(t.Context(), "grace"), partner.ID, func(r *client.Registration) { r.CallbackURL = callback }); err != nil {
			t.Fatal(err)
		}
	}
	is := func(callback string) {
		t.Helper()
		if now, err := f.Clients.Get(t.Context(), partner.ID); err != nil || now.CallbackURL != callback {
			t.Errorf("the callback is %q, %v, want %q", now.CallbackURL, err, callback)
		}
	}
	update(told)
	for _, answer := range []edgetest.Page{ada.Get(compared), ada.Post(compared)} {
		ada.goes(answer, desk+"?done=change_moved")
	}
	ada.shows(ada.Get(desk+"?done=change_moved"), "Ride Club", "somebody else changed the registration in the meantime", "open", told, asked)
	is(told)
	compared = toApprove()
	ada.goes(ada.Post(compared), desk+"?done=change_approved")
	is(asked)
	update(later)
	ada.fails(ada.Post(compared), http.StatusConflict, "The request is no longer open")
	is(later)
}

// A form that is sent twice is saved once, and both answers say so: nobody else has changed anything.
func TestRegistrationThatIsSavedTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.DB.Client(t, func(c *pgtest.Client) { c.Name = "Ride Club" })
	kim, ada := f.engineer(t, f.portal(t), partner.ID), f.signedIn(t, edgetest.AdaToken)
	own, desk := portal.Path+"/"+partner.ID.String()+"/changes", pathOf(partner.ID)
	asked := formOf(kim.Get(own+"/request"), "burst", "98")
	for range 2 {
		kim.goes(kim.Post(own+"/request", asked...), own+"?done=change_requested")
	}
	saved := formOf(ada.Get(desk+"/change"), "burst", "99")
	for range 2 {
		ada.goes(ada.Post(desk+"/change", saved...), desk+"?done=partner_changed")
	}
	acts := pgtest.Value[string](t, f.DB, `select string_agg(actor || ' ' || action, ', ' order by action) from audit_log where action in ('client.updated', 'client.change_requested')`)
	if acts != "partner:kim client.change_requested, ada client.updated" {
		t.Errorf("the audit log has %s", acts)
	}
}
