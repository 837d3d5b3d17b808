//! What the lane measures and reports once a second: idleness, skew, state; and beside it the lag, which is reported even while the lane
//! waits for its store or its table.
//!
//! Owns the gauges of state and lag, and the task that asks a source for its ends. Does not own the snapshot they go into
//! (`crate::status`), nor the counters of rows, which rise where rows pass (`lane::absorb`).

use std::sync::Arc;

use dataflow::{Partition, Position, position};
use metrics::{counter, gauge};

use super::LaneTask;
use super::feed::feed_of;
use crate::context::Context;
use crate::inputs::Inlet;
use crate::status::PartitionStatus;
use crate::totals::Totals;

/// Asks for the ends of the partitions again and again, until it is dropped. On a task of its own: a source that does not answer
/// must not hold records up, and a lane that waits must not hold the lag up.
pub(super) async fn watch_lag(context: Arc<Context>, inlet: Arc<Inlet>) {
    let every = context.settings.lag_every;
    let mut is_away = false;
    // How often the source was met away, as of the last answer.
    let mut times_before = None;
    loop {
        match context.runtime.timeout(every, inlet.source.ends()).await {
            Some(Ok(ends)) => {
                context.status.update(|s| {
                    for (partition, end) in &ends {
                        let name = inlet.shown(partition);
                        let partition = s.partitions.entry(name.clone()).or_default();
                        partition.end = Some(*end);
                        tell_lag(&name, partition);
                    }
                });
                watch_behind(&context, &inlet, &ends).await;
                // A reader with nothing to read says nothing either, so what it met is over if it was not met again between two answers.
                let times = context.status.source_away_times(&inlet.name);
                if std::mem::take(&mut is_away) || (times.is_some() && times == times_before) {
                    context.status.source_is_back(&inlet.name);
                }
                times_before = times;
            }
            Some(Err(error)) if error.fault.may_pass() => {
                is_away = true;
                context.status.source_away(&inlet.name, &error, context.runtime.wall_ms());
            }
            // What the source refuses, its reader finds out too and stops with; a slow answer comes the next time.
            Some(Err(_)) | None => {}
        }
        context.runtime.sleep(every).await;
    }
}

/// Asks how much stands behind what is sealed of the partitions whose positions cannot be counted. A slow answer comes the next time.
async fn watch_behind(context: &Context, inlet: &Inlet, ends: &[(Partition, Position)]) {
    let known = context.status.snapshot().partitions;
    let sealed = |(partition, end): &(Partition, Position)| {
        let told = known.get(&inlet.shown(partition))?;
        position::between(told.sealed, *end).is_none().then(|| (partition.clone(), told.sealed))
    };
    let from: Vec<_> = ends.iter().filter_map(sealed).collect();
    if from.is_empty() {
        return;
    }
    let asked = inlet.source.behind(&from);
    if let Some(Ok(behind)) = context.runtime.timeout(context.settings.lag_every, asked).await {
        context.status.update(|s| {
            for (partition, count) in behind {
                let name = inlet.shown(&partition);
                let partition = s.partitions.entry(name.clone()).or_default();
                partition.behind = Some(count);
                tell_lag(&name, partition);
            }
        });
    }
}

/// A partition was found late, and at most so many of its records were gone by then. The source has said so in its log.
pub(super) fn tell_late(context: &Context, inlet: &Inlet, partition: &Partition, expired: u64) {
    if expired > 0 {
        let name = inlet.shown(partition);
        counter!("forebay_records_expired_total", "partition" => name.clone()).increment(expired);
        context.status.update(|s| s.partitions.entry(name).or_default().expired = expired);
    }
}

fn tell_lag(name: &str, partition: &PartitionStatus) {
    if let Some(lag) = partition.lag() {
        gauge!("forebay_partition_lag_records", "partition" => name.to_owned()).set(lag as f64);
    }
}

impl LaneTask {
    /// Says how many records wait for others though no input has more.
    pub(super) fn tell_held(&mut self, has_ended: bool) {
        let held: u64 = self.steps.iter_mut().map(|step| step.waiting()).sum();
        if has_ended && held > 0 {
            tracing::warn!(
                records = held,
                "every input has ended, and these records stay in windows that are open, or wait in a join; a later run goes on with them. To write \
                 the last results at the end, set `at_end: close` in the window or the join"
            );
        }
    }

    pub(super) fn tick(&mut self) {
        if let Some(skew_ms) = self.context.settings.skew_ms_max {
            for (n, reading) in self.readings.iter_mut().enumerate() {
                // Half the distance before it may run again, so that it does not stop and go with every block.
                if reading.paused && !self.watermarks.is_ahead(n, skew_ms / 2) {
                    reading.paused = false;
                    feed_of(&mut self.feeds, &reading.partition)
                        .and_then(|feed| feed.reader.as_mut())
                        .into_iter()
                        .for_each(|reader| reader.resume(&reading.partition));
                }
            }
        }
        self.tell();
    }

    /// What was absorbed and not cut is read again by the lane that is opened next, and counts there.
    pub(super) fn take_back(&mut self) {
        let (read, replayed) = (self.builder.counts().read, self.builder.replayed());
        let absorbed = &mut self.absorbed;
        absorbed.replayed = absorbed.replayed.saturating_sub(replayed);
        absorbed.read = absorbed.read.saturating_sub(read.saturating_sub(replayed));
        self.context.status.update(|s| {
            (s.read, s.replayed) = (absorbed.read, absorbed.replayed);
            s.unsealed = Totals::default();
        });
    }

    pub(super) fn shown(&self, partition: &Partition) -> String {
        let inlet = self.context.inputs.iter().find(|inlet| inlet.number == partition.input);
        inlet.map_or_else(|| partition.to_string(), |inlet| inlet.shown(partition))
    }

    pub(super) fn tell(&mut self) {
        let (mut keys, mut closed, mut bytes, mut file_bytes) = (0, 0, 0, 0);
        for step in &mut self.steps {
            let name = step.name().to_owned();
            if let Some(state) = step.state() {
                keys += state.entries();
                bytes += state.memory_bytes();
                let in_files: u64 = state.files().iter().map(|file| file.len).sum();
                closed += state.spilled_entries();
                file_bytes += in_files;
                gauge!("forebay_state_keys_spilled", "step" => name.clone())
                    .set(state.spilled_entries() as f64);
                gauge!("forebay_state_file_bytes", "step" => name.clone()).set(in_files as f64);
                gauge!("forebay_state_keys", "step" => name.clone()).set(state.entries() as f64);
                gauge!("forebay_state_held_records", "step" => name.clone()).set(state.held() as f64);
                gauge!("forebay_state_bytes", "step" => name).set(state.memory_bytes() as f64);
            }
        }
        let (unsealed, absorbed) = (self.builder.totals(), self.absorbed);
        let readings: Vec<(String, Position)> = self
            .readings
            .iter()
            .filter(|r| !r.forgotten)
            .map(|r| (self.shown(&r.partition), r.next))
            .collect();
        self.context.status.update(|s| {
            s.state_keys = keys;
            s.state_keys_spilled = closed;
            s.state_bytes = bytes;
            s.state_file_bytes = file_bytes;
            s.unsealed = unsealed;
            (s.read, s.replayed) = (absorbed.read, absorbed.replayed);
            for (name, next) in readings {
                let partition = s.partitions.entry(name.clone()).or_default();
                partition.next = next;
                tell_lag(&name, partition);
            }
        });
    }
}
