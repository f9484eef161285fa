package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// result is everything that was measured in one scenario.
type result struct {
	Scenario string              `json:"scenario"`
	About    string              `json:"about"`
	Server   string              `json:"server"`
	Subjects []string            `json:"subjects"`
	Samples  map[string][]sample `json:"samples"`
}

// write prints the tables, and writes the files that were asked for.
func write(c config, results []result) error {
	tables := markdown(results, c.rounds)
	if _, err := io.WriteString(os.Stdout, tables); err != nil {
		return err
	}
	var errs []error
	if c.markdown != "" {
		errs = append(errs, os.WriteFile(c.markdown, []byte(tables), 0o644)) //nolint:gosec // anybody may read it
	}
	if c.json != "" {
		text, err := json.MarshalIndent(results, "", "  ")
		if err == nil {
			err = os.WriteFile(c.json, append(text, '\n'), 0o644) //nolint:gosec // anybody may read it
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// markdown is one table a scenario. Every figure is a median over the rounds; of first is the median of the ratios to the
// first subject of the same round, which a drift of the machine leaves alone.
func markdown(results []result, rounds int) string {
	var text strings.Builder
	for i, r := range results {
		if i == 0 {
			fmt.Fprintf(&text, "%s; medians of %d rounds\n", r.Server, rounds)
		}
		first := r.Subjects[0]
		fmt.Fprintf(&text, "\n### %s\n\n%s.\n\n", r.Scenario, r.About)
		text.WriteString("| | messages | /s | spread | of " + first + " | client / server CPU s per 100 k | commands | allocs | p50 / p99 ms | also |\n")
		text.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
		for _, subject := range r.Subjects {
			fmt.Fprintln(&text, row(subject, r.Samples[subject], r.Samples[first]))
		}
	}
	return text.String()
}

func row(name string, samples, first []sample) string {
	of := func(f func(sample) float64) float64 { return median(collect(samples, f)) }
	rates := collect(samples, func(s sample) float64 { return s.Rate })
	slices.Sort(rates)
	var ratios []float64
	for i := range min(len(samples), len(first)) {
		ratios = append(ratios, samples[i].Rate/first[i].Rate)
	}
	late := ""
	if of(func(s sample) float64 { return s.P99 }) != 0 {
		late = fmt.Sprintf("%.2f / %.2f", of(func(s sample) float64 { return s.P50 }), of(func(s sample) float64 { return s.P99 }))
	}
	var also []string
	for _, k := range sortedKeys(samples[0].Extra) {
		also = append(also, fmt.Sprintf("%s %.3g", k, of(func(s sample) float64 { return s.Extra[k] })))
	}
	return fmt.Sprintf("| %s | %d | %.0f | %.0f %% | %.2f | %.2f / %.2f | %.3f | %.1f | %s | %s |",
		name, samples[0].Messages, median(rates), (rates[len(rates)-1]-rates[0])/median(rates)*100, median(ratios),
		of(func(s sample) float64 { return s.ClientCPU }), of(func(s sample) float64 { return s.ServerCPU }),
		of(func(s sample) float64 { return s.Commands }), of(func(s sample) float64 { return s.Allocs }),
		late, strings.Join(also, ", "))
}

func collect(samples []sample, f func(sample) float64) []float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = f(s)
	}
	return values
}

// median of an even number of values is the mean of the two in the middle.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func sortedKeys(m map[string]float64) []string { return slices.Sorted(maps.Keys(m)) }
