//! What the source and the tables say to a pipeline that would start now. Reads only.

use std::sync::Arc;
use std::time::Duration;

use dataflow::{Remedy, Runtime};
use engine::TokioRuntime;

use crate::config::model::Pipeline;
use crate::wiring::{self, sink, source};

/// A source that takes longer than this to name its partitions would not start well either.
const SOURCE_WAIT_MAX: Duration = Duration::from_secs(15);

/// Everything that stands against a start; each is a whole sentence.
pub async fn problems(pipeline: &Pipeline) -> Vec<String> {
    let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
    let mut problems = ask_source(pipeline, &runtime).await;
    problems.extend(ask_tables(pipeline, &runtime).await);
    problems
}

async fn ask_source(pipeline: &Pipeline, runtime: &Arc<dyn Runtime>) -> Vec<String> {
    let source = match source::source(pipeline, runtime) {
        Ok(source) => source,
        Err(error) => return vec![error.to_string()],
    };
    let partitions = async { source.recognize(source.partitions().await?, Vec::new()).await };
    match tokio::time::timeout(SOURCE_WAIT_MAX, partitions).await {
        Ok(Ok(partitions)) if partitions.is_empty() => vec!["source: there is no partition to read".into()],
        Ok(Ok(_)) => Vec::new(),
        Ok(Err(error)) => vec![format!("source: {error}")],
        Err(_) => vec![format!("source: no answer within {} seconds", SOURCE_WAIT_MAX.as_secs())],
    }
}

async fn ask_tables(pipeline: &Pipeline, runtime: &Arc<dyn Runtime>) -> Vec<String> {
    let tables = match sink::faults(pipeline, runtime).await {
        Ok(tables) => tables,
        Err(error) => return vec![error.to_string()],
    };
    let mut problems: Vec<String> = Vec::new();
    let mut is_away = false;
    for (table, faults) in &tables {
        for fault in faults {
            // A server that is away is away for both tables; once is enough.
            let repeats = fault.remedy == Remedy::Resend && std::mem::replace(&mut is_away, true);
            if !repeats {
                let fault = fault.to_string();
                let is_named = fault.contains(&format!("`{table}`"));
                problems.push(if is_named { fault } else { format!("table `{table}`: {fault}") });
            }
        }
    }
    if problems.is_empty()
        && let Err(error) = fit(pipeline, runtime).await
    {
        problems.push(error.to_string());
    }
    problems
}

/// Whether decoder and steps fit the table's columns. A table that does not exist yet has none to fit.
async fn fit(pipeline: &Pipeline, runtime: &Arc<dyn Runtime>) -> Result<(), wiring::WiringError> {
    let Some(table) = sink::open_once(sink::target(pipeline)?, pipeline, runtime).await? else {
        return Ok(());
    };
    let schema = wiring::with_fields(dataflow::Table::schema(&table), pipeline)?;
    source::decoder(&pipeline.source.format, schema.clone())?;
    wiring::steps::steps(pipeline, &schema, runtime.compute_threads())?;
    Ok(())
}
