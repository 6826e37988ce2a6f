//go:build faults

package storm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// jumps of the database's clock, all by more than the service puts up with.
var jumps = []time.Duration{90 * time.Second, time.Hour, 401 * 24 * time.Hour, -90 * time.Second, -time.Hour}

// jump has the database's clock be wrong, and then right again.
func (s *storm) jump(ctx context.Context, chance *rand.Rand, lasts time.Duration) error {
	set := func(ahead time.Duration) error {
		return s.database.exec(ctx, fmt.Sprintf(`create or replace function connect_now() returns timestamptz language plpgsql stable parallel safe as
			$$ begin return statement_timestamp() + interval '%d microseconds'
				+ coalesce(nullif(current_setting('connect.clock_offset', true), ''), '0')::interval; end $$`, ahead.Microseconds()))
	}
	s.secrets.mu.Lock()
	s.secrets.jumps = append(s.secrets.jumps, s.now())
	s.secrets.mu.Unlock()
	if err := set(jumps[chance.IntN(len(jumps))]); err != nil {
		return err
	}
	await(ctx, 2*lasts)
	return set(0)
}

// flooding is how many connections a flood opens. All programs of the storm share what the system gives.
const flooding = 400

// flood opens connections to a server, which are idle, or begin a request and never end it.
func (s *storm) flood(ctx context.Context, chance *rand.Rand, lasts time.Duration) error {
	address := s.any(chance).front.target()
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			_ = conn.Close()
		}
	}()
	beginnings := []string{"", "GET /", "POST /oauth/token HTTP/1.1\r\nHost: connect.example.com\r\nContent-Length: 9\r\n\r\n"}
	for n := range flooding {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			break // it accepts no more
		}
		open = append(open, conn)
		_, _ = conn.Write([]byte(beginnings[n%len(beginnings)])) // it may have been closed
	}
	await(ctx, lasts)
	return nil
}
