use std::time::Duration;

use bytes::Bytes;
use dataflow::Runtime;
use protocol::record::{Body, Checkpoint};
use store::MemoryStore;

use super::*;
use crate::runtime::TokioRuntime;

const FOLDER: &str = "p/lane-0";
const PAUSE: Duration = Duration::from_millis(1);

async fn claim(store: &Arc<MemoryStore>, runtime: &Arc<dyn Runtime>) -> Journal {
    let claimed = Journal::claim(store.clone(), runtime.clone(), FOLDER.into(), "test".into(), PAUSE).await;
    claimed.expect("a store in memory")
}

#[tokio::test]
async fn an_owner_that_slept_deletes_nothing_of_the_lane_that_has_its_name_now() {
    for is_owner in [true, false] {
        let store = Arc::new(MemoryStore::default());
        let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
        let mut journal = claim(&store, &runtime).await;
        let checkpoint = Checkpoint { lane: Some(journal.lane().image(0)), ..Checkpoint::default() };
        journal.append(Body::Checkpoint(checkpoint)).await.expect("it owns the lane");
        let claimed = (journal.lane().epoch, journal.nonce());
        let objects = Objects::new(store.clone(), runtime.clone(), FOLDER.into(), claimed, PAUSE);
        if !is_owner {
            drop(claim(&store, &runtime).await);
        }
        // Garbage to this owner by its epoch. A lane that comes from another name brings such objects along, and needs them.
        let earlier = valid(&names::segment(FOLDER, 0, 9, 3));
        store.put_if_absent(&earlier, vec![Bytes::from_static(b"rows")]).await.expect("a put");
        let retirement = Retirement::default();
        let round = retirement.collect(&objects, &Mutex::new(journal), &Status::default()).await;
        assert_eq!(matches!(round, Err(EngineError::Fenced { .. })), !is_owner, "{round:?}");
        let is_there = store.get(&earlier, 16).await.expect("a store in memory").is_some();
        assert_eq!(is_there, !is_owner);
    }
}
