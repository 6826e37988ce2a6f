package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/actor"
	"connect-svc/internal/postgres"
)

// store is this package's access to the database. Each method is one atomic act.
type store struct {
	pool    *postgres.Pool
	queries *accountdb.Queries
}

func newStore(pool *postgres.Pool) store { return store{pool: pool, queries: accountdb.New(pool)} }

// uniqueAddress refuses an address that another user has.
const uniqueAddress = "user_addresses_pkey"

func (s store) insertUser(ctx context.Context, user NewUser) (User, error) {
	var row accountdb.InsertUserRow
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
		queries := s.queries.WithTx(tx)
		row, err = queries.InsertUser(ctx, accountdb.InsertUserParams{
			UserID: user.ID, Email: user.Email, Timezone: user.Timezone, RegisteredOn: user.RegisteredOn, Actor: actor.Of(ctx),
		})
		if err != nil {
			return err
		}
		return queries.InsertAddress(ctx, accountdb.InsertAddressParams{UserID: user.ID, Email: user.Email})
	})
	switch {
	case postgres.IsUniqueViolation(err, "users_pkey"):
		return User{}, ErrUserExists
	case errors.Is(err, pgx.ErrNoRows):
		return User{}, ErrUserDeleted
	case postgres.IsUniqueViolation(err, uniqueAddress):
		return User{}, ErrEmailTaken
	case err != nil:
		return User{}, fmt.Errorf("account: create user: %w", err)
	}
	return userOf(accountdb.User(row)), nil
}

// changeUser holds the user's row while a changed address moves, so that of two changes one is the last.
func (s store) changeUser(
	ctx context.Context, id uuid.UUID, change UserChange, endRequests func(context.Context, pgx.Tx, []uuid.UUID) error,
) (user User, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		queries := s.queries.WithTx(tx)
		if change.Email != nil {
			before, err := queries.LockUser(ctx, id)
			if err != nil {
				return err
			}
			if err := moveAddress(ctx, queries, id, before, *change.Email); err != nil {
				return err
			}
			if err := endRequests(ctx, tx, []uuid.UUID{id}); err != nil {
				return err
			}
		}
		row, err := queries.UpdateUser(ctx, accountdb.UpdateUserParams{
			UserID: id, Email: change.Email, Timezone: change.Timezone, RegisteredOn: change.RegisteredOn, Actor: actor.Of(ctx),
		})
		user = userOf(accountdb.User(row))
		return err
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return User{}, ErrUserNotFound
	case postgres.IsUniqueViolation(err, uniqueAddress):
		return User{}, ErrEmailTaken
	case err != nil:
		return User{}, fmt.Errorf("account: change user: %w", err)
	}
	return user, nil
}

// moveAddress ends what began with the former address, too.
func moveAddress(ctx context.Context, queries *accountdb.Queries, id uuid.UUID, before, after string) error {
	if err := endSignIns(ctx, queries, []uuid.UUID{id}, []string{before}); err != nil {
		return err
	}
	if err := queries.DeleteAddress(ctx, accountdb.DeleteAddressParams{UserID: id, Email: before}); err != nil {
		return err
	}
	return queries.InsertAddress(ctx, accountdb.InsertAddressParams{UserID: id, Email: after})
}

// endSignIns ends what began with the former addresses of users: codes under way, sessions, and known browsers.
func endSignIns(ctx context.Context, queries *accountdb.Queries, ids []uuid.UUID, former []string) error {
	return cmp.Or(
		queries.DeleteSignInsOf(ctx, accountdb.DeleteSignInsOfParams{UserIds: ids, Emails: former}),
		queries.DeleteSessionsOf(ctx, ids),
		queries.DeleteBrowsersOf(ctx, ids),
	)
}

func (s store) getUser(ctx context.Context, id uuid.UUID) (User, error) {
	row, err := s.queries.GetUser(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return User{}, ErrUserNotFound
	}
	if err != nil {
		return User{}, fmt.Errorf("account: get user: %w", err)
	}
	return userOf(row), nil
}

func (s store) findUser(ctx context.Context, email string) (User, error) {
	id, err := s.queries.GetUserOfAddress(ctx, email)
	if errors.Is(err, pgx.ErrNoRows) {
		return User{}, ErrUserNotFound
	}
	if err != nil {
		return User{}, fmt.Errorf("account: find user: %w", err)
	}
	return s.getUser(ctx, id)
}

func (s store) countEndings(ctx context.Context, user User) (Endings, error) {
	sessions, err := s.queries.CountSessionsOf(ctx, user.ID)
	if errors.Is(err, pgx.ErrNoRows) {
		return Endings{}, ErrUserNotFound
	}
	if err != nil {
		return Endings{}, fmt.Errorf("account: count sessions: %w", err)
	}
	signIns, err := s.queries.CountSignInsOf(ctx, accountdb.CountSignInsOfParams{UserID: user.ID, Email: user.Email})
	if err != nil {
		return Endings{}, fmt.Errorf("account: count sign-ins: %w", err)
	}
	return Endings{int(sessions.Sessions), int(signIns), int(sessions.Browsers)}, nil
}

func (s store) listUsers(ctx context.Context, after uuid.UUID, limit int32) ([]User, error) {
	rows, err := s.queries.ListUsers(ctx, accountdb.ListUsersParams{After: after, RowLimit: limit})
	if err != nil {
		return nil, fmt.Errorf("account: list users: %w", err)
	}
	users := make([]User, len(rows))
	for i, row := range rows {
		users[i] = userOf(row)
	}
	return users, nil
}

// deleteUser ends the connections and then removes the user with everything that refers to it. It holds the lock of the
// user's row throughout, which every statement that adds something of the user needs.
func (s store) deleteUser(
	ctx context.Context, id uuid.UUID, endConnections func(context.Context, pgx.Tx, uuid.UUID) (int64, error),
) (connections int64, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		queries := s.queries.WithTx(tx)
		email, err := queries.LockUser(ctx, id)
		if err != nil {
			return err
		}
		if connections, err = endConnections(ctx, tx, id); err != nil {
			return err
		}
		if err := queries.DeleteSignInsOf(ctx, accountdb.DeleteSignInsOfParams{UserIds: []uuid.UUID{id}, Emails: []string{email}}); err != nil {
			return err
		}
		if err := queries.DeleteAddress(ctx, accountdb.DeleteAddressParams{UserID: id, Email: email}); err != nil {
			return err
		}
		if err := queries.DeleteUser(ctx, id); err != nil {
			return err
		}
		return queries.NoteUserDeleted(ctx, accountdb.NoteUserDeletedParams{UserID: id, Connections: connections, Actor: actor.Of(ctx)})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, ErrUserNotFound
	}
	if err != nil {
		return 0, fmt.Errorf("account: delete user: %w", err)
	}
	return connections, nil
}

func userOf(row accountdb.User) User {
	return User{
		ID: row.UserID, Email: row.Email, Timezone: row.Timezone, RegisteredOn: row.RegisteredOn, CreatedAt: row.CreatedAt,
	}
}

// putCode counts the code towards every limit and stores it with its email, or does none of it. Error: *TooManyCodesError.
func (s store) putCode(ctx context.Context, signIn newSignIn) error {
	var limits []codeLimit
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		queries := s.queries.WithTx(tx)
		found, err := queries.FindForSignIn(ctx, signIn.email)
		if err != nil {
			return err
		}
		browser, err := knownBrowser(ctx, queries, found.UserID, signIn.known)
		if err != nil {
			return err
		}
		budget := signIn.budget(found.Folded, browser)
		limits = append([]codeLimit{budget}, signIn.networks...)
		counting := [][]byte{}
		for i, limit := range limits {
			if i > 0 && limit.codes == 0 {
				continue
			}
			counted, err := queries.CountCode(ctx, accountdb.CountCodeParams{Key: limit.key[:], At: found.Now, CodeLimit: int32(limit.codes)})
			if err != nil {
				return err
			}
			if counted == 0 {
				return ErrTooManyCodes
			}
			counting = append(counting, limit.key[:])
		}
		if err := queries.PutSignIn(ctx, accountdb.PutSignInParams{
			SignInID: signIn.id, Email: signIn.email, UserID: found.UserID, Seed: signIn.seed, Budget: budget.key[:], At: found.Now,
		}); err != nil {
			return err
		}
		return queries.PutCodeEmail(ctx, accountdb.PutCodeEmailParams{
			SignInID: signIn.id, Seed: signIn.seed, Network: signIn.networks[len(signIn.networks)-1].key[:], Limits: counting,
			CountedAt: found.Now, Language: signIn.language, Partner: signIn.partner, Delay: signIn.delay,
		})
	})
	if errors.Is(err, ErrTooManyCodes) {
		limited := new(TooManyCodesError)
		if limited.Next, limited.Wait, err = s.nextCode(ctx, limits); err == nil {
			return limited
		}
	}
	if err != nil {
		return fmt.Errorf("account: store a code: %w", err)
	}
	return nil
}

// nextCode is when all limits let a code be made, and how long that takes; zero where they do already.
func (s store) nextCode(ctx context.Context, limits []codeLimit) (at time.Time, wait time.Duration, err error) {
	for i, limit := range limits {
		if i > 0 && limit.codes == 0 {
			continue
		}
		row, err := s.queries.NextCode(ctx, accountdb.NextCodeParams{Key: limit.key[:], CodeLimit: int32(limit.codes)})
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return at, wait, err
		}
		if row.NextAt.Sub(row.Now) > wait {
			at, wait = row.NextAt, row.NextAt.Sub(row.Now)
		}
	}
	return at, wait, nil
}

// knownBrowser returns the key that proves the browser to be one of the user's, or the zero value. Who has no key for the
// account of an address causes the same statements as for an address that has none.
func knownBrowser(ctx context.Context, queries *accountdb.Queries, user *uuid.UUID, keys []BrowserKey) (BrowserKey, error) {
	if user == nil {
		return BrowserKey{}, nil
	}
	key := keyOf(keys, *user)
	if key == (BrowserKey{}) {
		return key, nil
	}
	known, err := queries.KnowsBrowser(ctx, accountdb.KnowsBrowserParams{UserID: key.UserID, BrowserID: key.id()})
	if err != nil || !known {
		return BrowserKey{}, err
	}
	return key, nil
}

func (s store) getSignIn(ctx context.Context, id uuid.UUID) (SignIn, error) {
	row, err := s.queries.GetSignIn(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return SignIn{}, ErrNoSignIn
	}
	if err != nil {
		return SignIn{}, fmt.Errorf("account: get sign-in: %w", err)
	}
	return SignIn{Email: row.Email, AttemptsLeft: int(row.AttemptsLeft), Expired: row.Expired, SentAt: row.SentAt, Mail: Mail(row.Mail), budget: [32]byte(row.Budget)}, nil
}

// attempt is one of the five of a code, already spent. userID is uuid.Nil if the address has no account.
type attempt struct {
	userID uuid.UUID
	seed   []byte
	budget []byte // what it counts towards
	left   int
}

// takeAttempt spends an attempt, and then counts it as failed. These are two acts: an attempt that was spent and could not
// be counted is never compared. Errors: ErrNoSignIn, ErrCodeExpired, ErrCodeSpent.
func (s store) takeAttempt(ctx context.Context, signIn uuid.UUID) (attempt, error) {
	row, err := s.queries.TakeAttempt(ctx, signIn)
	if errors.Is(err, pgx.ErrNoRows) {
		return attempt{}, s.whyNoAttempt(ctx, signIn)
	}
	if err != nil {
		return attempt{}, fmt.Errorf("account: take an attempt: %w", err)
	}
	if err := s.queries.CountAttempt(ctx, row.Budget); err != nil {
		return attempt{}, fmt.Errorf("account: count an attempt: %w", err)
	}
	taken := attempt{seed: row.Seed, budget: row.Budget, left: int(row.AttemptsLeft)}
	if row.UserID != nil {
		taken.userID = *row.UserID
	}
	return taken, nil
}

// forgetAttempts begins a budget anew, after an attempt that was right.
func (s store) forgetAttempts(ctx context.Context, budget []byte) error {
	if err := s.queries.ForgetAttempts(ctx, budget); err != nil {
		return fmt.Errorf("account: forget attempts: %w", err)
	}
	return nil
}

// whyNoAttempt returns the reason of a refusal that has already been decided.
func (s store) whyNoAttempt(ctx context.Context, signIn uuid.UUID) error {
	found, err := s.getSignIn(ctx, signIn)
	if err != nil {
		return err
	}
	switch {
	case found.Mail == MailFailed:
		return ErrCodeNotSent
	case found.Expired:
		return ErrCodeExpired
	}
	return ErrCodeSpent
}

func (s store) claimEmail(ctx context.Context, busy [][]byte) (email waitingEmail, found bool, err error) {
	row, err := s.queries.ClaimCodeEmail(ctx, accountdb.ClaimCodeEmailParams{Busy: busy, Lease: leaseTime, TooLate: leaseTime + tooLate})
	if errors.Is(err, pgx.ErrNoRows) {
		return waitingEmail{}, false, nil
	}
	if err != nil {
		return waitingEmail{}, false, err
	}
	return waitingEmail{
		signIn: row.SignInID, seed: row.Seed, network: [32]byte(row.Network), limits: row.Limits, countedAt: row.CountedAt,
		language: row.Language, partner: row.Partner, attempt: int(row.Attempts), late: row.Late,
	}, true, nil
}

// codeToSend returns the address of the account that the code is for, which is empty if there is none, and when the code was
// made. Error: errReplaced.
func (s store) codeToSend(ctx context.Context, email waitingEmail) (recipient string, made time.Time, err error) {
	code, err := s.queries.GetCodeToSend(ctx, accountdb.GetCodeToSendParams{SignInID: email.signIn, Seed: email.seed})
	if errors.Is(err, pgx.ErrNoRows) {
		return "", made, errReplaced
	}
	if err != nil {
		return "", made, err
	}
	account, err := s.queries.FindForSignIn(ctx, code.Email)
	if err == nil && account.UserID != nil && code.UserID != nil && *account.UserID == *code.UserID {
		recipient = *account.Email
	}
	return recipient, code.SentAt, err
}

// markSent has the page say that the email was sent. Error: errReplaced.
func (s store) markSent(ctx context.Context, email waitingEmail) error {
	marked, err := s.queries.MarkCodeSent(ctx, accountdb.MarkCodeSentParams{SignInID: email.signIn, Seed: email.seed})
	if err == nil && marked == 0 {
		return errReplaced
	}
	return err
}

func (s store) settleEmail(ctx context.Context, email waitingEmail) error {
	return s.queries.DeleteCodeEmail(ctx, accountdb.DeleteCodeEmailParams{SignInID: email.signIn, Seed: email.seed})
}

// delayEmail ends the lease.
func (s store) delayEmail(ctx context.Context, email waitingEmail, delay time.Duration) error {
	return s.queries.DelayCodeEmail(ctx, accountdb.DelayCodeEmailParams{
		SignInID: email.signIn, Seed: email.seed, Attempts: int16(email.attempt), Delay: delay,
	})
}

// giveUpEmail settles an email that was not sent. Unless its page has said that it was, the page now says the contrary, the
// code works no more and counts no more. Rows are locked in the order of putCode.
func (s store) giveUpEmail(ctx context.Context, email waitingEmail) error {
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		queries := s.queries.WithTx(tx)
		for _, key := range email.limits {
			if err := queries.UncountCode(ctx, accountdb.UncountCodeParams{Key: key, At: email.countedAt}); err != nil {
				return err
			}
		}
		marked, err := queries.MarkCodeFailed(ctx, accountdb.MarkCodeFailedParams{SignInID: email.signIn, Seed: email.seed})
		if err == nil && marked == 0 {
			return errReplaced // or said to be sent: nothing is taken back
		}
		return err
	})
	if err != nil && !errors.Is(err, errReplaced) {
		return err
	}
	return s.settleEmail(ctx, email)
}

// startSession ends the sign-in and starts the session, or does neither. Error: ErrNoSignIn, when the sign-in has been
// used or has another code by now.
func (s store) startSession(ctx context.Context, signIn uuid.UUID, seed []byte, key SessionKey) error {
	started, err := s.queries.StartSession(ctx, accountdb.StartSessionParams{
		SignInID: signIn, UserID: key.UserID, Seed: seed, SecretHash: key.hash(),
		Lifetime: SessionLifetime,
	})
	if postgres.IsForeignKeyViolation(err, "") { // the user was deleted
		return ErrNoSignIn
	}
	if err != nil {
		return fmt.Errorf("account: start session: %w", err)
	}
	if started == 0 {
		return ErrNoSignIn
	}
	return nil
}

func (s store) getSession(ctx context.Context, key SessionKey) (User, error) {
	row, err := s.queries.GetSession(ctx, accountdb.GetSessionParams{UserID: key.UserID, SecretHash: key.hash()})
	if errors.Is(err, pgx.ErrNoRows) {
		return User{}, ErrNoSession
	}
	if err != nil {
		return User{}, fmt.Errorf("account: get session: %w", err)
	}
	return userOf(row), nil
}

func (s store) endSession(ctx context.Context, key SessionKey) error {
	err := s.queries.EndSession(ctx, accountdb.EndSessionParams{UserID: key.UserID, SecretHash: key.hash()})
	if err != nil {
		return fmt.Errorf("account: end session: %w", err)
	}
	return nil
}

// rememberBrowser holds the user's row, so that of two sign-ins at a time both see what the other has added.
func (s store) rememberBrowser(ctx context.Context, key, replaced BrowserKey, name string) error {
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		queries := s.queries.WithTx(tx)
		if _, err := queries.LockUser(ctx, key.UserID); err != nil {
			return err
		}
		err := queries.ForgetBrowsers(ctx, accountdb.ForgetBrowsersParams{UserID: key.UserID, Replaced: replaced.id()})
		if err != nil {
			return err
		}
		return queries.InsertBrowser(ctx, accountdb.InsertBrowserParams{UserID: key.UserID, BrowserID: key.id(), Name: name})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrUserNotFound
	}
	if err != nil {
		return fmt.Errorf("account: remember a browser: %w", err)
	}
	return nil
}

func (s store) forgetBrowser(ctx context.Context, session SessionKey, id uuid.UUID) error {
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		queries := s.queries.WithTx(tx)
		err := queries.ForgetBrowser(ctx, accountdb.ForgetBrowserParams{UserID: session.UserID, BrowserID: id})
		if err != nil {
			return err
		}
		return queries.EndOtherSessions(ctx, accountdb.EndOtherSessionsParams{UserID: session.UserID, SecretHash: session.hash()})
	})
	if err != nil {
		return fmt.Errorf("account: forget a browser: %w", err)
	}
	return nil
}
