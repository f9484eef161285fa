package telemetry

import (
	"reflect"

	"go.opentelemetry.io/otel"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// tracing makes spans where somebody takes them. Safe for concurrent use.
type tracing struct {
	tracer trace.Tracer
	// off: nobody ever will.
	off bool
	// unset is the global provider that was found when none had been set; nil where one had. Nobody takes spans as long as it
	// is still the global one. Its tracer would make one all the same, of no use and several allocations.
	unset trace.TracerProvider
}

func newTracing(p trace.TracerProvider) tracing {
	if p == nil {
		p = otel.GetTracerProvider()
	}
	t := tracing{tracer: p.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL))}
	switch _, off := p.(noop.TracerProvider); {
	case off:
		t.off = true
	case isUnset(p):
		t.unset = p
	}
	return t
}

// isUnset reports whether it is the provider that OpenTelemetry has before one is set. The type has no other name; not to
// know it costs time and nothing else.
func isUnset(p trace.TracerProvider) bool {
	kind := reflect.TypeOf(p)
	return kind.Kind() == reflect.Pointer && kind.Elem().PkgPath() == "go.opentelemetry.io/otel/internal/global"
}

// on reports whether a span is worth its while. It costs a few nanoseconds.
func (t *tracing) on() bool {
	return !t.off && (t.unset == nil || otel.GetTracerProvider() != t.unset)
}
