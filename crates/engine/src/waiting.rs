//! Blocks and events in the order in which they were read, while the blocks are decoded elsewhere.
//!
//! Owns the queue's order: nothing overtakes a block that was read before it. Does not own its bound (the lane reads no
//! further while it is full) or what is done with what comes out.
#![allow(missing_docs, reason = "the fields are those of the events in `dataflow::source`")]

use std::collections::VecDeque;
use std::sync::Arc;

use dataflow::{OperatorError, Position, Prepared, RecordBlock};
use futures::future::BoxFuture;

/// What a block became before the lane; `None` if that work panicked.
pub type Made = Option<Result<Prepared, OperatorError>>;

/// What waits for its turn.
pub enum Waiting {
    /// A block that is being decoded and goes through the steps without state.
    Block { partition: usize, block: Arc<RecordBlock>, prepared: BoxFuture<'static, Made> },
    /// A partition has nothing more at the moment.
    CaughtUp { partition: usize, next: Position, leader_epoch: i32 },
    /// A partition has ended for ever.
    Ended { partition: usize, next: Position },
}

impl Waiting {
    /// Bytes that are held until its turn.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Block { block, .. } => block.memory_bytes() as u64,
            Self::CaughtUp { .. } | Self::Ended { .. } => 0,
        }
    }
}

/// What has had its turn.
#[allow(clippy::large_enum_variant, reason = "nearly all of them are blocks, and nothing keeps them")]
pub enum Ready {
    /// A block and what it became.
    Block { partition: usize, block: Arc<RecordBlock>, prepared: Made },
    /// A partition has nothing more at the moment.
    CaughtUp { partition: usize, next: Position, leader_epoch: i32 },
    /// A partition has ended for ever.
    Ended { partition: usize, next: Position },
}

/// Takes the front of the queue once it is ready. Dropped before that, it has taken nothing.
pub async fn front(waiting: &mut VecDeque<Waiting>) -> Ready {
    let prepared = match waiting.front_mut() {
        Some(Waiting::Block { prepared, .. }) => prepared.await,
        Some(Waiting::CaughtUp { .. } | Waiting::Ended { .. }) => None,
        None => std::future::pending().await,
    };
    match waiting.pop_front().expect("the front was checked") {
        Waiting::Block { partition, block, .. } => Ready::Block { partition, block, prepared },
        Waiting::CaughtUp { partition, next, leader_epoch } => {
            Ready::CaughtUp { partition, next, leader_epoch }
        }
        Waiting::Ended { partition, next } => Ready::Ended { partition, next },
    }
}
