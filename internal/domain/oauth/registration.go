package oauth

import (
	"context"

	"github.com/google/uuid"

	oauthdb "connect-svc/gen/db/oauth"
)

// Partner is a client as users see it. All fields except the id and the name may be empty.
type Partner struct {
	ClientID                          uuid.UUID
	Name                              string
	HomepageURL, PrivacyURL, TermsURL string
	Logo                              string // file name
}

// registration is a client's row at the time Now.
type registration = oauthdb.ListRegistrationsRow

// registrationsPerStatement bounds how many clients one statement looks up.
const registrationsPerStatement = 500

func (s *Server) listRegistrations(ctx context.Context, clientIDs []uuid.UUID) (map[uuid.UUID]registration, error) {
	rows, err := s.queries.ListRegistrations(ctx, oauthdb.ListRegistrationsParams{ClientIds: clientIDs, Expected: s.pool.Expected()})
	found := make(map[uuid.UUID]registration, len(rows))
	for _, row := range rows {
		found[row.ClientID] = row
	}
	return found, err
}

func partnerOf(row *registration) Partner {
	return Partner{row.ClientID, row.Name, row.HomepageUrl, row.PrivacyUrl, row.TermsUrl, row.Logo}
}
