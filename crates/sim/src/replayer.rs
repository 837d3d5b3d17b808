//! The persons who replay dead letters.
//!
//! Owns one `dead-letters replay` as the command has it: the choice, the put into the replay log, another look if another came first, and
//! the retirement of what was read. Says where a record stands that it was told is put, for the oracle to compare. Does not own the log
//! (`replays`), nor when a person comes (`plan::replayed`).

use std::sync::Arc;

use engine::journal;
use protocol::{Lane, names};
use replays::object::{Letter, Replay, Replayed};
use replays::taken::Taken;
use replays::{Log, LogError, STREAM};
use store::Store;

use crate::broker::TOPIC;
use crate::executor::{REPLAYER, WORLD};
use crate::lies::ForgetfulStore;
use crate::objects::SimStore;
use crate::plan::replayed;
use crate::records::Record;
use crate::server::DEAD;
use crate::variant::Variant;
use crate::world::World;

/// What is added to the id of a record each time that it is replayed.
pub const AGAIN: u64 = 1 << 32;

/// One record in so many fails again.
const FAILS_ONE_IN: u64 = 4;

/// Writers that may come first at one place of the log.
const RACES_MAX: u32 = 20;

/// The records of an object of the log, and where it begins; `None` for any other object.
pub fn object(key: &str, bytes: &[u8]) -> Option<(u64, Vec<Record>)> {
    let first = names::number(key).filter(|_| key.contains("/replays/"))?;
    let replay = Replay::from_bytes(first, bytes).ok()?;
    let record = |(position, replayed): (u64, &Replayed)| {
        Record::of_payload(replayed.body.as_deref()?, position, replayed.time_ms)
    };
    Some((first, (first..).zip(&replay.records).filter_map(record).collect()))
}

/// Gives the command once. What it comes to nobody has to know: what it did not do, another does.
pub async fn replay(world: &Arc<World>, asked: &replayed::Replay, variant: Option<Variant>) {
    let store: Arc<dyn Store> = Arc::new(SimStore { world: world.clone(), pid: REPLAYER });
    let store: Arc<dyn Store> = match variant {
        Some(Variant::PutWhereNobodyReads) => Arc::new(ForgetfulStore::new(store)),
        _ => store,
    };
    let folder = names::lane_folder("p", world.plan.lane);
    let Ok(lane) = journal::load(&*store, &folder).await else { return };
    let log = Log::new(store, &folder);
    // A store that fails ends the command, as it ends the real one.
    if let Err(error) = place(world, &log, &lane, asked).await {
        world.state().note("replay", 0, || format!("fails: {error}"));
    }
}

async fn place(world: &Arc<World>, log: &Log, lane: &Lane, asked: &replayed::Replay) -> Result<(), LogError> {
    let mut memory = log.memory(position(lane)).await?;
    let mut records = letters(world);
    if asked.is_of_newest {
        records.reverse();
    }
    // Two letters of one record, which two tables have refused, are one replay.
    let mut chosen = Taken::default();
    records.retain(|record| {
        !is_taken(&memory, record) && record.letter.as_ref().is_some_and(|letter| chosen.add(letter))
    });
    records.truncate(asked.letters_max);
    world.executor.sleep_us(asked.sleep_ms * 1_000).await;
    for _ in 0..RACES_MAX {
        records.retain(|record| !is_taken(&memory, record));
        if records.is_empty() {
            break;
        }
        let nonce = world.executor.runtime(WORLD).random().to_le_bytes().to_vec();
        let replay = Replay { first: memory.end, made_at_ms: 0, table: "d.dead".into(), nonce, records };
        world.state().objects.replayer_dies = asked.dies;
        if log.append_behind(&memory, &replay).await? {
            memory.add(&replay);
            was_put(world, &replay);
            break;
        }
        records = replay.records;
        memory = log.memory(memory.lane_next).await?;
    }
    log.retire(&memory, lane).await
}

fn is_taken(memory: &replays::memory::Memory, record: &Replayed) -> bool {
    record.letter.as_ref().is_some_and(|letter| memory.taken.holds(letter))
}

/// Where the lane stands in the log.
fn position(lane: &Lane) -> u64 {
    lane.partition(0, STREAM, 0).map_or(0, |at| dataflow::position::low(lane.partitions[at].next))
}

/// The person is told that these records are put.
fn was_put(world: &Arc<World>, replay: &Replay) {
    let mut state = world.state();
    for (position, record) in (replay.first..).zip(&replay.records) {
        let record = record.body.as_deref().and_then(|body| Record::of_payload(body, position, 0));
        let id = record.map_or(0, |record| record.id);
        state.note("replay", id, || format!("record {id} is put at {position}"));
        state.oracle.was_replayed(position, id);
    }
}

/// The dead letters in their table, each with its record as the person has mended it; one in so many is as bad as before.
fn letters(world: &Arc<World>) -> Vec<Replayed> {
    let state = world.state();
    let rows = state.server.tables[DEAD].parts.iter().flat_map(|(_, rows)| rows);
    let letter = |[id, _, position]: &[u64; 3]| {
        let (partition, record) = state.broker.record(id % AGAIN)?;
        let is_again = *id >= AGAIN;
        let letter = Letter {
            source: if is_again { STREAM } else { TOPIC }.into(),
            partition: if is_again { 0 } else { partition },
            position: *position,
            ..Letter::default()
        };
        let id = id + AGAIN;
        let mended = Record { id, is_good: !(id / AGAIN + record.id).is_multiple_of(FAILS_ONE_IN), ..record };
        Some(Replayed {
            letter: Some(letter),
            origin: format!("{TOPIC}/{partition}/{}", record.position),
            time_ms: record.time_ms,
            body: Some(mended.payload().into_bytes()),
            ..Replayed::default()
        })
    };
    rows.filter_map(letter).collect()
}
