package docs_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/otlptranslator"
	"github.com/redis/go-redis/v9"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.yaml.in/yaml/v3"

	"github.com/millrace-go/millrace/app"
	"github.com/millrace-go/millrace/app/apptest"
	"github.com/millrace-go/millrace/broker"
	"github.com/millrace-go/millrace/outcome"
	streamrt "github.com/millrace-go/millrace/runtime"
)

// emitted is one metric of a service: what Prometheus calls it, its kind, and the attributes that it was seen with.
type emitted struct {
	prometheus, kind string
	attributes       map[string]bool
}

// allEmitted runs a service to which everything happens that is measured.
func allEmitted(t *testing.T) map[string]*emitted {
	t.Helper()
	all := map[string]*emitted{}
	apptest.Paused(t, func(h *apptest.H) {
		reader := sdkmetric.NewManualReader()
		a := app.New("everything", "1", app.MeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
		m := a.Broker(h.Broker())
		answer := func(_ context.Context, body string) outcome.HandlerOutcome {
			switch body {
			case "ack":
				return outcome.Ack()
			case "bury":
				return outcome.DeadLetter(errors.New("x"))
			}
			return outcome.Drop()
		}
		subscribe := func(spec streamrt.Spec) streamrt.Subscription {
			return streamrt.Subscribe(spec, streamrt.JSON, answer)
		}
		m.Mount(subscribe(streamrt.Spec{Name: "memory", Stream: "in", Group: "a"}), app.DeadLetter("dlq"))
		m.Mount(subscribe(streamrt.Spec{Name: "set", Stream: "in", Group: "b", DelaySet: "z"}))
		m.Mount(subscribe(streamrt.Spec{Name: "pattern", Pattern: "c.*"}), app.OutRetry("c.retry"))
		h.Start(a)
		h.Client().XAdd(h.T().Context(), &redis.XAddArgs{Stream: "in", Values: []any{"_payload", `"ack"`, "h:losses", 1}})
		// The dead letter turns into something that takes none.
		h.Client().Set(h.T().Context(), "dlq", "x", 0)
		for _, body := range []string{"ack", "bury", "drop"} {
			if err := m.Publish(h.T().Context(), broker.Stream("in"), body); err != nil {
				h.T().Fatal(err)
			}
		}
		if err := m.Publish(h.T().Context(), broker.Stream("dlq"), 1); err == nil {
			h.T().Error("a string took an entry")
		}
		if err := m.Publish(h.T().Context(), broker.Channel("c.1"), "ack"); err != nil {
			h.T().Fatal(err)
		}
		h.Advance(time.Second)
		h.Client().Del(h.T().Context(), "dlq")
		h.Advance(time.Minute)
		var data metricdata.ResourceMetrics
		if err := reader.Collect(h.T().Context(), &data); err != nil {
			h.T().Fatal(err)
		}
		for _, scope := range data.ScopeMetrics {
			for _, metric := range scope.Metrics {
				all[metric.Name] = emittedAs(h.T(), metric)
			}
		}
	})
	return all
}

func emittedAs(t *testing.T, metric metricdata.Metrics) *emitted {
	t.Helper()
	e := &emitted{attributes: map[string]bool{}}
	translated := otlptranslator.Metric{Name: metric.Name, Unit: metric.Unit}
	switch d := metric.Data.(type) {
	case metricdata.Sum[int64]:
		e.kind, translated.Type = "counter", otlptranslator.MetricTypeMonotonicCounter
		noteAttributes(e, d.DataPoints)
	case metricdata.Gauge[int64]:
		e.kind, translated.Type = "gauge", otlptranslator.MetricTypeGauge
		noteAttributes(e, d.DataPoints)
	case metricdata.Gauge[float64]:
		e.kind, translated.Type = "gauge", otlptranslator.MetricTypeGauge
		noteAttributes(e, d.DataPoints)
	case metricdata.Histogram[int64]:
		e.kind, translated.Type = "histogram", otlptranslator.MetricTypeHistogram
		for _, p := range d.DataPoints {
			noteAttributes(e, []metricdata.DataPoint[int64]{{Attributes: p.Attributes}})
		}
	case metricdata.Histogram[float64]:
		e.kind, translated.Type = "histogram", otlptranslator.MetricTypeHistogram
		for _, p := range d.DataPoints {
			noteAttributes(e, []metricdata.DataPoint[int64]{{Attributes: p.Attributes}})
		}
	default:
		t.Fatalf("%s is a %T", metric.Name, d)
	}
	namer := otlptranslator.MetricNamer{WithMetricSuffixes: true}
	name, err := namer.Build(translated)
	if err != nil {
		t.Fatal(err)
	}
	e.prometheus = name
	return e
}

func noteAttributes[N int64 | float64](e *emitted, points []metricdata.DataPoint[N]) {
	for _, p := range points {
		for _, kv := range p.Attributes.ToSlice() {
			e.attributes[string(kv.Key)] = true
		}
	}
}

var (
	metricRow   = regexp.MustCompile("(?m)^\\| `((?:millrace|messaging)\\.[a-z._]+)` \\| `([a-z_]+)` \\| (\\w+) \\| ([^|]*) \\|")
	ourWord     = regexp.MustCompile(`\b(?:millrace|messaging)_[a-z_]+`)
	labelsOf    = regexp.MustCompile(`\bby \(([^)]*)\)|([a-z_]+)\s*(?:=~|!~|!=|=)\s*"|\{\{\s*\$?(?:labels\.)?([a-z_]+)\s*\}\}`)
	sourceKeys  = []string{"messaging.destination.name", "messaging.destination.template", "messaging.consumer.group.name"}
	ofAllSeries = []string{"job", "instance", "le", "value"}
)

// The table of the guide lists every metric that a service emits, by the names that it has there and in Prometheus, with its
// kind and its attributes.
func TestTheTableOfMetricsIsWhatAServiceEmits(t *testing.T) {
	raw, err := os.ReadFile("operations.md")
	if err != nil {
		t.Fatal(err)
	}
	all := allEmitted(t)
	listed := map[string]bool{}
	for _, row := range metricRow.FindAllStringSubmatch(string(raw), -1) {
		name := row[1]
		listed[name] = true
		e := all[name]
		if e == nil {
			t.Errorf("%s is in the table, and no service emits it", name)
			continue
		}
		if row[2] != e.prometheus || row[3] != e.kind {
			t.Errorf("%s is the %s %s, not the %s %s", name, e.kind, e.prometheus, row[3], row[2])
		}
		said := map[string]bool{}
		for _, token := range strings.Fields(row[4]) {
			if token == "*source*" {
				for _, key := range sourceKeys {
					said[key] = true
				}
				continue
			}
			said[strings.Trim(token, "`")] = true
		}
		if strings.HasPrefix(name, "messaging.") {
			said["messaging.system"] = true
		}
		for key := range e.attributes {
			if !said[key] {
				t.Errorf("%s has the attribute %s, which its row does not name", name, key)
			}
		}
		for key := range said {
			if !e.attributes[key] && !slices.Contains(sourceKeys, key) {
				t.Errorf("the row of %s names the attribute %s, which it does not have", name, key)
			}
		}
	}
	for name := range all {
		if !listed[name] {
			t.Errorf("%s is not in the table", name)
		}
	}
}

// Every name in the dashboard and in the alerts is one that Prometheus gets from a service, and every label one of the
// library's or of all series.
func TestDashboardAndAlertsUseNamesThatThereAre(t *testing.T) {
	series, labels := map[string]bool{}, map[string]bool{}
	for _, name := range ofAllSeries {
		labels[name] = true
	}
	for _, e := range allEmitted(t) {
		series[e.prometheus] = e.kind != "histogram"
		if e.kind == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				series[e.prometheus+suffix] = true
			}
		}
		for key := range e.attributes {
			labels[strings.ReplaceAll(key, ".", "_")] = true
		}
	}
	for file, texts := range map[string][]string{"grafana-dashboard.json": dashboard(t), "prometheus-alerts.yaml": alerts(t)} {
		if len(texts) < 13 {
			t.Errorf("%s holds %d texts", file, len(texts))
		}
		for _, text := range texts {
			for _, word := range ourWord.FindAllString(text, -1) {
				if !series[word] && !labels[word] {
					t.Errorf("%s: %s is no metric and no label: %s", file, word, text)
				}
			}
			for _, found := range labelsOf.FindAllStringSubmatch(text, -1) {
				for _, label := range strings.FieldsFunc(found[1]+" "+found[2]+" "+found[3], func(r rune) bool { return r == ',' || r == ' ' }) {
					if !labels[label] {
						t.Errorf("%s: %s is no label: %s", file, label, text)
					}
				}
			}
		}
	}
}

// dashboard returns the expressions and legends of the dashboard, and looks at its form.
func dashboard(t *testing.T) (texts []string) {
	t.Helper()
	raw, err := os.ReadFile("grafana-dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			ID      int
			Type    string
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d %q shows nothing, or its number is taken", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			texts = append(texts, target.Expr, target.LegendFormat)
		}
	}
	for _, v := range d.Templating.List {
		texts = append(texts, v.Definition)
	}
	return texts
}

// alerts returns the expressions and texts of the alerts, and holds their names to the guide's table.
func alerts(t *testing.T) (texts []string) {
	t.Helper()
	raw, err := os.ReadFile("prometheus-alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("operations.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(Millrace\\w+)` \\|").FindAllStringSubmatch(string(guide), -1) {
		listed[row[1]] = true
	}
	defined := map[string]bool{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			defined[rule.Alert] = true
			if rule.Expr == "" || rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" {
				t.Errorf("%s lacks an expression, a severity or a summary", rule.Alert)
			}
			texts = append(texts, rule.Expr, rule.Annotations["summary"])
		}
	}
	if !maps.Equal(defined, listed) {
		t.Errorf("alerts in the file: %v\nin the guide: %v", slices.Sorted(maps.Keys(defined)), slices.Sorted(maps.Keys(listed)))
	}
	return texts
}
