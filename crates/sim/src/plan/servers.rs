//! Servers with replicas, other writers and costly tokens; records whose times are far ahead.
//!
//! Owns the drawing, from numbers of its own, so that all other seeds are what they were. Does not own what the server then does ([`crate::server`]).

use super::Plan;
use super::fault::{Fault, InsertFault, When};
use crate::random::Random;

impl Plan {
    /// Draws from numbers of its own again: what a server and those around it do beside what is drawn above.
    pub(super) fn draw_servers(&mut self, length_us: u64) {
        let mut random = Random::new(self.seed, 6);
        let r = &mut random;
        let ops = self.arrivals.len() as u64;
        self.tokens_per_block = if r.percent(20) { 2 } else { 1 };
        self.replicas = if r.percent(20) { r.between(2, 3) } else { 1 };
        // Nothing may be trusted then: seen by itself, it must not hide what others break.
        self.others_at_once = r.percent(10);
        if self.replicas > 1 {
            for fault in &mut self.faults {
                // A keeper takes token and part together.
                if let Fault::Insert { how, .. } = fault {
                    *how = match *how {
                        InsertFault::CrashAtToken(ms) => InsertFault::CrashBefore(ms),
                        InsertFault::CrashAtViewToken(ms) => InsertFault::CrashBeforeView(ms),
                        how => how,
                    };
                }
            }
            for _ in 0..r.between(0, 4) {
                let (at_us, node) = (r.below(length_us), r.below(self.replicas));
                self.faults.push(Fault::ReplicaLags { at_us, node, for_ms: r.one_of(&[500, 5_000, 40_000]) });
            }
        }
        if r.percent(15) {
            for _ in 0..r.between(1, 3) {
                self.faults.push(Fault::Insert { nth: r.below(ops / 2), how: InsertFault::Twice });
            }
        }
        if r.percent(15) {
            // The answer is lost, and others write while the resend travels.
            for _ in 0..r.between(1, 4) {
                let nth = r.below(ops / 2);
                let lost =
                    r.one_of(&[InsertFault::LostAfter, InsertFault::LostAfter, InsertFault::LostBefore]);
                let (ms, others) = (r.one_of(&[1, 300, 5_000]), r.between(1, self.token_window * 2));
                let at_once = self.others_at_once && r.percent(70);
                self.faults.push(Fault::Insert { nth, how: lost });
                let how = InsertFault::OnTheWay { ms, others, at_once };
                (1..=r.between(1, 3)).for_each(|n| self.faults.push(Fault::Insert { nth: nth + n, how }));
            }
        }
        if self.others_at_once {
            for _ in 0..r.between(1, 3) {
                let inserts = r.between(1, self.token_window * 2);
                self.faults.push(Fault::OtherWriters { at_us: r.below(length_us), inserts, at_once: true });
            }
        }
        if r.percent(6) {
            // What is sealed waits for the server when the process dies, and the source refuses the next one.
            let (at_us, partition) = (r.below(length_us), r.below(u64::from(self.partitions)) as u32);
            let down_ms = r.one_of(&[1, 1_000]);
            self.faults.push(Fault::ServerAway { at_us, for_ms: r.one_of(&[500, 20_000]) });
            self.faults.push(Fault::Expiry { at_us: at_us + r.below(2_000_000), partition });
            self.faults.push(Fault::Kill { when: When::At(at_us + r.below(2_000_000)), down_ms });
        }
        self.draw_times(r);
        if self.is_local && r.percent(10) {
            self.faults.push(Fault::SyncFails { at_us: r.below(length_us) });
        }
        if r.percent(8) {
            // The answer is lost, and the memory of the table with it.
            for _ in 0..r.between(1, 3) {
                let how =
                    r.one_of(&[InsertFault::LostAfter, InsertFault::LostAfter, InsertFault::LostBefore]);
                self.faults.push(Fault::Insert { nth: r.below(ops / 2), how });
                self.faults.push(Fault::Narrowed { at_us: r.below(length_us) });
            }
        }
    }

    /// Record times that are far ahead, and a partition that yields nothing but rejects.
    fn draw_times(&mut self, r: &mut Random) {
        let Some(window_ms) = self.window.map(|window| window.as_millis() as i64) else { return };
        // As the pipeline file has it: within a quarter of a window nothing is freed.
        self.settings.future_ms_max = self.settings.future_ms_max.min(window_ms / 4);
        if r.percent(25) {
            self.has_future = true;
            for arrival in &mut self.arrivals {
                if !r.percent(4) {
                    continue;
                }
                arrival.record.time_ms += r.one_of(&[window_ms / 2, window_ms * 3, 3_600_000, 86_400_000]);
            }
        }
        if self.partitions > 1 && r.percent(10) {
            let rejects = self.arrivals.iter_mut().filter(|arrival| arrival.partition == 0);
            rejects.for_each(|arrival| arrival.record.is_good = false);
        }
    }
}
