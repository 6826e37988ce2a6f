// Package webhooks is an example to copy: a receiver of webhooks with net/http, whose inbox is a table in PostgreSQL, and a
// worker that does what the events ask for. Any number of processes may run both.
//
//	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))  // with the driver that you have
//	store, err := pgstore.New(db, key)
//	client, err := connect.New(connect.Config{Store: store}) // and the rest
//
//	http.Handle("POST /webhooks", &webhooks.Receiver{DB: db, Secret: os.Getenv("CONNECT_WEBHOOK_SECRET")})
//	server := http.Server{ReadTimeout: 5 * time.Second}
//
//	worker := &webhooks.Worker{DB: db, Store: store, Client: client, Changed: read}
//	err := worker.Run(ctx)
package webhooks

// Schema makes the inbox, and adds to one of an earlier version what it lacks. Delete rows 30 days after done_at: until then an event may
// come once more.
//
// The rows with a dead_at are events that failed eight times within a day, each with its last error. Have somebody told when there is
// one. When its cause is gone, let the event live again:
//
//	update webhook_inbox set dead_at = null, tries = 0, due_at = now() where dead_at is not null
const Schema = `
create table if not exists webhook_inbox (
	id      text primary key, -- the webhook-id
	event   text not null,
	due_at  timestamptz not null default now(),
	done_at timestamptz,
	tries   integer not null default 0,
	error   text, -- of the latest try
	dead_at timestamptz
);
alter table webhook_inbox add column if not exists tries integer not null default 0, add column if not exists error text,
	add column if not exists dead_at timestamptz;
create index if not exists webhook_inbox_due_at on webhook_inbox (due_at) where done_at is null;
`
