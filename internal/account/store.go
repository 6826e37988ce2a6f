package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/postgres"
)

// store is what this package asks of the database, one whole act a method.
type store struct {
	pool    *postgres.Pool
	queries *accountdb.Queries
}

func newStore(pool *postgres.Pool) store { return store{pool: pool, queries: accountdb.New(pool)} }

func (s store) insertUser(ctx context.Context, user NewUser) (User, error) {
	row, err := s.queries.InsertUser(ctx, accountdb.InsertUserParams{
		UserID: user.ID, Email: user.Email, Timezone: user.Timezone, RegisteredOn: user.RegisteredOn,
	})
	switch {
	case postgres.IsUniqueViolation(err, "users_pkey"):
		return User{}, ErrUserExists
	case errors.Is(err, pgx.ErrNoRows):
		return User{}, ErrUserDeleted
	case postgres.IsUniqueViolation(err, "users_email"):
		return User{}, ErrEmailTaken
	case err != nil:
		return User{}, fmt.Errorf("account: create user: %w", err)
	}
	return userOf(accountdb.User(row)), nil
}

func (s store) changeUser(ctx context.Context, id uuid.UUID, change UserChange) (User, error) {
	row, err := s.queries.ChangeUser(ctx, accountdb.ChangeUserParams{UserID: id, Email: change.Email, Timezone: change.Timezone})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return User{}, ErrUserNotFound
	case postgres.IsUniqueViolation(err, "users_email"):
		return User{}, ErrEmailTaken
	case err != nil:
		return User{}, fmt.Errorf("account: change user: %w", err)
	}
	return userOf(accountdb.User(row)), nil
}

// knowsTimezone asks for the exact name: "at time zone" would also take abbreviations, offsets and any case. (It is not
// among the generated queries because their generator does not know the view.)
func (s store) knowsTimezone(ctx context.Context, name string) (known bool, err error) {
	const query = "select exists (select from pg_timezone_names where name = $1)"
	return known, s.pool.QueryRow(ctx, query, name).Scan(&known)
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

// deleteUser ends the connections and then removes the user with all that refers to it. Each step holds the lock of the
// user's row, which everybody needs who would add something.
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
		if err := queries.DeleteSignInsOf(ctx, email); err != nil {
			return err
		}
		if err := queries.DeleteUser(ctx, id); err != nil {
			return err
		}
		return queries.NoteUserDeleted(ctx, accountdb.NoteUserDeletedParams{UserID: id, Connections: connections})
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

// newSignIn is a code to be stored. limits names what the code counts for, once the folded address is known.
type newSignIn struct {
	id     uuid.UUID
	email  string
	hash   []byte
	limits func(folded string) []codeLimit
}

type codeLimit struct {
	key   [32]byte
	codes int // an hour; 0 is no limit
}

// putCode counts the code for every limit and stores it, or does nothing of it. It returns the address of the account,
// empty where there is none. Error: ErrTooManyCodes.
func (s store) putCode(ctx context.Context, signIn newSignIn) (recipient string, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		queries := s.queries.WithTx(tx)
		found, err := queries.FindForSignIn(ctx, signIn.email)
		if err != nil {
			return err
		}
		for _, limit := range signIn.limits(found.Folded) {
			if limit.codes == 0 {
				continue
			}
			counted, err := queries.CountCode(ctx, accountdb.CountCodeParams{Key: limit.key[:], CodeLimit: int32(limit.codes)})
			if err != nil {
				return err
			}
			if counted == 0 {
				return ErrTooManyCodes
			}
		}
		if found.Email != nil {
			recipient = *found.Email
		}
		return queries.PutSignIn(ctx, accountdb.PutSignInParams{
			SignInID: signIn.id, Email: signIn.email, UserID: found.UserID, CodeHash: signIn.hash,
		})
	})
	if err != nil && !errors.Is(err, ErrTooManyCodes) {
		err = fmt.Errorf("account: store a code: %w", err)
	}
	return recipient, err
}

func (s store) getSignIn(ctx context.Context, id uuid.UUID) (SignIn, error) {
	row, err := s.queries.GetSignIn(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return SignIn{}, ErrNoSignIn
	}
	if err != nil {
		return SignIn{}, fmt.Errorf("account: get sign-in: %w", err)
	}
	return SignIn{Email: row.Email, TriesLeft: int(row.TriesLeft), Expired: row.Expired}, nil
}

// try is one of the five that a code has, already spent. userID is uuid.Nil where the address has no account.
type try struct {
	userID uuid.UUID
	hash   []byte
	left   int
}

// takeTry spends a try. Errors: ErrNoSignIn, ErrCodeExpired, ErrCodeSpent.
func (s store) takeTry(ctx context.Context, signIn uuid.UUID) (try, error) {
	row, err := s.queries.TakeTry(ctx, signIn)
	if errors.Is(err, pgx.ErrNoRows) {
		return try{}, s.whyNoTry(ctx, signIn)
	}
	if err != nil {
		return try{}, fmt.Errorf("account: take a try: %w", err)
	}
	taken := try{hash: row.CodeHash, left: int(row.TriesLeft)}
	if row.UserID != nil {
		taken.userID = *row.UserID
	}
	return taken, nil
}

// whyNoTry explains a refusal that has already been decided.
func (s store) whyNoTry(ctx context.Context, signIn uuid.UUID) error {
	found, err := s.getSignIn(ctx, signIn)
	if err != nil {
		return err
	}
	if found.Expired {
		return ErrCodeExpired
	}
	return ErrCodeSpent
}

// startSession ends the sign-in and starts the session, or does neither: the sign-in has been used, or has another code
// by now. Error: ErrNoSignIn.
func (s store) startSession(ctx context.Context, signIn uuid.UUID, codeHash []byte, key SessionKey) error {
	started, err := s.queries.StartSession(ctx, accountdb.StartSessionParams{
		SignInID: signIn, UserID: key.UserID, CodeHash: codeHash, SecretHash: key.hash(),
		Lifetime: SessionLifetime,
	})
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

func (s store) sweep(ctx context.Context) error {
	if _, err := s.queries.DeleteExpiredSignIns(ctx); err != nil {
		return fmt.Errorf("account: sweep sign-ins: %w", err)
	}
	if _, err := s.queries.DeletePastLimits(ctx); err != nil {
		return fmt.Errorf("account: sweep limits: %w", err)
	}
	if _, err := s.queries.DeleteExpiredSessions(ctx); err != nil {
		return fmt.Errorf("account: sweep sessions: %w", err)
	}
	return nil
}
