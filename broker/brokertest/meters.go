package brokertest

import (
	"context"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// meterReader makes the global meter provider one that the suite can read. The library counts through the global
// provider, and so does every app of the process: names of subscriptions are unique for each run of the suite.
var meterReader = sync.OnceValue(func() *sdkmetric.ManualReader {
	reader := sdkmetric.NewManualReader()
	otel.SetMeterProvider(sdkmetric.NewMeterProvider(
		sdkmetric.WithReader(reader),
		sdkmetric.WithCardinalityLimit(0), // more subscriptions than a service ever has
		// Gauges are asked for at every collection, of all apps of the process; the suite reads counters alone.
		sdkmetric.WithView(sdkmetric.NewView(
			sdkmetric.Instrument{Kind: sdkmetric.InstrumentKindObservableGauge},
			sdkmetric.Stream{Aggregation: sdkmetric.AggregationDrop{}},
		)),
	))
	return reader
})

// counted is what the library has counted for one subscription, by counter and attribute: "discarded cap" for
// millrace.discarded{why=cap}.
type counted map[string]int64

// readMeters returns what has been counted so far, by subscription.
func readMeters(t testing.TB) map[string]counted {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := meterReader().Collect(context.Background(), &data); err != nil {
		t.Fatalf("reading the meters: %v", err)
	}
	all := map[string]counted{}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			name, ours := strings.CutPrefix(m.Name, "millrace.")
			sum, isSum := m.Data.(metricdata.Sum[int64])
			if !ours || !isSum {
				continue
			}
			for _, point := range sum.DataPoints {
				addPoint(all, name, point)
			}
		}
	}
	return all
}

func addPoint(all map[string]counted, name string, point metricdata.DataPoint[int64]) {
	subscription, label := "", name
	for _, a := range point.Attributes.ToSlice() {
		if a.Key == "subscription" {
			subscription = a.Value.AsString()
			continue
		}
		label += " " + a.Value.AsString()
	}
	if all[subscription] == nil {
		all[subscription] = counted{}
	}
	all[subscription][label] += point.Value
}
