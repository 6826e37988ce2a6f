package webhooks

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"strconv"
	"time"

	"connect.invalid/connect-go/connect"
	"connect.invalid/connect-go/connect/pgstore"
	"connect.invalid/connect-go/webhook"
)

// Worker empties the inbox.
type Worker struct {
	DB     *sql.DB
	Store  *pgstore.Store
	Client *connect.Client
	// Changed reads what changed of a user: the datasets of the event, from its first day to its last.
	Changed func(ctx context.Context, user string, event webhook.ActivityUpdated) error
}

// Run works until the context ends.
func (wk *Worker) Run(ctx context.Context) error {
	pause := time.NewTicker(time.Second)
	defer pause.Stop()
	for {
		worked, err := wk.Next(ctx)
		if err != nil {
			log.Print("webhook: ", err)
		}
		if worked && err == nil {
			continue // there may be more
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// mostTries bounds the tries of an event. Their pauses are 10 minutes and twice as long each time, 21 hours in all.
const mostTries = 8

// Next works on the event that has waited longest, and reports whether there was one. If the work fails, or the process ends
// in the middle of it, the event is due again later, and after mostTries it is dead.
func (wk *Worker) Next(ctx context.Context) (bool, error) {
	var id, body string
	var tries int // with this one
	err := wk.DB.QueryRowContext(ctx, `
		update webhook_inbox set tries = tries + 1, due_at = now() + interval '10 minutes' * power(2, tries) where id = (
			select id from webhook_inbox
			where done_at is null and dead_at is null and due_at <= now() order by due_at limit 1 for update skip locked)
		returning id, event, tries`).Scan(&id, &body, &tries)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := wk.try(ctx, id, body, tries); err != nil {
		_, stored := wk.DB.ExecContext(ctx, `
			update webhook_inbox set error = $2, dead_at = case when $3 then now() end where id = $1`, id, err.Error(), tries >= mostTries)
		if tries >= mostTries {
			err = fmt.Errorf("%s is dead: %w", id, err)
		}
		return true, errors.Join(err, stored)
	}
	_, err = wk.DB.ExecContext(ctx, `update webhook_inbox set done_at = now() where id = $1`, id)
	return true, err
}

func (wk *Worker) try(ctx context.Context, id, body string, tries int) error {
	if tries > mostTries { // it may be what ends the process, so it is not tried again
		return errors.New("the process ended in the middle of the last try")
	}
	event, err := webhook.Parse(id, []byte(body))
	if err != nil {
		return err
	}
	return wk.work(ctx, event)
}

// work ignores an event of a type that it does not know, and one whose version is below that of the connection: it was late,
// and the user has connected again since.
func (wk *Worker) work(ctx context.Context, event webhook.Event) error {
	switch event := event.(type) {
	case webhook.ConnectionRevoked:
		return wk.each(ctx, event.Data.GrantId.String(), func(user string) error {
			_, err := wk.Client.Ended(ctx, user, event.Version) // checks the version itself
			return err
		})
	case webhook.ActivityUpdated:
		return wk.each(ctx, event.Data.GrantId.String(), func(user string) error {
			held, err := wk.Client.Connection(ctx, user)
			if errors.Is(err, connect.ErrNotConnected) || held.State == connect.StateEnded {
				return nil
			}
			if err != nil {
				return err
			}
			if version, err := strconv.ParseInt(held.Version, 10, 64); err != nil || event.Version < version {
				return err
			}
			err = wk.Changed(ctx, user, event)
			if errors.Is(err, connect.ErrReconnect) {
				return nil // nothing but the user helps: show the button "Connect"
			}
			return err
		})
	}
	return nil
}

func (wk *Worker) each(ctx context.Context, grantID string, act func(user string) error) error {
	users, err := wk.Store.KeysOf(ctx, grantID)
	for _, user := range users {
		err = errors.Join(err, act(user))
	}
	return err
}
