use async_trait::async_trait;
use dataflow::{BlockBuilder, PartitionStart, Position, Reader, SourceFault, Streams};

use super::*;

/// A log whose leader of epoch 1 began at this position, and lacked what its predecessor had from there on.
struct Cut(u64);

#[async_trait]
impl Source for Cut {
    fn streams(&self) -> Streams {
        Streams::Others
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        Ok(Vec::new())
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        Ok(Vec::new())
    }

    async fn read(&self, _from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        Err(SourceError::new(SourceFault::Config, "only single records are read here"))
    }

    async fn publish(&self, _positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        Ok(())
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        Ok(Vec::new())
    }

    /// As a broker has it: a position is refused if the log of the epoch that comes with it ends before.
    async fn record(&self, at: ReadFrom) -> Result<Option<RecordBlock>, SourceError> {
        if at.leader_epoch == 0 && at.next > self.0.into() {
            return Err(SourceError::new(SourceFault::Refused, "the log was cut"));
        }
        let mut one = BlockBuilder::new(at.partition, at.next);
        one.push(dataflow::position::low(at.next), 0, Some(b"what stands there now"));
        one.leader_epoch(i32::from(at.next + 1 >= self.0.into()));
        Ok(Some(one.take()))
    }
}

#[tokio::test]
async fn the_record_that_took_the_place_of_another_is_not_taken_for_it() {
    let at = |next, leader_epoch| ReadFrom {
        partition: Partition::new("e", 0),
        identity: String::new(),
        next,
        leader_epoch,
    };
    let read = async |next, epoch| same_record(&Cut(10), &at(next, epoch)).await;
    assert!(read(5, 0).await.expect("of the same leader").is_some());
    assert!(
        read(9, 0)
            .await
            .expect("the last of the old leader, though it came beside the first of the new one")
            .is_some()
    );
    for next in [10, 11] {
        let error = read(next, 0).await.expect_err("another record stands there now");
        assert_eq!(error.fault, SourceFault::Refused, "{error}");
    }
    assert!(read(10, 1).await.expect("it was read from the new leader").is_some());
    assert!(read(10, NO_LEADER_EPOCH).await.expect("nothing to compare with").is_some());
}

#[test]
fn rows_share_the_patience_of_one_absence() {
    let (patience, max) = (Patience::default(), Duration::from_secs(10));
    let at = Duration::from_secs;
    assert_eq!(patience.left(at(100), max), max);
    patience.answered(at(100), false);
    assert_eq!(patience.left(at(104), max), at(6));
    patience.answered(at(104), false);
    assert_eq!(patience.left(at(200), max), TRY_AT_LEAST, "used up, but one that came back is heard");
    patience.answered(at(200), true);
    assert_eq!(patience.left(at(201), max), max);
    assert_eq!(patience.left(at(201), at(0)), at(0), "a bound of nothing is a bound");
}
