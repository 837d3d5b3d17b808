//! Notes whose writes are done and not answered.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use store::{Entry, Key, Prefix, Put, Store, StoreError, Swap, Tag};

use crate::files::FilesOptions;
use crate::support::{self, NEVER, held, in_memory, options};

/// A store that writes a note and never says so.
#[derive(Debug)]
struct Silent(Arc<dyn Store>);

#[async_trait::async_trait]
impl Store for Silent {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        self.0.put_if_absent(key, body).await
    }

    async fn get(&self, key: &Key, bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
        self.0.get(key, bytes_max).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        self.0.get_range(key, range).await
    }

    async fn list(
        &self,
        prefix: &Prefix,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        self.0.list(prefix, after, limit).await
    }

    async fn delete(&self, key: &Key) -> Result<(), StoreError> {
        self.0.delete(key).await
    }

    async fn read_register(&self, key: &Key, bytes_max: u64) -> Result<Option<(Bytes, Tag)>, StoreError> {
        self.0.read_register(key, bytes_max).await
    }

    async fn compare_and_set(
        &self,
        key: &Key,
        expected: Option<&Tag>,
        body: Bytes,
    ) -> Result<Swap, StoreError> {
        let swap = self.0.compare_and_set(key, expected, body).await;
        if key.to_string().ends_with("note") {
            std::future::pending::<()>().await;
        }
        swap
    }

    async fn harden(&self, prefix: &Prefix) -> Result<(), StoreError> {
        self.0.harden(prefix).await
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

/// The first note of a log is there before its writer knows. What it stands on must stay, or the next start finds labels that are deleted and asks for another
/// stream.
#[tokio::test]
async fn what_a_first_note_needs_stays_before_its_write_is_answered() {
    let kept = in_memory();
    let folder = std::env::temp_dir().join(format!("forebay-gateway-note-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.log"), "one\n").unwrap();
    let files = FilesOptions {
        paths: vec![folder.join("*.log").to_str().unwrap().to_owned()],
        exclude: Vec::new(),
        stream: "files".to_owned(),
        host: "here".to_owned(),
        is_json: true,
        from_end: false,
        line_bytes_max: 1_000,
        open_max: 10,
        ahead_bytes_max: 1 << 20,
    };
    let silent: Arc<dyn Store> = Arc::new(Silent(kept.clone()));
    let gateway = |store: &Arc<dyn Store>| {
        let mut made = options(vec![support::stream("files", store)]);
        let crate::Fills::Log { settings, .. } = &mut made.streams[0].fills else {
            panic!("it fills no log")
        };
        (settings.retention.bytes_max, settings.collect_every) = (Some(0), Duration::from_millis(1));
        made.files = vec![files.clone()];
        made
    };
    let first = support::start(gateway(&silent)).await;
    for n in 0..4 {
        first.good("/v1/streams/files", &[], &format!("{{\"n\":{n}}}\n")).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    first.served.abort();
    let _ = first.served.await;

    let next = support::start(gateway(&kept)).await;
    let waiting = async {
        while !held(&kept).await.iter().any(|record| record.contains("one")) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(NEVER, waiting).await.expect("the file is read");
    next.stop().await.unwrap();
    let _ = std::fs::remove_dir_all(&folder);
}
