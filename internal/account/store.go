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
	"connect-svc/internal/refusal"
)

// store is this package's access to the database. Each method of Accounts in this file is one atomic act.
type store struct {
	pool    *postgres.Pool
	queries *accountdb.Queries
}

func newStore(pool *postgres.Pool) store { return store{pool: pool, queries: accountdb.New(pool)} }

// uniqueAddress refuses an address that another user has.
const uniqueAddress = "user_addresses_pkey"

func (a *Accounts) insertUser(ctx context.Context, user NewUser) (User, error) {
	var row accountdb.InsertUserRow
	err := postgres.InTxAgain(ctx, a.pool, func(tx pgx.Tx) (err error) {
		queries := a.queries.WithTx(tx)
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
	}
	return userOf(accountdb.User(row)), postgres.Wrap("account: create user", err)
}

// changeUser holds the user's row while a changed address moves, so that of two changes one is the last. An import that moves the
// same address meanwhile may hold what this needs and need what this holds: then it is done again.
func (a *Accounts) changeUser(ctx context.Context, id uuid.UUID, change UserChange) (user User, err error) {
	err = postgres.InTxAgain(ctx, a.pool, func(tx pgx.Tx) error {
		queries := a.queries.WithTx(tx)
		if change.Email != nil {
			before, err := queries.LockUser(ctx, id)
			if err != nil {
				return err
			}
			if err := moveAddress(ctx, queries, id, before, *change.Email); err != nil {
				return err
			}
			if err := a.settings.EndRequests(ctx, tx, []uuid.UUID{id}); err != nil {
				return err
			}
		}
		row, err := queries.UpdateUser(ctx, accountdb.UpdateUserParams{
			UserID: id, Email: change.Email, Timezone: change.Timezone, RegisteredOn: change.RegisteredOn, Actor: actor.Of(ctx),
		})
		user = userOf(accountdb.User(row))
		return err
	})
	if postgres.IsUniqueViolation(err, uniqueAddress) {
		return User{}, ErrEmailTaken
	}
	return user, postgres.WrapNoRows("account: change user", err, refusal.ErrUserNotFound)
}

// moveAddress ends what began with the former address, too. As everywhere here, cmp.Or sends all of its statements: a transaction in
// which one has failed takes no other.
func moveAddress(ctx context.Context, queries *accountdb.Queries, id uuid.UUID, before, after string) error {
	return cmp.Or(
		endSignIns(ctx, queries, []uuid.UUID{id}, []string{before}),
		queries.DeleteAddress(ctx, accountdb.DeleteAddressParams{UserID: id, Email: before}),
		queries.InsertAddress(ctx, accountdb.InsertAddressParams{UserID: id, Email: after}),
	)
}

// endSignIns ends what began with the former addresses of users: codes under way, sessions, and known browsers.
func endSignIns(ctx context.Context, queries *accountdb.Queries, ids []uuid.UUID, former []string) error {
	return cmp.Or(
		queries.DeleteSignInsOf(ctx, accountdb.DeleteSignInsOfParams{UserIds: ids, Emails: former}),
		queries.DeleteSessionsOf(ctx, ids),
		queries.DeleteBrowsersOf(ctx, ids),
	)
}

// CountEndings says what a change of a user's address would end now. Error: refusal.ErrUserNotFound.
func (a *Accounts) CountEndings(ctx context.Context, user User) (Endings, error) {
	sessions, err := a.queries.CountSessionsOf(ctx, user.ID)
	if err != nil {
		return Endings{}, postgres.WrapNoRows("account: count sessions", err, refusal.ErrUserNotFound)
	}
	signIns, err := a.queries.CountSignInsOf(ctx, accountdb.CountSignInsOfParams{UserID: user.ID, Email: user.Email})
	return Endings{int(sessions.Sessions), int(signIns), int(sessions.Browsers)}, postgres.Wrap("account: count sign-ins", err)
}

// ListUsers returns at most limit users in the order of their ids, from the first after the given id on; uuid.Nil starts
// at the first.
func (a *Accounts) ListUsers(ctx context.Context, after uuid.UUID, limit int32) ([]User, error) {
	rows, err := a.queries.ListUsers(ctx, accountdb.ListUsersParams{After: after, RowLimit: limit})
	return postgres.Map(rows, userOf), postgres.Wrap("account: list users", err)
}

// DeleteUser ends all connections of a user, as a disconnect does, and removes everything that is known of the user,
// including recorded activity, in one transaction. The package comment says what the audit log keeps. It returns how many
// connections were ended. Error: refusal.ErrUserNotFound.
//
// It holds the lock of the user's row throughout, which every statement that adds something of the user needs.
func (a *Accounts) DeleteUser(ctx context.Context, id uuid.UUID) (connections int64, err error) {
	err = postgres.InTxAgain(ctx, a.pool, func(tx pgx.Tx) error {
		queries := a.queries.WithTx(tx)
		email, err := queries.LockUser(ctx, id)
		if err != nil {
			return err
		}
		if connections, err = a.settings.EndConnections(ctx, tx, id); err != nil {
			return err
		}
		return cmp.Or(
			queries.DeleteSignInsOf(ctx, accountdb.DeleteSignInsOfParams{UserIds: []uuid.UUID{id}, Emails: []string{email}}),
			queries.DeleteAddress(ctx, accountdb.DeleteAddressParams{UserID: id, Email: email}),
			queries.DeleteUser(ctx, id),
			queries.NoteUserDeleted(ctx, accountdb.NoteUserDeletedParams{UserID: id, Connections: connections, Actor: actor.Of(ctx)}),
		)
	})
	if err != nil {
		return 0, postgres.WrapNoRows("account: delete user", err, refusal.ErrUserNotFound)
	}
	return connections, nil
}

func userOf(row accountdb.User) User {
	return User{
		ID: row.UserID, Email: row.Email, Timezone: row.Timezone, RegisteredOn: row.RegisteredOn, CreatedAt: row.CreatedAt,
	}
}

// putCode counts the email towards every limit and stores it with its code, or does none of it. Error: *TooManyCodesError.
func (a *Accounts) putCode(ctx context.Context, request CodeRequest, delay time.Duration) error {
	seed := newSeed()
	var limits []limit
	err := postgres.InTx(ctx, a.pool, func(tx pgx.Tx) error {
		queries := a.queries.WithTx(tx)
		found, browser, err := a.findForSignIn(ctx, queries, request)
		if err != nil {
			return err
		}
		limits = a.limits(found.Folded, browser, request.Network)
		budget := limits[len(limits)-1]
		counted, err := a.countEmail(ctx, queries, found.Now, limits, a.firsts(found.Folded))
		if err != nil {
			return err
		}
		if err := queries.PutSignIn(ctx, accountdb.PutSignInParams{
			SignInID: request.SignIn, Email: request.Email, UserID: found.UserID, Seed: seed, Budget: budget.key[:], At: found.Now,
		}); err != nil {
			return err
		}
		turns := a.networkLimits(request.Network)
		if browser != (BrowserKey{}) {
			turns = limits // a known browser does not wait behind its network
		}
		return queries.PutCodeEmail(ctx, accountdb.PutCodeEmailParams{
			SignInID: request.SignIn, Seed: seed, Network: turns[len(turns)-1].key[:], Limits: counted, CountedAt: found.Now,
			Language: request.Language, Partner: request.Partner, LinkPath: request.LinkPath, Delay: delay,
		})
	})
	if errors.Is(err, ErrTooManyCodes) {
		limited := new(TooManyCodesError)
		if limited.Next, limited.Wait, err = a.nextEmail(ctx, limits); err == nil {
			return limited
		}
	}
	return postgres.Wrap("account: store a code", err)
}

// findForSignIn finds the account of an address, if it has one, and the key that proves the browser to be one of its user's.
func (a *Accounts) findForSignIn(ctx context.Context, queries *accountdb.Queries, request CodeRequest) (found accountdb.FindForSignInRow, browser BrowserKey, err error) {
	if found, err = queries.FindForSignIn(ctx, request.Email); err == nil {
		browser, err = knownBrowser(ctx, queries, found.UserID, request.Known)
	}
	return found, browser, err
}

// knownBrowser returns the key that proves the browser to be one of the user's, or the zero value. Without a key for the account of
// an address, the statements are those for an address that has none.
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

// GetSignIn returns the state of a sign-in. Error: ErrNoSignIn.
func (a *Accounts) GetSignIn(ctx context.Context, id uuid.UUID) (SignIn, error) {
	row, err := a.queries.GetSignIn(ctx, id)
	if err != nil {
		return SignIn{}, postgres.WrapNoRows("account: get sign-in", err, ErrNoSignIn)
	}
	found := SignIn{Email: row.Email, AttemptsLeft: int(row.AttemptsLeft), Expired: row.Expired, SentAt: row.SentAt, Mail: Mail(row.Mail)}
	if found.Mail == MailSent { // until then there is nothing to enter
		failed, err := a.failed(ctx, row.Budget)
		if err != nil {
			return SignIn{}, err
		}
		found.AttemptsLeft = min(found.AttemptsLeft, maxFailed-failed)
		found.NoCodes = failed >= maxFailed
	}
	return found, nil
}

// failed is how many attempts at the codes of a budget have failed.
func (a *Accounts) failed(ctx context.Context, budget []byte) (int, error) {
	failed, err := a.queries.CountFailed(ctx, budget)
	return min(int(failed), maxFailed), postgres.WrapNoRows("account: count failed attempts", err, nil)
}

// takeAttempt spends an attempt, and then counts it as failed. These are two acts: an attempt that was spent and could not
// be counted is never compared. Errors: ErrNoSignIn, ErrCodeExpired, ErrCodeSpent.
func (a *Accounts) takeAttempt(ctx context.Context, signIn uuid.UUID) (accountdb.TakeAttemptRow, error) {
	taken, err := a.queries.TakeAttempt(ctx, signIn)
	if errors.Is(err, pgx.ErrNoRows) {
		return taken, a.whyNoAttempt(ctx, signIn)
	}
	if err != nil {
		return taken, fmt.Errorf("account: take an attempt: %w", err)
	}
	counted, err := a.queries.CountAttempt(ctx, accountdb.CountAttemptParams{Key: taken.Budget, Most: maxFailed})
	if err == nil && counted == 0 {
		return taken, ErrCodeSpent
	}
	return taken, postgres.Wrap("account: count an attempt", err)
}

// whyNoAttempt returns the reason of a refusal that has already been decided.
func (a *Accounts) whyNoAttempt(ctx context.Context, signIn uuid.UUID) error {
	found, err := a.GetSignIn(ctx, signIn)
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

// waitingEmail is an email that this server has leased. The seed says which code of the sign-in it is, the limits are the keys of those
// that counted the code, attempts count from 1 on, and what is late is too old to be sent.
type waitingEmail = accountdb.ClaimCodeEmailRow

// leaseEmail leases the email whose turn it is, of a network that is not busy.
func (a *Accounts) leaseEmail(ctx context.Context, busy [][]byte) (email waitingEmail, found bool, err error) {
	lease := a.settings.Limits.Claim + a.settings.Limits.MailSend // it outlasts an attempt: no other server sends the email meanwhile
	email, err = a.queries.ClaimCodeEmail(ctx, accountdb.ClaimCodeEmailParams{Busy: busy, Lease: lease, TooLate: lease + tooLate})
	return email, err == nil, postgres.NoRowsAs(err, nil)
}

// codeToSend returns what goes into the email besides its link: the address of the account that it is for, which is empty if there is
// none, the code, which is empty where codes do not work, and when it was made. Error: errReplaced.
func (a *Accounts) codeToSend(ctx context.Context, email waitingEmail) (recipient, code string, made time.Time, err error) {
	signIn, err := a.queries.GetCodeToSend(ctx, accountdb.GetCodeToSendParams{SignInID: email.SignInID, Seed: email.Seed})
	if err != nil {
		return "", "", made, postgres.NoRowsAs(err, errReplaced)
	}
	account, err := a.queries.FindForSignIn(ctx, signIn.Email)
	if err != nil {
		return "", "", made, err
	}
	if account.UserID != nil && signIn.UserID != nil && *account.UserID == *signIn.UserID {
		recipient = *account.Email
	}
	failed, err := a.failed(ctx, signIn.Budget)
	if failed < maxFailed {
		code = a.codeOf(email.SignInID, email.Seed)
	}
	return recipient, code, signIn.SentAt, err
}

// markSent has the page say that the email was sent. Error: errReplaced.
func (a *Accounts) markSent(ctx context.Context, email waitingEmail) error {
	marked, err := a.queries.MarkCodeSent(ctx, accountdb.MarkCodeSentParams{SignInID: email.SignInID, Seed: email.Seed})
	if err == nil && marked == 0 {
		return errReplaced
	}
	return err
}

func (a *Accounts) settleEmail(ctx context.Context, email waitingEmail) error {
	return a.queries.DeleteCodeEmail(ctx, accountdb.DeleteCodeEmailParams{SignInID: email.SignInID, Seed: email.Seed})
}

// delayEmail ends the lease.
func (a *Accounts) delayEmail(ctx context.Context, email waitingEmail, delay time.Duration) error {
	return a.queries.DelayCodeEmail(ctx, accountdb.DelayCodeEmailParams{
		SignInID: email.SignInID, Seed: email.Seed, Attempts: email.Attempts, Delay: delay,
	})
}

// giveUpEmail settles an email that was not sent. Unless its page has said that it was, the page now says the contrary, the
// code works no more and counts no more. Rows are locked in the order of putCode.
func (a *Accounts) giveUpEmail(ctx context.Context, email waitingEmail) error {
	err := postgres.InTx(ctx, a.pool, func(tx pgx.Tx) error {
		queries := a.queries.WithTx(tx)
		for _, key := range email.Limits {
			if err := queries.UncountEmail(ctx, accountdb.UncountEmailParams{Key: key, At: email.CountedAt}); err != nil {
				return err
			}
		}
		marked, err := queries.MarkCodeFailed(ctx, accountdb.MarkCodeFailedParams{SignInID: email.SignInID, Seed: email.Seed})
		if err == nil && marked == 0 {
			return errReplaced // or said to be sent: nothing is taken back
		}
		return err
	})
	if err != nil && !errors.Is(err, errReplaced) {
		return err
	}
	return a.settleEmail(ctx, email)
}

// startSession ends the sign-in and starts the session, or does neither. Error: ErrNoSignIn, when the sign-in has been
// used or has another code by now.
func (a *Accounts) startSession(ctx context.Context, signIn uuid.UUID, seed []byte, key SessionKey) error {
	started, err := a.queries.StartSession(ctx, accountdb.StartSessionParams{
		SignInID: signIn, UserID: key.UserID, Seed: seed, SecretHash: key.hash(),
		Lifetime: SessionLifetime,
	})
	if postgres.IsForeignKeyViolation(err, "") { // the user was deleted
		return ErrNoSignIn
	}
	if err == nil && started == 0 {
		return ErrNoSignIn
	}
	return postgres.Wrap("account: start session", err)
}

// GetSession returns the user who is signed in. Error: ErrNoSession.
func (a *Accounts) GetSession(ctx context.Context, key SessionKey) (User, error) {
	row, err := a.queries.GetSession(ctx, accountdb.GetSessionParams{UserID: key.UserID, SecretHash: key.hash()})
	return userOf(row), postgres.WrapNoRows("account: get session", err, ErrNoSession)
}

// EndSession signs out. A session that has ended already is no error.
func (a *Accounts) EndSession(ctx context.Context, key SessionKey) error {
	err := a.queries.EndSession(ctx, accountdb.EndSessionParams{UserID: key.UserID, SecretHash: key.hash()})
	return postgres.Wrap("account: end session", err)
}

// rememberBrowser holds the user's row, so that of two sign-ins at a time both see what the other has added.
func (a *Accounts) rememberBrowser(ctx context.Context, key, replaced BrowserKey, name string) error {
	err := postgres.InTx(ctx, a.pool, func(tx pgx.Tx) error {
		queries := a.queries.WithTx(tx)
		if _, err := queries.LockUser(ctx, key.UserID); err != nil {
			return err
		}
		return cmp.Or(
			queries.ForgetBrowsers(ctx, accountdb.ForgetBrowsersParams{UserID: key.UserID, Replaced: replaced.id()}),
			queries.InsertBrowser(ctx, accountdb.InsertBrowserParams{UserID: key.UserID, BrowserID: key.id(), Name: name}),
		)
	})
	return postgres.WrapNoRows("account: remember a browser", err, refusal.ErrUserNotFound)
}

// ForgetBrowser takes its budget from a browser of the signed-in user, and ends the user's sessions but this one: one of
// them may be in that browser. What is not known is no error.
func (a *Accounts) ForgetBrowser(ctx context.Context, session SessionKey, id uuid.UUID) error {
	err := postgres.InTx(ctx, a.pool, func(tx pgx.Tx) error {
		queries := a.queries.WithTx(tx)
		return cmp.Or(
			queries.ForgetBrowser(ctx, accountdb.ForgetBrowserParams{UserID: session.UserID, BrowserID: id}),
			queries.EndOtherSessions(ctx, accountdb.EndOtherSessionsParams{UserID: session.UserID, SecretHash: session.hash()}),
		)
	})
	return postgres.Wrap("account: forget a browser", err)
}
