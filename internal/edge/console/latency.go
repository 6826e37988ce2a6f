package console

import (
	"slices"
	"time"

	"connect-svc/internal/admin/usage"
)

// latencyView is how long requests of an operation took, in eight days and in the last one.
type latencyView struct {
	usage.Latency                 // of the last 24 hours
	Hours         []usage.Latency // of which there were requests, the latest first
	Width         int
	Path, Summary string // the 95th percentile of each hour of eight days
}

// latenciesOf groups latencies by operation, those with most time in the last 24 hours first.
func (say writer) latenciesOf(list []usage.Latency, now time.Time) (views []latencyView) {
	first, hours := now.UTC().Truncate(time.Hour).Add(time.Hour-usage.LatenciesKept), int(usage.LatenciesKept/time.Hour)
	for len(list) > 0 {
		end := slices.IndexFunc(list, func(l usage.Latency) bool { return l.Operation != list[0].Operation })
		if end < 0 {
			end = len(list)
		}
		values, most := make([]float64, hours), list[0]
		var lately []usage.Latency
		for _, l := range list[:end] {
			place := int(l.Hour.Sub(first) / time.Hour)
			if place < 0 || place >= hours {
				continue
			}
			values[place] = float64(l.Quantile(.95))
			if l.Quantile(.95) > most.Quantile(.95) {
				most = l
			}
			if place >= hours-24 {
				lately = append(lately, l)
			}
		}
		sum := usage.SumOf(lately)
		sum.Operation = list[0].Operation
		slices.Reverse(lately)
		views = append(views, latencyView{
			Latency: sum, Hours: lately, Width: hours * slot, Path: bars(values, nil, max(1, slices.Max(values)), 1.5),
			Summary: say.Text("console.latency.summary", "Operation", sum.Operation, "Most", say.took(most.Quantile(.95)), "Hour", hour(most.Hour)),
		})
		list = list[end:]
	}
	slices.SortStableFunc(views, func(a, b latencyView) int { return int(b.Total - a.Total) })
	return views
}
