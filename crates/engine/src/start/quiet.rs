//! Whether somebody else runs the lane, told from its journal.
//!
//! Owns the rule by which a start whose source is away or refuses may take the lane over, in order to deliver what is sealed. Does not own
//! the claim ([`crate::journal`]), nor how long such a start waits for its source (`pipeline::beginning`). Such a start may be a mistake
//! (another topic, another broker), and a claim ends the owner that runs well. A living owner with frames pending writes: it settles, it
//! seals, or it shows that it is alive ([`crate::pipeline`]), whatever becomes of its inserts. So the lane is taken only if its journal
//! stood still for [`Settings::owner_quiet_min`](crate::Settings::owner_quiet_min) while the tables answered. A start whose source answers
//! does not ask: taking over is what it is for.

use std::time::Duration;

use dataflow::Runtime;
use protocol::names;
use protocol::record::RECORD_BYTES_MAX;
use store::{Key, Store};

use crate::journal;
use crate::{EngineError, Settings};

/// Looks during one wait: enough to see a journal that is retired as fast as it grows.
const LOOKS: u32 = 20;

/// Waits until the journal has stood still for long enough; false as soon as it has grown.
///
/// # Errors
/// When the journal cannot be read.
pub async fn is_quiet(
    runtime: &dyn Runtime,
    settings: &Settings,
    store: &dyn Store,
    folder: &str,
) -> Result<bool, EngineError> {
    let next_seq = journal::load_any(store, folder).await?.next_seq;
    if !stands_still(runtime, settings, store, folder, next_seq).await? {
        return Ok(false);
    }
    // The slot is free as well when it was retired meanwhile.
    Ok(journal::load_any(store, folder).await?.next_seq == next_seq)
}

/// Waits until the journal whose next number is `next_seq` has stood still for long enough; false as soon as it has grown.
pub(crate) async fn stands_still(
    runtime: &dyn Runtime,
    settings: &Settings,
    store: &dyn Store,
    folder: &str,
    next_seq: u64,
) -> Result<bool, EngineError> {
    let next = Key::new(names::journal(folder, next_seq)).expect("a lane's folder makes valid keys");
    let pause = (settings.owner_quiet_min / LOOKS).max(Duration::from_millis(1));
    for _ in 0..LOOKS {
        runtime.sleep(pause).await;
        if store.get(&next, RECORD_BYTES_MAX).await?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}
