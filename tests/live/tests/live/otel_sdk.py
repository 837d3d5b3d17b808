"""What the OpenTelemetry SDK for Python sends, and what it was told to: one line of JSON for each row, `{"table": …, "row": …}`.

    python otel_sdk.py all grpc|http LOGS_URL TRACES_URL METRICS_URL     each kind of signal once, into the exporter's tables
    python otel_sdk.py batches grpc|http URL COUNT                       batches of logs, each exported until it is taken; a line for each taken
    python otel_sdk.py encrypted URL CA HEADERS [CERT KEY]               one log by gRPC over TLS; `ok`, or the code of the answer
    python otel_sdk.py reflect ADDRESS                                   a log by a client that knows no protocol but what reflection tells it

Rows are in the form of the decoder's corpus: times in nanoseconds, floats as their bits, maps as lists of pairs. They are made from what the program
told the SDK (of metrics: from the points that the SDK computed), never from the bytes that were sent.
"""

import json
import struct
import sys
import time

from opentelemetry import trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics import export as points
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.span import TraceState

RESOURCE = {"service.name": "checkout", "host.id": 7, "beta": True, "ratio": 1.5, "zones": ["a", "b"]}
RESOURCE_URL, SCOPE_URL = "https://example.com/resource", "https://example.com/scope"
SCOPE = {"team": "pay"}
START = 1_764_000_000_000_000_000


def text(value):
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def pairs(attributes):
    return [[key, text(list(value) if isinstance(value, tuple) else value)] for key, value in (attributes or {}).items()]


def bits(value):
    return struct.pack(">d", float(value)).hex()


def an_id(number, digits):
    return format(number, f"0{digits}x") if number else ""


def tell(table, row):
    print(json.dumps({"table": table, "row": row}))


def around(scope):
    return {
        "ServiceName": "checkout",
        "ResourceAttributes": pairs(RESOURCE),
        "ResourceSchemaUrl": RESOURCE_URL,
        "ScopeName": scope,
        "ScopeVersion": "1.2",
        "ScopeAttributes": pairs(SCOPE),
        "ScopeDroppedAttrCount": 0,
        "ScopeSchemaUrl": SCOPE_URL,
    }


def encrypted(url, ca, headers, cert=None, key=None):
    """One log by gRPC over TLS, with `name=value` metadata and perhaps a certificate of the client's. The exporter logs what it is answered, and a channel by hand says its code."""
    import grpc
    from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
    from opentelemetry.exporter.otlp.proto.grpc import _log_exporter
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
    from opentelemetry.sdk._logs.export import LogRecordExportResult

    def read(path):
        return open(path, "rb").read() if path else None

    metadata = tuple(tuple(pair.split("=", 1)) for pair in headers.split(",") if pair)
    credentials = grpc.ssl_channel_credentials(read(ca), read(key), read(cert))
    memory = InMemoryLogRecordExporter()
    provider = LoggerProvider(resource=Resource.create({"service.name": "encrypted"}))
    provider.add_log_record_processor(SimpleLogRecordProcessor(memory))
    provider.get_logger("tls").emit(LogRecord(timestamp=START, observed_timestamp=START, body=headers, severity_number=SeverityNumber.INFO))
    batch = memory.get_finished_logs()
    with grpc.secure_channel(url.removeprefix("https://"), credentials) as channel:
        try:
            LogsServiceStub(channel).Export(encode_logs(batch), metadata=metadata, timeout=60)
        except grpc.RpcError as error:
            return print(error.code().name)
    to = _log_exporter.OTLPLogExporter(endpoint=url, credentials=credentials, headers=metadata, timeout=60)
    print("ok" if to.export(batch) == LogRecordExportResult.SUCCESS else "failed")


def exporter(protocol, signal, url, **more):
    """The SDK's exporter, with gzip."""
    if protocol == "grpc":
        from grpc import Compression
        from opentelemetry.exporter.otlp.proto.grpc import _log_exporter as logs, metric_exporter as metrics, trace_exporter as traces

        more["insecure"] = True
    else:
        from opentelemetry.exporter.otlp.proto.http import Compression
        from opentelemetry.exporter.otlp.proto.http import _log_exporter as logs, metric_exporter as metrics, trace_exporter as traces
    kinds = {"logs": logs.__dict__.get("OTLPLogExporter"), "traces": traces.__dict__.get("OTLPSpanExporter")}
    kinds["metrics"] = metrics.__dict__.get("OTLPMetricExporter")
    return kinds[signal](endpoint=url, compression=Compression.Gzip, **more)


def logs(resource, to):
    provider = LoggerProvider(resource=resource)
    provider.add_log_record_processor(BatchLogRecordProcessor(to, max_queue_size=10_000))
    bodies = ["", "plain", "ümläut \"quoted\"\n", 42, 1.25, True, [1, "two", None], {"a": {"b": [1.5, False]}}]
    for scope in ("first", "second"):
        logger = provider.get_logger(scope, "1.2", SCOPE_URL, SCOPE)
        for n in range(1_500):
            at, body = START + n, bodies[n % len(bodies)]
            attributes = {"n": n, "name": f"log {n}", "list": [n, n + 1], "half": n + 0.5}
            context = SpanContext(n + 1, n + 2, False, TraceFlags(n % 2)) if n % 3 else None
            told = trace.set_span_in_context(trace.NonRecordingSpan(context)) if context else None
            severity = SeverityNumber(n % 24 + 1)
            record = LogRecord(
                timestamp=at if n % 5 else None,
                observed_timestamp=at + 9,
                context=told,
                severity_text=severity.name,
                severity_number=severity,
                body=body,
                attributes=attributes,
                event_name=f"event {n % 7}",
            )
            logger.emit(record)
            tell(
                "otel_logs",
                around(scope)
                | {
                    "Timestamp": at if n % 5 else at + 9,
                    "TraceId": an_id(context.trace_id, 32) if context else "",
                    "SpanId": an_id(context.span_id, 16) if context else "",
                    "TraceFlags": n % 2 if context else 0,
                    "SeverityText": severity.name,
                    "SeverityNumber": n % 24 + 1,
                    "Body": text(body),
                    "LogAttributes": pairs(attributes),
                    "EventName": f"event {n % 7}",
                },
            )
    provider.shutdown()


def traces(resource, to):
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(to, max_queue_size=10_000))
    words = {StatusCode.UNSET: "Unset", StatusCode.OK: "Ok", StatusCode.ERROR: "Error"}
    tracer = provider.get_tracer("spans", "1.2", SCOPE_URL, SCOPE)
    parent = None
    for n in range(1_500):
        begin, end = START + 1_000 * n, START + 1_000 * n + n
        kind, code = list(SpanKind)[n % 5], list(StatusCode)[n % 3]
        link = SpanContext(n + 1, n + 2, True, TraceFlags(1), TraceState([("vendor", f"v{n}")]))
        links = [Link(link, {"why": f"l{n}"})] if n % 2 else []
        context = trace.set_span_in_context(parent) if parent and n % 4 else None
        attributes = {"n": n, "ratio": n + 0.25, "tags": ["x", "y"]}
        span = tracer.start_span(f"span {n % 9}", context, kind, attributes, links, begin)
        events = [(f"e{i}", {"i": i}, begin + i) for i in range(n % 4)]
        for name, of_event, at in events:
            span.add_event(name, of_event, at)
        message = "it failed" if code is StatusCode.ERROR else ""
        span.set_status(Status(code, message or None))
        span.end(end)
        own, above = span.get_span_context(), span.parent
        tell(
            "otel_traces",
            around("spans")
            | {
                "Timestamp": begin,
                "TraceId": an_id(own.trace_id, 32),
                "SpanId": an_id(own.span_id, 16),
                "ParentSpanId": an_id(above.span_id, 16) if above else "",
                "TraceState": "",
                "SpanName": f"span {n % 9}",
                "SpanKind": kind.name.capitalize(),
                "SpanAttributes": pairs(attributes),
                "Duration": end - begin,
                "StatusCode": words[code],
                "StatusMessage": message,
                "Events.Timestamp": [at for _, _, at in events],
                "Events.Name": [name for name, _, _ in events],
                "Events.Attributes": [pairs(of_event) for _, of_event, _ in events],
                "Links.TraceId": [an_id(n + 1, 32) for _ in links],
                "Links.SpanId": [an_id(n + 2, 16) for _ in links],
                # The SDK has it and does not send it.
                "Links.TraceState": ["" for _ in links],
                "Links.Attributes": [pairs({"why": f"l{n}"}) for _ in links],
            },
        )
        parent = span
    provider.shutdown()


def metrics(resource, to):
    reader = points.InMemoryMetricReader()
    view = View(instrument_name="size", aggregation=ExponentialBucketHistogramAggregation())
    provider = MeterProvider([reader], resource, views=[view])
    meter = provider.get_meter("points", "1.2", SCOPE_URL, SCOPE)
    total, level, wait, size = (
        meter.create_counter("total", "1", "all of them"),
        meter.create_up_down_counter("level", "By", "up and down"),
        meter.create_histogram("wait", "ms", "time"),
        meter.create_histogram("size", "By", "bytes"),
    )
    meter.create_observable_gauge("heat", [lambda _: [points_of_heat]], "C", "warmth")
    from opentelemetry.metrics import Observation

    points_of_heat = Observation(21.5, {"room": "a"})
    spans = TracerProvider()
    for n in range(500):
        attributes = {"shard": n % 50, "zone": f"z{n % 3}"}
        with spans.get_tracer("x").start_as_current_span("within"):
            total.add(n, attributes)
            level.add(5 - n % 11, attributes)
            wait.record(n * 1.5, attributes)
            size.record(2.0 ** (n % 40) if n % 10 else 0, attributes)
    data = reader.get_metrics_data()
    kinds = set()
    for metric in data.resource_metrics[0].scope_metrics[0].metrics:
        for point in metric.data.data_points:
            kinds.add(tell_point(metric, point))
    # What was added, counted apart from the SDK.
    sums = {m.name: sum(getattr(p, "value", 0) or getattr(p, "sum", 0) for p in m.data.data_points) for m in data.resource_metrics[0].scope_metrics[0].metrics}
    assert sums["total"] == sum(range(500)) and sums["wait"] == 1.5 * sum(range(500)), sums
    assert len(kinds) == 4, kinds
    result = to.export(data)
    assert result is points.MetricExportResult.SUCCESS, result
    to.shutdown()
    provider.shutdown()


def tell_point(metric, point):
    data, exemplars = metric.data, list(getattr(point, "exemplars", []))
    kind = {
        points.Gauge: "gauge",
        points.Sum: "sum",
        points.Histogram: "histogram",
        points.ExponentialHistogram: "exponential_histogram",
    }[type(data)]
    row = around("points") | {
        "MetricName": metric.name,
        "MetricDescription": metric.description,
        "MetricUnit": metric.unit,
        "Attributes": pairs(point.attributes),
        "StartTimeUnix": point.start_time_unix_nano or 0,
        "TimeUnix": point.time_unix_nano,
        "Flags": 0,
        "Exemplars.FilteredAttributes": [pairs(each.filtered_attributes) for each in exemplars],
        "Exemplars.TimeUnix": [each.time_unix_nano for each in exemplars],
        "Exemplars.Value": [bits(each.value) for each in exemplars],
        "Exemplars.SpanId": [an_id(each.span_id, 16) for each in exemplars],
        "Exemplars.TraceId": [an_id(each.trace_id, 32) for each in exemplars],
    }
    if kind != "gauge":
        row["AggregationTemporality"] = data.aggregation_temporality.value
    if kind in ("gauge", "sum"):
        row["Value"] = bits(point.value)
        row["IsMonotonic"] = getattr(data, "is_monotonic", None)
    else:
        row |= {"Count": point.count, "Sum": bits(point.sum), "Min": bits(point.min), "Max": bits(point.max)}
    if kind == "histogram":
        row |= {"BucketCounts": list(point.bucket_counts), "ExplicitBounds": [bits(bound) for bound in point.explicit_bounds]}
    if kind == "exponential_histogram":
        row |= {"Scale": point.scale, "ZeroCount": point.zero_count}
        for name in ("positive", "negative"):
            buckets = getattr(point, name)
            row[f"{name.capitalize()}Offset"] = buckets.offset
            row[f"{name.capitalize()}BucketCounts"] = list(buckets.bucket_counts)
    tell(f"otel_metrics_{kind}", row)
    return kind


def batches(protocol, url, count):
    """Batches of 20 logs with numbers, each exported until it is taken. The exporter itself sends again what may be sent again."""
    made = InMemoryLogRecordExporter()
    provider = LoggerProvider(resource=Resource(RESOURCE))
    provider.add_log_record_processor(SimpleLogRecordProcessor(made))
    logger = provider.get_logger("batches")
    to = exporter(protocol, "logs", url, timeout=60)
    for batch in range(count):
        made.clear()
        for n in range(20):
            logger.emit(LogRecord(timestamp=START + batch, body="x", attributes={"id": 20 * batch + n}))
        while to.export(made.get_finished_logs()).name != "SUCCESS":
            time.sleep(0.05)
        print(batch, flush=True)


def reflect(address):
    """Nothing of OTLP is imported here: services, methods and messages are those that the server describes. Prints a line of JSON for each thing found."""
    import grpc
    from google.protobuf import descriptor_pool, message_factory
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

    with grpc.insecure_channel(address) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        pool = descriptor_pool.DescriptorPool(database)
        services = sorted(database.get_services())
        found = {name: [method.name for method in pool.FindServiceByName(name).methods] for name in services}
        print(json.dumps(found))

        def call(service, name, kind="unary_unary"):
            method = pool.FindServiceByName(service).FindMethodByName(name)
            message = message_factory.GetMessageClass
            asking = message(method.input_type)
            made = getattr(channel, kind)(
                f"/{service}/{name}",
                request_serializer=asking.SerializeToString,
                response_deserializer=message(method.output_type).FromString,
            )
            return asking(), made

        question, watch = call("grpc.health.v1.Health", "Watch", "unary_stream")
        watching = watch(question, timeout=30)
        print(json.dumps({"health": next(watching).status}))
        watching.cancel()
        question, listed = call("grpc.health.v1.Health", "List")
        print(json.dumps({name: each.status for name, each in sorted(listed(question, timeout=30).statuses.items())}))
        request, export = call("opentelemetry.proto.collector.logs.v1.LogsService", "Export")
        log = request.resource_logs.add().scope_logs.add().log_records.add()
        log.time_unix_nano, log.severity_text, log.body.string_value = START, "INFO", "by reflection"
        export(request, timeout=30)


if __name__ == "__main__":
    if sys.argv[1] == "batches":
        batches(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    elif sys.argv[1] == "encrypted":
        encrypted(*sys.argv[2:])
    elif sys.argv[1] == "reflect":
        reflect(sys.argv[2])
    else:
        protocol, urls = sys.argv[2], sys.argv[3:]
        of_all = Resource(RESOURCE, RESOURCE_URL)
        for signal, url in zip((logs, traces, metrics), urls):
            signal(of_all, exporter(protocol, signal.__name__, url, timeout=60))
