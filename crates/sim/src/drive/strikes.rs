//! Faults as they strike what runs: processes, the whole store, the server, the broker.
//!
//! Owns what a fault does at once and what it leaves to come (`Act`). Does not own when it strikes (`drive`), nor what a fault does to a
//! single operation (`objects`, `table`).

use super::{Act, Drive, Life};
use crate::executor::{MOVER, Pid, REPLAYER, WORLD};
use crate::plan::{Change, Fault};
use crate::table::crash;

/// How long others wait before they try again, milliseconds.
const OTHERS_WAIT_MS: u64 = 50;

impl Drive {
    pub(super) fn strike_by_polls(&mut self) {
        let polls = self.world.executor.engine_polls();
        while self.polls.last().is_some_and(|(at, _)| *at <= polls) {
            let (_, fault) = self.polls.pop().expect("just looked at");
            self.strike(fault);
        }
    }

    /// Processes that died in the middle of a put.
    pub(super) fn see_torn(&mut self) {
        let doomed = std::mem::take(&mut self.world.state().objects.doomed);
        for (pid, down_ms) in doomed {
            // What a command waits for whose put is torn never comes, so the person repeats it.
            match pid {
                WORLD => {
                    self.person = None;
                    self.after_ms(down_ms, Act::Ask);
                }
                MOVER => {
                    self.mover = None;
                    self.after_ms(down_ms, Act::Move);
                }
                // Nobody repeats it: the next person finds what it left.
                REPLAYER => self.world.state().replaying -= 1,
                _ => {
                    self.kill(pid);
                    self.after_ms(down_ms, Act::Start);
                }
            }
        }
    }

    pub(super) fn strike(&mut self, fault: Fault) {
        if self.rolled_back_since.is_some() || self.last.is_some() {
            return;
        }
        let world = self.world.clone();
        let now_us = world.executor.now_us();
        let until = |ms: u64| now_us + ms * 1_000;
        world.state().note("fault", 0, || fault.to_string());
        match fault {
            Fault::Kill { down_ms, .. } => {
                if let Some(pid) = self.newest() {
                    self.kill(pid);
                    self.after_ms(down_ms, Act::Start);
                }
            }
            Fault::Freeze { for_ms, successor_ms, .. } => {
                if let Some(pid) = self.newest() {
                    world.executor.freeze(pid);
                    self.processes.get_mut(&pid).expect("it runs").life = Life::Frozen;
                    self.after_ms(for_ms, Act::Thaw(pid));
                    self.after_ms(successor_ms, Act::Start);
                }
            }
            Fault::SecondOwner { .. } => self.start_another(false),
            Fault::Drain { .. } => {
                if let Some(pid) = self.newest() {
                    self.kill(pid);
                    self.start_another(true);
                }
            }
            Fault::Election { partition, records, .. } => {
                world.state().broker.elect(partition, records);
                self.shorten_drains(partition);
            }
            Fault::Cut { partition, records, .. } => {
                world.state().broker.cut(partition, records);
                self.shorten_drains(partition);
            }
            Fault::Damage { partition, .. } => {
                if let Some(stream) = world.state().broker.streams.get_mut(partition as usize) {
                    stream.damage();
                }
            }
            Fault::Expiry { partition, .. } => {
                let mut state = world.state();
                let sealed = state.oracle.sealed();
                let n = partition as usize;
                let next = sealed.iter().find(|(number, _)| *number == n).map(|(_, next)| *next);
                // A partition that was never begun begins where it is: nothing is missed.
                if let (Some(next), Some(stream)) = (next, state.broker.streams.get_mut(n)) {
                    stream.expire(next);
                }
                state.broker.wake();
            }
            Fault::Table { change, down_ms, .. } => {
                if change == Change::Exchanged {
                    let all: Vec<Pid> = self.processes.keys().copied().collect();
                    all.into_iter().for_each(|pid| self.kill(pid));
                    self.after_ms(down_ms, Act::Start);
                }
                world.state().server.change(change);
            }
            Fault::Stop { down_ms, .. } => {
                if let Some(process) = self.newest().and_then(|pid| self.processes.get_mut(&pid)) {
                    process.is_asked = true;
                    // A process that has ended meanwhile need not be asked.
                    let _ = process.stop.send(true);
                    self.after_ms(down_ms, Act::Wake);
                }
            }
            Fault::PowerLoss { down_ms, .. } => {
                if world.plan.is_local {
                    let all: Vec<Pid> = self.processes.keys().copied().collect();
                    all.into_iter().for_each(|pid| self.kill(pid));
                    world.state().lose_power();
                    self.after_ms(down_ms, Act::Start);
                }
            }
            Fault::Rollback { .. } => self.roll_back(fault),
            Fault::StoreAway { for_ms, .. } => world.state().objects.away(until(for_ms)),
            Fault::DiskFull { for_ms, .. } => world.state().objects.full(until(for_ms)),
            Fault::ServerCrash { down_ms, .. } => crash(&world, down_ms),
            Fault::ServerAway { for_ms, .. } => world.state().server.away(until(for_ms)),
            Fault::TableAway { place, for_ms, .. } => {
                world.state().server.tables[place].away_until_us = until(for_ms)
            }
            Fault::OtherWriters { inserts, at_once, .. } => {
                let of_target = world.state().server.others_insert(0, inserts, at_once, now_us);
                world.state().server.others_insert(1, inserts / 2, at_once, now_us);
                let rest = inserts - of_target;
                if rest > 0 {
                    // They wait while an insert that has passed its gate is worked on.
                    let again = Fault::OtherWriters { at_us: now_us, inserts: rest, at_once };
                    self.after_ms(OTHERS_WAIT_MS, Act::Strike(again));
                }
            }
            Fault::Narrowed { .. } => {
                // Between the judgement at a gate and the insert lies a moment that nobody sees: with it nothing could be shown.
                if !world.state().server.forget_all(now_us) {
                    self.after_ms(OTHERS_WAIT_MS, Act::Strike(Fault::Narrowed { at_us: now_us }));
                }
            }
            Fault::ReplicaLags { node, for_ms, .. } => world.state().server.lag(node, until(for_ms)),
            Fault::SyncFails { .. } => world.state().objects.break_sync(),
            Fault::ClockJump { by_ms, .. } => {
                if let Some(pid) = self.newest() {
                    world.executor.jump(pid, by_ms);
                }
            }
            Fault::ServerClockJump { by_ms, .. } => world.state().server.jump(by_ms),
            Fault::SourceAway { for_ms, .. } => {
                world.state().broker.away(until(for_ms));
                self.after_ms(for_ms, Act::Wake);
            }
            Fault::PartitionLost { partition, for_ms, .. } => {
                if let Some(stream) = world.state().broker.streams.get_mut(partition as usize) {
                    stream.lost_until_us = until(for_ms);
                }
                self.after_ms(for_ms, Act::Wake);
            }
            Fault::Put { .. } | Fault::Read { .. } | Fault::Insert { .. } | Fault::Ask { .. } => {}
        }
    }

    /// A drain cannot read what was taken away.
    fn shorten_drains(&mut self, partition: u32) {
        let n = partition as usize;
        let end = self.world.state().broker.streams.get(n).map_or(0, |stream| stream.end);
        let drains = self.processes.values_mut().filter_map(|p| p.drains.as_mut());
        drains.filter_map(|ends| ends.get_mut(n)).for_each(|was| *was = end.min(*was));
    }

    /// Only where the published positions tell: nobody can see a copy that lacks nothing of what was published. Of a source that keeps
    /// none, only where the copy is empty and the table is not.
    fn roll_back(&mut self, fault: Fault) {
        if self.person.is_some() {
            return;
        }
        let at = self.world.plan.faults.iter().position(|f| *f == fault);
        let Some((backup, sealed)) = at.and_then(|at| self.backups.remove(&at)) else { return };
        {
            let state = self.world.state();
            let is_told = state.broker.streams.iter().enumerate().any(|(n, stream)| {
                let then = sealed.iter().find(|(partition, _)| *partition == n).map_or(0, |(_, next)| *next);
                stream.published.is_some_and(|published| published > then)
            });
            let is_told = match self.world.plan.keeps_positions {
                true => is_told,
                false => {
                    let has_rows = |place: &usize| !state.server.tables[*place].parts.is_empty();
                    sealed.is_empty() && self.world.plan.tables.iter().any(has_rows)
                }
            };
            if !is_told || state.oracle.sealed().is_empty() {
                return;
            }
        }
        let all: Vec<Pid> = self.processes.keys().copied().collect();
        all.into_iter().for_each(|pid| self.kill(pid));
        self.world.state().objects.roll_back(backup);
        self.rolled_back_since = Some(self.world.executor.now_us());
        self.start_another(false);
    }
}
