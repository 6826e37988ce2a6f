//go:build faults

package storm

import (
	"context"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/testing/history"
)

// entry of the audit log, without its time and details.
type entry struct {
	action       string
	user, client uuid.UUID
}

// auditLedger counts the acts that the audit log records. An acknowledged act has one entry, and each entry has an act.
// The ends and the exchanges of connections are in their histories.
type auditLedger struct {
	mu          sync.Mutex
	asked, done map[entry]int
}

func newAuditLedger() *auditLedger {
	return &auditLedger{asked: map[entry]int{}, done: map[entry]int{}}
}

// ask is called before an act, and acknowledged after it.
func (l *auditLedger) ask(action string, user, client uuid.UUID) (acknowledged func()) {
	e := entry{action, user, client}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked[e]++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.done[e]++
	})
}

// allow takes all entries for acknowledged that there are.
func (l *auditLedger) allow(ctx context.Context, conn *pgx.Conn) error {
	there, err := audited(ctx, conn)
	l.asked = there
	for e, n := range there {
		l.done[e] = n
	}
	return err
}

func audited(ctx context.Context, conn *pgx.Conn) (map[entry]int, error) {
	const none = "'00000000-0000-0000-0000-000000000000'"
	rows, err := conn.Query(ctx, "select action, coalesce(user_id, "+none+"), coalesce(client_id, "+none+"), count(*)::int from audit_log group by 1, 2, 3")
	if err != nil {
		return nil, err
	}
	there := map[entry]int{}
	var e entry
	var n int
	_, err = pgx.ForEachRow(rows, []any{&e.action, &e.user, &e.client, &n}, func() error { there[e] = n; return nil })
	return there, err
}

// inHistories are the actions whose entries [history.Check] explains.
const inHistories = "connection.authorized connection.revoked connection.disconnected"

func (s *storm) checkAudit(ctx context.Context, conn *pgx.Conn) {
	there, err := audited(ctx, conn)
	if err != nil {
		s.Fatal(err)
	}
	connections := map[entry]bool{}
	for _, c := range s.book.connections {
		connections[entry{user: c.user.id, client: c.partner.id}] = true
	}
	entries, acts := 0, 0
	for e, n := range there {
		entries += n
		known := strings.Contains(inHistories, e.action) && connections[entry{user: e.user, client: e.client}]
		if s.audit.asked[e] == 0 && !known {
			s.Errorf("%d entries %s in the audit log without an act", n, e.action)
		}
	}
	for e, asked := range s.audit.asked {
		acts += s.audit.done[e]
		if n := there[e]; n < s.audit.done[e] || n > asked {
			s.Errorf("%d entries %s of one subject in the audit log, want %d to %d", n, e.action, s.audit.done[e], asked)
		}
	}
	s.sum.fact("%d entries of the audit log, %d of them of acknowledged acts that no history has", entries, acts)
}

// auditedOf is what the log has of a connection's ends and exchanges, as [history.Row] has it.
func auditedOf(ctx context.Context, conn *pgx.Conn, c *connection) (string, error) {
	rows, err := conn.Query(ctx, `select connection_version - case action when 'connection.disconnected' then 1 else 0 end,
			case when action = 'connection.authorized' then $3 when detail ? 'reason' then detail->>'reason'
				when actor = 'client' then 'client_disconnected' else 'user_disconnected' end
		from audit_log where subject = $1 and client_id = $2 and action = any (string_to_array($4, ' '))`, c.user.id, c.partner.id, history.Authorized, inHistories)
	if err != nil {
		return "", err
	}
	var entries []string
	var version int64
	var reason string
	_, err = pgx.ForEachRow(rows, []any{&version, &reason}, func() error {
		entries = append(entries, history.Event(version, reason))
		return nil
	})
	return history.Events(entries), err
}
