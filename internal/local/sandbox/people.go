package sandbox

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"connect-svc/gen/operatorapi"
	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/edge/operator"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/timezone"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	openapi_types "github.com/oapi-codegen/runtime/types"
)

// historyDays is the age in days of the registration of all users but new ones.
const historyDays = 180

// firstPeople are the users at the start: one of each kind, in time zones on both sides of UTC, whose calendar day differs for some
// hours.
var firstPeople = []struct {
	kind     sandboxapi.Kind
	timezone string
}{
	{sandboxapi.KindActive, "Europe/Berlin"},
	{sandboxapi.KindSparse, "America/New_York"},
	{sandboxapi.KindGaps, "Asia/Tokyo"},
	{sandboxapi.KindCorrected, "Europe/London"},
	{sandboxapi.KindNew, "UTC"},
}

// person is a user, and the extent of their records.
type person struct {
	sandboxapi.User
	number   int // from 1 on; the records depend on it
	location *time.Location
	next     time.Time // first date without records: midnight UTC
}

// people are the users. Adding one, or recording for them, requires growing.
type people struct {
	mu   sync.RWMutex // of list
	list []*person
	made int // users that were ever added

	growing *work.Queue // a mutex whose Acquire ends with its context
}

func (s *sandbox) describePerson(who *person) sandboxapi.User {
	user := who.User
	user.Today.Time = s.today(who)
	return user
}

func (p *people) has(id uuid.UUID) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.ContainsFunc(p.list, func(user *person) bool { return user.UserId == id })
}

// addPerson adds a user of a kind, with its records. The error for a bad time zone is a refusal.Field.
func (s *sandbox) addPerson(ctx context.Context, kind sandboxapi.Kind, zone string) (sandboxapi.User, error) {
	if err := s.people.growing.Acquire(ctx); err != nil {
		return sandboxapi.User{}, err
	}
	defer s.people.growing.Release()
	who := &person{number: s.people.made + 1}
	who.location = timezone.Location(zone) // CreateUser refuses an unknown one
	registered := s.today(who)
	if kind != sandboxapi.KindNew {
		registered = registered.AddDate(0, 0, -historyDays)
	}
	email := fmt.Sprintf("%s@example.com", kind)
	if who.number > len(firstPeople) {
		email = fmt.Sprintf("%s-%d@example.com", kind, who.number)
	}
	id, err := uuid.NewRandomFromReader(s.userIDs)
	if err != nil {
		return sandboxapi.User{}, err
	}
	user, err := s.service.Accounts.CreateUser(ctx, account.NewUser{ID: id, Email: email, Timezone: zone, RegisteredOn: registered})
	if err != nil {
		return sandboxapi.User{}, err
	}
	who.User = sandboxapi.User{
		UserId: user.ID, Kind: kind, Timezone: user.Timezone, RegisteredOn: openapi_types.Date{Time: user.RegisteredOn}, Email: user.Email,
	}
	who.next = registered
	s.people.mu.Lock()
	s.people.list = append(s.people.list, who)
	s.people.made++
	s.people.mu.Unlock()
	return s.describePerson(who), s.grow(ctx, 0, who)
}

// ChangeUser changes the time zone or the registration day of a user, as an operator does. A user whose day has moved on records up to it.
func (d driver) ChangeUser(ctx context.Context, request sandboxapi.ChangeUserRequestObject) (sandboxapi.ChangeUserResponseObject, error) {
	if err := d.people.growing.Acquire(ctx); err != nil {
		return nil, err
	}
	defer d.people.growing.Release()
	i := slices.IndexFunc(d.people.list, func(user *person) bool { return user.UserId == request.UserId })
	if i < 0 {
		return nil, errUserNotFound
	}
	change := account.UserChange{Timezone: request.Body.Timezone}
	if request.Body.RegisteredOn != nil {
		change.RegisteredOn = &request.Body.RegisteredOn.Time
	}
	changed, err := d.service.Accounts.ChangeUser(ctx, request.UserId, change)
	if err != nil {
		return nil, err
	}
	user := d.people.list[i]
	d.people.mu.Lock()
	user.location, user.Timezone, user.RegisteredOn.Time = timezone.Location(changed.Timezone), changed.Timezone, changed.RegisteredOn
	d.people.mu.Unlock()
	return sandboxapi.ChangeUser200JSONResponse(d.describePerson(user)), d.grow(ctx, 0, user)
}

// ListNotices lists the caught emails without a code.
func (d driver) ListNotices(context.Context, sandboxapi.ListNoticesRequestObject) (sandboxapi.ListNoticesResponseObject, error) {
	list := []sandboxapi.Notice{}
	for _, email := range d.mail.Emails() {
		if email.Code == "" {
			list = append(list, sandboxapi.Notice{
				At: instant(email.At), To: strings.Join(email.To, ", "), Subject: email.Subject, Text: email.Text,
			})
		}
	}
	return sandboxapi.ListNotices200JSONResponse{Data: list}, nil
}

// DeleteUser deletes an account, as an operator does.
func (d driver) DeleteUser(ctx context.Context, request sandboxapi.DeleteUserRequestObject) (sandboxapi.DeleteUserResponseObject, error) {
	if err := d.people.growing.Acquire(ctx); err != nil { // no records for a deleted user
		return nil, err
	}
	defer d.people.growing.Release()
	if !d.people.has(request.UserId) {
		return nil, errUserNotFound
	}
	if _, err := d.service.Accounts.DeleteUser(ctx, request.UserId); err != nil {
		return nil, err
	}
	d.people.mu.Lock()
	defer d.people.mu.Unlock()
	d.people.list = slices.DeleteFunc(d.people.list, func(user *person) bool { return user.UserId == request.UserId })
	return sandboxapi.DeleteUser204Response{}, nil
}

// growAll moves the clock by step and makes all users record up to the day that it is then: all of that or nothing.
func (s *sandbox) growAll(ctx context.Context, step time.Duration) error {
	if err := s.people.growing.Acquire(ctx); err != nil {
		return err
	}
	defer s.people.growing.Release()
	if s.clock.Offset()+step > farthest {
		return refusal.Field{Path: "advance_seconds", Problem: "must leave the clock at most ten years ahead of the real time"}
	}
	if err := s.grow(ctx, step, s.people.list...); err != nil {
		return err
	}
	s.clock.Advance(step) // last, because it cannot fail
	return nil
}

// grow makes users record up to their day at step from now, that day included: all of them or nobody. The caller holds s.people.growing.
func (s *sandbox) grow(ctx context.Context, step time.Duration, users ...*person) error {
	const userDays = 2000 // of a batch: at most five rows each
	offset, now := s.clock.Offset()+step, s.clock.Now().Add(step)
	last := func(user *person) time.Time { return timezone.Day(now.In(user.location)) }
	users = slices.DeleteFunc(slices.Clone(users), func(user *person) bool { return user.next.After(last(user)) })
	if len(users) == 0 {
		return nil
	}
	batches := func(yield func(activity.Batch) bool) {
		var batch activity.Batch
		n := 0
		for _, user := range users {
			for date := user.next; !date.After(last(user)); date = date.AddDate(0, 0, 1) {
				record(&batch, user, date)
				if n++; n%userDays == 0 {
					if !yield(batch) {
						return
					}
					batch = activity.Batch{}
				}
			}
		}
		yield(batch)
	}
	// The rows are of the time to which the clock moves: an event about them is not due before.
	shift := func(tx pgx.Tx) error { return postgres.SetOffset(ctx, tx, offset) }
	if err := s.service.Activity.PutAll(ctx, now, shift, batches); err != nil {
		return err
	}
	for _, user := range users {
		user.next = last(user).AddDate(0, 0, 1)
	}
	return nil
}

// today returns a user's calendar day, as midnight UTC.
func (s *sandbox) today(user *person) time.Time {
	return timezone.Day(s.clock.Now().In(user.location))
}

// AddActivity writes rows of a user, all or none. The rows are those of the operator API without their user.
func (d driver) AddActivity(ctx context.Context, request sandboxapi.AddActivityRequestObject) (sandboxapi.AddActivityResponseObject, error) {
	if !d.people.has(request.UserId) {
		return nil, errUserNotFound
	}
	var body map[string]any
	if err := convert(request.Body, &body); err != nil {
		return nil, err
	}
	for _, rows := range body {
		rows, _ := rows.([]any) // observed_at is none
		for _, row := range rows {
			row.(map[string]any)["user_id"] = request.UserId
		}
	}
	var batch operatorapi.ActivityBatch
	if err := convert(body, &batch); err != nil {
		return nil, err
	}
	result, err := operator.Batch(ctx, d.service.Activity.Put, &batch, false)
	if err != nil {
		return nil, err
	}
	var response sandboxapi.AddActivity200JSONResponse
	err = convert(result, &response)
	return response, err
}

// convert converts a type of one document to a type of another with the same JSON.
func convert(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

// newRandom returns a source of ids and secrets that is safe for concurrent use. With a seed, the sources of one purpose always yield
// the same bits; without one, the source is crypto/rand.
func newRandom(seed *uint64, purpose string) io.Reader {
	if seed == nil {
		return rand.Reader
	}
	key := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(purpose), *seed))
	return &repeatable{random: mathrand.NewChaCha8(key)}
}

type repeatable struct {
	mu     sync.Mutex
	random *mathrand.ChaCha8
}

func (r *repeatable) Read(bits []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.Read(bits)
}
