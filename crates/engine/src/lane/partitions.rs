//! What the inputs hand out: their partitions, and the events of each.
//!
//! Owns which partitions are read, that what is new becomes durable before its first record is sealed, and what an input that refuses or is away means for the
//! others. Does not own whose turn it is ([`super::feed`]), nor what becomes of a block ([`super::absorb`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use dataflow::block::TIME_UNKNOWN_MS;
use dataflow::{
    Event, Partition, PartitionStart, Position, ReadFrom, RecordBlock, SourceFault, Streams, position,
};
use protocol::Lane;
use protocol::record::{Body, Genesis};

use super::feed::Feed;
use super::tell::tell_late;
use super::{LaneTask, Reading};
use crate::inputs::Inlet;
use crate::problem::Noticed;
use crate::stage::Stage;
use crate::start::open::{Opened, expired, genesis};
use crate::waiting::Waiting;
use crate::{EngineError, stage};

impl LaneTask {
    /// The source of an input is read from now on. What is new becomes durable before its first record is sealed.
    pub(super) async fn open(&mut self, place: usize, opened: Opened) -> Result<(), EngineError> {
        let number = self.feeds[place].inlet.number;
        let Opened { reader, new, stops, late, .. } = opened;
        let inlet = &self.feeds[place].inlet;
        late.iter().for_each(|(partition, records)| tell_late(&self.context, inlet, partition, *records));
        {
            let mut journal = self.context.journal.lock().await;
            let was_opened = journal.lane().inputs.get(number as usize).is_some_and(|input| input.was_opened);
            if !new.is_empty() || !was_opened {
                let opened = if was_opened { Vec::new() } else { vec![number] };
                let genesis = Genesis { partitions: new.clone(), opened, ..Default::default() };
                journal.append(Body::Genesis(genesis)).await?;
                self.builder.recreated(recreated(journal.lane()));
            }
        }
        for p in new {
            self.watermarks.add(TIME_UNKNOWN_MS, self.context.runtime.elapsed(), self.context.pace(p.input));
            let at = (p.next(), p.leader_epoch);
            let partition = Partition::new(p.stream, p.index).of_input(p.input);
            self.readings.push(reading(&self.context.inputs, partition, at));
        }
        for (partition, end) in stops {
            if let Some(reading) = self.readings.iter_mut().find(|r| !r.forgotten && r.partition == partition)
            {
                reading.stop_at = Some(end);
            }
        }
        self.feeds[place].reader = Some(reader);
        let inlet = &self.feeds[place].inlet;
        inlet.opened();
        // Also a refusal from before the claim, of a position that was passed meanwhile.
        self.context.status.ended(&inlet.name, Noticed::Asking);
        self.set_away(place, false);
        Ok(())
    }

    /// Nothing more is read of an input. The others are read on; once there are none, what was read and sealed goes to the table before
    /// the process ends, with what the first that refused has said.
    pub(super) fn refused_by_source(&mut self, place: usize, error: EngineError) -> Option<EngineError> {
        self.feeds[place].refuse();
        self.set_away(place, true);
        let has_others = self.feeds.iter().any(|feed| !feed.is_refused);
        let inlet = &self.feeds[place].inlet;
        let error = inlet.with_own_commands(error);
        if has_others {
            tracing::error!(input = &*inlet.name, %error, "the source of an input refuses; the other inputs are read on");
        } else {
            tracing::error!(input = &*inlet.name, %error, "the source refuses; what is sealed goes to the table, then the pipeline ends");
        }
        let now_ms = self.context.runtime.wall_ms();
        self.context.status.source_refuses(&inlet.name, has_others, &error.to_string(), now_ms);
        let own = self.readings.iter_mut().filter(|reading| reading.partition.input == inlet.number);
        own.for_each(|reading| reading.refused = true);
        let error = inlet.named(error);
        let first = self.refusal.take().unwrap_or(error);
        if has_others {
            self.refusal = Some(first);
            return None;
        }
        Some(first)
    }

    /// Partitions of other inputs do not wait for those of an input that gives nothing. Those of a source that stands aside stay away, for they are never
    /// heard; the replay log beside it is read.
    pub(super) fn set_away(&mut self, place: usize, away: bool) {
        let inlet = &self.feeds[place].inlet;
        let (input, stands_aside) = (inlet.number, inlet.source.stands_aside());
        let own = self.readings.iter().enumerate().filter(|(_, reading)| reading.partition.input == input);
        let now = self.context.runtime.elapsed();
        own.for_each(|(at, reading)| {
            let is_unheard = stands_aside && !reading.wants_fates;
            self.watermarks.set_away(at, away || is_unheard, now);
        });
        self.hold();
    }

    /// The watermark stands still as long as an input may come with partitions of which none is known: it was never open, or all that it had were
    /// forgotten; and one whose source stands aside does not say what it has.
    fn hold(&mut self) {
        let is_unknown = |feed: &Feed| {
            // The replay log has records of any input.
            let is_own = |r: &&Reading| r.partition.input == feed.inlet.number && !r.wants_fates;
            let is_known = || self.readings.iter().filter(is_own).any(|r| !r.forgotten);
            let is_unheard = feed.is_opening() || feed.is_refused || feed.inlet.source.stands_aside();
            is_unheard && !is_known()
        };
        // What a partition has that cannot be read yet may be old as well.
        let is_held = self.feeds.iter().any(|feed| feed.has_unread() || is_unknown(feed));
        self.watermarks.hold(is_held);
    }

    fn index(&self, partition: &Partition) -> Result<usize, EngineError> {
        let found = self.readings.iter().position(|r| !r.forgotten && r.partition == *partition);
        found.ok_or(EngineError::Internal("a source that hands out a partition it was not asked for"))
    }

    pub(super) async fn take(&mut self, place: usize, event: Event) -> Result<(), EngineError> {
        match event {
            Event::Block(block) => self.decode(place, block)?,
            Event::CaughtUp { partition, next, leader_epoch } => {
                let partition = self.index(&partition)?;
                self.waiting.push_back(Waiting::CaughtUp { partition, next, leader_epoch });
            }
            Event::Ended { partition, next } => {
                let partition = self.index(&partition)?;
                self.waiting.push_back(Waiting::Ended { partition, next });
            }
            Event::Found(start) => self.add(place, start).await?,
            // A lane keeps its partitions as long as it reads.
            Event::Removed { .. } => {
                return Err(EngineError::Internal("a source that takes away a partition by itself"));
            }
        }
        Ok(())
    }

    fn decode(&mut self, place: usize, block: RecordBlock) -> Result<(), EngineError> {
        let partition = self.index(&block.partition)?;
        let ahead = self.aheads[self.belongs_to(place, &block)].clone();
        let (intake, block) = (self.feeds[place].intake.clone(), Arc::new(block));
        let (preparing, read_ms) = (block.clone(), self.context.runtime.wall_ms());
        let (clock, status) = (self.context.runtime.clone(), self.context.status.clone());
        let prepared = self.context.runtime.run(move || {
            let decode = || intake.prepare(&preparing, read_ms);
            let mut prepared = stage::accounted(Stage::Decode, &*clock, &status, decode)?;
            if let Some(ahead) = ahead {
                let aggregate = || ahead.apply(&prepared.batch);
                prepared.ahead = Some(stage::accounted(Stage::Aggregate, &*clock, &status, aggregate)?);
            }
            Ok(prepared)
        });
        self.waiting.push_back(Waiting::Block { partition, block, prepared });
        Ok(())
    }

    /// The place of the input that the records of a block belong to, which the input at `place` has handed out: its own but for the replay log.
    fn belongs_to(&self, place: usize, block: &RecordBlock) -> usize {
        let named = self.feeds[place].intake.other_input(block);
        let named = named.and_then(|name| self.feeds.iter().position(|feed| *feed.inlet.name == *name));
        named.unwrap_or(place)
    }

    /// The place of the input that the records of a block belong to, whoever has handed it out.
    pub(super) fn owner_of(&self, block: &RecordBlock) -> Option<usize> {
        let place = self.feeds.iter().position(|feed| feed.inlet.number == block.partition.input)?;
        Some(self.belongs_to(place, block))
    }

    /// What became of what an input gave: the first refusal, if its source refuses as the last one.
    pub(super) fn taken(
        &mut self,
        place: usize,
        taken: Result<(), EngineError>,
    ) -> Result<Option<EngineError>, EngineError> {
        match taken {
            Err(EngineError::Source(error)) if error.fault != SourceFault::Store => {
                Ok(self.refused_by_source(place, error.into()))
            }
            Err(error) => Err(error),
            Ok(()) => Ok(None),
        }
    }

    /// Partitions that could not be read when they were found are tried again.
    pub(super) async fn found_again(
        &mut self,
        place: usize,
        starts: Vec<PartitionStart>,
    ) -> Result<Option<EngineError>, EngineError> {
        for start in starts {
            let added = self.add(place, start).await;
            let refusal = self.taken(place, added)?;
            // Nothing more is read of it.
            if self.feeds[place].is_refused {
                return Ok(refusal);
            }
        }
        Ok(None)
    }

    /// A partition appeared while reading. Its genesis is durable before its first record is sealed, and only once the reader has
    /// taken it. While its source is away it is kept, and all else is read.
    async fn add(&mut self, place: usize, start: PartitionStart) -> Result<(), EngineError> {
        let (genesis, expired) = {
            let journal = self.context.journal.lock().await;
            (genesis(journal.lane(), &start), expired(journal.lane(), &start))
        };
        let from = ReadFrom {
            partition: start.partition.clone(),
            identity: start.identity.clone(),
            next: genesis.next(),
            leader_epoch: genesis.leader_epoch,
        };
        let Some(reader) = &mut self.feeds[place].reader else {
            return Err(EngineError::Internal("a read that is not begun"));
        };
        if let Err(error) = reader.add(from).await {
            if !error.fault.may_pass() {
                return Err(error.into());
            }
            let partition = start.partition.clone();
            if self.feeds[place].keep(start, &*self.context.runtime) {
                tracing::warn!(%partition, %error, "a new partition cannot be read yet; trying again");
            }
            self.hold();
            return Ok(());
        }
        self.feeds[place].has_added();
        tell_late(&self.context, &self.feeds[place].inlet, &start.partition, expired);
        tracing::info!(partition = %start.partition, next = %position::shown(genesis.next()), "a partition was added");
        let (next, leader_epoch) = (genesis.next(), genesis.leader_epoch);
        let pace = self.context.pace(genesis.input);
        let body = Genesis { partitions: vec![genesis], ..Default::default() };
        {
            let mut journal = self.context.journal.lock().await;
            journal.append(Body::Genesis(body)).await?;
            self.builder.recreated(recreated(journal.lane()));
        }
        self.watermarks.add(TIME_UNKNOWN_MS, self.context.runtime.elapsed(), pace);
        let mut added = reading(&self.context.inputs, start.partition, (next, leader_epoch));
        // A drain that began before the partition was there owes it nothing.
        added.stop_at = self.drain.then_some(next);
        added.answered = true;
        let name = self.shown(&added.partition);
        self.context.status.update(|s| {
            let told = s.partitions.entry(name).or_default();
            (told.next, told.sealed) = (next, next);
        });
        self.readings.push(added);
        self.hold();
        Ok(())
    }
}

/// The partitions that are read and are not the first of their name, and which of them each is.
pub(super) fn recreated(lane: &Lane) -> BTreeMap<Partition, u32> {
    let nth = lane.nth_of_name();
    let again = lane.reading().filter(|(at, _)| nth[*at] > 1);
    again.map(|(at, p)| (Partition::new(p.stream.as_str(), p.index).of_input(p.input), nth[at])).collect()
}

/// A partition that stands at a position with the leader epoch that goes with it.
pub(super) fn reading(
    inputs: &[Arc<Inlet>],
    partition: Partition,
    (next, leader_epoch): (Position, i32),
) -> Reading {
    let inlet = inputs.iter().find(|inlet| inlet.number == partition.input);
    let wants_fates = inlet.is_some_and(|inlet| inlet.source.wants_fates(&partition));
    let is_marked = inlet.is_some_and(|inlet| matches!(inlet.source.streams(), Streams::Files));
    Reading {
        partition,
        next,
        leader_epoch,
        is_marked,
        cut: next,
        stop_at: None,
        answered: false,
        ended: false,
        paused: false,
        wants_fates,
        forgotten: false,
        refused: false,
    }
}
