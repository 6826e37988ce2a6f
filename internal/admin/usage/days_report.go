package usage

import (
	"context"
	"time"

	"github.com/google/uuid"

	usagedb "connect-svc/gen/db/usage"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
)

// Days is what happened since a day, to one client or in all.
type Days struct {
	ClientID     uuid.UUID // uuid.Nil: all
	Name, Status string    // of the client

	// Total has the sums of the days, the connections of the last one, and of users and clients those of the day with most: on how many
	// days each was active is not known.
	Total Day
	Days  []Day // each day from the first one on, until today
}

// DaysOf returns what happened to a client since a day (UTC); uuid.Nil: in all. The figures of today are up to some minutes old. Error:
// refusal.ErrClientNotFound.
func (u *Usage) DaysOf(ctx context.Context, clientID uuid.UUID, since time.Time) (Days, error) {
	report := Days{ClientID: clientID}
	if clientID != everyone {
		client, err := u.queries.UsageClient(ctx, clientID)
		if err != nil {
			return Days{}, postgres.WrapNoRows("usage: client", err, refusal.ErrClientNotFound)
		}
		report.Name, report.Status = client.Name, client.Status
	}
	today := u.now().UTC().Truncate(oneDay)
	since = earlier(since.UTC().Truncate(oneDay), today)
	if earliest := today.AddDate(0, 0, -DaysKept); since.Before(earliest) {
		since = earliest
	}
	rows, err := u.queries.ReadDays(ctx, usagedb.ReadDaysParams{ClientIds: []uuid.UUID{clientID}, Since: since})
	if err != nil {
		return Days{}, postgres.Wrap("usage: days", err)
	}
	found := daysOf(rows)
	for day := since; !day.After(today); day = day.Add(oneDay) {
		figures, before := *found.of(clientID, day), report.Total
		report.Days = append(report.Days, figures)
		report.Total.add(figures)
		report.Total.ActiveUsers = max(before.ActiveUsers, figures.ActiveUsers)
		report.Total.ActiveClients = max(before.ActiveClients, figures.ActiveClients)
		if figures.Connections().Sum() > 0 { // before the first count of a day it has none
			before = figures
		}
		report.Total.NowAuthorized, report.Total.NowLapsed = before.NowAuthorized, before.NowLapsed
		report.Total.NowRevoked, report.Total.NowDisconnected = before.NowRevoked, before.NowDisconnected
	}
	return report, nil
}

// Figures returns the requests of the day.
func (d Day) Figures() Figures {
	f := Figures{d.Requests, d.RateLimited, d.Refused, d.Failed, d.Durations}
	rest := d.Requests
	for _, n := range d.Durations {
		rest -= n
	}
	f.durations[len(f.durations)-1] += max(rest, 0) // in buckets that only a newer server has
	return f
}

// InNeed is a client for which something went wrong on a day. The day has only the figures that tell.
type InNeed struct {
	Day
	Name, Status string
}

// InNeed returns at most limit clients for which something goes wrong today that a person may have to look at, the worst first: webhooks that
// were given up, used refresh tokens, answers 5xx, or a twentieth of the requests over the rate.
func (u *Usage) InNeed(ctx context.Context, limit int) ([]InNeed, error) {
	rows, err := u.queries.ClientsInNeed(ctx, usagedb.ClientsInNeedParams{
		Day: u.now().UTC().Truncate(oneDay), MaxRows: int32(limit), //nolint:gosec // a page
	})
	return postgres.Map(rows, func(row usagedb.ClientsInNeedRow) InNeed {
		return InNeed{Day{
			ClientID: row.ClientID, WebhooksFailed: row.WebhooksFailed, Replayed: row.Replayed, Failed: row.Failed,
			RateLimited: row.RateLimited, Requests: row.Requests,
		}, row.Name, row.Status}
	}), postgres.Wrap("usage: clients in need", err)
}

// Revocations returns the number of revoked connections.
func (d Day) Revocations() int64 { return d.Revoked + d.Replayed + d.RevokedByOperator }

// Disconnects returns the number of disconnected connections.
func (d Day) Disconnects() int64 {
	return d.DisconnectedByUser + d.DisconnectedByClient + d.DisconnectedByOperator + d.DisconnectedWithAccount + d.DisconnectedWithClient
}
