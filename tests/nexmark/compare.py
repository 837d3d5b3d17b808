"""Compares what a pipeline has written with a batch reading of the same events by DuckDB.

    compare.py EVENTS QUERY ROWS

EVENTS is a folder with people.ndjson, auctions.ndjson, bids.ndjson and side.csv, QUERY one of the folders beside this file, ROWS the rows of
the table as JSON lines. Ends with 1 and the first differences if a row is missing, too many or different.
"""

import collections
import datetime
import decimal
import json
import pathlib
import sys

import duckdb

SHOWN_MAX = 5
TIME = "TIMESTAMP"
STREAMS = {
    "people": {"id": "BIGINT", "name": "VARCHAR", "city": "VARCHAR", "state": "VARCHAR", "dateTime": TIME},
    "auctions": {
        "id": "BIGINT", "itemName": "VARCHAR", "initialBid": "BIGINT", "reserve": "BIGINT", "dateTime": TIME, "expires": TIME,
        "seller": "BIGINT", "category": "BIGINT",
    },
    "bids": {
        "auction": "BIGINT", "bidder": "BIGINT", "price": "BIGINT", "channel": "VARCHAR", "url": "VARCHAR", "dateTime": TIME,
    },
}


def plain(value):
    """A value as both sides write it."""
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float, decimal.Decimal)):
        return float(value)
    return value


def main(events, query, rows):
    database = duckdb.connect()
    for stream, columns in STREAMS.items():
        path = (events / f"{stream}.ndjson").as_posix()
        database.execute(
            f"CREATE TABLE {stream} AS SELECT * FROM read_json('{path}', format = 'newline_delimited', columns = {columns})"
        )
    database.execute(f"CREATE TABLE ours AS SELECT * FROM read_json('{rows.as_posix()}', format = 'newline_delimited')")
    ours = [json.loads(line) for line in rows.read_text().splitlines()]
    batch = (query / "batch.sql").read_text().replace("$SIDE", (events / "side.csv").as_posix())
    answer = database.execute(batch)
    names = [column[0] for column in answer.description]
    expected = collections.Counter(tuple(plain(value) for value in row) for row in answer.fetchall())
    found = collections.Counter(tuple(plain(row[name]) for name in names) for row in ours)
    missing, extra = expected - found, found - expected
    for what, some in (("missing", missing), ("not expected", extra)):
        for row in list(some)[:SHOWN_MAX]:
            print(f"{query.name}: {what}: {dict(zip(names, row))}")
    print(f"{query.name}: {expected.total()} rows, {missing.total()} missing, {extra.total()} not expected")
    return 1 if missing or extra or not expected else 0


if __name__ == "__main__":
    sys.exit(main(*(pathlib.Path(argument) for argument in sys.argv[1:4])))
