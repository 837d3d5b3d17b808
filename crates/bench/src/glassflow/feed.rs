//! The records of the workload `glassflow`, as they are sent.
//!
//! Owns their order and the spread over partitions. Does not own the records (`workloads::glassflow`) or the topic (`crate::topic`).
//!
//! Record n goes to partition n mod partitions, so that most duplicates stand in another partition than their original: a
//! reader that deduplicates by partition, or trusts in the order of two partitions, gives a wrong table.

use anyhow::{Context, ensure};
use workloads::glassflow::{RECORD_BYTES_MAX, Workload};

use crate::topic::{Records, Sending, Take};

/// Bytes that records may take while they wait for their time: a quarter of the memory of a small machine.
const PREPARED_BYTES_MAX: u64 = 4 << 30;

impl Records for Workload {
    fn each(&self, partitions: u32, take: &mut Take<'_>) -> anyhow::Result<()> {
        each(self, |number, record| take(number, sending(partitions, number, record)))
    }
}

impl Records for Prepared {
    fn each(&self, partitions: u32, take: &mut Take<'_>) -> anyhow::Result<()> {
        (0..)
            .zip(self.records())
            .try_for_each(|(number, record)| take(number, sending(partitions, number, record)))
    }
}

/// Record `number` of a stream, and the partition that it goes to.
pub fn sending(partitions: u32, number: u64, payload: &[u8]) -> Sending<'_> {
    Sending { partition: (number % u64::from(partitions)) as u32, key: None, payload }
}

/// Gives every record of the workload with its number, the publishers in turn: the order in which they are sent.
///
/// # Errors
/// The first error of `take`.
pub fn each<E>(workload: &Workload, mut take: impl FnMut(u64, &[u8]) -> Result<(), E>) -> Result<(), E> {
    let mut record = Vec::with_capacity(RECORD_BYTES_MAX);
    let publishers = workload.spec().publishers;
    let longest = (0..publishers).map(|publisher| workload.records(publisher)).max().unwrap_or(0);
    let mut number = 0;
    for position in 0..longest {
        for publisher in 0..publishers {
            record.clear();
            if workload.write(publisher, position, &mut record).is_some() {
                take(number, &record)?;
                number += 1;
            }
        }
    }
    Ok(())
}

/// Records that were made before they are due, so that their making takes nothing from what is measured.
pub struct Prepared {
    /// Each record behind its length, one byte.
    bytes: Vec<u8>,
}

impl Prepared {
    /// All records of a workload, in the order in which they are sent.
    ///
    /// # Errors
    /// When they are too many to be held in memory.
    pub fn new(workload: &Workload) -> anyhow::Result<Self> {
        let records = workload.records_total();
        let bytes_max = records.saturating_mul(RECORD_BYTES_MAX as u64 + 1);
        ensure!(
            bytes_max <= PREPARED_BYTES_MAX,
            "`{records}` records are too many to be held in memory until they are due; give fewer `--uniques`"
        );
        let mut bytes = Vec::with_capacity(bytes_max as usize);
        each(workload, |_, record| -> anyhow::Result<()> {
            bytes.push(u8::try_from(record.len()).context("a record longer than it can be")?);
            bytes.extend_from_slice(record);
            Ok(())
        })?;
        Ok(Self { bytes })
    }

    fn records(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            let (len, others) = rest.split_first()?;
            let record;
            (record, rest) = others.split_at(usize::from(*len));
            Some(record)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prepared_records_are_those_of_the_workload() {
        let spec = workloads::glassflow::Spec { uniques: 50, ..Default::default() };
        let workload = Workload::new(spec).expect("valid");
        let prepared = Prepared::new(&workload).expect("few");
        let mut records = prepared.records();
        let same: Result<(), ()> =
            each(&workload, |_, record| if records.next() == Some(record) { Ok(()) } else { Err(()) });
        assert_eq!((same, records.next()), (Ok(()), None));
    }

    #[test]
    fn records_that_memory_cannot_hold_are_refused() {
        let spec = workloads::glassflow::Spec { uniques: 1 << 30, ..Default::default() };
        assert!(Prepared::new(&Workload::new(spec).expect("valid")).is_err());
    }

    #[test]
    fn every_record_has_one_number_in_order() {
        let spec = workloads::glassflow::Spec { uniques: 50, ..Default::default() };
        let workload = Workload::new(spec).expect("valid");
        let mut numbers = Vec::new();
        let all: Result<(), ()> = each(&workload, |number, _| {
            numbers.push(number);
            Ok(())
        });
        assert_eq!((all, numbers.len() as u64), (Ok(()), workload.records_total()));
        assert!(numbers.iter().copied().eq(0..workload.records_total()));
    }
}
