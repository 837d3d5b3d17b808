//! What must hold: C1 to C10, looked at whenever the world changes.
//!
//! Owns a fold of its own over the journal's durable records, and compares it with the broker's records, the table's rows and tokens,
//! and the requests that were sent. It uses `protocol` to read a record's bytes and for nothing else: none of its decisions and none of
//! its checks. Does not own the dedup rule ([`dedup`]) or what happens in the world.
//!
//! | event                  | looked at                                                                             | rules     |
//! |------------------------|---------------------------------------------------------------------------------------|-----------|
//! | a record is durable    | its number, epoch and nonce; ranges against the broker; frames against the segment    | C1 C3 C5  |
//! | a seal is durable      | rows and counts against the records of its ranges, by the rule of dedup               | C6 C9 C10 |
//! | a seal is durable      | the watermark has come as far as the times of what was read, whatever became of it    | C6        |
//! | a seal is durable      | no frame lacks a column that one which waits for the same table holds                 | C9        |
//! | a frontier is recorded | the rows of every frame below it, in the table                                        | C4        |
//! | a request is complete  | its seal is durable, its bytes are the sealed ones, it is within the window            | C2 C3 C8  |
//! | a gate opens           | no newer claim was durable when it was asked                                          | C5        |
//! | rows are committed     | those of this frame are there once, and it is no dead piece                           | C3 C8     |
//! | every input has ended  | a seal may close all that is open, and a run that is complete has done so              | C6        |
//! | a person moves it back | everything is delivered; what is read again has its fate and its rows once more      | C1 C6 C9  |
//! | a new generation       | none of the rows is there, and no earlier attempt runs                                | C8        |
//! | an object is deleted   | nothing points to it, and the floor is above; of the replay log, all of it was read     | C7        |
//! | the end                | every record has one fate, and the tables hold exactly that                           | C9        |
//! | the end                | a record that a person was told is put into the replay log was read where it was put  | C9        |

mod changes;
mod clock;
pub mod dedup;
mod ends;
mod events;
mod fold;
mod items;
mod joins;
mod windows;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::position;
use dataflow::position::Position;

use crate::broker::{Broker, REPLAYS};
use crate::executor::Pid;
use crate::oracle::clock::Clocks;
use crate::oracle::dedup::Model;
use crate::oracle::ends::Guesses;
use crate::plan::Plan;
use crate::records::from_body;
use crate::server::{Insert, PLACES};

/// A rule and what breaks it.
pub type Broken = (&'static str, String);

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its rows are in frames.
    Written,
    /// No table gets rows of its key.
    Dropped,
    /// Its key was seen.
    Duplicate,
    /// It came too late.
    Late,
    /// It is a dead letter.
    Dead,
    /// It is a part of a window's results.
    Absorbed,
}

/// A request as the oracle sees it.
#[derive(Clone, Debug)]
pub struct Sent {
    place: usize,
    pid: Pid,
    token: String,
}

/// Whether a body has the name and the rows of another, in whatever order.
fn has_rows_of(sealed: &Bytes, sent: &Bytes) -> bool {
    let sorted = |body: &Bytes| {
        from_body(body).map(|(id, mut rows)| {
            rows.sort_unstable();
            (id, rows)
        })
    };
    sealed == sent || sorted(sealed).is_some_and(|sealed| sorted(sent) == Some(sealed))
}

impl Sent {
    /// Of this insert.
    pub fn of(insert: &Insert) -> Self {
        Self { place: insert.place, pid: insert.pid, token: insert.token.clone() }
    }

    /// The frame's name and the generation in the token.
    fn parse(&self) -> Option<(u128, u32)> {
        let (id, generation) = self.token.strip_prefix("forebay-")?.split_once("-g")?;
        Some((u128::from_str_radix(id, 16).ok()?, generation.parse().ok()?))
    }
}

/// A frame or a piece of one.
#[derive(Clone, Debug)]
struct Piece {
    place: usize,
    ordinal: u64,
    generation: u32,
    body: Bytes,
    ids: Vec<u64>,
    segment: String,
    is_dead: bool,
    /// Whether it holds the column that a person may drop.
    has_time: bool,
}

/// A table as the journal has it.
#[derive(Clone, Debug, Default)]
struct TableFold {
    frontier: u64,
    window: u64,
    next_ordinal: u64,
    /// Rows in its frames, and those of them that were refused.
    sealed: u64,
    refused: u64,
    /// Names of the pieces of every frame, by ordinal and piece.
    frames: BTreeMap<u64, Vec<u128>>,
}

/// Everything that the oracle knows.
#[derive(Clone, Debug)]
pub struct Oracle {
    next_seq: u64,
    epoch: u64,
    nonce: Vec<u8>,
    /// Who made the newest claim, and when it was durable.
    owner: Option<(Pid, u64)>,
    nonces: Vec<Vec<u8>>,
    /// Where each of the lane's partitions stands, with the broker's number of it.
    partitions: Vec<(usize, Position)>,
    /// The place of each of the lane's inputs.
    inputs: Vec<usize>,
    /// The leader epoch of the last record that was sealed of a partition.
    epochs: BTreeMap<usize, i32>,
    /// The lane's index of a table to its place.
    places: Vec<usize>,
    tables: [TableFold; PLACES],
    pieces: BTreeMap<u128, Piece>,
    bodies: BTreeMap<String, Bytes>,
    floor: u64,
    checkpoints: Vec<u64>,
    snapshots: Vec<String>,
    deltas: Vec<(u64, String)>,
    /// When attempts of a frame were last ended, by the beginning of their query ids.
    ended: BTreeMap<String, u64>,
    /// When a person was asked last, or asked for a stop, microseconds; `None` once an answer came.
    pub asked_us: Option<u64>,
    /// Positions that a person has moved back over.
    pub read_again: u64,
    /// Whether the frames of a table with this number of a layout hold the column that a person may drop.
    layouts: BTreeMap<(u32, u32), bool>,
    /// Where in the replay log a record stands, as a person was told.
    replayed: Vec<(u64, u64)>,
    model: Model,
    windows: Option<Guesses<windows::Model>>,
    joins: Option<Guesses<joins::Model>>,
    changes: Option<changes::Model>,
    /// Processes that stop at the present end of their inputs, which closes nothing.
    drains: BTreeSet<Pid>,
    clocks: Clocks,
    fates: BTreeMap<u64, Fate>,
    /// The rows that each table must hold in the end, by id, as far as they are sealed and not refused.
    expected: BTreeMap<(usize, u64), i64>,
    plan: Plan,
    /// How far ahead of the true time a watermark may be, milliseconds.
    watermark_ahead_ms_max: Option<i64>,
}

impl Oracle {
    /// An oracle that has seen nothing.
    pub fn new(plan: &Plan) -> Self {
        Self {
            next_seq: 0,
            epoch: 0,
            nonce: Vec::new(),
            owner: None,
            nonces: Vec::new(),
            partitions: Vec::new(),
            inputs: Vec::new(),
            epochs: BTreeMap::new(),
            places: Vec::new(),
            tables: Default::default(),
            pieces: BTreeMap::new(),
            bodies: BTreeMap::new(),
            floor: 0,
            checkpoints: Vec::new(),
            snapshots: Vec::new(),
            deltas: Vec::new(),
            ended: BTreeMap::new(),
            asked_us: None,
            read_again: 0,
            layouts: BTreeMap::new(),
            replayed: Vec::new(),
            model: Model::new(plan),
            windows: windows::Model::new(plan).map(Guesses::new),
            joins: joins::Model::new(plan).map(Guesses::new),
            changes: changes::Model::new(plan),
            drains: BTreeSet::new(),
            clocks: Clocks::new(plan),
            fates: BTreeMap::new(),
            expected: BTreeMap::new(),
            plan: plan.clone(),
            watermark_ahead_ms_max: plan.watermark_ahead_ms_max(),
        }
    }

    /// A person is told that a record stands at this position of the replay log.
    pub fn was_replayed(&mut self, position: u64, id: u64) {
        self.replayed.push((position, id));
    }

    /// The process that made the newest claim.
    pub fn owner(&self) -> Option<Pid> {
        self.owner.map(|(pid, _)| pid)
    }

    /// Journal records so far.
    pub fn records(&self) -> u64 {
        self.next_seq
    }

    /// Where the lane stands in each of the broker's partitions.
    pub fn sealed(&self) -> Vec<(usize, u64)> {
        self.partitions.iter().map(|(number, next)| (*number, position::low(*next))).collect()
    }

    /// True if records were sealed that the broker's log has no more.
    pub fn has_lost(&self, broker: &Broker) -> bool {
        self.partitions.iter().any(|(number, next)| {
            let epoch = self.epochs.get(number).copied().unwrap_or(NO_LEADER_EPOCH);
            broker.streams.get(*number).is_some_and(|stream| stream.has_lost(epoch, position::low(*next)))
        })
    }

    /// True if records are gone at the broker that were not sealed.
    pub fn has_expired(&self, broker: &Broker) -> bool {
        let next =
            |n: usize| self.partitions.iter().find(|(number, _)| *number == n).map_or(0, |(_, next)| *next);
        broker.streams.iter().enumerate().any(|(n, stream)| stream.has_expired(position::low(next(n))))
    }

    /// True if all that the journal seals is settled, as recorded.
    pub fn is_settled(&self) -> bool {
        self.tables.iter().all(|t| t.frontier == t.next_ordinal)
    }

    /// True if no result of a closed window is still in files.
    pub fn is_out(&self) -> bool {
        self.windows.as_ref().is_none_or(|windows| windows.iter().any(windows::Model::is_out))
            && self.joins.as_ref().is_none_or(|joins| joins.iter().any(joins::Model::is_out))
    }

    /// A process begins that is to stop at the present end of its inputs.
    pub fn drains(&mut self, pid: Pid) {
        self.drains.insert(pid);
    }

    /// Seals that have closed what was open because every input had ended.
    pub fn closings(&self) -> u64 {
        let of_windows = self.windows.as_ref().map_or(0, Guesses::closings);
        of_windows + self.joins.as_ref().map_or(0, Guesses::closings)
    }

    /// A run has come to the end of its inputs, and nothing [waits](Self::waiting).
    pub fn came_to_an_end(&mut self) {
        if self.plan.aggregates.is_some_and(|of| of.closes) {
            self.windows.iter_mut().for_each(Guesses::came_to_an_end);
        }
        if self.plan.joins.is_some_and(|of| of.closes) {
            self.joins.iter_mut().for_each(Guesses::came_to_an_end);
        }
    }

    /// Whether a process is such a one.
    pub fn is_drain(&self, pid: Pid) -> bool {
        self.drains.contains(&pid)
    }

    /// Records that should have been released once every input had ended; 0 where steps wait then.
    pub fn waiting(&self) -> u64 {
        let of_windows = self.windows.as_ref().filter(|_| self.plan.aggregates.is_some_and(|of| of.closes));
        let of_joins = self.joins.as_ref().filter(|_| self.plan.joins.is_some_and(|of| of.closes));
        of_windows.map_or(0, Guesses::waiting) + of_joins.map_or(0, Guesses::waiting)
    }

    /// Whether a seal after which the lane stands so may close all that is open.
    fn may_close(&self, broker: &Broker) -> bool {
        let owner = self.owner().filter(|pid| !self.drains.contains(pid));
        let closes =
            self.plan.aggregates.is_some_and(|of| of.closes) || self.plan.joins.is_some_and(|of| of.closes);
        closes && owner.is_some_and(|pid| broker.has_ended_for(pid, &self.sealed()))
    }

    /// The watermark that windows have come to.
    pub fn watermark_ms(&self) -> i64 {
        let newest =
            self.windows.iter().flat_map(|windows| windows.iter().map(windows::Model::watermark_ms)).max();
        newest.unwrap_or(i64::MIN)
    }

    /// Says what is not settled.
    pub fn unsettled(&self) -> String {
        let of = |t: &TableFold| format!("{} of {}", t.frontier, t.next_ordinal);
        let tables: Vec<String> = self.tables.iter().map(of).collect();
        let out = if self.is_out() { "" } else { ", and results of closed windows are to come" };
        format!("settled frames by table {tables:?}, sealed {:?}{out}", self.partitions)
    }

    fn gate_opened(&self, pid: Pid, asked_us: u64) -> Result<(), Broken> {
        match self.owner {
            Some((owner, since_us)) if owner != pid && since_us < asked_us => Err((
                "C5",
                format!(
                    "process {pid} was let through, though process {owner} had claimed the lane before it asked"
                ),
            )),
            _ => Ok(()),
        }
    }

    fn was_sent(&mut self, sent: &Sent, body: &Bytes) -> Result<(), Broken> {
        let Some((id, generation)) = sent.parse() else {
            return Err(("C3", format!("token `{}` is not that of a sealed frame", sent.token)));
        };
        let Some(piece) = self.pieces.get(&id) else {
            return Err(("C2", format!("frame {id:032x} was sent, and no durable record seals it")));
        };
        if generation > piece.generation {
            return Err((
                "C2",
                format!("generation {generation} of frame {id:032x} was sent before its seal"),
            ));
        }
        if !has_rows_of(&piece.body, body) || piece.place != sent.place {
            return Err(("C3", format!("frame {id:032x} was sent with other rows than were sealed")));
        }
        if !has_rows_of(self.bodies.entry(sent.token.clone()).or_insert_with(|| body.clone()), body) {
            return Err(("C3", format!("token `{}` names other rows", sent.token)));
        }
        let table = &self.tables[piece.place];
        if piece.ordinal >= table.frontier + table.window {
            return Err(("C8", format!("frame {} was sent beyond the recorded window", piece.ordinal)));
        }
        if piece.is_dead && self.owner() == Some(sent.pid) {
            return Err(("C3", format!("the token of frame {id:032x} is dead, and was sent")));
        }
        Ok(())
    }

    fn was_committed(&self, frame: u128, times: usize) -> Result<(), Broken> {
        if times > 1 {
            return Err(("C8", format!("the rows of frame {frame:032x} are in the table {times} times")));
        }
        match self.pieces.get(&frame) {
            Some(piece) if !piece.is_dead => Ok(()),
            Some(_) => Err(("C3", format!("the rows of the dead frame {frame:032x} came into the table"))),
            None => {
                Err(("C2", format!("the rows of frame {frame:032x} are in the table, and nothing seals it")))
            }
        }
    }

    fn was_deleted(&self, key: &str, broker: &Broker) -> Result<(), Broken> {
        let number = protocol::names::number(key);
        let read_to = |n: usize| {
            self.partitions.iter().find(|(of, _)| *of == n).map_or(0, |(_, next)| position::low(*next))
        };
        let is_needed = if key.contains("/journal/") {
            number.is_none_or(|n| n >= self.floor)
        } else if key.contains("/floor/") {
            number.is_none_or(|n| n >= self.floor)
        } else if key.contains("/replays/") {
            // One that does not begin where the log's objects do is no part of it.
            number.is_none_or(|n| broker.replay_end(n).is_some_and(|end| end > read_to(REPLAYS)))
        } else {
            let of_table = |t: &TableFold| {
                t.frames
                    .range(t.frontier..)
                    .any(|(_, ids)| ids.iter().any(|id| self.pieces[id].segment == key))
            };
            self.tables.iter().any(of_table)
                || self.deltas.iter().any(|(_, segment)| segment == key)
                || self.snapshots.iter().any(|s| s == key)
        };
        if is_needed { Err(("C7", format!("`{key}` was deleted, and is still needed"))) } else { Ok(()) }
    }
}
