//! Reads a range of the source once more, as the pipeline would, without keeping or publishing anything.
//!
//! Owns the dry run: blocks, the pipeline's own decoder, and its steps before the lane, which keep no state. Does not own what is done with
//! the keys that come out ([`super::expect`]).

use dataflow::position;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clickhouse::reconcile::{self, KeyPlan, Value, Values};
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{
    Batch, Event, Intake, OperatorError, Partition, Position, Prepared, ReadFrom, RecordBlock, Reject,
    Router, Runtime, Selected, Source,
};
use futures::future::BoxFuture;
use futures::stream::{FuturesOrdered, StreamExt};
use protocol::Lane;

use super::newest::Newest;
use super::place::{Place, Places};
use super::spill::Entry;

/// A source that gives nothing for this long, though it should, is away.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Rejects whose places are remembered; beyond it they are only counted.
const REJECTS_MAX: usize = 1_000_000;

/// Positions to read, by the lane's number of the partition: from and to.
pub type Ranges = BTreeMap<u32, (Position, Position)>;

/// Record times (the source's) to look at, Unix milliseconds; `from` included, `to` not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// From here on.
    pub from: Option<i64>,
    /// Up to here.
    pub to: Option<i64>,
}

impl Times {
    fn contain(&self, time_ms: i64) -> bool {
        self.from.is_none_or(|from| time_ms >= from) && self.to.is_none_or(|to| time_ms < to)
    }
}

/// What was read so far.
#[derive(Debug, Default)]
pub struct Seen {
    /// Records.
    pub records: u64,
    /// Records, and items of records, that do not become rows.
    pub rejects: u64,
    /// Their places, as long as they are not too many.
    pub places: Places,
}

/// A block and what it became.
type Made = (RecordBlock, Result<Prepared, OperatorError>);

/// An input that is read once more.
pub struct DryInput {
    /// Its number in the lane.
    pub number: u32,
    /// Where its records come from; the partitions carry the number.
    pub source: Arc<dyn Source>,
    /// What their bytes are, and the pipeline's steps before the lane; those with state are left out.
    pub intake: Intake,
}

/// A second reading of the source through the pipeline's steps, which keeps and publishes nothing.
pub struct DryRun {
    /// The inputs, which are read one after the other.
    pub inputs: Vec<DryInput>,
    /// Which rows are the table's, of several tables: the router, and the table's place.
    pub part: Option<(Arc<dyn Router>, usize)>,
    /// The key.
    pub key: KeyPlan,
    /// The other columns, if their values are compared.
    pub values: Option<Values>,
    /// What orders the records of a key, if rows replace each other.
    pub newest: Option<Newest>,
    /// Clock and threads.
    pub runtime: Arc<dyn Runtime>,
    /// Which records count.
    pub times: Times,
    /// Records whose key the server has made.
    pub nameless: Nameless,
}

/// Rows that leave out a column of the key which the server then fills: they are there, under keys that nobody knows.
#[derive(Debug, Default)]
pub struct Nameless {
    /// How many.
    pub records: u64,
    /// The first of them.
    pub first: Option<Entry>,
    /// Their places, as long as they are not too many.
    pub places: Places,
}

impl Nameless {
    fn add(&mut self, entry: Entry) {
        self.records += 1;
        self.first.get_or_insert(entry);
        if self.places.len() < REJECTS_MAX {
            self.places.insert(entry.place);
        }
    }
}

impl DryRun {
    /// Reads `ranges` of the lane's partitions and hands every row's entry and key to `each`.
    ///
    /// # Errors
    /// When the source does not answer, does not hold these positions any more, or `each` fails.
    pub async fn read(
        &mut self,
        lane: &Lane,
        ranges: &Ranges,
        seen: &mut Seen,
        each: &mut (dyn FnMut(Entry, &[u8]) -> anyhow::Result<()> + Send),
    ) -> anyhow::Result<()> {
        for at in 0..self.inputs.len() {
            let number = self.inputs[at].number;
            let is_of_input = |n: &u32| lane.partitions[*n as usize].input == number;
            let open = ranges.iter().filter(|(_, (from, to))| from < to).map(|(n, _)| *n);
            let open: BTreeSet<u32> = open.filter(is_of_input).collect();
            if !open.is_empty() {
                self.read_input(at, open, (lane, ranges), seen, each).await?;
            }
        }
        Ok(())
    }

    /// The same for the partitions `open` of one input.
    async fn read_input(
        &mut self,
        input: usize,
        mut open: BTreeSet<u32>,
        (lane, ranges): (&Lane, &Ranges),
        seen: &mut Seen,
        each: &mut (dyn FnMut(Entry, &[u8]) -> anyhow::Result<()> + Send),
    ) -> anyhow::Result<()> {
        let from = open.iter().map(|n| {
            let p = &lane.partitions[*n as usize];
            ReadFrom {
                partition: Partition::new(p.stream.as_str(), p.index).of_input(p.input),
                identity: p.identity.clone(),
                next: ranges[n].0,
                leader_epoch: NO_LEADER_EPOCH,
            }
        });
        let mut reader = self.inputs[input]
            .source
            .read(from.collect())
            .await
            .context("the source cannot be read again")?;
        let ahead_max = 2 * self.runtime.compute_threads();
        let mut decoding: FuturesOrdered<BoxFuture<'static, Option<Made>>> = FuturesOrdered::new();
        while !open.is_empty() || !decoding.is_empty() {
            tokio::select! {
                biased;
                Some(decoded) = decoding.next(), if !decoding.is_empty() => {
                    let (block, prepared) = decoded.context("the decoder failed on a block; please report this")?;
                    self.take(lane, ranges, (&block, prepared?), seen, each)?;
                }
                event = tokio::time::timeout(SILENCE_MAX, reader.next()),
                    if !open.is_empty() && decoding.len() < ahead_max => {
                    let event = match event {
                        Err(_) => bail!("the source gave nothing for {} s", SILENCE_MAX.as_secs()),
                        Ok(Err(error)) if error.fault.may_pass() => {
                            tracing::warn!(%error, "the source is unavailable; trying again");
                            tokio::time::sleep(Duration::from_secs(1)).await;
                            continue;
                        }
                        Ok(Err(error)) => return Err(error).context("the source cannot be read again"),
                        Ok(Ok(event)) => event,
                    };
                    let (partition, next) = match event {
                        Event::Block(block) => {
                            let at = (block.partition.clone(), block.next);
                            let intake = self.inputs[input].intake.clone();
                            decoding.push_back(self.runtime.run(move || {
                                let prepared = intake.prepare(&block, 0);
                                (block, prepared)
                            }));
                            at
                        }
                        Event::CaughtUp { partition, next, .. } => (partition, next),
                        Event::Ended { partition, .. } => (partition, Position::MAX),
                        Event::Found(_) | Event::Removed { .. } => continue,
                    };
                    if let Some(n) = number(lane, &partition)
                        && ranges.get(&n).is_some_and(|(_, to)| next >= *to)
                        && open.remove(&n)
                    {
                        reader.pause(&partition);
                    }
                }
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        lane: &Lane,
        ranges: &Ranges,
        (block, prepared): (&RecordBlock, Prepared),
        seen: &mut Seen,
        each: &mut (dyn FnMut(Entry, &[u8]) -> anyhow::Result<()> + Send),
    ) -> anyhow::Result<()> {
        let Some(partition) = number(lane, &block.partition) else { return Ok(()) };
        let Some((from, to)) = ranges.get(&partition).copied() else { return Ok(()) };
        let times = self.times;
        let counts = |at: Position, time_ms: i64| (from..to).contains(&at) && times.contain(time_ms);
        // Records are chosen by the time that the source gave them, whatever the steps take for it.
        let records = (0..block.len()).filter(|row| counts(block.position(*row), block.times_ms[*row]));
        let counted: Vec<u64> = records.map(|row| block.positions[row]).collect();
        let Prepared { batch, mut rejects, .. } = prepared;
        rejects.retain(|r| counted.binary_search(&position::low(r.position)).is_ok());
        let keep: Vec<bool> = batch.positions.iter().map(|p| counted.binary_search(p).is_ok()).collect();
        let batch = batch.filter(&keep.into()).context("a batch cannot be filtered")?;
        seen.records += counted.len() as u64;
        let batch = self.own(batch)?;
        reject(seen, partition, &rejects);
        self.hand_over(partition, &batch, each)
    }

    /// The rows that the table gets, with its columns.
    fn own(&self, batch: Batch) -> anyhow::Result<Batch> {
        let Some((router, place)) = &self.part else { return Ok(batch) };
        let parts = router.route(&Selected::all(batch.rows.clone()));
        let part = parts.into_iter().find_map(|(at, part)| (at == *place).then_some(part));
        let mut keep = vec![false; batch.len()];
        for stretch in part.iter().flat_map(|part| part.stretches()) {
            keep[stretch.start as usize..stretch.end as usize].fill(true);
        }
        let rows = part.map_or_else(|| batch.rows.clone(), |part| part.batch().clone());
        Batch { rows, ..batch }.filter(&keep.into()).context("a batch cannot be filtered")
    }

    fn hand_over(
        &mut self,
        partition: u32,
        batch: &Batch,
        each: &mut (dyn FnMut(Entry, &[u8]) -> anyhow::Result<()> + Send),
    ) -> anyhow::Result<()> {
        let mut result = Ok(());
        let nameless = self.key.unknown(&batch.rows).map_err(anyhow::Error::msg)?;
        let values = match &self.values {
            Some(plan) => plan.of(&batch.rows).map_err(anyhow::Error::msg)?,
            None => vec![Value::default(); batch.len()],
        };
        let orders = self.newest.as_ref().map(|newest| newest.of(batch)).transpose();
        let orders = orders.map_err(anyhow::Error::msg)?;
        let texts = self.key.texts(&batch.rows, |row, text| {
            if result.is_ok() {
                let hash = reconcile::hash(text);
                let (order, is_deleted) = orders.as_ref().map_or((batch.times_ms[row], false), |of| of[row]);
                let place = Place::new(partition, batch.positions[row], batch.item(row));
                let Value { sum, missing } = values[row];
                let entry = Entry { hash, order, place, value: sum, missing, is_deleted };
                match &nameless {
                    Some(nameless) if nameless[row] => self.nameless.add(entry),
                    _ => result = each(entry, text),
                }
            }
        });
        texts.map_err(anyhow::Error::msg)?;
        result
    }
}

fn reject(seen: &mut Seen, partition: u32, rejects: &[Reject]) {
    seen.rejects += rejects.len() as u64;
    for reject in rejects {
        if seen.places.len() < REJECTS_MAX {
            seen.places.insert(Place::of(partition, reject));
        }
    }
}

/// The lane's number of a partition.
fn number(lane: &Lane, partition: &Partition) -> Option<u32> {
    lane.partition(partition.input, &partition.stream, partition.index).map(|n| n as u32)
}
