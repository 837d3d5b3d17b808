"""Real clients against a running server: clickhouse-connect, and plain HTTP for what it hides.

Run by `live.rs`; by hand: `python3 clients.py HOST PORT`. Every test makes its own table.
"""

import gzip
import http.client
import json
import struct
import sys
import threading
import time
import unittest
import urllib.parse
import uuid
from datetime import datetime, timezone
from decimal import Decimal

import clickhouse_connect
from clickhouse_connect.driver.exceptions import DatabaseError

HOST, PORT = sys.argv[1], int(sys.argv[2])


def send(sql=b"", body=b"", headers=None, method="POST", **parameters):
    """One request; returns status, headers, body."""
    connection = http.client.HTTPConnection(HOST, PORT, timeout=60)
    if sql:
        parameters["query"] = sql
    connection.request(method, "/?" + urllib.parse.urlencode(parameters), body=body, headers=headers or {})
    answer = connection.getresponse()
    result = answer.status, answer.headers, answer.read()
    connection.close()
    return result


def sql(text, **parameters):
    status, _, body = send(body=text.encode(), **parameters)
    assert status == 200, body
    return body.decode().rstrip("\n")


def varint(number):
    out = b""
    while number >= 128:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def text(value):
    value = value.encode()
    return varint(len(value)) + value


def native(rows, *columns):
    """One Native block of (name, type, bytes)."""
    block = varint(len(columns)) + varint(rows)
    for name, kind, data in columns:
        block += text(name) + text(kind) + data
    return block


class Connect(unittest.TestCase):
    """clickhouse-connect, with its sessions and its compression."""

    def setUp(self):
        self.client = clickhouse_connect.get_client(host=HOST, port=PORT)
        self.table = "c_" + uuid.uuid4().hex

    def tearDown(self):
        self.client.command(f"DROP TABLE IF EXISTS {self.table}")
        self.client.close()

    def test_types_come_back_as_they_went(self):
        self.client.command(
            f"CREATE TABLE {self.table} (i UInt64, n Nullable(Int32), l LowCardinality(String),"
            " ln LowCardinality(Nullable(String)), a Array(String), m Map(String, UInt8), d DateTime64(3, 'UTC'),"
            " e Enum8('x' = 1, 'y' = 2), u UUID, c Decimal(18, 4), b Bool, t Tuple(Int8, String))"
            " ENGINE = MergeTree ORDER BY i"
        )
        when = datetime(2024, 2, 29, 12, 30, 0, 125000, tzinfo=timezone.utc)
        # The client gives times in UTC without a zone.
        naive = when.replace(tzinfo=None)
        rows = [
            [2**64 - 1, None, "one", None, ["a", ""], {"k": 1}, when, "x", uuid.UUID(int=7), Decimal("1.2345"), True, (1, "t")],
            [1, -5, "two", "z", [], {}, when, "y", uuid.UUID(int=8), Decimal("-9.9999"), False, (-1, "")],
        ]
        self.client.insert(self.table, rows)
        got = self.client.query(f"SELECT * FROM {self.table} ORDER BY i DESC").result_rows
        self.assertEqual([list(row) for row in got], [[naive if value is when else value for value in row] for row in rows])

    def test_every_compression_of_inserts_and_answers(self):
        for method in ["lz4", "zstd", "gzip", False]:
            client = clickhouse_connect.get_client(host=HOST, port=PORT, compress=method)
            client.command(f"CREATE OR REPLACE TABLE {self.table} (a UInt32, b String) ENGINE = MergeTree ORDER BY a")
            client.insert(self.table, [[i, "value" * 10] for i in range(20000)], column_names=["a", "b"])
            total = client.query(f"SELECT a, b FROM {self.table} ORDER BY a").result_rows
            self.assertEqual((len(total), total[-1][0]), (20000, 19999), method)
            client.close()

    def test_error_codes(self):
        for statement, code in [("SELECT * FROM nowhere", 60), ("SELEC 1", 62), ("SELECT * FROM no.where", 81), ("SELECT toInt8('x')", 6)]:
            with self.assertRaises(DatabaseError) as caught:
                self.client.query(statement)
            self.assertIn(f"Code: {code}.", str(caught.exception).replace("code ", "Code: ").replace(f"Code: {code}:", f"Code: {code}."), statement)

    def test_settings_and_parameters(self):
        got = self.client.query("SELECT getSetting('max_threads'), {x:String}", parameters={"x": "it's"}, settings={"max_threads": 3})
        self.assertEqual(got.result_rows, [(3, "it's")])
        got = self.client.query("SELECT changed FROM system.settings WHERE name = 'max_threads'")
        self.assertEqual(got.result_rows[0][0], 0, "a setting lives as long as its request")

    def test_temporary_tables_live_in_the_session(self):
        self.client.command("CREATE TEMPORARY TABLE mine (a Int8)")
        self.client.insert("mine", [[1], [2]])
        self.assertEqual(self.client.command("SELECT count() FROM mine"), 2)

    def test_streaming(self):
        with self.client.query_row_block_stream("SELECT number FROM numbers(300000)") as stream:
            self.assertEqual(sum(len(block) for block in stream), 300000)


class Http(unittest.TestCase):
    """What a client library does not show."""

    def setUp(self):
        self.table = "h_" + uuid.uuid4().hex
        sql(
            f"CREATE TABLE {self.table} (a Int32, b String DEFAULT concat('d', toString(a)), c Int32 DEFAULT 7)"
            " ENGINE = MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 100"
        )

    def rows(self, table=None):
        return sql(f"SELECT * FROM {table or self.table} ORDER BY ALL FORMAT JSONCompactEachRow").split("\n")

    def test_nulls_and_missing_columns_become_the_defaults_expression(self):
        block = native(
            2,
            ("a", "Int32", struct.pack("<ii", 1, 2)),
            ("b", "Nullable(String)", b"\1\0" + text("") + text("given")),
        )
        status, _, body = send(f"INSERT INTO {self.table} (a, b) FORMAT Native", block)
        self.assertEqual(status, 200, body)
        self.assertEqual(self.rows(), ['[1, "d1", 7]', '[2, "given", 7]'])

    def test_nulls_are_refused_when_asked(self):
        lines = b'{"a": 1, "b": null}\n'
        status, _, body = send(f"INSERT INTO {self.table} (a, b) FORMAT JSONEachRow", lines, input_format_null_as_default=0)
        self.assertEqual(status, 400, body)
        self.assertEqual(send(f"INSERT INTO {self.table} (a, b) FORMAT JSONEachRow", lines)[0], 200)
        self.assertEqual(self.rows(), ['[1, "d1", 7]'])

    def test_a_token_makes_the_second_insert_a_no_op(self):
        block = native(1, ("a", "Int32", struct.pack("<i", 1)))
        other = native(1, ("a", "Int32", struct.pack("<i", 2)))
        for body in (block, block, other):
            self.assertEqual(send(f"INSERT INTO {self.table} (a) FORMAT Native", body, insert_deduplication_token="x", async_insert=0)[0], 200)
        self.assertEqual(self.rows(), ['[1, "d1", 7]'])
        statement = f"INSERT INTO {self.table} (a) SETTINGS insert_deduplication_token = 'y' FORMAT Native"
        for _ in range(2):
            self.assertEqual(send(statement, other)[0], 200)
        self.assertEqual(sql(f"SELECT count() FROM {self.table}"), "2")

    def test_a_token_reaches_a_views_target(self):
        target, view = self.table + "_target", self.table + "_view"
        sql(f"CREATE TABLE {target} (a Int32) ENGINE = MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 100")
        sql(f"CREATE MATERIALIZED VIEW {view} TO {target} AS SELECT a * 10 AS a FROM {self.table}")
        block = native(2, ("a", "Int32", struct.pack("<ii", 1, 2)))
        for token in ["x", "x", "y"]:
            status, _, body = send(
                f"INSERT INTO {self.table} (a) FORMAT Native", block,
                insert_deduplication_token=token, deduplicate_blocks_in_dependent_materialized_views=1,
            )
            self.assertEqual(status, 200, body)
        self.assertEqual(sql(f"SELECT count() FROM {self.table}"), "4")
        self.assertEqual(self.rows(target), ["[10]", "[10]", "[20]", "[20]"])

    def test_a_large_block_becomes_one_part(self):
        count = 300000
        block = native(count, ("a", "Int32", struct.pack(f"<{count}i", *range(count))))
        status, headers, _ = send(f"INSERT INTO {self.table} (a) FORMAT Native", block)
        self.assertEqual(status, 200)
        self.assertEqual(json.loads(headers["X-ClickHouse-Summary"])["written_rows"], str(count))
        self.assertEqual(sql(f"SELECT max(rows) FROM system.parts WHERE table = '{self.table}'"), str(count))

    def test_inline_data_with_blank_lines_are_whole(self):
        sql(f"INSERT INTO {self.table} (a, b) FORMAT JSONEachRow {{\"a\": 1}}\n\n{{\"a\": 2, \"b\": \"\\n\\n\"}}\n")
        sql(f"INSERT INTO {self.table} (a, b) VALUES (3, 'x'), (1 + 3, lower('Y'));")
        self.assertEqual(sql(f"SELECT groupArray(a) FROM (SELECT a FROM {self.table} ORDER BY a)"), "[1,2,3,4]")

    def test_an_empty_body_inserts_nothing(self):
        for form in ["Native", "TSV", "JSONEachRow", "RowBinary", "Values"]:
            self.assertEqual(send(f"INSERT INTO {self.table} (a) FORMAT {form}")[0], 200, form)
        self.assertEqual(sql(f"SELECT count() FROM {self.table}"), "0")

    def test_input_function(self):
        statement = f"INSERT INTO {self.table} (a) SELECT x * 2 FROM input('x Int32') WHERE x > 1 FORMAT CSV"
        status, _, body = send(statement, b"1\n2\n3\n")
        self.assertEqual(status, 200, body)
        self.assertEqual(sql(f"SELECT groupArray(a) FROM (SELECT a FROM {self.table} ORDER BY a)"), "[4,6]")

    def test_a_damaged_insert_leaves_no_rows(self):
        block = native(1000, ("a", "Int32", b"\0" * 4000))
        self.assertNotEqual(send(f"INSERT INTO {self.table} (a) FORMAT Native", block[:-10])[0], 200)
        self.assertEqual(send(f"INSERT INTO {self.table} (a) FORMAT Native", gzip.compress(block)[:-10], {"Content-Encoding": "gzip"})[0], 400)
        self.assertEqual(send(f"INSERT INTO {self.table} (a) FORMAT Native", block, decompress=1)[0], 400)
        self.assertEqual(sql(f"SELECT count() FROM {self.table}"), "0")

    def test_chunked_bodies_and_answers_in_blocks(self):
        def chunks():
            for number in range(1000):
                yield f"{number}\n".encode()

        self.assertEqual(send(f"INSERT INTO {self.table} (a) FORMAT TSV", chunks())[0], 200)
        status, _, packed = send(f"SELECT a FROM {self.table} ORDER BY a FORMAT Native", compress=1)
        self.assertEqual((status, packed[16]), (200, 0x82))
        sql(f"CREATE TABLE {self.table}_2 AS {self.table}")
        self.assertEqual(send(f"INSERT INTO {self.table}_2 (a) FORMAT Native", packed, decompress=1)[0], 200)
        self.assertEqual(sql(f"SELECT count(), sum(a) FROM {self.table}_2"), "1000\t499500")

    def test_unknown_settings_are_refused_and_headers_answer(self):
        status, headers, body = send("SELECT 1", insert_deduplication_tokn="x")
        self.assertEqual((status, headers["X-ClickHouse-Exception-Code"]), (404, "115"), body)
        status, headers, body = send("SELECT 1 AS x FORMAT JSON", query_id="named")
        self.assertEqual(json.loads(body)["data"], [{"x": 1}])
        for name, value in [("Query-Id", "named"), ("Timezone", "UTC"), ("Format", "JSON"), ("Server-Display-Name", "chdb-server")]:
            self.assertEqual(headers["X-ClickHouse-" + name], value)
        self.assertEqual(send("DROP TABLE " + self.table, method="GET")[1]["X-ClickHouse-Exception-Code"], "164")
        self.assertEqual(send("SELECT currentDatabase()", headers={"X-ClickHouse-Database": "system"})[2], b"system\n")
        self.assertEqual(send("SELECT 1", default_format="JSONCompactEachRow")[2], b"[1]\n")

    def test_settings_do_not_leak(self):
        sql("SELECT 1", max_block_size=17, session_id="leak")
        self.assertNotEqual(sql("SELECT getSetting('max_block_size')", session_id="leak"), "17")
        self.assertNotEqual(sql("SELECT getSetting('max_block_size')"), "17")

    def test_running_queries_are_listed_and_killed_by_the_clients_id(self):
        query_id = "slow-" + uuid.uuid4().hex
        result = []
        slow = f"INSERT INTO {self.table} (a) SELECT sleepEachRow(1) FROM numbers(300)"
        worker = threading.Thread(target=lambda: result.append(send(body=slow, query_id=query_id, max_block_size=1, log_comment="mine")))
        worker.start()
        probe = f"SELECT query_id, Settings['max_block_size'] FROM system.processes WHERE query_id = '{query_id}'"
        end = time.time() + 120
        while sql(probe) != f"{query_id}\t1":
            self.assertLess(time.time(), end)
        self.assertEqual(send("SELECT 1", query_id=query_id)[1]["X-ClickHouse-Exception-Code"], "216")
        self.assertEqual(sql(f"KILL QUERY WHERE query_id = '{query_id}' TEST").split("\t")[:2], ["unknown_status", query_id])
        self.assertEqual(sql(f"KILL QUERY WHERE query_id = '{query_id}' SYNC").split("\t")[:2], ["finished", query_id])
        self.assertEqual(sql(probe), "")
        worker.join()
        self.assertEqual(result[0][1]["X-ClickHouse-Exception-Code"], "394")

    def test_an_insert_whose_body_is_still_coming_is_listed_and_killed(self):
        query_id = "arriving-" + uuid.uuid4().hex
        target = "/?" + urllib.parse.urlencode({"query": f"INSERT INTO {self.table} (a) FORMAT TSV", "query_id": query_id})
        connection = http.client.HTTPConnection(HOST, PORT, timeout=60)
        connection.putrequest("POST", target)
        connection.putheader("Content-Length", "4")
        connection.endheaders(b"1\n")
        probe = f"SELECT user, query FROM system.processes WHERE query_id = '{query_id}'"
        end = time.time() + 120
        while not sql(probe).startswith("default\tINSERT INTO"):
            self.assertLess(time.time(), end)
        self.assertEqual(sql(f"KILL QUERY WHERE query_id = '{query_id}'").split("\t")[:2], ["waiting", query_id])
        connection.send(b"2\n")
        answer = connection.getresponse()
        self.assertEqual(answer.headers["X-ClickHouse-Exception-Code"], "394", answer.read())
        self.assertEqual(sql(f"SELECT count() FROM {self.table}"), "0")

    def test_inserts_run_beside_each_other(self):
        count, threads = 50000, 8
        block = native(count, ("a", "Int32", b"\1\0\0\0" * count))
        statuses = []

        def insert(token):
            # Equal blocks without a token are duplicates of each other in a table with a window.
            statement = f"INSERT INTO {self.table} (a) FORMAT Native"
            statuses.append(send(statement, block, insert_deduplication_token=token)[0])

        workers = [threading.Thread(target=insert, args=(f"token-{n}",)) for n in range(threads)]
        [worker.start() for worker in workers]
        [worker.join() for worker in workers]
        self.assertEqual(statuses, [200] * threads)
        self.assertEqual(sql(f"SELECT count() FROM {self.table}"), str(count * threads))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
