//! The one table of settings, and the words around it on the page for users.
//!
//! Owns the name, value, first version and reason of each setting that an insert or a question names. Does not own which of them a server
//! gets, nor what a user's constraint means (`settings`).

use super::{Pin, Value};
use crate::checks::VERSION_MIN;

const fn pin(name: &'static str, value: Value, since: (u32, u32), why: &'static str) -> Pin {
    Pin { name, value, since, why }
}

/// A setting of every supported version.
const fn old(name: &'static str, value: &'static str, why: &'static str) -> Pin {
    pin(name, Value::Is(value), VERSION_MIN, why)
}

/// A setting of every supported version that can only lead to a refusal.
const fn rather(name: &'static str, value: &'static str, why: &'static str) -> Pin {
    pin(name, Value::Rather(value), VERSION_MIN, why)
}

/// What every insert names.
pub const INSERT: &[Pin] = &[
    // Is the second insert of a token a no-op?
    pin("insert_deduplication_token", Value::Token, VERSION_MIN, "always stands for the same rows"),
    old("insert_deduplicate", "1", "the rows of a repeated insert would be written twice"),
    pin(
        "deduplicate_insert",
        Value::Is("enable"),
        (26, 2),
        "`disable` overrides `insert_deduplicate`, and the rows of a repeated insert would be written twice",
    ),
    old(
        "deduplicate_blocks_in_dependent_materialized_views",
        "1",
        "a repeated insert would write the rows to the targets of views twice",
    ),
    // Does the answer come after the rows?
    old("async_insert", "0", "an asynchronous insert shares a part, and its tokens, with other clients"),
    old("wait_for_async_insert", "1", "the answer could come from a buffer in memory that a crash loses"),
    old(
        "async_insert_max_data_size",
        "1",
        "an insert that is longer is written at once, even if the table's own `async_insert` was switched on a moment ago",
    ),
    old("implicit_transaction", "0", "an insert in a transaction has no token that outlives a rollback"),
    old(
        "http_native_compression_disable_checksumming_on_decompress",
        "0",
        "a chunk that was damaged on its way would be taken for what was sent",
    ),
    // Is one block one part?
    old("max_insert_block_size", "10000000", "a frame that is cut into parts has a token for each"),
    pin("use_strict_insert_block_limits", Value::Is("0"), (26, 1), "strict limits cut a block into parts"),
    pin("max_insert_block_size_bytes", Value::Is("0"), (26, 1), "a limit in bytes cuts a block into parts"),
    old(
        "min_insert_block_size_rows",
        "10000000000",
        "what a view's query gives out in blocks is one block again, with one token: a `GROUP BY` of many keys gives out 256",
    ),
    old("min_insert_block_size_bytes", "0", "the same"),
    old("min_insert_block_size_rows_for_materialized_views", "0", "another value replaces the one for views"),
    old("min_insert_block_size_bytes_for_materialized_views", "0", "the same"),
    pin(
        "input_format_max_block_size_bytes",
        Value::Is("0"),
        (24, 7),
        "a limit in bytes cuts a block into parts",
    ),
    pin(
        "input_format_max_block_wait_ms",
        Value::Is("0"),
        (26, 2),
        "a slow upload would be split where it pauses",
    ),
    pin(
        "input_format_connection_handling",
        Value::Is("0"),
        (26, 2),
        "the beginning of an aborted insert would be written",
    ),
    pin(
        "max_partitions_per_insert_block",
        Value::Partitions,
        VERSION_MIN,
        "a token is known in one partition; a second one is an error",
    ),
    old("throw_on_max_partitions_per_insert_block", "1", "a second partition would only be logged"),
    pin(
        "session_timezone",
        Value::TimeZone,
        (23, 6),
        "another zone puts the rows into another partition, where their token is not known",
    ),
    // Is a failure told, and is there only one copy?
    old("materialized_views_ignore_errors", "0", "rows for a view's target would be lost without an error"),
    pin(
        "ignore_materialized_views_with_dropped_target_table",
        Value::Is("0"),
        (23, 10),
        "rows for a view's target would be lost without an error",
    ),
    old("timeout_overflow_mode", "throw", "an insert that times out would end early as if it were complete"),
    old("read_overflow_mode", "throw", "an insert beyond a limit would end early as if it were complete"),
    pin(
        "timeout_overflow_mode_leaf",
        Value::Is("throw"),
        (23, 11),
        "a view that reads another table would end early, and rows for its target be lost",
    ),
    old("read_overflow_mode_leaf", "throw", "a view that stops at a limit would lose rows for its target"),
    old("group_by_overflow_mode", "throw", "a view that stops at a limit would lose rows for its target"),
    old("join_overflow_mode", "throw", "a view that stops at a limit would lose rows for its target"),
    old("set_overflow_mode", "throw", "a view that stops at a limit would lose rows for its target"),
    old("distinct_overflow_mode", "throw", "a view that stops at a limit would lose rows for its target"),
    old("sort_overflow_mode", "throw", "a view that stops at a limit would lose rows for its target"),
    old("limit", "0", "it is applied to the query of each view, whose target would get so many rows"),
    old("offset", "0", "it is applied to the query of each view, whose target would lose so many rows"),
    old(
        "additional_table_filters",
        "{}",
        "rows would be hidden from views, and be missing from their targets",
    ),
    old(
        "additional_result_filter",
        "",
        "it is applied to the query of each view, whose target would lose rows",
    ),
    pin(
        "max_execution_time",
        Value::Seconds,
        VERSION_MIN,
        "the server gives up before Forebay does, and no attempt lives longer than a doubt waits for it",
    ),
    old("replace_running_query", "0", "a copy that a proxy sends again would kill the first one"),
    old("send_progress_in_http_headers", "0", "status 200 would be sent before the insert is done"),
    // Are the values those that were sealed?
    old("input_format_null_as_default", "1", "a null in a column without NULL would be refused"),
    old("insert_null_as_default", "1", "the same, on servers that insert by way of SELECT"),
    old(
        "input_format_defaults_for_omitted_fields",
        "1",
        "an omitted column would be zero instead of its DEFAULT",
    ),
    old(
        "input_format_native_allow_types_conversion",
        "0",
        "a column whose type was changed must be an error: a cast wraps numbers without one",
    ),
    pin(
        "input_format_native_decode_types_in_binary_format",
        Value::Is("0"),
        (24, 8),
        "types are sent as text; as bytes they would be misread",
    ),
    old("input_format_skip_unknown_fields", "0", "a column that was dropped must be an error"),
    // Are objects for a column of type JSON kept as they are?
    old(
        "input_format_try_infer_dates",
        "0",
        "a text within JSON that looks like a date would become one: `2024-02-30` would be stored as March 1",
    ),
    old(
        "input_format_try_infer_datetimes",
        "0",
        "a text within JSON that looks like a time would become one, and lose its zone",
    ),
    old("input_format_try_infer_integers", "1", "an integer within JSON would become a float"),
    old("input_format_json_try_infer_numbers_from_strings", "0", "a text within JSON would become a number"),
    old(
        "input_format_json_read_bools_as_numbers",
        "0",
        "`true` beside a number in an array within JSON would become 1",
    ),
    pin(
        "input_format_json_read_bools_as_strings",
        Value::Is("0"),
        (24, 1),
        "`true` beside a text in an array within JSON would become a text",
    ),
    pin(
        "type_json_skip_duplicated_paths",
        Value::Is("0"),
        (24, 8),
        "a second value at a path within JSON would be dropped without an error",
    ),
    pin(
        "type_json_skip_invalid_typed_paths",
        Value::Is("0"),
        (25, 12),
        "a value within JSON that does not fit its path's type would be dropped without an error",
    ),
];

/// What a statement names that makes a table.
pub const MAKE: &[Pin] = &[old(
    "data_type_default_nullable",
    "0",
    "the columns of a table that is created would take NULL, and its sorting key be refused",
)];

/// What every question names, as far as it can change a count or an answer.
pub const LOOK: &[Pin] = &[
    pin(
        "select_sequential_consistency",
        Value::IfShared,
        VERSION_MIN,
        "a node that does not know a part yet would call its rows absent; on `Replicated` tables the replica's lag shows that, and \
         `1` hides rows without a quorum",
    ),
    pin(
        "allow_experimental_parallel_reading_from_replicas",
        Value::Is("0"),
        VERSION_MIN,
        "one statement must be answered by one server",
    ),
    pin("enable_parallel_replicas", Value::Is("0"), (24, 10), "one statement must be answered by one server"),
    old(
        "use_query_cache",
        "0",
        "an outdated answer would be returned, and a question about the server's own tables be refused",
    ),
    pin(
        "use_query_condition_cache",
        Value::Is("0"),
        (25, 3),
        "what a query of somebody who sees fewer rows has left there would hide rows that have the same value",
    ),
    old("final", "0", "rows that merges will join would be missing from a count"),
    old("apply_deleted_mask", "1", "deleted rows would be counted"),
    old("additional_table_filters", "{}", "rows would be missing from a count"),
    old("additional_result_filter", "", "the answer could be empty"),
    old("limit", "0", "the answer could be truncated"),
    old("offset", "0", "the answer could be empty"),
    old(
        "empty_result_for_aggregation_by_empty_set",
        "0",
        "a count of no rows must be `0`, not an empty answer",
    ),
    rather("max_rows_to_read", "0", "a doubt about a large table would never end"),
    rather("max_bytes_to_read", "0", "a doubt about a large table would never end"),
    rather("max_rows_to_read_leaf", "0", "a doubt about a large table would never end"),
    rather("max_bytes_to_read_leaf", "0", "a doubt about a large table would never end"),
    old("read_overflow_mode", "throw", "a count that stops at a limit would be too small"),
    old("read_overflow_mode_leaf", "throw", "a count that stops at a limit would be too small"),
    old("timeout_overflow_mode", "throw", "a count that stops at a limit would be too small"),
    pin(
        "timeout_overflow_mode_leaf",
        Value::Is("throw"),
        (23, 11),
        "a count that stops at a limit would be too small",
    ),
    old("group_by_overflow_mode", "throw", "groups beyond a limit would be missing from the answer"),
    old("distinct_overflow_mode", "throw", "the answer could be truncated"),
    old("sort_overflow_mode", "throw", "the answer could be truncated"),
    old("result_overflow_mode", "throw", "the answer could be truncated"),
    old("set_overflow_mode", "throw", "a truncated list of keys would find too few"),
    old(
        "aggregate_functions_null_for_empty",
        "0",
        "a count of no rows must be `0`: without a number a doubt would never end",
    ),
    old("send_progress_in_http_headers", "0", "status 200 would be sent before the answer is known"),
    old("extremes", "0", "an answer would have rows that the server computes"),
    rather("max_partitions_to_read", "-1", "a doubt about a table of many partitions would never end"),
    rather("max_subquery_depth", "100", "a poll, which has questions within questions, would be refused"),
    rather("max_columns_to_read", "0", "a question about the shape of a table would be refused"),
    rather("max_temporary_columns", "0", "a question about the shape of a table would be refused"),
    rather("max_temporary_non_const_columns", "0", "a question about the shape of a table would be refused"),
    rather("max_result_rows", "0", "a question about the shape of a table would be refused"),
    rather("max_result_bytes", "0", "a question about the shape of a table would be refused"),
    rather("max_rows_to_group_by", "0", "a doubt about a large table would never end"),
    rather("max_rows_in_set", "0", "a question by keys would be refused"),
    rather("max_bytes_in_set", "0", "a question by keys would be refused"),
    rather("max_rows_in_distinct", "0", "a count of keys would be refused"),
    rather("max_bytes_in_distinct", "0", "a count of keys would be refused"),
    rather("max_rows_to_sort", "0", "a question whose answer is ordered would be refused"),
    rather("max_bytes_to_sort", "0", "a question whose answer is ordered would be refused"),
    rather("min_execution_speed", "0", "a question would be given up for its speed"),
    rather("min_execution_speed_bytes", "0", "a question would be given up for its speed"),
    rather("force_optimize_projection", "0", "a count without a projection would be refused"),
    pin(
        "max_execution_time",
        Value::Question,
        VERSION_MIN,
        "the server gives up a question when Forebay does, and not before",
    ),
    rather("force_primary_key", "0", "a count by a column outside of the key would be refused"),
    rather("force_index_by_date", "0", "a count by a column outside of the key would be refused"),
    old("output_format_json_quote_64bit_integers", "0", "answers are read as JSON"),
    old("output_format_json_named_tuples_as_objects", "0", "answers are read as JSON"),
];

/// Parameters of the request that are no settings: name, value, reason.
pub const PARAMETERS: &[(&str, &str, &str)] = &[
    (
        "wait_end_of_query",
        "`1`",
        "the answer comes when the insert is done, and its status says how it ended",
    ),
    ("decompress", "`1`, for inserts", "the body is compressed in chunks with checksums"),
    ("query_id", "unique to the attempt, for inserts", "so that a running attempt can be found and ended"),
];

pub(super) const PAGE_HEAD: &str = "\
# Settings that every request names

Exactly-once insertion depends on settings of the server. A profile, a role or the defaults of a newer version may change any of them, so
every request names the ones on this page. A request with a setting that the server does not know would be refused; Forebay therefore reads
`system.settings` and names those that this server has (*since*: the first version; *–*: every supported one). The first questions, before
that is read, name those of the second table that every version has, but for what the server refuses to set.

If a profile forbids one of them (`CONST`, or a `MIN` or `MAX` that excludes the value), the table is refused with the setting, the
reason and the statement that fixes it. Time limits are the exception: a lower `MAX` is obeyed. `insert_quorum` is left to the profile: a quorum
only delays the answer. So are these, with which a test repeats inserts at extreme values: `max_block_size`, `max_threads`, `group_by_two_level_threshold`
(whatever blocks a view's query gives out are joined before they are written), `max_insert_threads` (of `INSERT … SELECT` alone), `parallel_view_processing`
(each view's block has a token of its own, in any order) and `optimize_on_insert` (the token is that of the request, not of the rows that are left).
This page is generated from the code; a test compares them.
";

pub(super) const PAGE_TAIL: &str = "
## What a request cannot name
These are read with every poll of the table (at the start, every 5 s, after each failure and before each resend). While one of them is wrong nothing is
sent, and the message contains the statement that fixes it.

| read from | what | refused when |
|---|---|---|
| the table's `SETTINGS` in `system.tables.engine_full`, else `system.merge_tree_settings` or `system.replicated_merge_tree_settings` | `async_insert` | it is on: the table's own setting overrides the request's |
| the same, for the table and the target of each materialized view | `non_replicated_deduplication_window`, `replicated_deduplication_window`, `replicated_deduplication_window_seconds` | it is 0, or too small for the inserts that may be in flight |
| `system.settings` | constraints on the settings above | a request could not name one of them |
| `timezone()` | the zone of the user's sessions | it differs from that at the start: rows would fall into other partitions |
| `serverUUID()` | the server that answers | the table, or a view's target, is not replicated, and it is another server than at the start |
| `system.server_settings` | `insert_deduplication_version` | never: `compatible_double_hashes` counts every insert as two tokens. If it cannot be read, two are assumed |
| `system.events` | `AsyncInsertQuery` | never: each asynchronous insert of others counts as a token. If it cannot be read, a block counts as 450 of them, which is the default of `async_insert_max_query_number` |
| `system.row_policies`, if the user has `SHOW ROW POLICIES` | policies on the table | one may hide rows from the user: a probe would call them absent. Without the grant Forebay cannot see it: do not put one on that user |
| `CHECK GRANT`, which servers know from 24.10 on | the rights on the table | the user may not insert into the columns that inserts name. One that may not read the columns by which rows are looked for is reported at the start |
";
