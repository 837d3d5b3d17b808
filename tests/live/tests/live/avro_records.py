"""Object container files of Avro by fastavro, and what it reads of them.

    python avro_records.py COUNT

An object: `schema`, the text of the schema; `files`, by the name of the codec the file in hexadecimal, each with COUNT records of its own; `rows`, what the
records of all files are as rows.
"""

import datetime
import decimal
import io
import json
import sys
import uuid

import fastavro

UTC = datetime.timezone.utc
SCHEMA = {
    "type": "record",
    "name": "Reading",
    "namespace": "sensors",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "site", "type": {"type": "record", "name": "Site", "fields": [{"name": "city", "type": "string"}]}},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["OK", "LOW", "FAULT"]}},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 4}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "levels", "type": {"type": "array", "items": "double"}},
        {"name": "labels", "type": {"type": "map", "values": "string"}},
    ],
}


def record(n):
    return {
        "id": n * 9_007_199_254_741,
        "site": {"city": f"K\u00f6ln \"{n % 11}\""},
        "note": None if n % 3 == 0 else f"line\n{n}",
        "status": ["OK", "LOW", "FAULT"][n % 3],
        "total": decimal.Decimal(n * 1_000_003 - 70_000_000).scaleb(-4),
        "at": datetime.datetime(2024, 5, 1, 10, 20, 30, 123456, tzinfo=UTC) + datetime.timedelta(seconds=61 * n),
        "day": datetime.date(2024, 5, 1) + datetime.timedelta(days=n),
        "key": uuid.UUID(int=n << 64 | n),
        "levels": [n / 4, -n / 8][: n % 3],
        "labels": {"n": str(n)} if n % 2 else {},
    }


def row(read):
    return {
        "id": str(read["id"]),
        "city": read["site"]["city"],
        "note": read["note"],
        "status": read["status"],
        "total": str(read["total"]),
        "at": f"{read['at']:%Y-%m-%d %H:%M:%S.%f}",
        "day": str(read["day"]),
        "key": str(read["key"]),
        "levels": read["levels"],
        "labels": read["labels"],
    }


count = int(sys.argv[1])
files, rows = {}, []
for codec in ["null", "deflate", "snappy", "zstandard"]:
    first = len(rows) + 1
    written = io.BytesIO()
    try:
        fastavro.writer(written, SCHEMA, map(record, range(first, first + count)), codec=codec, sync_interval=2_000)
    except ValueError:
        # Its library is not there.
        continue
    files[codec] = written.getvalue().hex()
    written.seek(0)
    rows += map(row, fastavro.reader(written))
print(json.dumps({"schema": json.dumps(SCHEMA), "files": files, "rows": rows}))
