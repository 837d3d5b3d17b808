//! The persons, as a run meets them.
//!
//! Owns when one comes: to answer what a lane asks, to move it back, to replay dead letters, to stop a process that asks or whose input refuses. Does not
//! own what they then do (`person`, `replayer`).

use std::sync::Arc;

use engine::problem::State;

use super::{Act, Drive};
use crate::executor::lock;
use crate::variant::Variant;
use crate::{person, replayer};

/// How long a person takes to read that an input refuses, microseconds; the other inputs are read meanwhile. Whoever stops it before a start has
/// seen that nobody else delivers (`owner_quiet_min`), each time anew, keeps what is sealed from its tables.
const READ_US: u64 = 20_000_000;

/// As much of `owner_quiet_min` is waited for as a start ever has.
const QUIET_US_MAX: u64 = 120_000_000;

/// In every so manyth seed a process that goes on with other tables is left to take the answer about one of them up by itself.
const ANSWERED_BESIDE: u64 = 2;

/// How long a person waits before an answer, milliseconds: longer than anything stays on its way to the server.
pub(super) const PERSON_MS: u64 = 200_000;

impl Drive {
    /// A person answers what the journal asks.
    pub(super) fn ask_a_person(&mut self) {
        let comes_us = self.doubt_us + PERSON_MS * 1_000;
        if self.world.executor.now_us() < comes_us {
            // Another lane has stopped since: what it sent may be on its way as long.
            return self.at(comes_us, Act::Ask);
        }
        // What a person takes is not the lane's; there are as many questions as frames in doubt at the most.
        self.calm_since = None;
        if self.person.is_none() {
            self.answers += 1;
            self.person = Some(Arc::default());
            let (world, is_done) = (self.world.clone(), self.person.clone().unwrap_or_default());
            self.world.spawn(async move {
                person::answer(&world).await;
                *lock(&is_done) = true;
            });
        }
    }

    /// A person moves the pipeline back.
    pub(super) fn move_back(&mut self) {
        let Some(moved) = self.world.plan.moved else { return };
        self.calm_since = None;
        self.mover = Some(Arc::default());
        let (world, is_done) = (self.world.clone(), self.mover.clone().unwrap_or_default());
        let forgets_pending = self.variant == Some(Variant::MovedWhilePending);
        self.world.spawn(async move {
            person::move_back(&world, moved.is_emptied, forgets_pending).await;
            *lock(&is_done) = true;
        });
    }

    /// A person replays dead letters.
    pub(super) fn replay(&mut self, n: usize) {
        self.calm_since = None;
        let (world, variant) = (self.world.clone(), self.variant);
        world.state().replaying += 1;
        self.world.spawn(async move {
            replayer::replay(&world, &world.plan.replays[n], variant).await;
            world.state().replaying -= 1;
        });
    }

    /// A process that goes on with other tables while one of them waits for an answer is stopped by the person who comes to give it, or is left to
    /// take the answer up by itself.
    pub(super) fn stop_what_asks(&mut self, now_us: u64) {
        let asked_us = self.world.state().oracle.asked_us;
        let is_waiting = asked_us.is_some_and(|us| now_us >= us + PERSON_MS * 1_000);
        if !is_waiting || self.last.is_some() || self.person.is_some() {
            return;
        }
        let is_left = self.world.plan.seed.is_multiple_of(ANSWERED_BESIDE);
        let Some(process) = self.newest().and_then(|pid| self.processes.get_mut(&pid)) else { return };
        self.world.state().oracle.asked_us = Some(now_us);
        if is_left {
            self.doubt_us = now_us - PERSON_MS * 1_000;
            return self.ask_a_person();
        }
        process.is_asked = true;
        // If it has ended meanwhile, it need not be asked.
        let _ = process.stop.send(true);
    }

    /// A process that reads on while the source of one input refuses is stopped by the person who reads its status, and says then what is wrong.
    pub(super) fn stop_what_refuses(&mut self, now_us: u64) {
        let quiet_us = self.world.plan.settings.owner_quiet_min.as_micros() as u64;
        let Some(process) = self.newest().and_then(|pid| self.processes.get_mut(&pid)) else { return };
        let refuses =
            process.status.snapshot().problems.values().any(|problem| problem.state == State::InputRefuses);
        if !refuses || process.is_asked {
            self.refused_us = self.refused_us.filter(|_| refuses);
            return;
        }
        let since_us = *self.refused_us.get_or_insert(now_us);
        if now_us >= since_us + READ_US + quiet_us.min(QUIET_US_MAX) {
            process.is_asked = true;
            self.refused_us = None;
            // If it has ended meanwhile, it need not be asked.
            let _ = process.stop.send(true);
        }
    }

    /// A process that was told the end of a partition which has grown since, while another has not ended, is stopped by the person who wants to have all of it.
    pub(super) fn stop_what_reads_no_more(&mut self) {
        let Some(pid) = self.newest() else { return };
        let has_grown = {
            let state = self.world.state();
            let sealed = state.oracle.sealed();
            state.broker.has_grown_for(pid, &sealed) && !state.broker.has_ended_for(pid, &sealed)
        };
        let Some(process) = self.processes.get_mut(&pid).filter(|process| has_grown && !process.is_asked)
        else {
            return;
        };
        process.is_asked = true;
        // If it has ended meanwhile, it need not be asked.
        let _ = process.stop.send(true);
    }

    pub(super) fn see_answers(&mut self) {
        if self.mover.as_ref().is_some_and(|is_done| *lock(is_done)) {
            self.mover = None;
            self.after_ms(100, Act::Start);
        }
        if self.person.as_ref().is_some_and(|is_done| *lock(is_done)) {
            self.person = None;
            // What is open still, or again, the next process asks anew.
            self.world.state().oracle.asked_us = None;
            self.after_ms(100, Act::Start);
        }
    }
}
