//! Processes that end, and whether they had to.
//!
//! Owns what the model expects of an end: a drain that is complete, a stop that asks, an owner that was replaced. The rules C1 to C10 are the
//! oracle's. Does not own how a process is started again (`drive`).

use dataflow::SourceFault;
use engine::{EngineError, Outcome};
use protocol::doubt::StopReason;
use protocol::names;
use store::ErrorKind;

use super::persons::PERSON_MS;
use super::{Act, Drive, Life, Process};
use crate::executor::{Pid, lock};
use crate::plan::Fault;

/// Runs with nothing to read, one after the other.
const IDLE_RUNS_MAX: u32 = 2;

impl Drive {
    pub(super) fn see_ends(&mut self) {
        loop {
            let Some((pid, result)) = lock(&self.ended).pop_first() else { return };
            let Some(process) = self.processes.remove(&pid) else { continue };
            // What a process leaves behind dies with it.
            self.world.executor.kill(pid);
            let word = match &result {
                Ok(outcome) => format!("{outcome:?}"),
                Err(error) => error.to_string(),
            };
            self.world.state().note("end", u64::from(pid), || format!("process {pid}: {word}"));
            match result {
                Ok(outcome) => self.ended_well(pid, &process, outcome),
                Err(error) => self.ended_badly(pid, &process, &error),
            }
        }
    }

    fn ended_well(&mut self, pid: Pid, process: &Process, outcome: Outcome) {
        if matches!(outcome, Outcome::Reopen { .. }) {
            // It was asked to stop as it did so: the next one is asked.
            self.last = self.last.filter(|last| *last != pid);
            // Nothing else in this world makes a process open its lane again.
            return match self.answers > 0 || !self.world.plan.alters.is_empty() {
                true => self.after_ms(1, Act::Start),
                false => self
                    .violate("stop", format!("process {pid} opens its lane again, and nobody has answered")),
            };
        }
        let has_ended = outcome == Outcome::Complete && process.drains.is_none() && self.has_ended(pid);
        let is_complete = outcome == Outcome::Complete && process.drains.is_some() || has_ended;
        if !process.is_asked && !is_complete {
            return self
                .violate("stop", format!("process {pid} ended with {outcome:?}, and nobody asked it to"));
        }
        if let Some(what) = self.left_behind(pid, process, &outcome) {
            return self.violate("drain", format!("process {pid} ended with {outcome:?}, and {what}"));
        }
        if self.last == Some(pid) && outcome != Outcome::Interrupted {
            self.world.state().judge_the_end();
            self.is_done = true;
            return;
        }
        if self.last == Some(pid) {
            self.last = None;
        }
        if has_ended {
            return self.came_to_its_end(pid);
        }
        if outcome == Outcome::Interrupted && self.world.state().oracle.asked_us.is_some() {
            // It had no time to end with its question, and the person who has stopped it answers all the same.
            self.doubt_us = self.world.executor.now_us();
            return self.after_ms(PERSON_MS, Act::Ask);
        }
        self.after_ms(100, Act::Start);
    }

    /// Whether each partition that a process has read has told it that there is no more.
    fn has_ended(&self, pid: Pid) -> bool {
        let state = self.world.state();
        // What another owner has read since, this one was told nothing of.
        self.world.plan.ends.is_some()
            && (state.oracle.owner() != Some(pid) || state.broker.has_ended_for(pid, &state.oracle.sealed()))
    }

    /// A run has come to the end of its inputs. Somebody runs the pipeline again later, unless nothing can come any more.
    fn came_to_its_end(&mut self, pid: Pid) {
        let is_settled = {
            let mut state = self.world.state();
            let is_owner = state.oracle.owner() == Some(pid);
            is_owner.then(|| state.oracle.came_to_an_end());
            state.is_settled()
        };
        if is_settled && self.is_calm() {
            self.world.state().judge_the_end();
            self.is_done = true;
            return;
        }
        let pause_ms = self.world.plan.ends.as_ref().map_or(0, |ends| ends.pause_ms);
        self.after_ms(pause_ms, Act::Again);
    }

    /// Somebody runs the pipeline again: a few times though there is nothing new.
    pub(super) fn run_again(&mut self) {
        let has_more = !self.world.state().is_settled();
        self.idle_runs = if has_more { 0 } else { self.idle_runs + 1 };
        if self.idle_runs <= IDLE_RUNS_MAX {
            return self.start();
        }
        let is_running = self.processes.values().any(|process| process.life == Life::Running);
        if !self.is_done && !is_running {
            let pause_ms = self.world.plan.ends.as_ref().map_or(0, |ends| ends.pause_ms);
            self.after_ms(pause_ms.max(1_000), Act::Again);
        }
    }

    /// What a process that says it is done has not done.
    fn left_behind(&self, pid: Pid, process: &Process, outcome: &Outcome) -> Option<String> {
        let state = self.world.state();
        if *outcome == Outcome::Interrupted || state.oracle.owner() != Some(pid) {
            return None;
        }
        if !state.oracle.is_settled() || (*outcome == Outcome::Complete && !state.oracle.is_out()) {
            return Some(state.oracle.unsettled());
        }
        if *outcome == Outcome::Complete && process.drains.is_none() {
            let waiting = state.oracle.waiting();
            return (waiting > 0).then(|| format!("{waiting} records wait, though every input has ended"));
        }
        let ends = process.drains.as_ref().filter(|_| *outcome == Outcome::Complete)?;
        let sealed = state.oracle.sealed();
        let next = |n: usize| sealed.iter().find(|(number, _)| *number == n).map_or(0, |(_, next)| *next);
        // One that is cut while the last of it is delivered is not seen any more.
        let mut cut = state.broker.streams.iter().enumerate().filter(|(n, s)| s.is_cut_below(next(*n)));
        if let Some((n, stream)) = cut.next().filter(|_| !state.broker.was_cut_since(process.cuts)) {
            return Some(format!("partition {n} ends at {}, and was read to {}", stream.end, next(n)));
        }
        let short = ends.iter().enumerate().find(|(n, end)| next(*n) < **end);
        short.map(|(n, end)| format!("partition {n} is read to {}, and went to {end}", next(n)))
    }

    /// A disk that syncs no more is replaced; false if it does sync.
    fn replaces_disk(&mut self) -> bool {
        let is_broken = self.world.state().objects.is_sync_broken();
        if is_broken {
            self.replace_disk();
        }
        is_broken
    }

    /// The disk is another: what its caches held is gone, as after a loss of power.
    fn replace_disk(&mut self) {
        let all: Vec<Pid> = self.processes.keys().copied().collect();
        all.into_iter().for_each(|pid| self.kill(pid));
        let mut state = self.world.state();
        state.objects.mend_sync();
        state.lose_power();
    }

    /// C-rules are the oracle's; here it is asked whether the model expects this stop.
    fn ended_badly(&mut self, pid: Pid, process: &Process, error: &EngineError) {
        if self.last == Some(pid) {
            self.last = None;
        }
        let owner = self.world.state().oracle.owner();
        let plan = &self.world.plan;
        // A start whose source refuses where the journal stood when it looked, and that leaves what is sealed to the owner, which has read
        // on since and may have ended a moment ago. Another start follows, and all must be settled in the end.
        let is_left_to_another =
            matches!(error, EngineError::LeftAlone { .. }) && owner.is_some_and(|owner| owner != pid);
        let unexpected = match error.cause() {
            EngineError::Source(error) if error.fault == SourceFault::Refused && is_left_to_another => false,
            // The oracle knows an owner once its record is durable; a process may have seen it earlier.
            EngineError::Fenced { seq } => {
                let record = names::journal(&names::lane_folder("p", plan.lane), *seq);
                let is_seen_early = self.world.state().objects.is_open(&record);
                owner.is_none_or(|owner| owner == pid) && !is_seen_early
            }
            EngineError::Doubt { reason, .. } => {
                let is_changed = plan.faults.iter().any(|f| matches!(f, Fault::Table { .. }));
                let is_expected = match reason {
                    StopReason::CannotTell => !plan.has_provenance,
                    StopReason::ViewsUnknown => plan.has_view,
                    StopReason::TableChanged => is_changed,
                    StopReason::PartPresent => false,
                };
                if is_expected {
                    self.doubt_us = self.world.executor.now_us();
                    return self.after_ms(PERSON_MS, Act::Ask);
                }
                true
            }
            EngineError::Source(error) if error.fault == SourceFault::Refused => {
                let mut state = self.world.state();
                let sealed = state.oracle.sealed();
                let next = |n: usize| sealed.iter().find(|(m, _)| *m == n).map_or(0, |(_, next)| *next);
                // What is in front of the damage must be in the table before somebody copies it anew.
                let is_damaged = state.broker.is_at_damage(next);
                if is_damaged && state.oracle.is_settled() {
                    state.broker.copy_anew(next);
                    state.note("fault", 0, || "what is damaged is copied anew".into());
                }
                // As is what was read of a file that was cut, before a person has to look.
                let is_cut = state.broker.streams.iter().enumerate().any(|(n, s)| s.is_cut_below(next(n)));
                let is_told_of_cut = is_cut || state.broker.was_cut_since(process.cuts);
                // What was sealed is in the log no more, or what is to be read next is gone: only a person can go on from there. What
                // is sealed must be in the table by then.
                let has_expired = state.oracle.has_expired(&state.broker);
                let is_delivered = (has_expired || is_cut) && state.oracle.is_settled();
                self.is_stopped = state.oracle.has_lost(&state.broker) || is_delivered;
                self.is_done |= self.is_stopped;
                // What another process has come to as well may be whole by now.
                let is_told_of_damage = is_damaged || state.broker.copies > process.copies;
                // One that slept tells what it was told before; its successor may have read on since.
                let is_replaced = owner.is_some_and(|owner| owner != pid);
                let may_refuse = |f: &Fault| match f {
                    Fault::Election { records, .. } => *records > 0,
                    Fault::Expiry { .. } => is_replaced,
                    _ => false,
                };
                // Its successor has settled what it was to read next.
                let is_let_go = (plan.releases || plan.pushes) && is_replaced;
                let is_expected = is_told_of_damage || is_told_of_cut || is_let_go;
                !has_expired && !is_expected && !plan.faults.iter().any(may_refuse)
            }
            EngineError::Mismatch(message) if self.rolled_back_since.is_some() => {
                let is_right = message.contains("rolled back") || message.contains("the store was lost");
                if is_right {
                    self.world.state().objects.bring_back();
                    self.rolled_back_since = None;
                }
                !is_right
            }
            // The person who has dropped the column gives it back, and meant no harm.
            EngineError::Mismatch(message) if message.contains("made when it had other columns") => {
                plan.alters.is_empty()
            }
            EngineError::Store(error) if error.kind == ErrorKind::SyncFailed => !self.replaces_disk(),
            EngineError::Source(error) if error.fault == SourceFault::Store => !self.replaces_disk(),
            // A start gives up on a store that fails; the supervisor tries again.
            EngineError::Store(error) => {
                !error.kind.is_transient() || self.world.state().store_errors == process.store_errors
            }
            EngineError::Mismatch(_)
            | EngineError::Delivered { .. }
            | EngineError::LeftAlone { .. }
            | EngineError::Source(_)
            | EngineError::Operator(_)
            | EngineError::State { .. }
            | EngineError::Damaged { .. }
            | EngineError::Record(_)
            | EngineError::Violation(_)
            | EngineError::Internal(_) => true,
        };
        if unexpected {
            return self.violate("stop", format!("process {pid} stopped: {error}"));
        }
        if !self.is_done {
            self.after_ms(1_000, Act::Start);
        }
    }
}
