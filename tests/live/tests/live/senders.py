"""Sends by other people's clients to a gateway: `senders.py HTTP_PORT SYSLOG_PORT TLS_PORT CA_FILE`.

Every record says who sent it and has a number, so that the tables can be compared with what was sent. Fails with a traceback if a client does not take the
gateway's answers for those of the server that it was written for.
"""

import gzip
import json
import logging
import logging.handlers
import socket
import ssl
import subprocess
import sys
import urllib.request

import cramjam
import logging_loki
from elasticsearch import Elasticsearch, helpers
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

HTTP, SYSLOG, TLS, CA = sys.argv[1:5]
COUNT = 200
URL = f"http://127.0.0.1:{HTTP}"
NANOS = 1_700_000_000_000_000_000


def elasticsearch():
    client = Elasticsearch(URL, request_timeout=60)
    assert client.info()["version"]["number"].startswith("8."), client.info()
    # Ids, which a library sends as they are given: texts, numbers, or none. They name nothing here, and are answered.
    ids = lambda n: [{"_id": f"doc-{n}"}, {"_id": n}, {}][n % 3]
    actions = (ids(n) | {"_index": "docs", "_source": {"sender": "elasticsearch", "n": n, "text": f"gr\u00fcn {n}"}} for n in range(COUNT))
    done, errors = helpers.bulk(client, actions, chunk_size=70)
    assert (done, errors) == (COUNT, []), (done, errors)
    done, errors = helpers.bulk(client, [{"_index": "absent", "n": 1}], raise_on_error=False)
    assert done == 0 and errors[0]["index"]["status"] == 404, errors


def loki_handler():
    logger = logging.getLogger("loki")
    logger.setLevel(logging.INFO)
    handler = logging_loki.LokiHandler(url=f"{URL}/loki/api/v1/push", tags={"app": "shop", "sender": "logging_loki"}, version="1")
    # Its own answer to an error is to print it.
    handler.handleError = lambda record: (_ for _ in ()).throw(sys.exc_info()[1])
    logger.addHandler(handler)
    for n in range(20):
        logger.info("line %d \"quoted\"", n, extra={"tags": {"n": str(n)}})


def messages(name, fields):
    """A class for each message of a file: `fields` has number, name, type and label of each field."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package=name, syntax="proto3")
    for message, members in fields.items():
        described = file.message_type.add(name=message)
        for number, field, kind in members:
            repeated, kind = kind.startswith("*"), kind.lstrip("*")
            one = described.field.add(name=field, number=number, label=3 if repeated else 1)
            types = {"double": 1, "int64": 3, "uint64": 4, "int32": 5, "string": 9, "uint32": 13, "sint32": 17, "sint64": 18}
            if kind in types:
                one.type = types[kind]
            else:
                one.type, one.type_name = 11, f".{name}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {message: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{name}.{message}")) for message in fields}


def post(path, body, **headers):
    request = urllib.request.Request(URL + path, data=body, headers={name.replace("_", "-"): value for name, value in headers.items()})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.status, dict(answer.headers), answer.read()


def snappy(message):
    return bytes(cramjam.snappy.compress_raw(message.SerializeToString()))


def loki_protobuf():
    loki = messages("logproto", {
        "Timestamp": [(1, "seconds", "int64"), (2, "nanos", "int32")],
        "Pair": [(1, "name", "string"), (2, "value", "string")],
        "Entry": [(1, "timestamp", "Timestamp"), (2, "line", "string"), (3, "metadata", "*Pair")],
        "Stream": [(1, "labels", "string"), (2, "entries", "*Entry"), (3, "hash", "uint64")],
        "Push": [(1, "streams", "*Stream")],
    })
    push = loki["Push"]()
    stream = push.streams.add(labels='{app="shop", sender="protobuf"}', hash=7)
    for n in range(COUNT):
        time = NANOS + n
        entry = stream.entries.add(line=f"line {n} \"quoted\"")
        entry.timestamp.seconds, entry.timestamp.nanos = divmod(time, 1_000_000_000)
        entry.metadata.add(name="n", value=str(n))
    assert post("/loki/api/v1/push", snappy(push), Content_Type="application/x-protobuf")[0] == 204


def remote_write():
    parts = {
        "Label": [(1, "name", "string"), (2, "value", "string")],
        "Span": [(1, "offset", "sint32"), (2, "length", "uint32")],
        "Histogram": [(1, "count_int", "uint64"), (3, "sum", "double"), (4, "schema", "sint32"), (11, "positive_spans", "*Span"),
                      (12, "positive_deltas", "*sint64"), (15, "timestamp", "int64")],
        "Sample": [(1, "value", "double"), (2, "timestamp", "int64")],
    }
    one = messages("one", parts | {
        "Series": [(1, "labels", "*Label"), (2, "samples", "*Sample"), (4, "histograms", "*Histogram")],
        "Write": [(1, "timeseries", "*Series")],
    })
    two = messages("two", parts | {
        "Series": [(1, "refs", "*uint32"), (2, "samples", "*Sample"), (3, "histograms", "*Histogram")],
        "Write": [(4, "symbols", "*string"), (5, "timeseries", "*Series")],
    })
    for version, kinds in (("1", one), ("2", two)):
        write = kinds["Write"]()
        if version == "2":
            write.symbols.extend(["", "__name__", "hits", "sender", "2", "n"] + [str(n) for n in range(COUNT)])
        for n in range(COUNT):
            series = write.timeseries.add()
            if version == "2":
                series.refs.extend([1, 2, 5, 6 + n, 3, 4])
            else:
                for name, value in (("__name__", "hits"), ("n", str(n)), ("sender", "1")):
                    series.labels.add(name=name, value=value)
            series.samples.add(value=n + 0.1, timestamp=1_700_000_000_000 + n)
            if n % 10 == 0:
                histogram = series.histograms.add(count_int=7, sum=float(n), schema=2, timestamp=1_700_000_000_000 + n)
                histogram.positive_spans.add(offset=-1, length=2)
                histogram.positive_spans.add(offset=3, length=1)
                histogram.positive_deltas.extend([2, 1, -1])
        media = "application/x-protobuf" + (";proto=io.prometheus.write.v2.Request" if version == "2" else "")
        status, headers, _ = post("/api/v1/write", snappy(write), Content_Type=media, Content_Encoding="snappy")
        assert status == 204, status
        counts = [headers.get(f"X-Prometheus-Remote-Write-{what}-Written".lower()) for what in ("Samples", "Histograms", "Exemplars")]
        assert counts == ([str(COUNT), str(COUNT // 10), "0"] if version == "2" else [None] * 3), headers


def posts():
    """What Vector's and Fluent Bit's HTTP outputs send: lines or an array of objects, compressed or not."""
    def lines(sender, numbers):
        return "".join(json.dumps({"sender": sender, "n": n}) + "\n" for n in numbers).encode()
    path = "/v1/streams/events"
    # Vector: `framing.method: newline_delimited`, `encoding.codec: json`, with `compression: gzip`; and its default, an array.
    post(path, gzip.compress(lines("vector", range(COUNT // 2))), Content_Type="application/x-ndjson", Content_Encoding="gzip")
    array = json.dumps([{"sender": "vector", "n": n} for n in range(COUNT // 2, COUNT)]).encode()
    post(path, array, Content_Type="application/json")
    # Fluent Bit: `format json_lines` and `format json`, whose times are floats of seconds, and its `es` output with its action lines.
    post(path, lines("fluent-bit", range(COUNT // 2)), Content_Type="application/x-ndjson")
    array = json.dumps([{"date": 1700000000.25, "sender": "fluent-bit", "n": n} for n in range(COUNT // 2, COUNT)]).encode()
    post(path, array, Content_Type="application/json")
    bulk = b"".join(b'{"create":{"_index":"docs"}}\n' + lines("fluent-bit", [n]) for n in range(COUNT))
    answer = json.loads(post("/_bulk", bulk, Content_Type="application/x-ndjson")[2])
    assert answer["errors"] is False and len(answer["items"]) == COUNT


def syslog():
    address = ("127.0.0.1", int(SYSLOG))
    for sender, kind in (("python-udp", socket.SOCK_DGRAM), ("python-tcp", socket.SOCK_STREAM)):
        logger = logging.getLogger(sender)
        logger.setLevel(logging.INFO)
        handler = logging.handlers.SysLogHandler(address=address, facility="local3", socktype=kind)
        handler.ident = f"{sender} "
        logger.addHandler(handler)
        for n in range(COUNT):
            logger.warning("%d gr\u00fcn", n)
        handler.close()
    # util-linux: RFC 5424 by default, each way that its option has.
    base = ["logger", "--server", "127.0.0.1", "--port", SYSLOG, "--priority", "auth.crit", "--tag"]
    for sender, options in (
        ("logger-udp", ["--udp"]),
        ("logger-tcp", ["--tcp"]),
        ("logger-counted", ["--tcp", "--octet-count"]),
        ("logger-old", ["--tcp", "--rfc3164"]),
    ):
        text = "\n".join(f"{n} text" for n in range(20))
        data = ["--sd-id", "test@1", "--sd-param", 'a="b"'] if sender == "logger-counted" else []
        subprocess.run(base + [sender] + options + data, input=text.encode(), check=True, timeout=60)
    if TLS != "none":
        context = ssl.create_default_context(cafile=CA)
        with socket.create_connection(("127.0.0.1", int(TLS))) as plain, context.wrap_socket(plain, server_hostname="localhost") as sock:
            for n in range(COUNT):
                message = f"<14>1 2023-11-14T22:13:20.{n:06}Z host tls {n} - - {n} text".encode()
                sock.sendall(b"%d %s" % (len(message), message))
            try:
                sock.unwrap()
            except OSError:
                # The gateway closes as soon as it has read our end.
                pass


for send in (elasticsearch, loki_handler, loki_protobuf, remote_write, posts, syslog):
    send()
    print("sent:", send.__name__)
