package app

import (
	"context"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/admin/servers"
	"connect-svc/internal/edge/console"
	"connect-svc/internal/foundation/alerts"
	"connect-svc/internal/foundation/telemetry"
)

// For the tests of package app_test, which have the fixture of package e2e.

func (a *App) Facts(ctx context.Context) console.Facts { return a.facts(ctx) }

func (a *App) Look(ctx context.Context, now time.Time) error { return a.look(ctx, now) }

func (a *App) Deregister(ctx context.Context) error { return a.servers.Deregister(ctx) }

func (a *App) LookAtClock(ctx context.Context) { a.lookAtClock(ctx) }

func (a *App) SweepStep(ctx context.Context) { a.sweepNext(ctx) }

func (a *App) Firing() []alerts.Alert { return a.alerts.Firing() }

func (a *App) Servers(ctx context.Context) ([]servers.Server, error) { return a.servers.List(ctx) }

func (a *App) Dismiss(ctx context.Context, id uuid.UUID) error { return a.dismiss(ctx, id) }

func (a *App) ID() string { return a.servers.ID().String() }

func (a *App) SweptElsewhere() bool { return a.sweptElsewhere.Load() }

func (a *App) Observe(event *telemetry.Event) { a.metrics.Observe(event) }

func (a *App) SetProbeLimit(limit time.Duration) { a.config.Limits.Probe = limit }
