"""The attributes of requests of OTLP as objects, read by the classes of the package opentelemetry-proto.

    python otlp_objects.py corpus.jsonl

For each line of the corpus a line: a list with an object for each row, in the corpus's order. By the column's name it has the attributes as an object (or
a list of them) under `objects`, their paths under `keys`, and under `twice` the columns in which two values have one key or path.
"""

import base64
import json
import sys

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest as Logs
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest as Metrics
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest as Traces


class Twice(Exception):
    pass


def value(of):
    kind = of.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [value(item) for item in of.array_value.values]
    if kind == "kvlist_value":
        return pairs(of.kvlist_value.values)
    found = getattr(of, kind)
    if kind == "bytes_value":
        return base64.b64encode(found).decode()
    if kind == "double_value" and (found != found or found in (float("inf"), float("-inf"))):
        return "NaN" if found != found else "Infinity" if found > 0 else "-Infinity"
    return found


def pairs(attributes):
    found = {}
    for pair in attributes:
        if pair.key in found:
            raise Twice
        found[pair.key] = value(pair.value)
    return found


def values_at(found, prefix, paths):
    """Two values at one path: `a.b` beside a `b` within `a`. Objects in arrays have paths of their own."""
    for key, one in found.items():
        path = key if prefix is None else f"{prefix}.{key}"
        if isinstance(one, dict):
            values_at(one, path, paths)
        elif one is not None:
            if path in paths:
                raise Twice
            paths.add(path)
            in_arrays(one)


def in_arrays(one):
    for item in one if isinstance(one, list) else []:
        if isinstance(item, dict):
            values_at(item, None, set())
        in_arrays(item)


def an_object(attributes):
    found = pairs(attributes)
    values_at(found, None, set())
    return found


def keys(attributes, prefix=""):
    for pair in attributes:
        path = f"{prefix}.{pair.key}" if prefix else pair.key
        if pair.value.WhichOneof("value") == "kvlist_value":
            yield from keys(pair.value.kvlist_value.values, path)
        else:
            yield path


def row(single, several):
    found = {"objects": {}, "keys": {}, "twice": []}
    for name, attributes in single.items():
        found["keys"][name + "Keys"] = sorted(set(keys(attributes)), key=lambda path: path.encode())
        try:
            found["objects"][name] = an_object(attributes)
        except Twice:
            found["twice"].append(name)
    for name, lists in several.items():
        try:
            found["objects"][name] = [an_object(attributes) for attributes in lists]
        except Twice:
            found["twice"].append(name)
    return found


def around(group, inner):
    return {"ResourceAttributes": group.resource.attributes, "ScopeAttributes": inner.scope.attributes}


def rows(signal, data):
    if signal == "logs":
        for group in Logs.FromString(data).resource_logs:
            for inner in group.scope_logs:
                for log in inner.log_records:
                    yield row({"LogAttributes": log.attributes, **around(group, inner)}, {})
    elif signal == "traces":
        for group in Traces.FromString(data).resource_spans:
            for inner in group.scope_spans:
                for span in inner.spans:
                    several = {
                        "Events.Attributes": [event.attributes for event in span.events],
                        "Links.Attributes": [link.attributes for link in span.links],
                    }
                    yield row({"SpanAttributes": span.attributes, **around(group, inner)}, several)
    else:
        for group in Metrics.FromString(data).resource_metrics:
            for inner in group.scope_metrics:
                for metric in inner.metrics:
                    kind = metric.WhichOneof("data")
                    for point in getattr(metric, kind).data_points if kind else []:
                        exemplars = [] if kind == "summary" else [one.filtered_attributes for one in point.exemplars]
                        several = {"Exemplars.FilteredAttributes": exemplars}
                        yield row({"Attributes": point.attributes, **around(group, inner)}, several)


for line in open(sys.argv[1], encoding="utf-8"):
    line = json.loads(line)
    print(json.dumps(list(rows(line["signal"], bytes.fromhex(line["request"])))))
