//! What a comparison goes by: the columns of the key and of the values, and how many rows a key may have.
//!
//! Owns which pipelines cannot be compared at all. Does not own rows that replace each other ([`newest`]).

use std::collections::BTreeSet;

use anyhow::bail;
use clickhouse::reconcile::Values;
use dataflow::Schema;
use pipeline::config::model::Pipeline;
use pipeline::config::model::sink::Target;
use pipeline::config::values::Window;
use pipeline::wiring::{self, WiringError};

use super::super::expect::Rule;
use super::super::newest;
use super::Work;

impl Work<'_> {
    /// Refuses pipelines whose rows are not those of single records, or whose records nobody has.
    ///
    /// # Errors
    /// For those.
    pub(super) fn refuse_rows_of_no_record(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.pipeline.steps.iter().all(|step| step.window.is_none()),
            "`verify` compares each row with its record, and the rows of a `window` are made of many: the accounts of `forebay status` say that \
             every record is in a result, held, late or a dead letter; compare the results with a query over the source's data"
        );
        anyhow::ensure!(
            self.pipeline.steps.iter().all(|step| step.join.is_none()),
            "`verify` compares each row with its record, and the rows of a `join` are made of two: the accounts of `forebay status` say that every \
             record is absorbed by the join, late or a dead letter; compare the joined rows with a query over the source's data"
        );
        anyhow::ensure!(
            !self.pipeline.has_records_of_several_rows(),
            "`verify` compares each row with its record, and a request of OTLP has many rows: the accounts of `forebay status` say that every request's \
             rows are in the tables, filtered or dead letters"
        );
        anyhow::ensure!(
            !self.pipeline.is_sent_to(),
            "`verify` reads the source again, and requests that were sent to the pipeline are not kept: the accounts of `forebay status` say what became of \
             every record"
        );
        Ok(())
    }

    /// The columns to compare by, and how the records of a key become rows.
    pub(super) fn key_and_rule(&self, target: &Target) -> anyhow::Result<(Vec<String>, Rule)> {
        if let Some(upsert) = &target.upsert {
            let of = (self.pipeline, target, upsert);
            let key = newest::key(of, (self.key, self.values), (self.from, self.to))?;
            return Ok((key, Rule::Newest));
        }
        let dedups: Vec<_> = self.pipeline.steps.iter().filter_map(|step| step.dedup.as_ref()).collect();
        let names = |columns: &[_]| columns.iter().map(ToString::to_string).collect::<Vec<String>>();
        let [dedup] = dedups.as_slice() else {
            if dedups.len() > 1 {
                bail!("a pipeline with several `dedup` steps cannot be compared by one key");
            }
            let unique = names(&target.clickhouse.unique_key);
            let key = if self.key.is_empty() { unique } else { self.key.to_vec() };
            if key.is_empty() {
                bail!(
                    "there is neither a `dedup` step nor a `unique_key`: name the columns to compare by with `--key`"
                );
            }
            return Ok((key, Rule::EveryCopy));
        };
        let own = names(&dedup.key);
        let own = own
            .iter()
            .map(|key| column_of(self.pipeline, target, key))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let same: BTreeSet<&String> = own.iter().collect();
        if !self.key.is_empty() && self.key.iter().collect::<BTreeSet<_>>() != same {
            bail!("rows are deduplicated by {own:?}, so they can only be compared by that");
        }
        let rule = match dedup.window {
            Window::Unbounded => Rule::OneEver,
            Window::Within(period) => {
                Rule::OnePerWindow(i64::try_from(period.duration().as_millis()).unwrap_or(i64::MAX))
            }
        };
        Ok((own, rule))
    }

    /// The columns whose values are compared beside the key, and the names of those that cannot be.
    pub(super) fn values_to_compare(
        &self,
        schemas: &[Schema],
        key: &[String],
    ) -> anyhow::Result<(Option<Values>, Vec<String>)> {
        if !self.values {
            return Ok((None, Vec::new()));
        }
        let steps = wiring::steps::plan(self.pipeline, schemas).map_err(WiringError::Steps)?;
        // When a record was read is another time now.
        let fleeting = steps.fleeting(self.place);
        let sign = self.pipeline.targets()[self.place].upsert.as_ref().and_then(|upsert| upsert.sign.clone());
        // A row that stands has the sign 1, whatever its record says.
        let sign = sign.map(|sign| sign.to_string());
        let compared_elsewhere: Vec<String> = key.iter().chain(&fleeting).chain(&sign).cloned().collect();
        let (values, mut left_out) = Values::of_the_rest(&schemas[self.place], &compared_elsewhere);
        left_out.extend(fleeting);
        Ok((values, left_out))
    }
}

/// The table's column that holds a column of the key. With several tables a key is named as the last step gives it.
fn column_of(pipeline: &Pipeline, target: &Target, key: &str) -> anyhow::Result<String> {
    if pipeline.sinks.is_empty() {
        return Ok(key.to_owned());
    }
    if let Some((column, _)) = target.columns.iter().find(|(_, from)| from.as_str() == key) {
        return Ok(column.to_string());
    }
    let other = target.columns.iter().find(|(column, _)| column.as_str() == key);
    anyhow::ensure!(
        other.is_none(),
        "rows are deduplicated by `{key}`, and table `{}` does not hold it: its column of that name is filled by another one. Other tables can be compared with \
         `--table`",
        target.clickhouse.full_name()
    );
    Ok(key.to_owned())
}

#[cfg(test)]
mod tests;
