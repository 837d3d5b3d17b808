//! Events with duplicates, to be put into a table once each.
//!
//! Owns the records, the order in which each publisher sends them, and what the table must hold in the end. Does not own
//! partitions, rates and topics: one publisher's stream is a sequence of positions from 0.
//!
//! A record is JSON of 188 to 221 bytes, 200 in the mean:
//! ```text
//! {"event_id": "…", "user_id": "…", "name": "…", "email": "…", "created_at": "2025-01-01 00:00:00"}
//! ```
//! A duplicate is a whole record once more, byte for byte. The experiment was published with near duplicates alone, which
//! a cache of some thousand keys recognises; the other two kinds need what was promised.
//!
//! | kind  | a copy of                                                   | how many                              |
//! |-------|-------------------------------------------------------------|---------------------------------------|
//! | near  | one of the last 1,000 uniques of the publisher              | one after the uniques 1, 11, 21, …    |
//! | far   | any earlier unique of the publisher                         | as asked for, spread evenly           |
//! | cross | a unique of another publisher, no further on than this one  | as asked for, spread evenly           |
//!
//! Publishers are taken to move at the same pace. If one runs ahead, a cross duplicate may arrive before its original;
//! the table must hold one of the two all the same, and they are equal.

pub mod oracle;
pub mod pairs;
mod record;
mod stream;
mod words;

use crate::random::{below, nth};
pub use stream::Kind;
use stream::Layout;

/// Uniques that a near duplicate looks back on, the one just sent among them.
pub const NEAR_DISTANCE_MAX: u64 = 1_000;
/// One near duplicate follows every so many uniques, from the first on.
pub const NEAR_EVERY: u64 = 10;
/// Bytes of the shortest record.
pub const RECORD_BYTES_MIN: usize = 188;
/// Bytes of a record in the mean.
pub const RECORD_BYTES_MEAN: usize = 200;
/// Bytes of the longest record: reserve so many per record and [`Workload::write`] never allocates.
pub const RECORD_BYTES_MAX: usize = 221;
/// Publishers at the most.
pub const PUBLISHERS_MAX: u32 = 1 << 16;
/// Positions of one publisher at the most.
pub const POSITIONS_MAX: u64 = 1 << 40;

/// The size and shape of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Everything random comes from it.
    pub seed: u64,
    /// Streams; 1 to [`PUBLISHERS_MAX`].
    pub publishers: u32,
    /// Different records of each publisher; at least 1.
    pub uniques: u64,
    /// Whether one near duplicate follows the uniques 1, 11, 21, …: 10 % of them, 9.09 % of what is sent.
    pub near_duplicates: bool,
    /// Far duplicates of each publisher.
    pub far_duplicates: u64,
    /// Cross duplicates of each publisher; needs two publishers.
    pub cross_duplicates: u64,
    /// `created_at` of the first uniques, in seconds since 1970 UTC.
    pub start_time_s: u32,
    /// Uniques of all publishers together that share one second of `created_at`; at least 1.
    pub uniques_per_second: u32,
}

impl Default for Spec {
    /// The smallest run of the published sweep: 2 publishers, 5 million uniques, near duplicates alone, at a pace that
    /// keeps it inside the window of 8 hours.
    fn default() -> Self {
        Self {
            seed: 1,
            publishers: 2,
            uniques: 2_500_000,
            near_duplicates: true,
            far_duplicates: 0,
            cross_duplicates: 0,
            start_time_s: 1_735_689_600,
            uniques_per_second: 10_000,
        }
    }
}

/// Why a [`Spec`] makes no workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No or too many publishers.
    #[error("`{0}` publishers; give 1 to {PUBLISHERS_MAX}")]
    Publishers(u32),
    /// No uniques.
    #[error("`0` uniques; give at least 1")]
    NoUniques,
    /// More positions than fit.
    #[error("a publisher would send more than {POSITIONS_MAX} records; lower uniques or duplicates")]
    TooMany,
    /// Cross duplicates of a single publisher.
    #[error("`{0}` cross duplicates but one publisher; give two publishers or no cross duplicates")]
    NobodyToCopy(u64),
    /// No pace.
    #[error("`0` uniques per second; give at least 1")]
    NoPace,
    /// The last `created_at` does not fit ClickHouse's `DateTime`.
    #[error("`created_at` would pass the year 2106; start earlier or raise the uniques per second")]
    TooLate,
}

/// Where the record at a position comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Why it is there.
    pub kind: Kind,
    /// The publisher whose unique it is.
    pub publisher: u32,
    /// The number of that unique, from 0.
    pub ordinal: u64,
}

/// A checked [`Spec`] that gives its records. Costs nothing to make or clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    spec: Spec,
    layout: Layout,
}

impl Workload {
    /// Checks the spec.
    pub fn new(spec: Spec) -> Result<Self, SpecError> {
        if spec.publishers == 0 || spec.publishers > PUBLISHERS_MAX {
            return Err(SpecError::Publishers(spec.publishers));
        }
        if spec.uniques == 0 {
            return Err(SpecError::NoUniques);
        }
        if spec.publishers == 1 && spec.cross_duplicates > 0 {
            return Err(SpecError::NobodyToCopy(spec.cross_duplicates));
        }
        if spec.uniques_per_second == 0 {
            return Err(SpecError::NoPace);
        }
        let layout = Layout::new(&spec).ok_or(SpecError::TooMany)?;
        let workload = Self { spec, layout };
        let last_s = workload.created_at_s(workload.spec.publishers - 1, workload.spec.uniques - 1);
        if last_s > u64::from(u32::MAX) {
            return Err(SpecError::TooLate);
        }
        Ok(workload)
    }

    /// The spec it was made from.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Records that `publisher` sends, which are its positions from 0; 0 if there is no such publisher.
    pub fn records(&self, publisher: u32) -> u64 {
        if publisher < self.spec.publishers { self.layout.positions() } else { 0 }
    }

    /// Records that all publishers send.
    pub fn records_total(&self) -> u64 {
        u64::from(self.spec.publishers) * self.layout.positions()
    }

    /// Different records of all publishers: what the table must hold.
    pub fn uniques_total(&self) -> u64 {
        u64::from(self.spec.publishers) * self.spec.uniques
    }

    /// Duplicates of all publishers: what must not reach the table.
    pub fn duplicates_total(&self) -> u64 {
        self.records_total() - self.uniques_total()
    }

    /// Where the record at `position` of `publisher` comes from; `None` behind the end.
    pub fn origin(&self, publisher: u32, position: u64) -> Option<Origin> {
        if position >= self.records(publisher) {
            return None;
        }
        let slot = self.layout.slot(position);
        let bits = || nth(self.series(publisher, Purpose::Choice), position);
        let (publisher, ordinal) = match slot.kind {
            Kind::Unique => (publisher, slot.uniques_before),
            Kind::Near => {
                let distance_max = slot.uniques_before.min(NEAR_DISTANCE_MAX);
                (publisher, slot.uniques_before - 1 - below(bits(), distance_max))
            }
            Kind::Far => (publisher, below(bits(), slot.uniques_before)),
            Kind::Cross => {
                let others = self.spec.publishers - 1;
                // Fits, because it is below a u32.
                let step = 1 + below(nth(bits(), 0), u64::from(others)) as u32;
                ((publisher + step) % self.spec.publishers, below(bits(), slot.uniques_before))
            }
        };
        Some(Origin { kind: slot.kind, publisher, ordinal })
    }

    /// Appends the record at `position` of `publisher` to `out`, without a line end, and says where it comes from.
    /// Behind the end it appends nothing and answers `None`.
    pub fn write(&self, publisher: u32, position: u64, out: &mut Vec<u8>) -> Option<Origin> {
        let origin = self.origin(publisher, position)?;
        self.write_unique(origin.publisher, origin.ordinal, out);
        Some(origin)
    }

    /// Appends the unique number `ordinal` of `publisher`, whether the run is that long or not.
    fn write_unique(&self, publisher: u32, ordinal: u64, out: &mut Vec<u8>) {
        record::Record::new(
            self.series(publisher, Purpose::Content),
            ordinal,
            self.created_at_s(publisher, ordinal),
        )
        .write_json(out);
    }

    /// `created_at` of a unique, in seconds since 1970 UTC. All publishers move at the same pace.
    fn created_at_s(&self, publisher: u32, ordinal: u64) -> u64 {
        let before = ordinal * u64::from(self.spec.publishers) + u64::from(publisher);
        u64::from(self.spec.start_time_s) + before / u64::from(self.spec.uniques_per_second)
    }

    fn series(&self, publisher: u32, purpose: Purpose) -> u64 {
        nth(nth(self.spec.seed, purpose as u64), u64::from(publisher))
    }
}

/// What a series of random numbers is for, so that no two uses share one.
#[derive(Clone, Copy)]
enum Purpose {
    Content,
    Choice,
    Action,
}

#[cfg(test)]
mod tests;
