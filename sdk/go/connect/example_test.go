package connect_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/connect"
)

// newClient makes a client of a service that plays its part in the examples.
func newClient() *connect.Client {
	client, err := connect.New(connect.Config{
		BaseURL:      service.URL,
		ClientID:     "2f6c1f0e-58c4-4c9e-9a55-0d6f6a3f9b11",
		ClientSecret: "svci_of-your-registration",
		CallbackURL:  "https://partner.example/callback",
		Scopes:       []connectsdk.Scope{connectsdk.ScopeDailyStepsRead, connectsdk.ScopeCyclingActivitiesRead},
		HTTPClient:   service.Client(),
	})
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// Two handlers of a web server: the button "Connect", and the callback.
func Example() {
	client := newClient()
	sessions := map[string]connect.Authorization{} // use your own sessions

	http.HandleFunc("POST /connect", func(w http.ResponseWriter, r *http.Request) {
		begun := client.Begin()
		sessions["ada"] = begun
		http.Redirect(w, r, begun.URL, http.StatusSeeOther)
	})
	http.HandleFunc("GET /callback", func(w http.ResponseWriter, r *http.Request) {
		begun := sessions["ada"]
		delete(sessions, "ada") // it works once
		switch _, err := client.Finish(r.Context(), "ada", begun, r.URL.Query()); {
		case errors.Is(err, connect.ErrDenied):
			http.Redirect(w, r, "/?said=no", http.StatusSeeOther)
		case err != nil:
			http.Redirect(w, r, "/?try=again", http.StatusSeeOther)
		default:
			http.Redirect(w, r, "/", http.StatusSeeOther) // the code does not stay in the address bar
		}
	})
}

func ExampleClient_Begin() {
	begun := newClient().Begin()
	address, err := url.Parse(begun.URL)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(address.Path)
	fmt.Println(address.Query().Get("scope"))
	fmt.Println(address.Query().Get("code_challenge_method"), len(address.Query().Get("code_challenge")))
	// Output:
	// /oauth/authorize
	// daily_steps:read cycling_activities:read
	// S256 43
}

func ExampleClient_DailySteps() {
	ctx := context.Background()
	client := newClient()
	begun := client.Begin()
	// The browser goes to begun.URL and comes back with a code.
	callback := url.Values{"state": {begun.State}, "code": {"svcc_from-the-callback"}}
	connection, err := client.Finish(ctx, "ada", begun, callback)
	if err != nil {
		log.Fatal(err)
	}
	steps, err := client.DailySteps(ctx, "ada", connection.HistoryFrom, connect.Day(2026, time.November, 21))
	if errors.Is(err, connect.ErrReconnect) {
		fmt.Println("Please connect again.") // show the button "Connect"
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	for _, day := range steps.Data {
		fmt.Println(day.Date, day.Steps)
	}
	// Output:
	// 2026-11-20 8123
	// 2026-11-21 4321
}

func ExampleClient_CyclingActivities() {
	ctx := context.Background()
	client := newClient()
	begun := client.Begin()
	if _, err := client.Finish(ctx, "ada", begun, url.Values{"state": {begun.State}, "code": {"svcc_from-the-callback"}}); err != nil {
		log.Fatal(err)
	}
	from, to := connect.Day(2026, time.November, 20), connect.Day(2026, time.November, 21)
	for ride, err := range client.CyclingActivities(ctx, "ada", from, to, 500) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ride.RecordedStartTime, ride.DistanceMeters) // store by ride.Id
	}
	// Output:
	// 2026-11-20T07:30:00.000000 5200
	// 2026-11-21T07:31:00.000000 5150
}

func ExampleClient_Disconnect() {
	ctx := context.Background()
	client := newClient()
	begun := client.Begin()
	if _, err := client.Finish(ctx, "ada", begun, url.Values{"state": {begun.State}, "code": {"svcc_from-the-callback"}}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.Disconnect(ctx, "ada"))
	_, err := client.AccessToken(ctx, "ada")
	fmt.Println(err)
	// Output:
	// <nil>
	// connect: not connected
}

// Two users connect the same account: a disconnect of the one does not end the other.
func ExampleClient_Forget() {
	ctx := context.Background()
	client := newClient()
	for _, user := range []string{"ada", "bob"} {
		begun := client.Begin()
		connection, err := client.Finish(ctx, user, begun, url.Values{"state": {begun.State}, "code": {"svcc_from-the-callback"}})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(user, connection.SharedWith)
	}
	err := client.Disconnect(ctx, "ada")
	var shared *connect.SharedError
	if errors.As(err, &shared) {
		fmt.Println("the account is also that of", shared.Keys)
		err = client.Forget(ctx, "ada") // or client.DisconnectShared, if all shall end
	}
	fmt.Println(err)
	// Output:
	// ada []
	// bob [ada]
	// the account is also that of [bob]
	// <nil>
}

// A user connects another account: the former connection is still open at the service.
func ExampleClient_DisconnectFormer() {
	ctx := context.Background()
	client := newClient()
	begun := client.Begin()
	connection, err := client.Finish(ctx, "ada", begun, url.Values{"state": {begun.State}, "code": {"svcc_from-the-callback"}})
	if err != nil {
		log.Fatal(err)
	}
	if len(connection.FormerGrants) > 0 { // ask the user, or end them at once
		err = client.DisconnectFormer(ctx, "ada")
	}
	fmt.Println(err)
	// Output:
	// <nil>
}

// service answers as the real one does.
var service = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == "/oauth/token":
		fmt.Fprint(w, tokens)
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case strings.HasSuffix(path, "/daily-activity"):
		fmt.Fprint(w, `{"data":[{"date":"2026-11-20","steps":8123,"updated_at":null},{"date":"2026-11-21","steps":4321,"updated_at":null}],
			"meta":{"from":"2026-11-20","to":"2026-11-21","date_basis":"svc_recorded_date","source":"svc","snapshot_at":"2026-11-21T10:00:00.000Z"}}`)
	case r.URL.Query().Get("cursor") == "":
		fmt.Fprint(w, page("2026-11-20", "2026-11-20T07:30:00.000000", 5200, `"cc1_next"`))
	default:
		fmt.Fprint(w, page("2026-11-21", "2026-11-21T07:31:00.000000", 5150, "null"))
	}
}))

const tokens = `{"grant_id":"7b0a8f0d-9f21-4c8e-9c6c-4f1f7d3e52a4","history_from":"2026-11-20","connection_version":"1",
	"access_token":"svca_secret","token_type":"Bearer","expires_in":300,"refresh_token":"svcr2_secret","scope":"daily_steps:read"}`

func page(date, start string, meters int, next string) string {
	return fmt.Sprintf(`{"data":[{"id":"ca_%043d","date":%q,"distance_meters":%d,"recorded_start_time":%q,"recorded_end_time":null,
		"timezone":null,"manual":null,"granularity":"unknown","source":"svc","updated_at":null}],
		"meta":{"from":"2026-11-20","to":"2026-11-21","date_basis":"svc_recorded_date","time_basis":"svc_recorded_clock",
		"snapshot_at":"2026-11-21T10:00:00.000Z","next_cursor":%s}}`, meters, date, meters, start, next)
}
