// Sends logs as a program does that uses OpenTelemetry's SDK for Go, by gRPC and with the exporter's own retries, and prints what it told the SDK:
// for each log a line of JSON with the row that must be in `otel_logs`. After each batch that was taken a line with its number goes to standard error.
//
//	sdk ADDRESS BATCHES
package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
)

const (
	perBatch    = 100
	start       = 1_764_000_000_000_000_000
	resourceURL = "https://example.com/resource"
	scopeURL    = "https://example.com/scope"
)

type pairs [][2]string

func main() {
	batches, err := strconv.Atoi(os.Args[2])
	check(err)
	ctx := context.Background()
	exporter, err := otlploggrpc.New(ctx,
		otlploggrpc.WithEndpoint(os.Args[1]),
		otlploggrpc.WithInsecure(),
		otlploggrpc.WithCompressor("gzip"),
		otlploggrpc.WithTimeout(2*time.Minute),
		otlploggrpc.WithRetry(otlploggrpc.RetryConfig{
			Enabled: true, InitialInterval: 50 * time.Millisecond, MaxInterval: 500 * time.Millisecond, MaxElapsedTime: 2 * time.Minute,
		}),
	)
	check(err)
	// The SDK sorts what a resource and a scope have.
	of := resource.NewWithAttributes(resourceURL,
		attribute.Bool("beta", true), attribute.Int("host.id", 7), attribute.Float64("ratio", 1.5),
		attribute.String("service.name", "checkout"), attribute.StringSlice("zones", []string{"a", "b"}))
	// A batch is exported when it is asked for; the limit leaves out the last attribute of each log.
	provider := sdklog.NewLoggerProvider(sdklog.WithResource(of), sdklog.WithAttributeCountLimit(7),
		sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter, sdklog.WithMaxQueueSize(2*perBatch),
			sdklog.WithExportMaxBatchSize(perBatch), sdklog.WithExportInterval(time.Hour), sdklog.WithExportTimeout(2*time.Minute))))
	logger := provider.Logger("go", log.WithInstrumentationVersion("1.2"), log.WithSchemaURL(scopeURL),
		log.WithInstrumentationAttributes(attribute.String("team", "pay")))
	for batch := range batches {
		for n := batch * perBatch; n < (batch+1)*perBatch; n++ {
			emit(logger, n)
		}
		check(provider.ForceFlush(ctx))
		fmt.Fprintln(os.Stderr, batch)
	}
	check(provider.Shutdown(ctx))
}

// emit tells the SDK a log, and standard output what became of it.
func emit(logger log.Logger, n int) {
	var record log.Record
	at, observed := int64(start+n), int64(start+n+9)
	record.SetObservedTimestamp(time.Unix(0, observed))
	if n%5 != 0 {
		record.SetTimestamp(time.Unix(0, at))
	} else {
		at = observed
	}
	ctx, traceID, spanID, flags := context.Background(), "", "", 0
	if n%3 != 0 {
		trace16, span8 := [16]byte{1, 15: byte(n + 1)}, [8]byte{2, 7: byte(n + 1)}
		flags = n % 2
		span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace16, SpanID: span8, TraceFlags: trace.TraceFlags(flags)})
		ctx, traceID, spanID = trace.ContextWithSpanContext(ctx, span), hex.EncodeToString(trace16[:]), hex.EncodeToString(span8[:])
	}
	severity := log.Severity(n%24 + 1)
	record.SetSeverity(severity)
	record.SetSeverityText(severity.String())
	record.SetEventName(fmt.Sprintf("event %d", n%7))
	body, bodyText := bodyOf(n)
	record.SetBody(body)
	record.AddAttributes(
		attribute.Int("n", n), attribute.String("name", fmt.Sprintf("log %d", n)), attribute.Float64("half", float64(n)+0.5), attribute.Bool("even", n%2 == 0),
		attribute.Slice("list", attribute.IntValue(n), attribute.StringValue("two")), attribute.Map("map", attribute.Int("inner", n)), attribute.ByteSlice("bytes", []byte{0, 255, byte(n)}),
		attribute.String("dropped", "beyond the limit"))
	logger.Emit(ctx, record)

	attributes := pairs{
		{"n", fmt.Sprint(n)}, {"name", fmt.Sprintf("log %d", n)}, {"half", fmt.Sprintf("%d.5", n)}, {"even", fmt.Sprint(n%2 == 0)},
		{"list", fmt.Sprintf(`[%d,"two"]`, n)}, {"map", fmt.Sprintf(`{"inner":%d}`, n)}, {"bytes", text([]byte{0, 255, byte(n)})},
	}
	tell(map[string]any{
		"Timestamp": at, "ObservedTimestamp": observed, "TraceId": traceID, "SpanId": spanID, "TraceFlags": flags, "Flags": flags,
		"SeverityText": severity.String(), "SeverityNumber": n%24 + 1, "ServiceName": "checkout", "Body": bodyText, "EventName": fmt.Sprintf("event %d", n%7),
		"ResourceSchemaUrl":  resourceURL,
		"ResourceAttributes": pairs{{"beta", "true"}, {"host.id", "7"}, {"ratio", "1.5"}, {"service.name", "checkout"}, {"zones", `["a","b"]`}},
		"ScopeSchemaUrl":     scopeURL, "ScopeName": "go", "ScopeVersion": "1.2", "ScopeAttributes": pairs{{"team", "pay"}},
		"LogAttributes": attributes, "DroppedAttrCount": 1, "ResourceDroppedAttrCount": 0, "ScopeDroppedAttrCount": 0,
	})
}

// bodyOf gives the body of a log and its text in the table.
func bodyOf(n int) (attribute.Value, string) {
	switch n % 7 {
	case 0:
		return attribute.StringValue("ümläut \"quoted\"\n"), "ümläut \"quoted\"\n"
	case 1:
		return attribute.IntValue(n), fmt.Sprint(n)
	case 2:
		return attribute.Float64Value(1.25), "1.25"
	case 3:
		return attribute.BoolValue(true), "true"
	case 4:
		return attribute.SliceValue(attribute.IntValue(1), attribute.StringValue("two"), attribute.Value{}), `[1,"two",null]`
	case 5:
		return attribute.MapValue(attribute.Map("a", attribute.Slice("b", attribute.Float64Value(1.5), attribute.BoolValue(false)))), `{"a":{"b":[1.5,false]}}`
	default:
		return attribute.ByteSliceValue([]byte("bytes")), text([]byte("bytes"))
	}
}

// text is how bytes stand in a text: in base64, as in JSON, without its quotes.
func text(value []byte) string {
	encoded, err := json.Marshal(value)
	check(err)
	return string(bytes.Trim(encoded, `"`))
}

func tell(row map[string]any) {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	check(encoder.Encode(row))
	_, err := os.Stdout.Write(line.Bytes())
	check(err)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "sdk:", err)
		os.Exit(1)
	}
}
