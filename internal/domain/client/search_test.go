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
				list, err := registry.List(t.Context(), query, page.Key{}, 10)
				var found []int
				for _, one := range list {
					found = append(found, slices.Index(ids, one.ID.String()))
				}
				if err != nil || !slices.Equal(found, want) {
					t.Errorf("%q finds %v, %v; want %v", query, found, err, want)
				}
			}
			first, err := registry.List(t.Context(), "club", page.Key{}, 1)
			if err != nil || len(first) != 1 || first[0].ID.String() != ids[0] {
				t.Fatalf("the first page: %v, %v", first, err)
			}
			rest, err := registry.List(t.Context(), "club", first[0].Key(), 1)
			if err != nil || len(rest) != 1 || rest[0].ID.String() != ids[3] {
				t.Errorf("the next page: %v, %v", rest, err)
			}
			if all, err := registry.Search(t.Context(), ""); err != nil || all != nil {
				t.Errorf("nothing finds %v, %v", all, err)
			}
			if none, err := registry.Search(t.Context(), "no such"); err != nil || none == nil {
				t.Errorf("a search that finds nobody: %v, %v", none, err)
			}
			if found, err := registry.Search(t.Context(), "süd"); err != nil || !slices.Equal(found, []uuid.UUID{uuid.MustParse(ids[1])}) {
				t.Errorf("found %v, %v", found, err)
			}
		})
	}
}
