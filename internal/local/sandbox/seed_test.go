package sandbox

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"connect-svc/gen/sandboxapi"
)

// Two sandboxes with one seed and one time have the same users, client, secrets, grants and activity ids.
func TestSeedRepeats(t *testing.T) {
	t.Parallel()
	seed, now := uint64(7), time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	type seen struct {
		Sandbox sandboxapi.Sandbox
		Grant   string
		Rides   []string
	}
	look := func() (s seen) {
		r := start(t, func(c *Config) { c.Seed, c.Now = &seed, now })
		s.Sandbox = r.described
		if began := r.clock.Now(); began.Before(now) || began.After(now.Add(10*time.Minute)) {
			t.Errorf("the clock began at %v", began)
		}
		p := r.newPartner(t, sandboxapi.KindActive)
		connection := p.connect(t)
		s.Grant = connection.GrantID.String()
		for ride, err := range p.client.CyclingActivities(t.Context(), key, connection.HistoryFrom, connection.HistoryFrom, 100) {
			if err != nil {
				t.Fatal(err)
			}
			s.Rides = append(s.Rides, ride.Id)
		}
		return s
	}
	one, two := look(), look()
	places := cmpopts.IgnoreFields(sandboxapi.Sandbox{}, "BaseUrl", "DriverUrl", "MailUrl", "CaFile", "Now")
	receiver := cmpopts.IgnoreFields(sandboxapi.SandboxClient{}, "WebhookUrl")
	if diff := cmp.Diff(one, two, places, receiver); diff != "" || len(one.Rides) == 0 {
		t.Errorf("%d rides; (-one +two):\n%s", len(one.Rides), diff)
	}
}

// As a service container it listens everywhere; the driver then has a token, and both listeners know their hosts.
func TestServiceContainer(t *testing.T) {
	t.Parallel()
	const token = "token-of-the-driver"
	r := start(t, func(c *Config) {
		c.Listen, c.PrivateListen, c.DriverToken, c.Hosts = "0.0.0.0:0", "0.0.0.0:0", token, []string{"sandbox.test"}
	})
	local := "http://" + r.private.Addr().String()
	for _, test := range []struct {
		path, host, authorization string
		want                      int
	}{
		{"/sandbox", "", "Bearer " + token, http.StatusOK},
		{"/sandbox", "", "bearer  " + token, http.StatusOK},
		{"/sandbox", "sandbox.test:9090", "Bearer " + token, http.StatusOK},
		{"/sandbox", "", "", http.StatusUnauthorized},
		{"/sandbox", "", "Bearer another", http.StatusUnauthorized},
		{"/sandbox/requests", "", "Basic " + token, http.StatusUnauthorized},
		{"/sandbox", "elsewhere.example", "Bearer " + token, http.StatusMisdirectedRequest},
		{"/healthz", "", "", http.StatusOK},
	} {
		request, err := http.NewRequestWithContext(t.Context(), "GET", local+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = test.host
		if test.authorization != "" {
			request.Header.Set("Authorization", test.authorization)
		}
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != test.want {
			t.Errorf("%+v: %d", test, response.StatusCode)
		}
	}
	if got := r.described.BaseUrl[:len("https://sandbox.test:")]; got != "https://sandbox.test:" {
		t.Errorf("the base URL is %s", r.described.BaseUrl)
	}
	if err := r.authority.Server.Leaf.VerifyHostname("sandbox.test"); err != nil {
		t.Error(err)
	}
}
