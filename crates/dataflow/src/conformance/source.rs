//! The rules of [`Source`] and [`Reader`] as tests that any implementation runs.
//!
//! Owns reading, resuming, refusing and pausing as seen from outside. Does not own formats, brokers and file systems:
//! those are each implementation's own tests. An implementation's test calls [`run`] with a function that makes a
//! [`Fixture`]; what a source cannot do (grow, forget, …) its fixture answers with `false`, and the rule is left out.

mod rules;
mod watch;

use std::sync::Arc;

use async_trait::async_trait;

use crate::{Partition, Position, Runtime, Source};

pub use rules::*;
pub use watch::{Record, Seen, Watch, at, read_all};

/// A source with known content, and control over the system behind it.
///
/// The source shows at least two partitions, the first of them with at least 20 records; nothing else writes to it.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// The source under test; the same one at every call.
    fn source(&self) -> &dyn Source;

    /// The clock that bounds the suite's waiting.
    fn runtime(&self) -> Arc<dyn Runtime>;

    /// Appends one record to a partition that is being read. `false` if this source cannot grow.
    async fn append(&self, _partition: &Partition, _payload: &[u8]) -> bool {
        false
    }

    /// Makes the records below `position` vanish, as retention does. `false` if this source never forgets.
    async fn forget(&self, _partition: &Partition, _position: Position) -> bool {
        false
    }

    /// Deletes the partition's stream and makes another of the same name and the same records. `false` if names cannot
    /// be used again.
    async fn recreate(&self, _partition: &Partition) -> bool {
        false
    }

    /// Adds an empty partition and says which. `None` if this source's partitions are fixed.
    async fn open(&self) -> Option<Partition> {
        None
    }
}

/// Runs every rule, each on a fixture of its own.
pub async fn run<F, Made>(mut fresh: F)
where
    F: FnMut() -> Made,
    Made: Future<Output = Box<dyn Fixture>>,
{
    looking_changes_nothing(&*fresh().await).await;
    reading_twice_gives_the_same_records(&*fresh().await).await;
    any_position_gives_the_rest(&*fresh().await).await;
    the_end_gives_nothing_more(&*fresh().await).await;
    a_record_is_read_again_by_its_position(&*fresh().await).await;
    a_dropped_next_loses_nothing(&*fresh().await).await;
    a_paused_partition_waits_and_loses_nothing(&*fresh().await).await;
    an_added_partition_is_read_beside_the_first(&*fresh().await).await;
    a_partition_is_not_added_twice(&*fresh().await).await;
    a_removed_partition_is_read_on_by_another_reader(&*fresh().await).await;
    a_removed_partition_may_be_added_again(&*fresh().await).await;
    another_identity_is_refused(&*fresh().await).await;
    a_position_beyond_the_end_is_refused(&*fresh().await).await;
    an_unknown_partition_is_refused(&*fresh().await).await;
    a_position_no_longer_held_is_refused(&*fresh().await).await;
    a_stream_made_anew_is_refused(&*fresh().await).await;
    a_caught_up_reader_gets_what_comes_later(&*fresh().await).await;
    a_new_partition_is_found_and_read_once_added(&*fresh().await).await;
}
