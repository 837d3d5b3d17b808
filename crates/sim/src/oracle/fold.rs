//! The oracle's own fold over durable records.
//!
//! Owns what a record must agree with in the broker, the store and the table. Does not own what a seal must ([`seal`]), what holds of frames
//! ([`frames`]), nor the events that lead here.

mod frames;
mod seal;

use protocol::Record;
use protocol::record::{Body, Checkpoint, Claim, Genesis, Rewind, TableGenesis};

use super::{Broken, Oracle};
use crate::broker::{Broker, REPLAYS};
use crate::executor::WALL_BEGIN_MS;
use crate::objects::Objects;
use crate::plan::inputs;
use crate::server::{DEAD, Server};
use crate::table::NAMES;
use frames::id;
pub use seal::{counts_of, rejects_alone};

impl Oracle {
    /// Applies a record that became durable.
    pub(super) fn apply(
        &mut self,
        record: &Record,
        now_us: u64,
        broker: &Broker,
        objects: &Objects,
        server: &Server,
    ) -> Result<(), Broken> {
        if record.seq != self.next_seq {
            return Err((
                "C5",
                format!("record {} became durable, the next is {}", record.seq, self.next_seq),
            ));
        }
        let body = record.body.as_ref().expect("a record that was read has a body");
        if !matches!(body, Body::Claim(_)) && (record.epoch != self.epoch || record.nonce != self.nonce) {
            return Err((
                "C5",
                format!("record {} is of epoch {}, the owner's is {}", record.seq, record.epoch, self.epoch),
            ));
        }
        self.next_seq += 1;
        match body {
            Body::Claim(claim) => self.claim(record, claim, now_us),
            Body::Genesis(genesis) => self.genesis(genesis, server),
            Body::Seal(seal) => {
                self.watermark(seal.watermark_ms, now_us)?;
                self.seal((record.seq, now_us), seal, broker, objects, server)
            }
            Body::Settle(settle) => {
                self.settle(&settle.settled, server)?;
                for above in &settle.above {
                    let place = self.places[above.table as usize];
                    above.ordinals.iter().try_for_each(|ordinal| self.is_there(place, *ordinal, server))?;
                }
                Ok(())
            }
            // Neither changes what is in the table; what follows is judged when it happens.
            Body::Question(_) => {
                self.asked_us = Some(now_us);
                Ok(())
            }
            Body::Answer(_) => {
                self.asked_us = None;
                Ok(())
            }
            Body::Forget(_) => Err(("order", "a stream was forgotten, though nobody asked for it".into())),
            Body::HandOver(_) => Err(("order", "a partition was handed over, and there is one lane".into())),
            Body::Change(_) => Err(("order", "the pipeline was changed, though nobody asked for it".into())),
            Body::Rewind(rewind) => self.moved(rewind, broker),
            Body::Rename(_) | Body::Arrival(_) => {
                Err(("order", "the pipeline was renamed, though nobody asked for it".into()))
            }
            Body::Removal(_) => Err(("order", "the pipeline was removed, though nobody asked for it".into())),
            Body::Generation(generation) => self.generation(generation, server),
            Body::Split(split) => self.split(split, (broker, objects), server),
            Body::Checkpoint(checkpoint) => self.checkpoint(record.seq, checkpoint, objects),
        }
    }

    fn claim(&mut self, record: &Record, claim: &Claim, now_us: u64) -> Result<(), Broken> {
        if record.epoch != self.epoch + 1 || self.nonces.contains(&record.nonce) {
            return Err((
                "C5",
                format!("a claim of epoch {} after {}, or a nonce used before", record.epoch, self.epoch),
            ));
        }
        self.epoch = record.epoch;
        self.nonce.clone_from(&record.nonce);
        self.nonces.push(record.nonce.clone());
        self.clocks.claimed();
        let pid = claim.owner.strip_prefix("process-").and_then(|pid| pid.parse().ok()).unwrap_or_default();
        self.owner = Some((pid, now_us));
        Ok(())
    }

    /// C6: no clock of a record frees state that the window still needs.
    fn watermark(&self, watermark_ms: i64, now_us: u64) -> Result<(), Broken> {
        let true_ms = WALL_BEGIN_MS + (now_us / 1_000) as i64;
        match self.watermark_ahead_ms_max {
            Some(ahead_ms_max) if watermark_ms.saturating_sub(true_ms) > ahead_ms_max => Err((
                "C6",
                format!("the watermark is {} ms ahead of the time", watermark_ms.saturating_sub(true_ms)),
            )),
            _ => Ok(()),
        }
    }

    fn genesis(&mut self, genesis: &Genesis, _server: &Server) -> Result<(), Broken> {
        for name in &genesis.inputs {
            let place = inputs::NAMES.iter().position(|known| known == name);
            self.inputs.push(place.ok_or(("C9", format!("`{name}` is no input")))?);
        }
        for p in &genesis.partitions {
            let number = number_of(&p.stream, p.index);
            if self.partitions.iter().any(|(known, _)| *known == number) {
                return Err(("C1", format!("partition {number} has two first positions")));
            }
            if p.next() != 0 {
                return Err((
                    "C1",
                    format!("partition {number} begins at {}, and not at its beginning", p.next()),
                ));
            }
            self.partitions.push((number, p.next()));
        }
        for TableGenesis { name, takes_dead_letters } in &genesis.tables {
            let place =
                NAMES.iter().position(|n| n == name).ok_or(("C3", format!("`{name}` is no table")))?;
            if *takes_dead_letters != (place == DEAD) {
                return Err(("C9", format!("`{name}` takes dead letters: {takes_dead_letters}")));
            }
            self.places.push(place);
        }
        Ok(())
    }

    /// A person moves the lane: only what is delivered lies behind it, and what is read again has no fate yet.
    fn moved(&mut self, rewind: &Rewind, broker: &Broker) -> Result<(), Broken> {
        let Some(asked) = self.plan.moved else {
            return Err(("order", "the pipeline was moved, though nobody asked for it".into()));
        };
        if !self.is_settled() {
            return Err(("C9", format!("the pipeline is moved, and {}", self.unsettled())));
        }
        for moved in &rewind.moves {
            let at = self.partitions.get_mut(moved.partition as usize);
            let (number, next) = at.ok_or(("C1", "no such partition".into()))?;
            if *next != moved.from() {
                return Err((
                    "C1",
                    format!("partition {number} is moved from {}, and stands at {next}", moved.from()),
                ));
            }
            *next = moved.next();
            self.read_again += moved.from().saturating_sub(moved.next()) as u64;
            let again = broker.streams[*number].records.iter();
            let again = again.filter(|r| (moved.next()..moved.from()).contains(&r.position.into()));
            for unit in again.flat_map(|record| self.plan.units_of(record)) {
                self.fates.remove(&unit.id);
            }
            if asked.is_emptied {
                self.clocks.begin_again(*number);
            }
        }
        if rewind.emptied.is_empty() == asked.is_emptied {
            return Err(("C6", format!("the state is given up: {:?}, asked for: {asked:?}", rewind.emptied)));
        }
        let said = rewind.discarded;
        let held = self.windows.as_mut().map_or(0, |windows| windows.begin_again(said))
            + self.joins.as_mut().map_or(0, |joins| joins.begin_again(said));
        if rewind.discarded != held {
            return Err(("C9", format!("{} records are discarded, and {held} were held", rewind.discarded)));
        }
        if asked.is_emptied {
            self.model.begin_again();
            self.deltas.clear();
            self.snapshots.clear();
        }
        Ok(())
    }

    fn checkpoint(&mut self, seq: u64, checkpoint: &Checkpoint, objects: &Objects) -> Result<(), Broken> {
        let image = checkpoint.lane.clone().unwrap_or_default();
        let positions: Vec<_> =
            image.partitions.iter().map(|p| (number_of(&p.stream, p.index), p.next())).collect();
        if positions != self.partitions {
            return Err((
                "C6",
                format!("a checkpoint at {positions:?}, the lane stands at {:?}", self.partitions),
            ));
        }
        for (index, table) in image.tables.iter().enumerate() {
            let fold = &self.tables[self.places[index]];
            let pending: Vec<u128> = table.pending.iter().filter_map(|p| p.frame.as_ref()).map(id).collect();
            let expected: Vec<u128> =
                fold.frames.range(fold.frontier..).flat_map(|(_, ids)| ids.clone()).collect();
            let rows = table.rows.unwrap_or_default();
            if (rows.sealed, rows.refused) != (fold.sealed, fold.refused)
                || rows.settled > rows.sealed - rows.refused
            {
                let what = format!("the checkpoint's table `{}` has {rows:?}", table.name);
                return Err((
                    "C9",
                    format!("{what}, and {} were sealed, {} refused", fold.sealed, fold.refused),
                ));
            }
            if (table.frontier, table.next_ordinal) != (fold.frontier, fold.next_ordinal)
                || pending != expected
            {
                return Err((
                    "C7",
                    format!("the checkpoint's table `{}` lacks unsettled frames", table.name),
                ));
            }
        }
        self.deltas.retain(|(of, _)| *of > checkpoint.state_seq);
        let deltas: Vec<_> = image.deltas.iter().map(|d| (d.seq, d.segment.clone())).collect();
        if deltas != self.deltas {
            return Err((
                "C6",
                format!("the checkpoint's deltas are {deltas:?}, and should be {:?}", self.deltas),
            ));
        }
        self.snapshots = checkpoint.states.iter().map(|s| s.object.clone()).collect();
        if let Some(object) = self.snapshots.iter().find(|object| objects.durable(object).is_none()) {
            return Err(("C7", format!("snapshot `{object}` is not durable when it is recorded")));
        }
        self.checkpoints.push(seq);
        Ok(())
    }
}

/// The oracle's number of a partition.
fn number_of(stream: &str, index: u32) -> usize {
    if stream == replays::STREAM { REPLAYS } else { index as usize }
}
