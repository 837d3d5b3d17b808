//! The faults that any seed may have.
//!
//! Owns their drawing: first all kinds at once, then, from numbers of its own, the kinds that were added later. Does not own those of a server and its
//! neighbours ([`super::servers`]), of a source ([`super::sources`]) or of one of several tables ([`super::tables`]).

use std::time::Duration;

use super::Plan;
use super::fault::{Change, Fault, InsertFault, PutFault, When};
use crate::random::Random;

/// Kinds of faults, each of which a seed has or has not.
const KINDS: u64 = 17;

impl Plan {
    /// Draws from numbers of its own, so that a kind of fault can be added and the seeds are the same in everything else.
    pub(super) fn draw_more(&mut self, length_us: u64) {
        let mut random = Random::new(self.seed, 5);
        let r = &mut random;
        self.token_age_ms = r.percent(25).then(|| r.one_of(&[4_000, 20_000, 120_000]));
        self.settings.drain_time_max = Duration::from_millis(r.one_of(&[30_000, 30_000, 2_000, 50]));
        if self.token_age_ms.is_some() {
            // The ages of tokens and of what was seen of the server go by the same clock, which must not go back.
            self.faults.retain(|f| !matches!(f, Fault::ServerClockJump { by_ms, .. } if *by_ms < 0));
        }
        let ops = self.arrivals.len() as u64;
        let has = |r: &mut Random| r.percent(15);
        if has(r) {
            for _ in 0..r.between(1, 3) {
                let partition = r.below(u64::from(self.partitions)) as u32;
                let records = if r.percent(30) { 0 } else { r.between(1, 12) };
                self.faults.push(Fault::Election { at_us: r.below(length_us), partition, records });
            }
        }
        if has(r) {
            let changes = [Change::Truncated, Change::Recreated, Change::Exchanged, Change::Exchanged];
            let down_ms = r.one_of(&[1, 1_000, 8_000]);
            // A view's target keeps rows and tokens that a TRUNCATE takes from the table.
            let change = r.one_of(&changes[usize::from(self.has_view)..]);
            self.faults.push(Fault::Table { at_us: r.below(length_us), change, down_ms });
        }
        if has(r) {
            for _ in 0..r.between(1, 2) {
                let at_us = r.below(length_us);
                let when = if r.percent(50) { When::At(at_us) } else { When::Poll(r.below(ops * 40)) };
                self.faults.push(Fault::Drain { when });
            }
        }
        if has(r) {
            for _ in 0..r.between(1, 3) {
                let how = PutFault::Torn(r.one_of(&[1, 50, 1_000]));
                self.faults.push(Fault::Put { nth: r.below(ops), how });
            }
        }
        if self.has_view {
            for _ in 0..r.between(1, 6) {
                let down_ms = r.one_of(&[10, 1_000, 8_000]);
                let how = match r.below(4) {
                    0 | 1 => InsertFault::ViewFails,
                    2 => InsertFault::CrashBeforeView(down_ms),
                    _ => InsertFault::CrashAtViewToken(down_ms),
                };
                self.faults.push(Fault::Insert { nth: r.below(ops / 2), how });
            }
        }
    }
}

pub(super) fn faults(r: &mut Random, length_us: u64, plan: &Plan) -> Vec<Fault> {
    // Swarm: a seed has few kinds of faults, so that each is also seen without the others.
    let has: u64 = if r.percent(10) { 0 } else { r.word() & r.word() };
    let mut all = Vec::new();
    let ops = plan.arrivals.len() as u64;
    for kind in (0..KINDS).filter(|kind| has & (1 << kind) != 0) {
        let times = r.between(1, 4);
        for _ in 0..times {
            let at_us = r.below(length_us);
            let when = if r.percent(30) { When::At(at_us) } else { When::Poll(r.below(ops * 40)) };
            let down_ms = r.one_of(&[1, 50, 1_000, 8_000]);
            let for_ms = r.one_of(&[20, 500, 3_000, 20_000]);
            let fault = match kind {
                0 | 1 => Fault::Kill { when, down_ms },
                2 => {
                    let for_ms = r.one_of(&[300, 5_000, 60_000, 60_000, 900_000, 4 * 3_600_000]);
                    Fault::Freeze { when, for_ms, successor_ms: r.one_of(&[10, 200, 4_000]) }
                }
                3 => Fault::SecondOwner { when },
                4 => Fault::Stop { when, down_ms },
                5 => Fault::PowerLoss { when, down_ms },
                6 => Fault::Rollback { backup_us: r.below(at_us.max(1)), at_us },
                7 => Fault::StoreAway { at_us, for_ms },
                8 => Fault::DiskFull { at_us, for_ms },
                9 => Fault::ServerCrash { when, down_ms },
                10 => Fault::ServerAway { at_us, for_ms },
                11 => Fault::OtherWriters {
                    at_us,
                    inserts: r.between(1, plan.token_window * 2),
                    at_once: false,
                },
                12 if r.percent(50) => {
                    Fault::ClockJump { at_us, by_ms: r.one_of(&[-3_600_000, -5_000, -3, 5_000, 86_400_000]) }
                }
                12 => {
                    Fault::ServerClockJump { at_us, by_ms: r.one_of(&[-600_000, -3_000, -1, 3_000, 600_000]) }
                }
                13 if r.percent(50) => Fault::SourceAway { at_us, for_ms },
                13 => Fault::PartitionLost {
                    at_us,
                    partition: r.below(u64::from(plan.partitions)) as u32,
                    for_ms,
                },
                14 => Fault::Put { nth: r.below(ops), how: put_fault(r) },
                15 => Fault::Insert { nth: r.below(ops / 2), how: insert_fault(r) },
                _ if r.percent(50) => {
                    Fault::Read { nth: r.below(ops * 3), slow_ms: r.percent(50).then_some(for_ms) }
                }
                _ => Fault::Ask { nth: r.below(ops / 3) },
            };
            all.push(fault);
        }
    }
    // Inserts go wrong most often where it matters: in every second seed.
    if r.percent(50) {
        for _ in 0..r.between(1, 6) {
            all.push(Fault::Insert { nth: r.below(ops / 2), how: insert_fault(r) });
        }
    }
    all
}

fn put_fault(r: &mut Random) -> PutFault {
    match r.below(6) {
        0 => PutFault::Refused,
        1 => PutFault::LostAfter,
        2 => PutFault::LostBefore,
        3 => PutFault::LostLate(r.one_of(&[5, 300, 5_000, 120_000])),
        4 => PutFault::Unhardened,
        _ => PutFault::Slow(r.one_of(&[20, 2_000, 30_000])),
    }
}

fn insert_fault(r: &mut Random) -> InsertFault {
    let down_ms = r.one_of(&[10, 1_000, 8_000]);
    match r.below(8) {
        0 => InsertFault::Refused,
        1 => InsertFault::LostAfter,
        2 => InsertFault::LostBefore,
        3 => InsertFault::LateCopy(r.one_of(&[5, 200, 3_000, 25_000])),
        4 => InsertFault::Slow(r.one_of(&[200, 5_000, 45_000, 90_000])),
        5 => InsertFault::CrashBefore(down_ms),
        6 => InsertFault::CrashAtToken(down_ms),
        _ => InsertFault::CrashAfter(down_ms),
    }
}
