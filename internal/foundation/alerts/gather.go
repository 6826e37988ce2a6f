package alerts

import (
	"maps"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Gather returns the samples of a gatherer that the rules read. An error does not invalidate the samples beside it.
func Gather(gatherer prometheus.Gatherer) (samples []Sample, err error) {
	families, err := gatherer.Gather()
	for _, family := range families {
		_, read := kept[family.GetName()]
		_, histogram := kept[family.GetName()+"_bucket"]
		if !read && !histogram {
			continue
		}
		for _, metric := range family.GetMetric() {
			of := samplesOf(family.GetName(), metric)
			if of[0].Metric == "connect_webhook_events_total" && of[0].Labels["outcome"] != "failed" {
				continue // no rule reads it, and there are as many as partners
			}
			samples = append(samples, of...)
		}
	}
	return samples, err
}

// samplesOf returns the one sample of a counter or gauge, and of a histogram the buckets that the rules read.
func samplesOf(name string, metric *dto.Metric) []Sample {
	labels := Labels{}
	for _, pair := range metric.GetLabel() {
		labels[pair.GetName()] = pair.GetValue()
	}
	if metric.GetCounter() != nil {
		return []Sample{{name, labels, metric.GetCounter().GetValue()}}
	}
	if metric.GetGauge() != nil {
		return []Sample{{name, labels, metric.GetGauge().GetValue()}}
	}
	bucket := func(le string, count uint64) Sample {
		with := maps.Clone(labels)
		with["le"] = le
		return Sample{name + "_bucket", with, float64(count)}
	}
	samples := []Sample{bucket("+Inf", metric.GetHistogram().GetSampleCount())}
	for _, b := range metric.GetHistogram().GetBucket() {
		if b.GetUpperBound() == 1 { // second
			samples = append(samples, bucket("1", b.GetCumulativeCount()))
		}
	}
	return samples
}
