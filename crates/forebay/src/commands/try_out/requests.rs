//! Requests of OTLP, of which each holds many rows: what became of every row.
//!
//! Owns that a request is taken apart, and which row is which. Rows of a request share its position, so each goes through the steps as a record of its own
//! with that position. Does not own what becomes of it there ([`super::outcomes`]).

use dataflow::{RecordBlock, Spans, position};
use pipeline::plan::Plan;
use pipeline::wiring::steps::{Chain, InputChain};

use super::outcomes::{Outcome, Tried, outcomes};

/// As [`outcomes`], with each row of a request for itself, `rows_max` at the most; and whether there are more.
pub(super) fn of_requests(
    plan: &Plan,
    (chain, own): (&Chain, &InputChain),
    (block, read_ms): (&RecordBlock, i64),
    onward: Option<&str>,
    rows_max: usize,
) -> anyhow::Result<(Vec<Tried>, bool)> {
    let mut tried = Vec::new();
    for at in 0..block.len() {
        let Some(one) = block.one(block.position(at)) else { continue };
        let through = |block: &RecordBlock| {
            outcomes(plan, (chain, own), (block, read_ms), onward.map(ToOwned::to_owned))
        };
        let decoder = own.intake.decoder();
        let several = decoder.decode(&one).several.unwrap_or_default();
        let rows = decoder.split(&one, 0).filter(|_| several.records > 0);
        let Some(rows) = rows else {
            let mut whole = through(&one)?;
            if let Some(empty) = whole.first_mut().filter(|_| several.empty > 0) {
                empty.outcome = Outcome::Filtered("decoding, because the request has no rows".to_owned());
            }
            tried.append(&mut whole);
            continue;
        };
        for row in 0..rows.len() {
            if tried.len() >= rows_max {
                return Ok((tried, true));
            }
            let mut payloads = Spans::default();
            payloads.push(rows.get(row));
            let item = u32::try_from(row).ok();
            let of_row = RecordBlock { item, payloads, absent: Vec::new(), cut: Vec::new(), ..one.clone() };
            let before = before(own, &of_row, read_ms)?;
            for found in through(&of_row)? {
                tried.push(Tried { before: before.clone(), item, ..found });
            }
        }
    }
    Ok((tried, false))
}

/// The fields of a row that the pipeline reads, as JSON: its bytes say nothing to a reader.
fn before(own: &InputChain, of_row: &RecordBlock, read_ms: i64) -> anyhow::Result<String> {
    let decoded = own.intake.clone().with_steps(Vec::new());
    let batch = decoded.prepare(of_row, read_ms)?.batch;
    Ok(match batch.is_empty() {
        true => {
            format!("({} bytes at {})", of_row.payloads.get(0).len(), position::shown(of_row.position(0)))
        }
        false => clickhouse::json::row(decoded.schema(), &batch.rows, 0),
    })
}
