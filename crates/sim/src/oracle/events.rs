//! What the world reports to the oracle.
//!
//! Owns which rule is asked at which event, and the judgement at the end. Does not own the rules ([`super::Oracle`]).

use std::collections::BTreeSet;

use bytes::Bytes;
use protocol::Record;
use protocol::record::Body;

use super::{Broken, Sent};
use crate::executor::Pid;
use crate::records::Row;
use crate::server::{DEAD, VIEW};
use crate::world::State;

impl State {
    fn judge(&mut self, judgement: Result<(), Broken>) {
        if let Err((rule, what)) = judgement {
            self.violate(rule, what);
        }
    }

    /// An object became durable.
    pub fn became_durable(&mut self, key: &str, bytes: &Bytes) {
        let Some(number) = protocol::names::number(key) else { return };
        if key.contains("/floor/") {
            let is_checkpoint = self.oracle.checkpoints.contains(&number);
            self.oracle.floor = self.oracle.floor.max(number);
            if !is_checkpoint {
                self.violate("C7", format!("the floor is {number}, which is no durable checkpoint"));
            }
        } else if key.contains("/journal/") {
            if number < self.oracle.floor {
                self.note("below the floor", number, || format!("`{key}`"));
                return;
            }
            let record = match Record::from_bytes(number, bytes) {
                Ok(record) => record,
                Err(error) => return self.violate("C5", error.to_string()),
            };
            self.note("record", number, || format!("{number} {}", shown(&record)));
            let now_us = self.now_us();
            let Self { oracle, broker, objects, server, .. } = self;
            let judgement = oracle.apply(&record, now_us, broker, objects, server);
            self.judge(judgement);
        }
    }

    /// An object was deleted.
    pub fn was_deleted(&mut self, key: &str) {
        let judgement = self.oracle.was_deleted(key, &self.broker);
        self.judge(judgement);
    }

    /// A process was told that it is the owner.
    pub fn gate_opened(&mut self, pid: Pid, asked_us: u64) {
        let judgement = self.oracle.gate_opened(pid, asked_us);
        self.judge(judgement);
    }

    /// The last bytes of a request left.
    pub fn was_sent(&mut self, sent: &Sent, body: &Bytes) {
        self.note("sent", u64::from(sent.pid), || {
            format!("`{}` to table {} by process {}", sent.token, sent.place, sent.pid)
        });
        let judgement = self.oracle.was_sent(sent, body);
        self.judge(judgement);
    }

    /// Rows came into a table.
    pub fn was_committed(&mut self, sent: &Sent, frame: u128) {
        let times = self.server.committed(sent.place, frame);
        let judgement = self.oracle.was_committed(frame, times);
        self.judge(judgement);
    }

    /// Attempts of a frame were ended, as far as the asking process knows.
    pub fn attempts_ended(&mut self, _pid: Pid, prefix: &str) {
        let now_us = self.now_us();
        self.oracle.ended.insert(prefix.to_owned(), now_us);
    }

    /// At the end: every record has its fate, and the tables hold exactly that.
    pub fn judge_the_end(&mut self) {
        let judgement = self.end();
        self.judge(judgement);
    }

    pub(super) fn end(&self) -> Result<(), Broken> {
        let all = self.broker.streams.iter().flat_map(|s| &s.records);
        let mut units = all.flat_map(|record| self.oracle.plan.units_of(record));
        if let Some(record) = units.find(|unit| !self.oracle.fates.contains_key(&unit.id)) {
            return Err(("C9", format!("record {} at position {} has no fate", record.id, record.position)));
        }
        for (position, id) in &self.oracle.replayed {
            let found = self.broker.replayed_at(*position).map(|record| record.id);
            if found != Some(*id) || !self.oracle.fates.contains_key(id) {
                return Err((
                    "C9",
                    format!(
                        "record {id} was put at {position} of the replay log, and the lane reads {found:?} there"
                    ),
                ));
            }
        }
        let wiped = self.wiped();
        let plan = &self.oracle.plan;
        for place in plan.tables.iter().copied().chain(plan.beside()).chain([DEAD]) {
            let ids = self.ids(place);
            let expected = |id: u64| self.oracle.expected.get(&(place, id)).copied().unwrap_or(0);
            if let Some((id, times)) = ids.iter().find(|(id, times)| **times as i64 != expected(**id)) {
                let what = format!(
                    "row {id} is in table {place} {times} times, and was sealed {} times",
                    expected(*id)
                );
                return Err(("C9", what));
            }
            let sealed = self.oracle.expected.iter().filter(|((of, _), times)| *of == place && **times > 0);
            let is_gone = |id: &u64| place == 0 && wiped.contains(id);
            let mut missing =
                sealed.map(|((_, id), _)| id).filter(|id| !ids.contains_key(id) && !is_gone(id));
            if let Some(id) = missing.next() {
                return Err(("C9", format!("row {id} is not in table {place}")));
            }
        }
        for (place, table) in
            self.server.tables.iter().enumerate().filter(|(_, table)| table.wiped.is_empty())
        {
            let rows = table.parts.iter().flat_map(|(_, rows)| rows);
            let rows: Vec<&Row> = rows.collect();
            if let Some(changes) = &self.oracle.changes {
                changes.check_left(place, rows.iter().copied())?;
            }
            let Some(windows) = &self.oracle.windows else { continue };
            let mut found = windows.iter().map(|windows| windows.check_newest(place, rows.iter().copied()));
            let first = found.next().unwrap_or(Ok(()));
            if first.is_err() && !found.any(|other| other.is_ok()) {
                return first;
            }
        }
        if !self.server.feeds_view(0) {
            return Ok(());
        }
        let of_view = self.ids(VIEW);
        // As often as there: results of one window and key have one id.
        let wrong = self.ids(0).into_iter().find(|(id, times)| of_view.get(id) != Some(times));
        match wrong {
            Some((id, _)) => Err(("C9", format!("record {id} is not once in what the view feeds"))),
            None => Ok(()),
        }
    }

    /// Ids of rows that a person took away, and that nothing brought back, neither under the frame's own token nor by its pieces.
    fn wiped(&self) -> BTreeSet<u64> {
        let there = self.ids(0);
        let gone = self.server.tables[0].wiped.iter().filter(|id| self.server.committed(0, **id) == 0);
        let pieces = gone.filter_map(|id| self.oracle.pieces.get(id));
        pieces.flat_map(|piece| &piece.ids).copied().filter(|id| !there.contains_key(id)).collect()
    }
}

fn shown(record: &Record) -> String {
    let body = match record.body.as_ref() {
        Some(Body::Claim(claim)) => format!("claim by {}", claim.owner),
        Some(Body::Genesis(genesis)) => {
            format!("genesis of {} partitions, {} tables", genesis.partitions.len(), genesis.tables.len())
        }
        Some(Body::Seal(seal)) => {
            let ranges: Vec<_> = seal.ranges.iter().map(|r| (r.partition, r.from(), r.next())).collect();
            let frames: Vec<_> = seal.frames.iter().map(|f| (f.table, f.ordinal, f.rows)).collect();
            let settled: Vec<_> =
                seal.settled.iter().map(|f| (f.table, f.frontier, f.window, f.sent_below)).collect();
            format!(
                "seal of {ranges:?} as frames {frames:?}, settled {settled:?}, refused {}",
                seal.refusals.len()
            )
        }
        Some(Body::Settle(settle)) => {
            let settled: Vec<_> =
                settle.settled.iter().map(|f| (f.table, f.frontier, f.window, f.sent_below)).collect();
            format!("settled {settled:?}")
        }
        Some(Body::Generation(g)) => {
            format!("generation {} of frame {} piece {}", g.generation, g.ordinal, g.piece)
        }
        Some(Body::Split(s)) => {
            format!("split of frame {} piece {} into {}", s.ordinal, s.piece, s.pieces.len())
        }
        Some(Body::Question(q)) => format!("question about frame {}", q.ordinal),
        Some(Body::Answer(a)) => format!("answer about frame {}", a.ordinal),
        Some(Body::Forget(f)) => format!("{} partitions are forgotten", f.partitions.len()),
        Some(Body::Change(c)) => format!("{} steps, {} of them go on", c.steps.len(), c.kept.len()),
        Some(Body::Rewind(r)) => format!("{} partitions are moved", r.moves.len()),
        Some(Body::HandOver(h)) => {
            format!("{} partitions are handed over to lane {}", h.partitions.len(), h.to)
        }
        Some(Body::Rename(r)) => format!("renamed to {}", r.to),
        Some(Body::Removal(r)) if r.is_done => "the removal is done".to_owned(),
        Some(Body::Removal(_)) => "the pipeline is removed".to_owned(),
        Some(Body::Arrival(a)) => format!("arrival from {}", a.from),
        Some(Body::Checkpoint(c)) => format!("checkpoint of the state at {}", c.state_seq),
        None => "nothing".to_owned(),
    };
    format!("of epoch {}: {body}", record.epoch)
}
