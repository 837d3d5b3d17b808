//! The steps with state of `forebay try`: what they make of the sample alone.
//!
//! Owns the run in memory: the rows of the sample go through the lane's steps, and then every step is closed, as if all inputs had ended there. So every
//! window has a result, and every row that waits for its match is let out. Nothing is sealed, and no watermark moves before the end, so that no row is late.
//! Does not own the steps, nor what is shown of single records ([`super`]).

use anyhow::Context;
use dataflow::{Batch, Output, Reject, Router, Selected};
use engine::Port;
use engine::tables::{self, SideRows};
use pipeline::plan::Plans;
use pipeline::wiring::steps::Chain;
use serde_json::json;

use super::super::explain;
use super::exact::Json;
use super::{SHOWN_MAX, printing};
use crate::progress::counted;

/// What came of the sample.
#[derive(Debug, Default)]
pub(super) struct Results {
    /// Table and row, in the order in which they came out.
    rows: Vec<(String, String)>,
    rejects: Vec<Reject>,
    duplicates: u64,
    filtered: u64,
    late: u64,
    /// Rows that a join has let go without a match, whether a row was made of them or not.
    unmatched: u64,
}

/// Runs the rows of the sample, each batch with the place of its input, through the lane's steps.
pub(super) fn run(chain: &mut Chain, plans: &Plans, batches: Vec<(usize, Batch)>) -> anyhow::Result<Results> {
    let mut results = Results::default();
    for (input, batch) in batches {
        let port = chain.flow.entry(input);
        results.through(chain, plans, port, Output::all(batch))?;
    }
    for at in 0..chain.steps.len() {
        for mut output in chain.steps[at].close(i64::MIN)? {
            results.unmatched += output.unmatched;
            for (input, rows) in std::mem::take(&mut output.unmatched_rows) {
                let (place, rows) = tables::aside(&chain.sides, (at, SideRows::Unmatched(input)), rows)?;
                results.rows(plans, place, &Selected::all(rows.rows));
            }
            results.rejects.append(&mut output.rejects);
            let port = chain.flow.next(at);
            results.through(chain, plans, port, output)?;
        }
    }
    Ok(results)
}

impl Results {
    fn through(
        &mut self,
        chain: &mut Chain,
        plans: &Plans,
        mut port: Port,
        mut output: Output,
    ) -> anyhow::Result<()> {
        while let Some(step) = chain.steps.get_mut(port.step) {
            let batch = output.dense().context("rows cannot be taken out")?.batch;
            let probed = step.probe_of(port.input, batch)?;
            anyhow::ensure!(
                probed.reads.is_empty(),
                "a step without files wants to read one; please report this"
            );
            output = step.finish(probed, &[])?;
            self.duplicates += output.duplicates;
            self.filtered += output.filtered;
            self.late += output.late;
            self.rejects.append(&mut output.rejects);
            port = chain.flow.next(port.step);
        }
        let batch = output.dense().context("rows cannot be taken out")?.batch;
        self.gather(chain.router.as_deref(), plans, batch);
        Ok(())
    }

    fn gather(&mut self, router: Option<&dyn Router>, plans: &Plans, batch: Batch) {
        let rows = Selected::all(batch.rows);
        let parts = match router {
            Some(router) => router.route(&rows),
            None => vec![(0, rows)],
        };
        parts.iter().for_each(|(place, part)| self.rows(plans, *place, part));
    }

    fn rows(&mut self, plans: &Plans, place: usize, rows: &Selected) {
        let table = &plans.common().tables[place];
        for row in rows.stretches().iter().cloned().flatten() {
            // Columns behind a table's are for steps with state.
            let json = clickhouse::json::row(&table.columns, rows.batch(), row as usize);
            self.rows.push((table.name.clone(), json));
        }
    }

    pub(super) fn json(&self) -> Json {
        let rows = self.rows.iter().map(|(table, row)| {
            let (table, row) = (Json::of(table.as_str()), Json::Row(row.clone()));
            Json::Object(vec![("table".to_owned(), table), ("row".to_owned(), row)])
        });
        let rejects = self.rejects.iter().map(|reject| {
            json!({ "reason": reject.reason.as_str(), "column": reject.column, "message": reject.message })
        });
        let all = [
            ("of_sample_alone", Json::of(true)),
            ("rows", Json::List(rows.collect())),
            ("dead_letters", Json::of(rejects.collect::<Vec<_>>())),
            ("duplicates", Json::of(self.duplicates)),
            ("filtered", Json::of(self.filtered)),
            ("late", Json::of(self.late)),
            ("unmatched", Json::of(self.unmatched)),
        ];
        Json::Object(all.map(|(name, value)| (name.to_owned(), value)).into())
    }

    /// A table: which table, and the row.
    pub(super) fn text(&self) -> String {
        let cell = |text: &str| printing::escaped(text, SHOWN_MAX).into_owned();
        let mut out = "\nresults of the sample alone, as if every input ended here: every window closes, and no row waits for a match\n".to_owned();
        let mut rows = vec![["table".to_owned(), "row".to_owned(), String::new()]];
        rows.extend(self.rows.iter().map(|(table, row)| [cell(table), cell(row), String::new()]));
        rows.extend(self.rejects.iter().map(|reject| {
            let why = format!("{}: {}", reject.reason.as_str(), reject.message);
            ["dead letter".to_owned(), cell(&why), String::new()]
        }));
        explain::columns_of(&mut out, &rows);
        out + &format!(
            "{}, {} duplicates, {} filtered, {} unmatched, {}; nothing was written\n",
            counted(self.rows.len() as u64, "row"),
            self.duplicates,
            self.filtered,
            self.unmatched,
            counted(self.rejects.len() as u64, "dead letter"),
        )
    }
}
