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
async fn a_rename_that_slept_deletes_nothing_of_the_pipeline_that_has_the_old_name_now() {
    for is_owner in [true, false] {
        let store = Arc::new(MemoryStore::default());
        let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
        let journal = claim(&store, &runtime).await;
        if !is_owner {
            drop(claim(&store, &runtime).await);
        }
        let object = key(names::segment(FOLDER, 1, 9, 3));
        store.put_if_absent(&object, vec![Bytes::from_static(b"rows")]).await.expect("a put");
        let (from, to) = (FOLDER.to_owned(), "q/lane-0".to_owned());
        let work = Work { store: &*store, runtime: &*runtime, from, to, pause: PAUSE };
        let cleaned = work.clean(&journal).await;
        assert_eq!(matches!(cleaned, Err(EngineError::Fenced { .. })), !is_owner, "{cleaned:?}");
        let is_there = store.get(&object, 16).await.expect("a store in memory").is_some();
        assert_eq!(is_there, !is_owner);
    }
}
