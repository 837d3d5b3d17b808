//! A segment that was sealed and never written, made again from the source.
//!
//! Owns the way from the records that a frame names ([`protocol::record::Made`]) to the bytes that were sealed, and the proof that they are the
//! same. Each block is worked on before the next is read, because the records of a frame may be far longer than its rows. Does not own which segments
//! are left unwritten ([`crate::seal`]) or where they are kept ([`crate::unwritten`]).
//!
//! The source holds the records until they are settled ([`Source::releases`](dataflow::Source::releases)), and the work on them is pure
//! ([`Intake::is_repeatable`]). So the bytes are the same unless the pipeline file, the table or the program have changed since, or somebody
//! has taken the records out of the source: then nothing is sent, and the run ends with the way out. A start with another pipeline file is refused
//! before it has recorded anything ([`check`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dataflow::{
    Event, FrameId, Intake, Partition, Position, Prepared, ReadFrom, RecordBlock, Runtime, Selected,
    SourceError, Table,
};
use protocol::Lane;
use protocol::record::{Frame, Made, Run};
use store::Store;

use crate::EngineError;
use crate::change::Composition;
use crate::gathered::{part, written};
use crate::inputs::Inlet;
use crate::origins::{Origins, Part};
use crate::retry::Backoff;
use crate::segment::{self, Segment};

/// Makes segments again that were sealed and never written.
pub struct Remaker {
    inputs: Arc<[Arc<Inlet>]>,
    /// By place, as `inputs`.
    intakes: Vec<Intake>,
    runtime: Arc<dyn Runtime>,
    retry_pause_max: Duration,
}

/// What is wanted of one partition.
struct Wanted {
    /// The runs of the frame that are of it, by their places among all.
    runs: Vec<(usize, Run)>,
    /// Columns of the table.
    columns: usize,
}

impl Wanted {
    fn end(&self) -> Position {
        self.runs.iter().map(|(_, run)| run.next).max().unwrap_or_default().into()
    }
}

/// Rows of a block that are of one run, and where they come from.
type Rows = (Part, Selected);

/// The rows of a frame, by the place of their run.
type ByRun = BTreeMap<usize, Vec<Rows>>;

impl Remaker {
    /// From the sources of `inputs`, by the work of `intakes`.
    pub fn new(
        inputs: Arc<[Arc<Inlet>]>,
        intakes: Vec<Intake>,
        runtime: Arc<dyn Runtime>,
        retry_pause_max: Duration,
    ) -> Self {
        Self { inputs, intakes, runtime, retry_pause_max }
    }

    /// The segment of `frame`, which goes to `table`; `from` is where the partitions of `made` are read, as [`places`] gives it. Waits while the
    /// source is away.
    ///
    /// # Errors
    /// When the source refuses, or other bytes come out than were sealed.
    pub async fn segment(
        &self,
        from: BTreeMap<u32, ReadFrom>,
        frame: &Frame,
        made: &Made,
        table: Arc<dyn Table>,
    ) -> Result<Vec<Bytes>, EngineError> {
        let refused = |why: String| refused(frame, table.name(), &why);
        let columns = table.schema().columns().len();
        let mut rows = ByRun::new();
        for (index, from) in from {
            let runs =
                made.runs.iter().copied().enumerate().filter(|(_, run)| run.partition == index).collect();
            let wanted = Arc::new(Wanted { runs, columns });
            rows.append(&mut self.partition(&from, &wanted).await.map_err(refused)?);
        }
        let (of_frame, of_table, made) = (frame.clone(), table.clone(), made.clone());
        let again = self.runtime.run(move || again(&of_frame, &made, rows, &*of_table)).await;
        again.ok_or(EngineError::Internal("a frame that is made again"))?.map_err(refused)
    }

    /// What is wanted of a partition; an error says why it cannot be had.
    async fn partition(&self, from: &ReadFrom, wanted: &Arc<Wanted>) -> Result<ByRun, String> {
        let place = self.inputs.iter().position(|input| input.number == from.partition.input);
        let place = place.ok_or("its input is no longer in the pipeline file")?;
        let mut backoff = Backoff::new(self.retry_pause_max);
        loop {
            match self.read(place, from, wanted).await {
                Ok(rows) => return rows,
                Err(error) if error.fault.may_pass() => {
                    if backoff.should_log() {
                        tracing::warn!(%error, "an insert that was not written to the store cannot be made again yet; trying again");
                    }
                    backoff.pause(&*self.runtime).await;
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Reads it once; the inner error is one of the work on its records.
    async fn read(
        &self,
        place: usize,
        from: &ReadFrom,
        wanted: &Arc<Wanted>,
    ) -> Result<Result<ByRun, String>, SourceError> {
        let (end, mut rows) = (wanted.end(), ByRun::new());
        let mut reader = self.inputs[place].source.read(vec![from.clone()]).await?;
        loop {
            let next = match reader.next().await? {
                Event::Block(block) if block.partition == from.partition => {
                    let next = block.next;
                    match self.work(place, block, wanted.clone()).await {
                        Ok(found) => {
                            found.into_iter().for_each(|(run, own)| rows.entry(run).or_default().push(own))
                        }
                        Err(why) => return Ok(Err(why)),
                    }
                    next
                }
                Event::CaughtUp { partition, next, .. } | Event::Ended { partition, next }
                    if partition == from.partition =>
                {
                    next
                }
                // Of partitions that the lane's own reader will find.
                Event::Block(_)
                | Event::CaughtUp { .. }
                | Event::Ended { .. }
                | Event::Found(_)
                | Event::Removed { .. } => continue,
            };
            if next >= end {
                return Ok(Ok(rows));
            }
        }
    }

    /// What the records of a block become, as far as it is wanted.
    async fn work(
        &self,
        place: usize,
        block: RecordBlock,
        wanted: Arc<Wanted>,
    ) -> Result<Vec<(usize, Rows)>, String> {
        let (intake, read_ms) = (self.intakes[place].clone(), self.runtime.wall_ms());
        let work = move || {
            let prepared = intake.prepare(&block, read_ms).map_err(|error| error.to_string())?;
            rows_of(&block, &prepared, &wanted)
        };
        let done = self.runtime.run(work).await;
        done.unwrap_or_else(|| Err("the work on its records broke off".to_owned()))
    }
}

/// The rows of a block that are wanted, by the place of their run.
fn rows_of(block: &RecordBlock, prepared: &Prepared, wanted: &Wanted) -> Result<Vec<(usize, Rows)>, String> {
    let (batch, mut found) = (&prepared.batch, Vec::new());
    for (at, run) in &wanted.runs {
        let is_in = |row: usize| (run.from..run.next).contains(&batch.positions[row]);
        let own = Selected::all(batch.rows.clone()).only(is_in);
        if own.is_empty() {
            continue;
        }
        let places = (batch.positions.clone(), &*batch.items);
        let origins = part(run.partition, places, &own, block, prepared.multiplied.is_some());
        let own = written(own, wanted.columns).map_err(|error| error.to_string())?;
        found.push((*at, (origins, own)));
    }
    Ok(found)
}

/// Whether what the file says now can make the segments again that a process which died has left: with another step or condition other bytes come out.
///
/// # Errors
/// [`EngineError::Mismatch`] if it cannot, with the way out. When the store does not answer.
pub async fn check(store: &dyn Store, lane: &Lane, composition: &Composition) -> Result<(), EngineError> {
    if lane.parts == composition.parts {
        return Ok(());
    }
    let pending = lane.tables.iter().flat_map(|table| table.pending.iter().flatten());
    // Nobody reads the segment of one that is settled beyond another, or was replaced by smaller pieces.
    let needed = pending.filter(|piece| piece.is_live() && piece.frame.made.is_some());
    let made: BTreeSet<&String> = needed.map(|piece| &piece.segment).collect();
    let mut left = 0;
    for object in made {
        left += usize::from(segment::find(store, object, 0, 1, None).await?.is_none());
    }
    match left {
        0 => Ok(()),
        _ => Err(EngineError::Mismatch(changed(left))),
    }
}

fn changed(left: usize) -> String {
    format!(
        "{left} sealed inserts are not in the store, and the pipeline file has changed since they were made. If the process that sealed them still runs, stop it, which \
         writes what waits, and start again. If it died, the next run must make them again from the source, with the inputs, steps and tables of the old file: put \
         the old file back, let the inserts arrive (`forebay run FILE --drain`), and change it then. Nothing was read or sealed"
    )
}

/// Where the partitions are read from that a frame was made of; `None` if the lane knows one of them no more.
pub fn places(lane: &Lane, made: &Made) -> Option<BTreeMap<u32, ReadFrom>> {
    let mut places = BTreeMap::new();
    for Run { partition: index, from, .. } in &made.runs {
        let known = lane.partitions.get(*index as usize)?;
        places.entry(*index).or_insert_with(|| ReadFrom {
            partition: Partition::new(known.stream.as_str(), known.index).of_input(known.input),
            identity: known.identity.clone(),
            next: (*from).into(),
            leader_epoch: known.leader_epoch,
        });
    }
    Some(places)
}

/// The pieces of the segment, if they are what was sealed.
fn again(frame: &Frame, made: &Made, rows: ByRun, table: &dyn Table) -> Result<Vec<Bytes>, String> {
    // In the order in which they were read.
    let (parts, rows): (Vec<Part>, Vec<Selected>) = rows.into_values().flatten().unzip();
    let origins = Origins { watermark_ms: made.watermark_ms, parts };
    let id = frame.id.as_slice().try_into().map(u128::from_le_bytes).map_err(|_| "it has no name")?;
    let encoded = table.encode(&rows, &mut || FrameId(id)).map_err(|error| error.message)?;
    let [encoded] = encoded.as_slice() else {
        return Err(format!("{} inserts come out of its records instead of one", encoded.len()));
    };
    let mut segment = Segment::default();
    let origins = origins.encode(&encoded.rows_from).into();
    let made_again = segment.frame(frame.table, frame.ordinal, encoded, origins);
    let is_same = Frame { layout: frame.layout, made: frame.made.clone(), ..made_again } == *frame;
    if !is_same {
        let what = "other bytes come out of its records: the pipeline file, the columns of the table or the program are not those that it was sealed with";
        return Err(what.to_owned());
    }
    Ok(segment.into_pieces())
}

fn refused(frame: &Frame, table: &str, why: &str) -> EngineError {
    EngineError::Mismatch(format!(
        "insert {} for table `{table}` ({} rows) was sealed, its bytes were not written to the store before the process died, and it cannot be made again: \
         {why}. Nothing of it was sent again. Undo what was changed since, start the pipeline, and let the inserts arrive (`forebay run FILE \
         --drain`) before you change it",
        frame.ordinal, frame.rows
    ))
}
