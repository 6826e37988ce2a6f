package sdk_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/connect"
	"connect.invalid/connect-go/webhook"
)

// driverVariable in the environment makes this test's program the driver of the Go SDK.
const driverVariable = "CONNECT_SDK_DRIVER"

// driveGo is the driver of the Go SDK, as sdk/scenarios.yaml describes it.
func driveGo(commands io.Reader, answers io.Writer) {
	d := goDriver{store: connect.NewMemoryStore(), now: time.Date(2026, time.November, 21, 10, 0, 0, 0, time.UTC)}
	lines, encoder := bufio.NewScanner(commands), json.NewEncoder(answers)
	for lines.Scan() {
		var command goCommand
		err := json.Unmarshal(lines.Bytes(), &command)
		answer := map[string]any{}
		if err == nil {
			answer = d.answer(context.Background(), command)
		} else {
			answer["outcome"], answer["causes"] = "error", []string{err.Error()}
		}
		d.mu.Lock()
		answer["slept"] = d.slept.Milliseconds()
		d.slept = 0
		d.mu.Unlock()
		_ = encoder.Encode(answer)
	}
}

type goDriver struct {
	client *connect.Client
	store  connect.Store
	begun  connect.Authorization

	mu    sync.Mutex
	now   time.Time
	slept time.Duration
}

type goCommand struct {
	Do           string
	BaseURL      string `json:"base_url"`
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	CallbackURL  string `json:"callback_url"`
	Scopes       []connectsdk.Scope
	TimeoutMS    int `json:"timeout_ms"`
	Key          string
	Callback     string
	Dataset      string
	From, To     connectsdk.CalendarDate
	PageSize     int `json:"page_size"`
	Version      string
	Seconds      float64
	Secret, Body string
	Headers      map[string]string
	At           int64
	Commands     []goCommand
}

// answer carries out a command.
func (d *goDriver) answer(ctx context.Context, command goCommand) map[string]any {
	answer := map[string]any{"outcome": "ok"}
	if err := d.act(ctx, command, answer); err != nil {
		var refused *connect.Error
		var reconnect *connect.ReconnectError
		var shared *connect.SharedError
		var below []string
		switch {
		case errors.As(err, &reconnect):
			answer["outcome"] = "reconnect-" + string(reconnect.State)
			if reconnect.Cause != nil {
				below = []string{reconnect.Cause.Error()}
			}
		case errors.As(err, &refused):
			answer["outcome"], answer["status"], answer["code"] = "refused", refused.Status, refused.Code
		case errors.As(err, &shared):
			answer["outcome"], answer["keys"] = "shared", shared.Keys
		case errors.Is(err, connect.ErrNotConnected):
			answer["outcome"] = "not-connected"
		case errors.Is(err, connect.ErrDenied):
			answer["outcome"] = "denied"
		case errors.Is(err, connect.ErrState):
			answer["outcome"] = "state"
		case command.Do == "verify":
			answer["outcome"] = "not-genuine"
		case command.Do == "finish", command.Do == "refresh", command.Do == "read", command.Do == "revoke", command.Do == "disconnect":
			answer["outcome"] = "network"
		default:
			answer["outcome"] = "error"
		}
		answer["causes"] = append(causesOf(err), below...)
	}
	return answer
}

func causesOf(err error) []string {
	causes := []string{err.Error()}
	if below := errors.Unwrap(err); below != nil {
		return append(causes, causesOf(below)...)
	}
	if joined, is := err.(interface{ Unwrap() []error }); is {
		for _, below := range joined.Unwrap() {
			causes = append(causes, causesOf(below)...)
		}
	}
	return causes
}

func (d *goDriver) act(ctx context.Context, command goCommand, answer map[string]any) (err error) {
	switch command.Do {
	case "open":
		d.client, err = connect.New(connect.Config{
			BaseURL: command.BaseURL, ClientID: command.ClientID, ClientSecret: command.ClientSecret, CallbackURL: command.CallbackURL,
			Scopes: command.Scopes, Store: d.store, Timeout: time.Duration(command.TimeoutMS) * time.Millisecond,
			Now: d.clock, Sleep: d.sleep, Jitter: func(time.Duration) time.Duration { return 0 },
		})
	case "begin":
		d.begun = d.client.Begin()
		answer["url"] = d.begun.URL
	case "finish":
		callback, err := url.ParseQuery(command.Callback)
		if err != nil {
			return err
		}
		connection, err := d.client.Finish(ctx, command.Key, d.begun, callback)
		if err == nil && len(connection.SharedWith) > 0 {
			answer["shared_with"] = connection.SharedWith
		}
		if err == nil && len(connection.FormerGrants) > 0 {
			answer["former_grants"] = len(connection.FormerGrants)
		}
		return err
	case "refresh":
		_, err = d.client.Refresh(ctx, command.Key)
	case "read":
		answer["rows"], err = d.read(ctx, command)
	case "revoke":
		err = d.client.Revoke(ctx, command.Key)
	case "disconnect":
		err = d.client.Disconnect(ctx, command.Key)
	case "disconnect_shared":
		err = d.client.DisconnectShared(ctx, command.Key)
	case "disconnect_former":
		err = d.client.DisconnectFormer(ctx, command.Key)
	case "forget":
		err = d.client.Forget(ctx, command.Key)
	case "ended":
		version, err := strconv.ParseInt(command.Version, 10, 64)
		if err != nil {
			return err
		}
		answer["changed"], err = d.client.Ended(ctx, command.Key, version)
		return err
	case "state":
		held, err := d.client.Connection(ctx, command.Key)
		answer["state"] = held.State
		return err
	case "advance":
		d.mu.Lock()
		defer d.mu.Unlock()
		d.now = d.now.Add(time.Duration(command.Seconds * float64(time.Second)))
	case "verify":
		header := http.Header{}
		for name, value := range command.Headers {
			header.Set(name, value)
		}
		event, err := webhook.VerifyAt(command.Secret, header, []byte(command.Body), time.Unix(command.At, 0))
		if err != nil {
			return err
		}
		answer["id"] = event.WebhookID()
		switch event := event.(type) {
		case webhook.ConnectionRevoked:
			answer["type"] = event.Type
		case webhook.ActivityUpdated:
			answer["type"] = event.Type
		case webhook.Unknown:
			answer["type"] = event.Type
		}
	case "together":
		answers := make([]map[string]any, len(command.Commands))
		var running sync.WaitGroup
		for i, one := range command.Commands {
			running.Go(func() { answers[i] = d.answer(ctx, one) })
		}
		running.Wait()
		answer["answers"] = answers
	default:
		err = fmt.Errorf("the driver does not know %q", command.Do)
	}
	return err
}

func (d *goDriver) read(ctx context.Context, command goCommand) (int, error) {
	switch command.Dataset {
	case "daily-activity":
		return number(d.client.StepDays(ctx, command.Key, command.From, command.To))
	case "cycling-daily":
		return number(d.client.CyclingDays(ctx, command.Key, command.From, command.To))
	default:
		return number(d.client.CyclingActivities(ctx, command.Key, command.From, command.To, command.PageSize))
	}
}

func number[Row any](rows iter.Seq2[Row, error]) (count int, err error) {
	for _, err := range rows {
		if err != nil {
			return count, err
		}
		count++
	}
	return count, nil
}

func (d *goDriver) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func (d *goDriver) sleep(ctx context.Context, pause time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now, d.slept = d.now.Add(pause), d.slept+pause
	return ctx.Err()
}
