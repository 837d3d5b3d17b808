//! The counts of a batch as messages: what became of its records, and the rows that it has for each table.
//!
//! Owns the fields and the equations that need no other record. Does not own what a lane's counts are together ([`crate::lane`]).
//!
//! | ledger                     | equation                                                                             |
//! |----------------------------|--------------------------------------------------------------------------------------|
//! | of records, for each input | `read = passed + filtered + duplicates + late + dead letters + absorbed`             |
//! | of rows, for each table    | `sealed = settled + refused + pending`                                               |
//! | of states                  | `absorbed = released + held + discarded`, of records and of derived rows together                |
//! | both: tables of rows       | `passed + derived = rows sealed + rows replaced + rows dropped + rows absorbed + rows that became dead letters` |
//! | both: tables of dead letters | `rows sealed = dead letters + rows that became dead letters + rows refused`        |
//!
//! Where every record is one row of one table nothing is derived, and the third line says `passed = rows sealed`.

use prost::Message;

/// What records became. `read = passed + filtered + duplicates + late + dead_letters + absorbed` (C9).
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Counts {
    /// Records handed out by the source.
    #[prost(uint64, tag = "1")]
    pub read: u64,
    /// Records of which rows were made.
    #[prost(uint64, tag = "2")]
    pub passed: u64,
    /// Records dropped by a rule.
    #[prost(uint64, tag = "3")]
    pub filtered: u64,
    /// Records dropped as known duplicates.
    #[prost(uint64, tag = "4")]
    pub duplicates: u64,
    /// Records dropped because they came too late and the pipeline says `late: drop`.
    #[prost(uint64, tag = "5")]
    pub late: u64,
    /// Records that became dead letters before a row was made of them. Rows that a table refuses later are counted there
    /// ([`Rows::refused`]).
    #[prost(uint64, tag = "6")]
    pub dead_letters: u64,
    /// Records that went into the state of a step, which releases rows later.
    #[prost(uint64, tag = "7")]
    pub absorbed: u64,
    /// Of the records that passed, those that came so late that they may be duplicates of forgotten keys. Not part of the sum.
    #[prost(uint64, tag = "8")]
    pub late_kept: u64,
}

impl Counts {
    /// True if every record is accounted for.
    pub fn add_up(&self) -> bool {
        let Self { passed, filtered, duplicates, late, dead_letters, absorbed, .. } = *self;
        let parts = [passed, filtered, duplicates, late, dead_letters, absorbed];
        parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(*part)) == Some(self.read)
    }

    /// Adds the other's counts to these. An overflow saturates: the fold refuses it.
    pub fn add(&mut self, other: &Counts) {
        self.read = self.read.saturating_add(other.read);
        self.passed = self.passed.saturating_add(other.passed);
        self.filtered = self.filtered.saturating_add(other.filtered);
        self.duplicates = self.duplicates.saturating_add(other.duplicates);
        self.late = self.late.saturating_add(other.late);
        self.dead_letters = self.dead_letters.saturating_add(other.dead_letters);
        self.absorbed = self.absorbed.saturating_add(other.absorbed);
        self.late_kept = self.late_kept.saturating_add(other.late_kept);
    }
}

/// What the records of one input became in one seal. The fields of [`Counts`] stand beside the input's number, and not in a message of
/// their own: every seal has one of these.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct InputCounts {
    /// The input's number.
    #[prost(uint32, tag = "1")]
    pub input: u32,
    /// [`Counts::read`]
    #[prost(uint64, tag = "2")]
    pub read: u64,
    /// [`Counts::passed`]
    #[prost(uint64, tag = "3")]
    pub passed: u64,
    /// [`Counts::filtered`]
    #[prost(uint64, tag = "4")]
    pub filtered: u64,
    /// [`Counts::duplicates`]
    #[prost(uint64, tag = "5")]
    pub duplicates: u64,
    /// [`Counts::late`]
    #[prost(uint64, tag = "6")]
    pub late: u64,
    /// [`Counts::dead_letters`]
    #[prost(uint64, tag = "7")]
    pub dead_letters: u64,
    /// [`Counts::absorbed`]
    #[prost(uint64, tag = "8")]
    pub absorbed: u64,
    /// [`Counts::late_kept`]
    #[prost(uint64, tag = "9")]
    pub late_kept: u64,
}

impl InputCounts {
    /// Records of the input `input`.
    pub fn of(input: u32, counts: Counts) -> Self {
        let Counts { read, passed, filtered, duplicates, late, dead_letters, absorbed, late_kept } = counts;
        Self { input, read, passed, filtered, duplicates, late, dead_letters, absorbed, late_kept }
    }

    /// What the input's records became.
    pub fn counts(&self) -> Counts {
        let Self { input: _, read, passed, filtered, duplicates, late, dead_letters, absorbed, late_kept } =
            *self;
        Counts { read, passed, filtered, duplicates, late, dead_letters, absorbed, late_kept }
    }
}

/// The rows of one table in one seal, as the batch was cut: the frames must hold exactly these.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct TableRows {
    /// The table's index.
    #[prost(uint32, tag = "1")]
    pub table: u32,
    /// Rows in its frames; at least 1.
    #[prost(uint64, tag = "2")]
    pub rows: u64,
    /// Rows that are in no frame, because a later row of the batch has their key and replaces them.
    #[prost(uint64, tag = "3")]
    pub replaced: u64,
}

/// Rows that are not one each of a record that passed.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Derived {
    /// Rows beyond the first of each record that passed: a step made several of one, or it goes to several tables. Rows that a
    /// state releases are among them.
    #[prost(uint64, tag = "1")]
    pub rows: u64,
    /// Rows that were dropped behind a step that makes several rows of one record.
    #[prost(uint64, tag = "2")]
    pub dropped: u64,
    /// Rows that became dead letters there.
    #[prost(uint64, tag = "3")]
    pub dead_letters: u64,
    /// Rows that went into the state of a step there.
    #[prost(uint64, tag = "4")]
    pub absorbed: u64,
}

impl Derived {
    /// Adds the other's rows to these.
    pub fn add(&mut self, other: &Derived) {
        self.rows += other.rows;
        self.dropped += other.dropped;
        self.dead_letters += other.dead_letters;
        self.absorbed += other.absorbed;
    }
}

/// What the states of all steps did with the records and derived rows that they absorbed.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Absorbed {
    /// Those that were released: their windows are closed.
    #[prost(uint64, tag = "1")]
    pub released: u64,
    /// Those that the states still hold, by their own count.
    #[prost(uint64, tag = "2")]
    pub held: u64,
    /// Those in states that the operator has given up ([`super::Change`], [`super::Rewind`]): no result will hold them. A seal discards nothing.
    #[prost(uint64, tag = "3")]
    pub discarded: u64,
}

/// The rows of one table since its genesis. What is neither settled nor refused is pending.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Rows {
    /// Rows in sealed frames.
    #[prost(uint64, tag = "1")]
    pub sealed: u64,
    /// Rows below the recorded frontier that are in the table.
    #[prost(uint64, tag = "2")]
    pub settled: u64,
    /// Rows that the table refused; each is a dead letter.
    #[prost(uint64, tag = "3")]
    pub refused: u64,
    /// Rows that were in no frame, because a later row of their batch replaced them. Not among those that are sealed.
    #[prost(uint64, tag = "4")]
    pub replaced: u64,
}

impl Rows {
    /// Rows of which it is not recorded yet what becomes of them.
    pub fn pending(&self) -> u64 {
        self.sealed.saturating_sub(self.settled).saturating_sub(self.refused)
    }
}
