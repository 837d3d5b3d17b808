"""Writes corpus.jsonl: requests of OTLP and the rows that are in them, read by the classes of the package opentelemetry-proto.

    pip install opentelemetry-proto==1.45.2 && python corpus.py > corpus.jsonl

Each line has `signal`, `request` (hexadecimal), `time_ms` (the record's time in its source) and `rows`, each an object by column. Floats are their
bits in hexadecimal, maps are lists of pairs, times are nanoseconds. Some have `json`, the same request in JSON.
"""

import base64
import json
import random
import struct
from decimal import Decimal

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest as Logs
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest as Metrics
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest as Traces

R = random.Random(20261124)
SECOND = 1_764_000_000


# Text of values, written from the table in value.rs.
def double(x):
    if x != x:
        return "NaN"
    if x in (float("inf"), float("-inf")):
        return "Infinity" if x > 0 else "-Infinity"
    sign, digits, exponent = Decimal(repr(x)).as_tuple()
    if x == 0 or 1e-6 <= abs(x) < 1e21:
        text = format(Decimal(repr(x)), "f")
        return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"
    digits = list(digits)
    while len(digits) > 1 and digits[-1] == 0:
        digits.pop()
        exponent += 1
    power = exponent + len(digits) - 1
    mantissa = str(digits[0]) + ("." + "".join(map(str, digits[1:])) if len(digits) > 1 else "")
    return f"{'-' if sign else ''}{mantissa}e{'+' if power >= 0 else '-'}{abs(power)}"


def quoted(text):
    out = '"'
    for c in text:
        if c in '"\\':
            out += "\\" + c
        elif c in "\n\r\t":
            out += {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[c]
        elif ord(c) < 0x20:
            out += f"\\u{ord(c):04x}"
        else:
            out += c
    return out + '"'


def as_json(value):
    kind = value.WhichOneof("value")
    if kind is None:
        return "null"
    if kind == "string_value":
        return quoted(value.string_value)
    if kind == "bool_value":
        return "true" if value.bool_value else "false"
    if kind == "int_value":
        return str(value.int_value)
    if kind == "double_value":
        text = double(value.double_value)
        return quoted(text) if text in ("NaN", "Infinity", "-Infinity") else text
    if kind == "bytes_value":
        return quoted(base64.b64encode(value.bytes_value).decode())
    if kind == "array_value":
        return "[" + ",".join(as_json(item) for item in value.array_value.values) + "]"
    return "{" + ",".join(quoted(pair.key) + ":" + as_json(pair.value) for pair in value.kvlist_value.values) + "}"


def as_text(value):
    kind = value.WhichOneof("value")
    if kind is None:
        return ""
    if kind == "string_value":
        return value.string_value
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    if kind == "double_value":
        return double(value.double_value)
    return as_json(value)


def bits(x):
    return struct.pack(">d", float(x)).hex()


def pairs(attributes):
    return [[pair.key, as_text(pair.value)] for pair in attributes]


def service(resource):
    return next((as_text(pair.value) for pair in resource.attributes if pair.key == "service.name"), "")


def an_id(value):
    return value.hex() if any(value) else ""


def around(of_resource, of_scope):
    resource, scope = of_resource.resource, of_scope.scope
    return {
        "ServiceName": service(resource),
        "ResourceAttributes": pairs(resource.attributes),
        "ResourceSchemaUrl": of_resource.schema_url,
        "ResourceDroppedAttrCount": resource.dropped_attributes_count,
        "ScopeName": scope.name,
        "ScopeVersion": scope.version,
        "ScopeAttributes": pairs(scope.attributes),
        "ScopeDroppedAttrCount": scope.dropped_attributes_count,
        "ScopeSchemaUrl": of_scope.schema_url,
    }


def log_rows(request, time_ns):
    for group in request.resource_logs:
        for inner in group.scope_logs:
            for log in inner.log_records:
                yield {
                    "Timestamp": log.time_unix_nano or log.observed_time_unix_nano or time_ns,
                    "ObservedTimestamp": log.observed_time_unix_nano,
                    "TraceId": an_id(log.trace_id),
                    "SpanId": an_id(log.span_id),
                    "TraceFlags": log.flags & 0xFF,
                    "Flags": log.flags,
                    "SeverityText": log.severity_text,
                    "SeverityNumber": log.severity_number,
                    "Body": as_text(log.body),
                    "LogAttributes": pairs(log.attributes),
                    "DroppedAttrCount": log.dropped_attributes_count,
                    "EventName": log.event_name,
                    **around(group, inner),
                }


KINDS = ["Unspecified", "Internal", "Server", "Client", "Producer", "Consumer"]
CODES = ["Unset", "Ok", "Error"]


def span_rows(request, time_ns):
    for group in request.resource_spans:
        for inner in group.scope_spans:
            for span in inner.spans:
                start, end = span.start_time_unix_nano, span.end_time_unix_nano
                kind = span.kind
                yield {
                    "Timestamp": start or end or time_ns,
                    "EndTimestamp": end,
                    "Duration": max(0, end - start) if start else 0,
                    "TraceId": an_id(span.trace_id),
                    "SpanId": an_id(span.span_id),
                    "ParentSpanId": an_id(span.parent_span_id),
                    "TraceState": span.trace_state,
                    "TraceFlags": span.flags & 0xFF,
                    "Flags": span.flags,
                    "SpanName": span.name,
                    "SpanKind": KINDS[kind] if 0 <= kind < len(KINDS) else str(kind),
                    "SpanAttributes": pairs(span.attributes),
                    "DroppedAttrCount": span.dropped_attributes_count,
                    "DroppedEventsCount": span.dropped_events_count,
                    "DroppedLinksCount": span.dropped_links_count,
                    "StatusCode": CODES[span.status.code],
                    "StatusMessage": span.status.message,
                    "Events.Timestamp": [event.time_unix_nano for event in span.events],
                    "Events.Name": [event.name for event in span.events],
                    "Events.Attributes": [pairs(event.attributes) for event in span.events],
                    "Events.DroppedAttrCount": [event.dropped_attributes_count for event in span.events],
                    "Links.TraceId": [an_id(link.trace_id) for link in span.links],
                    "Links.SpanId": [an_id(link.span_id) for link in span.links],
                    "Links.TraceState": [link.trace_state for link in span.links],
                    "Links.Attributes": [pairs(link.attributes) for link in span.links],
                    "Links.DroppedAttrCount": [link.dropped_attributes_count for link in span.links],
                    "Links.Flags": [link.flags for link in span.links],
                    **around(group, inner),
                }


def number(point, as_int, as_double):
    kind = point.WhichOneof("value")
    return bits(point.as_int if kind == "as_int" else point.as_double)


def exemplars(point):
    found = point.exemplars
    return {
        "Exemplars.FilteredAttributes": [pairs(one.filtered_attributes) for one in found],
        "Exemplars.TimeUnix": [one.time_unix_nano for one in found],
        "Exemplars.Value": [number(one, 6, 3) for one in found],
        "Exemplars.SpanId": [an_id(one.span_id) for one in found],
        "Exemplars.TraceId": [an_id(one.trace_id) for one in found],
    }


def empty_point():
    zero = bits(0)
    return {
        "Value": zero,
        "AggregationTemporality": 0,
        "IsMonotonic": False,
        "Count": 0,
        "Sum": None,
        "Min": None,
        "Max": None,
        "BucketCounts": [],
        "ExplicitBounds": [],
        "Scale": 0,
        "ZeroCount": 0,
        "ZeroThreshold": zero,
        "PositiveOffset": 0,
        "PositiveBucketCounts": [],
        "NegativeOffset": 0,
        "NegativeBucketCounts": [],
        "ValueAtQuantiles.Quantile": [],
        "ValueAtQuantiles.Value": [],
        "Exemplars.FilteredAttributes": [],
        "Exemplars.TimeUnix": [],
        "Exemplars.Value": [],
        "Exemplars.SpanId": [],
        "Exemplars.TraceId": [],
    }


def maybe(point, name):
    return bits(getattr(point, name)) if point.HasField(name) else None


def point_rows(request, time_ns):
    for group in request.resource_metrics:
        for inner in group.scope_metrics:
            for metric in inner.metrics:
                kind = metric.WhichOneof("data")
                if kind is None:
                    continue
                data = getattr(metric, kind)
                for point in data.data_points:
                    row = {
                        **empty_point(),
                        "MetricType": kind,
                        "MetricName": metric.name,
                        "MetricDescription": metric.description,
                        "MetricUnit": metric.unit,
                        "MetricMetadata": pairs(metric.metadata),
                        "Attributes": pairs(point.attributes),
                        "StartTimeUnix": point.start_time_unix_nano,
                        "TimeUnix": point.time_unix_nano or time_ns,
                        "Flags": point.flags,
                        **around(group, inner),
                    }
                    if kind in ("gauge", "sum"):
                        row["Value"] = number(point, 6, 4)
                    if kind in ("sum", "histogram", "exponential_histogram"):
                        row["AggregationTemporality"] = data.aggregation_temporality
                    if kind == "sum":
                        row["IsMonotonic"] = data.is_monotonic
                    if kind in ("histogram", "exponential_histogram"):
                        row |= {name: maybe(point, name.lower()) for name in ("Sum", "Min", "Max")}
                    if kind in ("histogram", "exponential_histogram", "summary"):
                        row["Count"] = point.count
                    if kind == "histogram":
                        row["BucketCounts"] = list(point.bucket_counts)
                        row["ExplicitBounds"] = [bits(bound) for bound in point.explicit_bounds]
                    if kind == "exponential_histogram":
                        row |= {
                            "Scale": point.scale,
                            "ZeroCount": point.zero_count,
                            "ZeroThreshold": bits(point.zero_threshold),
                            "PositiveOffset": point.positive.offset,
                            "PositiveBucketCounts": list(point.positive.bucket_counts),
                            "NegativeOffset": point.negative.offset,
                            "NegativeBucketCounts": list(point.negative.bucket_counts),
                        }
                    if kind == "summary":
                        row["Sum"] = bits(point.sum)
                        row["ValueAtQuantiles.Quantile"] = [bits(one.quantile) for one in point.quantile_values]
                        row["ValueAtQuantiles.Value"] = [bits(one.value) for one in point.quantile_values]
                    else:
                        row |= exemplars(point)
                    yield row


# Requests.
WORDS = ["", "a", "service.name", "http.method", "ключ", "naïve ✓", 'quo"te\\', "line\nbreak\ttab", "\x01\x1f", "x" * 130]


def word():
    return R.choice(WORDS)


def big():
    return R.choice([0, 1, 127, 128, 300, 2**31 - 1, 2**32 - 1])


def when():
    return R.choice([0, SECOND * 10**9 + R.randrange(10**9), 1, 2**63 - 1 if R.random() < 0.0 else 4 * 10**18])


def fill_any(value, depth=0):
    kind = R.randrange(9 if depth < 4 else 6)
    if kind == 0:
        value.string_value = word()
    elif kind == 1:
        value.bool_value = R.random() < 0.5
    elif kind == 2:
        value.int_value = R.choice([0, 1, -1, 2**63 - 1, -(2**63), 42])
    elif kind == 3:
        value.double_value = R.choice(
            [0.0, -0.5, 1.5, 1e-7, 1.25e-9, 1e21, 1e300, 123456789012345680000.0, 1e-6, 5e-324, 0.1, 3.0, float("nan"), float("inf"), float("-inf")]
        )
    elif kind == 4:
        value.bytes_value = bytes(R.randrange(256) for _ in range(R.randrange(6)))
    elif kind == 5:
        pass
    elif kind in (6, 7):
        value.array_value.SetInParent()
        for _ in range(R.randrange(4)):
            fill_any(value.array_value.values.add(), depth + 1)
    else:
        value.kvlist_value.SetInParent()
        for _ in range(R.randrange(4)):
            fill_pair(value.kvlist_value.values.add(), depth + 1)


def fill_pair(pair, depth=0):
    pair.key = word()
    if R.random() < 0.9:
        fill_any(pair.value, depth)


def fill_attributes(attributes):
    for _ in range(R.randrange(4)):
        fill_pair(attributes.add())


def id_of(size):
    return R.choice([b"", bytes(size), bytes(R.randrange(256) for _ in range(size)), b"\x01" + bytes(size - 1), b"\x0f"])


def fill_around(group, inner):
    if R.random() < 0.9:
        fill_attributes(group.resource.attributes)
        if R.random() < 0.7:
            pair = group.resource.attributes.add()
            pair.key = "service.name"
            fill_any(pair.value) if R.random() < 0.2 else setattr(pair.value, "string_value", "checkout")
        group.resource.dropped_attributes_count = big()
    group.schema_url = R.choice(["", "https://opentelemetry.io/schemas/1.30.0"])
    if R.random() < 0.9:
        inner.scope.name, inner.scope.version = word(), word()
        fill_attributes(inner.scope.attributes)
        inner.scope.dropped_attributes_count = big()
    inner.schema_url = R.choice(["", "https://example.com/schema"])


def a_log(log):
    log.time_unix_nano, log.observed_time_unix_nano = when(), when()
    log.severity_number, log.severity_text = R.randrange(25), word()
    if R.random() < 0.9:
        fill_any(log.body)
    fill_attributes(log.attributes)
    log.dropped_attributes_count, log.flags = big(), big()
    log.trace_id, log.span_id, log.event_name = id_of(16), id_of(8), word()


def a_span(span):
    span.trace_id, span.span_id, span.parent_span_id = id_of(16), id_of(8), id_of(8)
    span.trace_state, span.name, span.kind = word(), word(), R.randrange(6)
    span.start_time_unix_nano, span.end_time_unix_nano = when(), when()
    fill_attributes(span.attributes)
    for _ in range(R.randrange(3)):
        event = span.events.add(time_unix_nano=when(), name=word(), dropped_attributes_count=big())
        fill_attributes(event.attributes)
    for _ in range(R.randrange(3)):
        link = span.links.add(
            trace_id=id_of(16), span_id=id_of(8), trace_state=word(), dropped_attributes_count=big(), flags=big()
        )
        fill_attributes(link.attributes)
    span.dropped_attributes_count, span.dropped_events_count, span.dropped_links_count = big(), big(), big()
    if R.random() < 0.7:
        span.status.message, span.status.code = word(), R.randrange(3)
    span.flags = big()


def a_float():
    return R.choice([0.0, 1.5, -2.25, 1e300, float("inf"), 0.1])


def fill_point(point, has_exemplars=True):
    fill_attributes(point.attributes)
    point.start_time_unix_nano, point.time_unix_nano, point.flags = when(), when(), R.randrange(2)
    for _ in range(R.randrange(3) if has_exemplars else 0):
        one = point.exemplars.add(time_unix_nano=when(), span_id=id_of(8), trace_id=id_of(16))
        fill_attributes(one.filtered_attributes)
        a_number(one)


def a_number(point):
    kind = R.randrange(3)
    if kind == 0:
        point.as_int = R.choice([0, -1, 2**53, 7])
    elif kind == 1:
        point.as_double = a_float()


def counts():
    return [R.choice([0, 1, 200, 2**40, 2**63 - 1]) for _ in range(R.randrange(5))]


def a_metric(metric):
    metric.name, metric.description, metric.unit = word(), word(), R.choice(["", "By", "s"])
    fill_attributes(metric.metadata)
    kind = R.choice(["gauge", "sum", "histogram", "exponential_histogram", "summary", None])
    if kind is None:
        return
    data = getattr(metric, kind)
    data.SetInParent()
    if kind in ("sum", "histogram", "exponential_histogram"):
        data.aggregation_temporality = R.randrange(3)
    if kind == "sum":
        data.is_monotonic = R.random() < 0.5
    for _ in range(R.randrange(4)):
        point = data.data_points.add()
        fill_point(point, kind != "summary")
        if kind in ("gauge", "sum"):
            a_number(point)
            continue
        point.count = R.choice([0, 5, 2**63 - 1])
        if kind == "summary":
            point.sum = a_float()
            for _ in range(R.randrange(3)):
                point.quantile_values.add(quantile=R.random(), value=a_float())
            continue
        for name in ("sum", "min", "max"):
            if R.random() < 0.6:
                setattr(point, name, a_float())
        if kind == "histogram":
            point.bucket_counts.extend(counts())
            point.explicit_bounds.extend(a_float() for _ in range(R.randrange(4)))
        else:
            point.scale, point.zero_count, point.zero_threshold = R.randrange(-10, 21), big(), a_float()
            for side in (point.positive, point.negative):
                if R.random() < 0.8:
                    side.offset = R.randrange(-300, 300)
                    side.bucket_counts.extend(counts())


def a_request(signal):
    request = {"logs": Logs, "traces": Traces, "metrics": Metrics}[signal]()
    groups = {"logs": "resource_logs", "traces": "resource_spans", "metrics": "resource_metrics"}[signal]
    inners = {"logs": "scope_logs", "traces": "scope_spans", "metrics": "scope_metrics"}[signal]
    things = {"logs": "log_records", "traces": "spans", "metrics": "metrics"}[signal]
    fill = {"logs": a_log, "traces": a_span, "metrics": a_metric}[signal]
    for _ in range(R.choice([0, 1, 1, 2, 3])):
        group = getattr(request, groups).add()
        for _ in range(R.choice([0, 1, 1, 2])):
            inner = getattr(group, inners).add()
            fill_around(group, inner)
            for _ in range(R.randrange(4)):
                fill(getattr(inner, things).add())
    return request


def with_hex_ids(value):
    """The protocol's one difference from the usual JSON of messages."""
    if isinstance(value, list):
        return [with_hex_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {k: base64.b64decode(v).hex() if k in ids else with_hex_ids(v) for k, v in value.items()}


def main():
    rows = {"logs": log_rows, "traces": span_rows, "metrics": point_rows}
    for n in range(60):
        signal = ("logs", "traces", "metrics")[n % 3]
        data = a_request(signal).SerializeToString()
        time_ms = SECOND * 1000 + n if n % 5 else -1
        known = type(a_request(signal)).FromString(data)
        line = {
            "signal": signal,
            "request": data.hex(),
            "time_ms": time_ms,
            "rows": list(rows[signal](known, max(time_ms, 0) * 10**6)),
        }
        if n < 24:
            line["json"] = json.dumps(with_hex_ids(MessageToDict(known, use_integers_for_enums=True)), ensure_ascii=n % 2 == 0)
        print(json.dumps(line, ensure_ascii=False))


main()
