//! What the table `otel_logs` must hold in the end, and the query that says what it holds.
//!
//! Owns a count and a checksum of all records that ClickHouse can compute too, in any order of rows: the sum, wrapping at 2^64, of XXH64 (seed
//! 0) over a text of each row,
//! ```text
//! n|trace id|span id|severity|service|route|status|duration|user|client|pod|body
//! ```
//! Times are left out, since a steady load gives them when it sends. Does not own sending the query.

use std::io::Write as _;

use xxhash_rust::xxh64::xxh64;

use super::{RESOURCES_PER_REQUEST, Record, Workload, wire};
use crate::content::Content;

/// The query that answers one row with the three numbers of [`Content`], in order, all UInt64. `table` goes into the text as it stands.
pub fn sql(table: &str) -> String {
    format!(
        "SELECT count() AS rows, uniqExact(LogAttributes['n']) AS ids, sum(xxHash64(concat(LogAttributes['n'], '|', TraceId, '|', SpanId, '|', \
         SeverityText, '|', ServiceName, '|', LogAttributes['http.route'], '|', LogAttributes['http.response.status_code'], '|', \
         LogAttributes['duration_us'], '|', LogAttributes['enduser.id'], '|', LogAttributes['client.address'], '|', \
         ResourceAttributes['k8s.node.name'], '|', Body))) AS checksum FROM {table}"
    )
}

impl Workload {
    /// What the table must hold when the requests `0..requests` have arrived. Makes every record once.
    pub fn expected(&self, requests: u64) -> Content {
        let mut content = Content::default();
        let mut record = Record::default();
        let mut text = Vec::new();
        let each = self.spec.records_per_request / RESOURCES_PER_REQUEST;
        for n in 0..requests {
            for k in 0..self.spec.records_per_request {
                self.record(n, k, 0, &mut record);
                row(&record, self.resource_of(n, k / each), &mut text);
                content.rows += 1;
                content.checksum = content.checksum.wrapping_add(xxh64(&text, 0));
            }
        }
        content.ids = content.rows;
        content
    }
}

/// The text of a row.
fn row(record: &Record, resource: u64, to: &mut Vec<u8>) {
    to.clear();
    let trace = u128::from_be_bytes(record.trace_id.as_flattened().try_into().unwrap_or_default());
    let span = u64::from_be_bytes(record.span_id);
    let [a, b, c, d] = record.peer.to_be_bytes();
    // Writing to memory does not fail.
    let _ = write!(
        to,
        "{}|{trace:032x}|{span:016x}|{}|{}|{}|{}|{}|{}|{a}.{b}.{c}.{d}|node-{:03}|{}",
        record.number,
        record.severity_text(),
        wire::service(resource),
        record.path,
        record.status,
        record.duration_us,
        record.user,
        resource % 11,
        record.body,
    );
}
