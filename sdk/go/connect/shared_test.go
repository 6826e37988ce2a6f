package connect_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/connect"
)

const (
	accountOne = "7b0a8f0d-9f21-4c8e-9c6c-4f1f7d3e52a4"
	accountTwo = "1c9e6679-7425-40de-944b-e07fc1f90ae7"
)

// family is a partner whose users connect accounts: the code names the account.
type family struct {
	*connect.Client
	store connect.Store

	mu      sync.Mutex
	version int
	ended   []string // grants, in order
	broken  bool     // the service answers disconnects with 500
}

func newFamily(t *testing.T, store connect.Store) *family {
	t.Helper()
	f := &family{store: store}
	var err error
	f.Client, err = connect.New(connect.Config{
		BaseURL: "https://connect.example.com", ClientID: "id", ClientSecret: "svci_secret", CallbackURL: "https://partner.example/callback",
		Scopes: []connectsdk.Scope{connectsdk.ScopeDailyStepsRead}, Store: store,
		Sleep: func(context.Context, time.Duration) error { return nil },
		HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if r.Method == http.MethodDelete {
				if f.broken {
					return respond(http.StatusInternalServerError, `{"error":"server_error","error_description":"A fixed text."}`)
				}
				f.ended = append(f.ended, path.Base(r.URL.Path))
				return respond(http.StatusNoContent, "")
			}
			if err := r.ParseForm(); err != nil {
				return nil, err
			}
			grant := r.PostForm.Get("code")
			if grant == "" {
				grant = accountTwo // of the one refresh
			}
			f.version++
			return respond(http.StatusOK, strings.NewReplacer(accountOne, grant, `"connection_version":"1"`, fmt.Sprintf(`"connection_version":"%d"`, f.version)).Replace(tokens))
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *family) connect(t *testing.T, key, account string) connect.Connection {
	t.Helper()
	begun := f.Begin()
	connection, err := f.Finish(t.Context(), key, begun, url.Values{"state": {begun.State}, "code": {account}})
	if err != nil {
		t.Fatal(err)
	}
	return connection
}

func (f *family) state(t *testing.T, key string) connect.State {
	t.Helper()
	held, err := f.Connection(t.Context(), key)
	if errors.Is(err, connect.ErrNotConnected) {
		return "nothing"
	}
	if err != nil {
		t.Fatal(err)
	}
	return held.State
}

func wantShared(t *testing.T, err error, keys ...string) {
	t.Helper()
	var shared *connect.SharedError
	if !errors.As(err, &shared) || !slices.Equal(shared.Keys, keys) {
		t.Errorf("the error is %v, want that it names %v", err, keys)
	}
}

// Two users, one account: the second one's tokens replace the first one's, and nobody ends the other unseen.
func TestTwoUsersOneAccount(t *testing.T) {
	t.Parallel()
	f := newFamily(t, connect.NewMemoryStore())
	if anna := f.connect(t, "anna", accountOne); anna.SharedWith != nil || anna.FormerGrants != nil {
		t.Errorf("alone: %v, %v", anna.SharedWith, anna.FormerGrants)
	}
	f.connect(t, "carl", accountTwo)
	if ben := f.connect(t, "ben", accountOne); !slices.Equal(ben.SharedWith, []string{"anna"}) || ben.FormerGrants != nil {
		t.Errorf("the second: %v, %v", ben.SharedWith, ben.FormerGrants)
	}
	if f.state(t, "anna") != connect.StateEnded || f.state(t, "ben") != connect.StateActive || f.state(t, "carl") != connect.StateActive {
		t.Errorf("anna %s, ben %s, carl %s", f.state(t, "anna"), f.state(t, "ben"), f.state(t, "carl"))
	}
	wantShared(t, f.Disconnect(t.Context(), "anna"), "ben")
	if len(f.ended) != 0 || f.state(t, "anna") != connect.StateEnded {
		t.Errorf("anna's disconnect ended %v, and she is %s", f.ended, f.state(t, "anna"))
	}
	if err := f.Forget(t.Context(), "anna"); err != nil || f.state(t, "anna") != "nothing" || len(f.ended) != 0 {
		t.Errorf("forgotten: %v, %s, %v", err, f.state(t, "anna"), f.ended)
	}
	if err := f.Disconnect(t.Context(), "ben"); err != nil || !slices.Equal(f.ended, []string{accountOne}) {
		t.Errorf("the last one: %v, %v", err, f.ended)
	}
}

// The one whose connection is the latest is refused by nobody; and the other one may end both, if the program says so.
func TestDisconnectOfASharedAccount(t *testing.T) {
	t.Parallel()
	f := newFamily(t, connect.NewMemoryStore())
	f.connect(t, "anna", accountOne)
	f.connect(t, "ben", accountOne)
	if err := f.DisconnectShared(t.Context(), "anna"); err != nil || f.state(t, "anna") != "nothing" || f.state(t, "ben") != connect.StateEnded {
		t.Errorf("%v: anna %s, ben %s", err, f.state(t, "anna"), f.state(t, "ben"))
	}
	f.connect(t, "anna", accountOne)
	if err := f.Disconnect(t.Context(), "anna"); err != nil || !slices.Equal(f.ended, []string{accountOne, accountOne}) {
		t.Errorf("the latest: %v, %v", err, f.ended)
	}
}

// Two users who connect the same account at the same moment wait for each other's locks in turn, and not for ever.
func TestTwoFinishAtOnce(t *testing.T) {
	t.Parallel()
	f := newFamily(t, connect.NewMemoryStore())
	var both sync.WaitGroup
	for range 20 {
		for _, key := range []string{"anna", "ben"} {
			both.Add(1)
			go func() { defer both.Done(); f.connect(t, key, accountOne) }()
		}
		both.Wait()
	}
	active := 0
	for _, key := range []string{"anna", "ben"} {
		if f.state(t, key) == connect.StateActive {
			active++
		}
	}
	if active == 0 {
		t.Error("each has ended the other")
	}
}

// One user, two accounts: the former grant is kept, whatever else happens to the connection, until it has ended at the service.
func TestOneUserTwoAccounts(t *testing.T) {
	t.Parallel()
	f := newFamily(t, connect.NewMemoryStore())
	f.connect(t, "cora", accountOne)
	if cora := f.connect(t, "cora", accountTwo); len(cora.FormerGrants) != 1 || cora.FormerGrants[0].String() != accountOne {
		t.Errorf("the former grants are %v", cora.FormerGrants)
	}
	if cora, err := f.Refresh(t.Context(), "cora"); err != nil || len(cora.FormerGrants) != 1 {
		t.Errorf("refreshed: %v, %v", cora.FormerGrants, err)
	}
	f.broken = true
	if err := f.DisconnectFormer(t.Context(), "cora"); err == nil {
		t.Error("the service failed, and nobody says so")
	}
	f.broken = false
	if cora, err := f.Connection(t.Context(), "cora"); err != nil || len(cora.FormerGrants) != 1 {
		t.Errorf("after a failure: %v, %v", cora.FormerGrants, err)
	}
	for range 2 {
		if err := f.DisconnectFormer(t.Context(), "cora"); err != nil || !slices.Equal(f.ended, []string{accountOne}) {
			t.Errorf("%v, ended %v", err, f.ended)
		}
	}
	if cora, err := f.Connection(t.Context(), "cora"); err != nil || len(cora.FormerGrants) != 0 || cora.State != connect.StateActive {
		t.Errorf("afterwards: %v, %v, %v", cora, cora.FormerGrants, err)
	}
	// There and back: what is connected is not a former one. A disconnect ends both.
	f.connect(t, "cora", accountOne)
	if cora := f.connect(t, "cora", accountTwo); len(cora.FormerGrants) != 1 || cora.FormerGrants[0].String() != accountOne {
		t.Errorf("there and back: %v", cora.FormerGrants)
	}
	f.ended = nil
	if err := f.Disconnect(t.Context(), "cora"); err != nil || !slices.Equal(f.ended, []string{accountOne, accountTwo}) {
		t.Errorf("%v, ended %v", err, f.ended)
	}
}

// A former grant that is somebody else's by now is not ended.
func TestFormerGrantOfSomebodyElse(t *testing.T) {
	t.Parallel()
	f := newFamily(t, connect.NewMemoryStore())
	f.connect(t, "cora", accountOne)
	f.connect(t, "cora", accountTwo)
	f.connect(t, "anna", accountOne)
	if err := f.DisconnectFormer(t.Context(), "cora"); err != nil || f.ended != nil {
		t.Errorf("%v, ended %v", err, f.ended)
	}
	if cora, err := f.Connection(t.Context(), "cora"); err != nil || len(cora.FormerGrants) != 0 || f.state(t, "anna") != connect.StateActive {
		t.Errorf("%v, %v; anna is %s", cora.FormerGrants, err, f.state(t, "anna"))
	}
}

// A store of version 1.1.0 goes on: it knows no other keys.
func TestStoreWithoutTheNewMethods(t *testing.T) {
	t.Parallel()
	f := newFamily(t, struct{ connect.Store }{connect.NewMemoryStore()})
	f.connect(t, "anna", accountOne)
	if ben := f.connect(t, "ben", accountOne); ben.SharedWith != nil || f.state(t, "anna") != connect.StateActive {
		t.Errorf("%v; anna is %s", ben.SharedWith, f.state(t, "anna"))
	}
	f.connect(t, "ben", accountTwo)
	if err := f.Disconnect(t.Context(), "ben"); err != nil || !slices.Equal(f.ended, []string{accountOne, accountTwo}) {
		t.Errorf("%v, ended %v", err, f.ended)
	}
}

// A user whose account another one has connected since, too, forgets it. Nobody knows of a former account any more then, so it has ended.
func TestFormerGrantOfASharedAccount(t *testing.T) {
	t.Parallel()
	f := newFamily(t, connect.NewMemoryStore())
	f.connect(t, "cora", accountOne)
	f.connect(t, "cora", accountTwo)
	f.connect(t, "ben", accountTwo)
	f.broken = true
	if err := f.Disconnect(t.Context(), "cora"); err == nil || errors.As(err, new(*connect.SharedError)) {
		t.Errorf("the service failed, and the error is %v", err)
	}
	f.broken = false
	wantShared(t, f.Disconnect(t.Context(), "cora"), "ben")
	if err := f.Forget(t.Context(), "cora"); err != nil || !slices.Equal(f.ended, []string{accountOne}) || f.state(t, "ben") != connect.StateActive {
		t.Errorf("%v; ended %v, and ben is %s", err, f.ended, f.state(t, "ben"))
	}
}

// A webhook about the former account waits while the user connects another one, and leaves that alone.
func TestEndedWhileAnotherAccountIsConnected(t *testing.T) {
	t.Parallel()
	store := &slowStore{MemoryStore: connect.NewMemoryStore(), wanted: make(chan struct{}, 1)}
	f := newFamily(t, store)
	f.connect(t, "cora", accountOne)
	f.connect(t, "cora", accountOne) // version 2
	<-store.wanted
	lock, err := store.MemoryStore.Lock(t.Context(), "cora")
	if err != nil {
		t.Fatal(err)
	}
	news := make(chan bool, 1)
	go func() {
		changed, err := f.Ended(t.Context(), "cora", 2)
		if err != nil {
			t.Error(err)
		}
		news <- changed
	}()
	<-store.wanted
	other, err := lock.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other.GrantID, other.Version = uuid.MustParse(accountTwo), "1"
	if err := lock.Save(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	lock.Unlock()
	if <-news || f.state(t, "cora") != connect.StateActive {
		t.Errorf("the connection to the other account is %s", f.state(t, "cora"))
	}
}

// slowStore says when somebody begins to wait for a lock.
type slowStore struct {
	*connect.MemoryStore
	wanted chan struct{}
}

func (s *slowStore) Lock(ctx context.Context, key string) (connect.Lock, error) {
	select {
	case s.wanted <- struct{}{}:
	default:
	}
	return s.MemoryStore.Lock(ctx, key)
}
