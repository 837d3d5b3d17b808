//! Faults of a source, and of a store whose source cannot tell that it was rolled back.
//!
//! Owns the drawing, from numbers of its own, so that all other seeds are what they were. Does not own what a fault does
//! (`drive::strikes`, `broker`).

use super::{Change, Fault, Plan, When};
use crate::random::Random;

impl Plan {
    pub(super) fn draw_sources(&mut self, length_us: u64) {
        let mut random = Random::new(self.seed, 9);
        let r = &mut random;
        if self.faults.iter().any(|f| matches!(f, Fault::Rollback { .. })) {
            return self.draw_lost_store(r);
        }
        let partition = r.below(u64::from(self.partitions)) as u32;
        match r.below(100) {
            0..6 => self.draw_damage(r, length_us),
            6..12 => self.draw_cut(r, length_us, partition),
            12..15 => {
                // Two first starts at once.
                self.faults.push(Fault::SecondOwner { when: When::Poll(r.below(300)) });
            }
            _ => {}
        }
    }

    /// Of a source that keeps no positions, only the rows that are there tell that the journal is lost.
    fn draw_lost_store(&mut self, r: &mut Random) {
        let is_changed = |f: &Fault| matches!(f, Fault::Table { change, .. } if *change != Change::Exchanged);
        if self.replicas > 1 || self.faults.iter().any(is_changed) || !r.percent(30) {
            return;
        }
        self.keeps_positions = false;
        for fault in &mut self.faults {
            if let Fault::Rollback { backup_us, .. } = fault {
                *backup_us = 0;
            }
        }
    }

    fn draw_damage(&mut self, r: &mut Random, length_us: u64) {
        for _ in 0..r.between(1, 2) {
            let partition = r.below(u64::from(self.partitions)) as u32;
            // Some from the first record on, or where a first start reads beside others.
            let at_us = if r.percent(30) { r.below(length_us / 8) } else { r.below(length_us) };
            self.faults.push(Fault::Damage { at_us, partition });
        }
    }

    fn draw_cut(&mut self, r: &mut Random, length_us: u64, partition: u32) {
        // What an election or retention takes away is told otherwise, and would hide this.
        self.faults.retain(|f| !matches!(f, Fault::Election { records: 1.., .. } | Fault::Expiry { .. }));
        let (at_us, records) = (r.below(length_us), r.between(1, 12));
        self.faults.push(Fault::Cut { at_us, partition, records });
        if r.percent(50) {
            self.faults.push(Fault::Drain { when: When::At(at_us + r.below(3_000_000)) });
        }
    }
}
