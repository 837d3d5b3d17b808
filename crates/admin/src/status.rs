//! What is known of a pipeline, running or not.
//!
//! Owns the report. Reads the journal, asks the source for its ends, and the process that runs the pipeline, if there is one on this
//! machine, for what it waits for. Claims nothing and appends nothing, so a running pipeline is not disturbed. Does not own the fields that
//! it shares with other answers (`admin::fields`), the request to the running process (`admin::running`), nor what is printed (the
//! program's command).

use dataflow::position;
use std::sync::Arc;
use std::time::Duration;

use dataflow::{Partition, Position, ReadFrom, Runtime, Source, Streams};
use engine::TokioRuntime;
use engine::inputs::numbered::Numbered;
use engine::survey::{self, Survey};
use pipeline::config::model::{Input, Pipeline};
use pipeline::wiring;
use protocol::Lane;
use protocol::doubt::{StopReason, Verdict};
use protocol::lane::InputState;
use serde_json::{Value, json};

use crate::{fields, running};

/// How long the source may take to say its ends; without an answer the lag is unknown, and all else is shown.
const ENDS_WAIT_MAX: Duration = Duration::from_secs(5);

/// What the journal says of a pipeline, beside the ends of its source and the word of the process that runs it.
///
/// # Errors
/// When the journal cannot be read and no process runs the pipeline.
pub async fn report(pipeline: &Pipeline) -> anyhow::Result<Value> {
    let running = running::ask(pipeline).await;
    let (lane, survey) = match load(pipeline).await {
        Ok(loaded) => loaded,
        // What waits for the store can still say so.
        Err(error) if running.is_ok() => {
            return Ok(json!({
                "pipeline": pipeline.pipeline.as_str(), "journal_problem": format!("{error:#}"), "running": running.ok()
            }));
        }
        Err(error) => return Err(error.context("the journal cannot be read")),
    };
    let (ends, problems) = ends(pipeline, &lane).await;
    let partitions: Vec<Value> = lane
        .reading()
        .map(|(_, partition)| {
            let of = |end: &&End| partition.is(end.of.input, &end.of.stream, end.of.index);
            let found = ends.iter().find(of);
            let end = found.map(|found| found.position);
            let lag = end.and_then(|end| position::between(partition.next, end));
            json!({
                "input": input_name(&lane, partition.input), "stream": partition.stream, "index": partition.index, "next": fields::position(partition.next), "end": end.map(fields::position),
                "lag": lag.or_else(|| found?.behind)
            })
        })
        .collect();
    let tables: Vec<Value> = lane
        .tables
        .iter()
        .map(|table| {
            json!({
                "name": table.name, "frames_sealed": table.next_ordinal, "frames_settled": table.frontier,
                "frames_pending": table.pending.len(), "bytes_pending": table.pending_bytes(),
                "rows": {
                    "sealed": table.rows.sealed, "settled": table.rows.settled,
                    "refused": table.rows.refused, "pending": table.rows.pending()
                }
            })
        })
        .collect();
    Ok(json!({
        "pipeline": pipeline.pipeline.as_str(),
        "has_run": lane.has_run(),
        "records": fields::counts(&engine::totals::Totals::of(&lane), fields::replayed(&lane)),
        "inputs": inputs(&lane),
        "accounts_add_up": engine::accounts::do_add_up(&lane),
        "in_flight": in_flight(&lane),
        "spool_bytes": lane.spool_bytes(),
        "watermark_ms": fields::watermark(lane.watermark_ms),
        "state": {
            "steps": engine::change::labels(&lane.steps),
            "bytes_checkpointed": lane.snapshots.iter().map(|snapshot| snapshot.len).sum::<u64>(),
            "released": lane.absorbed.released, "held": lane.absorbed.held, "discarded": lane.absorbed.discarded,
            "files": lane.files.len(),
            "file_bytes": lane.files.iter().map(|file| file.len).sum::<u64>(),
            "bytes_since": lane.deltas.iter().filter_map(|delta| delta.delta).map(|delta| delta.len).sum::<u64>(),
        },
        "store": fields::survey(&survey),
        "epoch": lane.epoch,
        "journal_records": lane.next_seq,
        "questions": questions(&lane),
        "partitions": partitions,
        "tables": tables,
        "source_problem": (!problems.is_empty()).then(|| problems.join("; ")),
        "not_running": running.as_ref().err(),
        "running": running.ok(),
    }))
}

/// What the records of each input became.
fn inputs(lane: &Lane) -> Value {
    let counts = |input: &InputState| (input.name.clone(), fields::records(&input.counts));
    lane.inputs.iter().map(counts).collect::<serde_json::Map<_, _>>().into()
}

fn input_name(lane: &Lane, input: u32) -> Option<&str> {
    lane.inputs.get(input as usize).map(|input| input.name.as_str())
}

/// Rows that are sealed, and not settled as far as the journal knows.
fn in_flight(lane: &Lane) -> Value {
    let live =
        lane.tables.iter().flat_map(|table| table.pending.iter().flatten()).filter(|piece| piece.is_live());
    let (frames, rows) = live.fold((0_u64, 0), |(frames, rows), piece| (frames + 1, rows + piece.frame.rows));
    json!({ "frames": frames, "rows": rows })
}

/// What waits for an operator, or was answered and waits for the next run.
fn questions(lane: &Lane) -> Vec<Value> {
    let pieces = lane.tables.iter().flat_map(|t| t.pending.iter().flatten().map(move |p| (t, p)));
    let asked = pieces.filter_map(|(table, piece)| {
        let question = piece.question.as_ref().filter(|_| !piece.dead)?;
        let reason = StopReason::from_number(question.reason)?;
        Some(json!({
            "frame": engine::answer::frame_name(piece), "table": table.name, "ordinal": piece.frame.ordinal,
            "rows": piece.frame.rows, "reason": reason.word(), "asked_at_ms": question.asked_at_ms,
            "what": reason.explain(), "question": reason.question(),
            "answer": match piece.verdict {
                None => Value::Null,
                Some(Verdict::Present) => "present".into(),
                Some(Verdict::Absent) => "absent".into(),
            },
        }))
    });
    asked.collect()
}

async fn load(pipeline: &Pipeline) -> anyhow::Result<(Lane, Survey)> {
    let Some(store) = wiring::storage::open_to_read(pipeline).await? else {
        return Ok((Lane::new(), Survey::default()));
    };
    let folder = wiring::lane_folder(pipeline);
    let lane = engine::journal::load(&*store, &folder).await?;
    let survey = survey::survey(&*store, &folder, &lane).await?;
    Ok((lane, survey))
}

/// Where a partition ends.
struct End {
    of: Partition,
    position: Position,
    /// What stands behind the lane's position, where positions do not say it.
    behind: Option<u64>,
}

/// The ends of the inputs' partitions, and why those of some are not known.
async fn ends(pipeline: &Pipeline, lane: &Lane) -> (Vec<End>, Vec<String>) {
    let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
    let inputs = pipeline.inputs();
    let has_others = pipeline.has_several_inputs();
    let asked = inputs
        .iter()
        .filter_map(|input| Some((input, lane.input(input.name).or((!has_others).then_some(0))?)));
    let asked = asked.map(async |(input, number)| {
        let ends = ends_of(pipeline, lane, input, number, &runtime).await;
        ends.map_err(|why| if has_others { format!("input `{}`: {why}", input.name) } else { why })
    });
    let (mut all, mut problems) = (Vec::new(), Vec::new());
    for ends in futures::future::join_all(asked).await {
        match ends {
            Ok(ends) => all.extend(ends),
            Err(why) => problems.push(why),
        }
    }
    (all, problems)
}

async fn ends_of(
    pipeline: &Pipeline,
    lane: &Lane,
    input: &Input<'_>,
    number: u32,
    runtime: &Arc<dyn Runtime>,
) -> Result<Vec<End>, String> {
    let source =
        wiring::source_to_look_at(pipeline, input, runtime).await.map_err(|error| error.to_string())?;
    let source = Numbered::new(source, number);
    let ends = async {
        // Under the name of a file that was read another one may stand: its end is another partition's.
        if source.streams() == Streams::Files {
            recognize(&source, lane, number).await;
        }
        let ends = source.ends().await?;
        let known = lane.reading().map(|(_, p)| p).filter(|p| p.input == number);
        let known = known.map(|p| (Partition::new(p.stream.as_str(), p.index).of_input(p.input), p.next));
        let from: Vec<(Partition, Position)> = known
            .filter(|(of, next)| {
                ends.iter().any(|(other, end)| of == other && position::between(*next, *end).is_none())
            })
            .collect();
        let behind = if from.is_empty() { Vec::new() } else { source.behind(&from).await? };
        let of =
            |partition: &Partition| behind.iter().find(|(of, _)| of == partition).map(|(_, count)| *count);
        Ok(ends.into_iter().map(|(of_one, position)| (of(&of_one), of_one, position)).collect::<Vec<_>>())
    };
    match tokio::time::timeout(ENDS_WAIT_MAX, ends).await {
        Ok(Ok(ends)) => {
            Ok(ends.into_iter().map(|(behind, of, position)| End { of, position, behind }).collect())
        }
        Ok(Err(error)) => {
            let error: dataflow::SourceError = error;
            Err(error.to_string())
        }
        Err(_) => Err(format!("the source did not answer within {} seconds", ENDS_WAIT_MAX.as_secs())),
    }
}

/// Lets a source of files find those that were read. What it cannot find, its ends leave out.
async fn recognize(source: &dyn Source, lane: &Lane, number: u32) {
    let known = lane.reading().filter(|(_, p)| p.input == number).map(|(_, p)| ReadFrom {
        partition: Partition::new(p.stream.as_str(), p.index).of_input(p.input),
        identity: p.identity.clone(),
        next: p.next,
        leader_epoch: p.leader_epoch,
    });
    if let Ok(shown) = source.partitions().await {
        let _ = source.recognize(shown, known.collect()).await;
    }
}
