package client_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/testing/pgtest"
)

// A search finds the same on every kind of database.
func TestSearch(t *testing.T) {
	t.Parallel()
	for kind := range pgtest.Locales {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			registry := client.NewRegistry(pgtest.NewIn(t, kind).Pool, oauth.EndConnectionsOfClient)
			var ids []string
			for _, of := range []struct{ name, contact string }{
				{"Ride Club INES", "It@Ride.example"}, {"Wandergruppe Süd 100%_", "söre@bücher.example"}, {"İz", ""}, {"ride club ız", "team@xn--bcher-kva.example"},
			} {
				registration := rideClub
				registration.Name, registration.ContactEmail = of.name, of.contact
				made, _ := create(t, registry, registration)
				ids = append(ids, made.ID.String())
			}
			for query, want := range map[string][]int{
				"":                               {0, 1, 2, 3},
				"ines":                           {0},
				"RIDE CLUB":                      {0, 3},
				"SÜD":                            {1},
				"su\u0308d":                      {1},
				"ız":                             {3},
				"IZ":                             nil,
				"iz":                             nil,
				"i\u0307z":                       {2},
				"%":                              {1},
				"_":                              {1},
				"it@RIDE":                        {0},
				"SÖRE@BÜCHER":                    {1},
				"SÖRE@xn--bcher-kva.example":     {1},
				"team@bücher.example":            {3},
				"@":                              {0, 1, 3},
				"no such":                        nil,
				strings.ToUpper(ids[2]):          {2},
				ids[2][:13]:                      {2},
				ids[2][1:]:                       nil,
				"' or true --":                   nil,
				"\x00\xff, which is not a query": nil,
			} {
				list, err := registry.List(t.Context(), client.Filter{Query: query}, page.Key{}, 10)
				var found []int
				for _, one := range list {
					found = append(found, slices.Index(ids, one.ID.String()))
				}
				if err != nil || !slices.Equal(found, want) {
					t.Errorf("%q finds %v, %v; want %v", query, found, err, want)
				}
			}
			first, err := registry.List(t.Context(), client.Filter{Query: "club"}, page.Key{}, 1)
			if err != nil || len(first) != 1 || first[0].ID.String() != ids[0] {
				t.Fatalf("the first page: %v, %v", first, err)
			}
			rest, err := registry.List(t.Context(), client.Filter{Query: "club"}, first[0].Key(), 1)
			if err != nil || len(rest) != 1 || rest[0].ID.String() != ids[3] {
				t.Errorf("the next page: %v, %v", rest, err)
			}
			if all, err := registry.Search(t.Context(), client.Filter{}); err != nil || all != nil {
				t.Errorf("nothing finds %v, %v", all, err)
			}
			if none, err := registry.Search(t.Context(), client.Filter{Query: "no such"}); err != nil || none == nil {
				t.Errorf("a search that finds nobody: %v, %v", none, err)
			}
			if found, err := registry.Search(t.Context(), client.Filter{Query: "süd"}); err != nil || !slices.Equal(found, []uuid.UUID{uuid.MustParse(ids[1])}) {
				t.Errorf("found %v, %v", found, err)
			}
		})
	}
}

// The filters find which clients break if a host changes, which are disabled, and which wait for an answer.
func TestFilter(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	registry := client.NewRegistry(db.Pool, oauth.EndConnectionsOfClient)
	var ids []uuid.UUID
	for _, callback := range []string{
		"https://auth.ride.example/callback", "https://ride.example:8443/callback", "https://other.example/cb?to=ride.example", "https://other.example/cb",
	} {
		registration := rideClub
		registration.CallbackURL = callback
		made, _ := create(t, registry, registration)
		ids = append(ids, made.ID)
	}
	db.Exec(t, "insert into webhook_endpoints (client_id, url, secret) values ($1, 'https://ride.example/hooks', 'x'), ($2, 'https://hooks.example/', 'x')", ids[3], ids[0])
	if err := registry.Disable(t.Context(), ids[2]); err != nil {
		t.Fatal(err)
	}
	db.Exec(t, `insert into change_requests (client_id, request_id, state, wanted, requested_by, requested_at, answered_by, answered_at) values
		($1, gen_random_uuid(), 'open', '{}', 'partner:ada', connect_now(), null, null),
		($2, gen_random_uuid(), 'refused', '{}', 'partner:ada', connect_now(), 'ada', connect_now())`, ids[1], ids[3])
	for filter, want := range map[client.Filter][]int{
		{CallbackHost: "ride.example"}:                                {1},
		{CallbackHost: "RIDE.example:8443"}:                           {1},
		{CallbackHost: "ride.example:443"}:                            nil,
		{CallbackHost: "auth.ride.example"}:                           {0},
		{CallbackHost: "example"}:                                     nil,
		{WebhookHost: "ride.example"}:                                 {3},
		{CallbackHost: "ride.example", WebhookHost: "ride.example"}:   {1, 3},
		{CallbackHost: "other.example", Status: client.Active}:        {3},
		{Status: client.Disabled}:                                     {2},
		{ChangeRequested: true}:                                       {1},
		{ChangeRequested: true, WebhookHost: "ride.example"}:          nil,
		{CallbackHost: "other.example", Query: ids[2].String()[:13]}:  {2},
		{CallbackHost: "other.example", WebhookHost: "hooks.example"}: {0, 2, 3},
	} {
		list, err := registry.List(t.Context(), filter, page.Key{}, 10)
		var found []int
		for _, one := range list {
			found = append(found, slices.Index(ids, one.ID))
		}
		if err != nil || !slices.Equal(found, want) {
			t.Errorf("%+v finds %v, %v; want %v", filter, found, err, want)
		}
	}
}
