//! Which dead letters `purge` has deleted: without that knowledge `verify` would report their rows, and them, as missing.
//!
//! Owns the newest object below `purged`, which holds all of it. It is put before the letters are deleted: a crash in between leaves
//! letters that are known as purged and still there, which means the same. Objects are those of [`super::taken`], with the number of the
//! purge as their position. Does not own the deletion, which is the command's (`dead_letters::purge`).

use dataflow::Reason;
use store::Put;

use super::object::Letter;
use super::taken::{BYTES_MAX, Snapshot, Taken};
use super::{Log, LogError, broken};

/// Purges that may come first while one is being put.
const RACES_MAX: u32 = 100;

/// Letters are kept under twice their print, and those of rows under one more: so both lie in one set.
const PRINTS: u64 = 2;

/// Letters that were purged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Of records that never were rows.
    pub turned_down: Taken,
    /// Of rows that were rejected later: refused by the server, or too late.
    pub refused: Taken,
}

/// True for the reasons of letters whose records were rows first.
pub fn is_of_a_row(reason: &str) -> bool {
    [Reason::Refused, Reason::Late].iter().any(|of_row| of_row.as_str() == reason)
}

impl Purged {
    /// Adds a letter by its place: its print is the item of its record's array and one, or 0. One without a place is not kept: its row's content
    /// goes with it.
    pub fn add(&mut self, letter: &Letter, reason: &str) {
        if letter.source.is_empty() {
            return;
        }
        let set = if is_of_a_row(reason) { &mut self.refused } else { &mut self.turned_down };
        set.add(letter);
    }

    fn of(all: &Taken) -> Self {
        let of = |rest| all.under(|print| (print % PRINTS == rest).then_some(print / PRINTS));
        Self { turned_down: of(0), refused: of(1) }
    }

    fn extend(&mut self, other: &Self) {
        self.turned_down.extend(&other.turned_down);
        self.refused.extend(&other.refused);
    }

    fn all(&self) -> Taken {
        let mut all = self.turned_down.under(|print| print.checked_mul(PRINTS));
        all.extend(&self.refused.under(|print| print.checked_mul(PRINTS)?.checked_add(1)));
        all
    }
}

impl Log {
    /// All that was purged.
    ///
    /// # Errors
    /// When the store fails or the object is damaged.
    pub async fn purged(&self) -> Result<Purged, LogError> {
        Ok(self.newest_purged().await?.1)
    }

    /// Remembers letters that are about to be purged. Of two purges at once each keeps the other's.
    ///
    /// # Errors
    /// When the store fails, or there are more letters than one object may hold.
    pub async fn remember_purged(&self, purged: &Purged) -> Result<(), LogError> {
        for _ in 0..RACES_MAX {
            let (newest, mut all) = self.newest_purged().await?;
            all.extend(purged);
            let number = newest.map_or(1, |newest| newest.saturating_add(1));
            let snapshot = Snapshot { taken: all.all(), end: number, marks: Vec::new() };
            let bytes = snapshot.to_bytes();
            if bytes.len() as u64 > BYTES_MAX {
                let kind = store::ErrorKind::TooLarge;
                let reason =
                    format!("{} purged letters are more than one object holds", snapshot.taken.count());
                return Err(store::StoreError::new(kind, store::Operation::Put, &self.folder, reason).into());
            }
            if self.store.put_if_absent(&self.key("purged", number), vec![bytes.into()]).await? == Put::Exists
            {
                continue;
            }
            let numbers = self.numbers("purged").await?;
            // Its number was free because newer purges have deleted it since: theirs do not hold these letters.
            if numbers.last().is_some_and(|newest| *newest > number) {
                continue;
            }
            for older in numbers.into_iter().filter(|older| *older < number) {
                self.store.delete(&self.key("purged", older)).await?;
            }
            return Ok(());
        }
        let reason = format!("{RACES_MAX} other purges came first");
        Err(store::StoreError::new(store::ErrorKind::Io, store::Operation::Put, &self.folder, reason).into())
    }

    async fn newest_purged(&self) -> Result<(Option<u64>, Purged), LogError> {
        // An older object may go while it is asked for; a newer one is there then.
        for _ in 0..RACES_MAX {
            let Some(newest) = self.numbers("purged").await?.last().copied() else {
                return Ok((None, Purged::default()));
            };
            let key = self.key("purged", newest);
            let Some(bytes) = self.store.get(&key, BYTES_MAX).await? else { continue };
            let snapshot = Snapshot::from_bytes(newest, &bytes).map_err(|why| broken(&key, why))?;
            return Ok((Some(newest), Purged::of(&snapshot.taken)));
        }
        let reason = format!("purges were recorded faster than they can be read ({RACES_MAX} times)");
        Err(store::StoreError::new(store::ErrorKind::Io, store::Operation::Get, &self.folder, reason).into())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use async_trait::async_trait;
    use bytes::Bytes;
    use store::{Entry, Key, MemoryStore, Prefix, Store, StoreError};

    use super::*;

    /// One letter at this position.
    fn one(position: u64) -> Purged {
        let mut purged = Purged::default();
        purged.add(&Letter::at("e", 0, position), "malformed");
        purged
    }

    /// The store of a purge that sleeps in front of its first put, through two others.
    #[derive(Debug)]
    struct Sleeper {
        store: Arc<MemoryStore>,
        has_slept: AtomicBool,
    }

    #[async_trait]
    impl Store for Sleeper {
        async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
            if !self.has_slept.swap(true, Ordering::Relaxed) {
                let others = Log::new(self.store.clone(), "p/lane-0");
                for position in [20, 30] {
                    others.remember_purged(&one(position)).await.expect("puts");
                }
            }
            self.store.put_if_absent(key, body).await
        }

        async fn get(&self, key: &Key, bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
            self.store.get(key, bytes_max).await
        }

        async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Option<Bytes>, StoreError> {
            self.store.get_range(key, range).await
        }

        async fn list(
            &self,
            prefix: &Prefix,
            after: Option<&Key>,
            limit: usize,
        ) -> Result<Vec<Entry>, StoreError> {
            self.store.list(prefix, after, limit).await
        }

        async fn delete(&self, key: &Key) -> Result<(), StoreError> {
            self.store.delete(key).await
        }

        async fn harden(&self, prefix: &Prefix) -> Result<(), StoreError> {
            self.store.harden(prefix).await
        }

        fn describe(&self) -> String {
            self.store.describe()
        }
    }

    #[tokio::test]
    async fn a_purge_that_slept_through_two_others_is_not_forgotten() {
        let store = Arc::new(MemoryStore::new(1 << 20));
        let log = Log::new(store.clone(), "p/lane-0");
        log.remember_purged(&one(10)).await.expect("puts");
        let sleeper = Arc::new(Sleeper { store, has_slept: AtomicBool::new(false) });
        Log::new(sleeper, "p/lane-0").remember_purged(&one(40)).await.expect("puts");
        let all = log.purged().await.expect("reads").turned_down;
        let is_known = |position: u64| all.holds(&Letter::at("e", 0, position));
        assert!([10, 20, 30, 40].into_iter().all(is_known), "{all:?}");
        assert_eq!(log.numbers("purged").await.expect("lists"), [4], "older ones went");
    }

    #[tokio::test]
    async fn purges_add_up_and_one_object_holds_them_all() {
        let store = Arc::new(MemoryStore::new(1 << 20));
        let log = Log::new(store.clone(), "p/lane-0");
        assert_eq!(log.purged().await.expect("reads"), Purged::default());
        let mut all = Purged::default();
        for (n, reason) in ["malformed", "refused", "late", "missing"].into_iter().enumerate() {
            let mut purged = Purged::default();
            for (source, partition, print) in [("e", 0, 0), ("e", 1, 0), ("e", 1, 3), ("", 0, 7)] {
                let letter = Letter { print, ..Letter::at(source, partition, n as u64 * 10) };
                purged.add(&letter, reason);
            }
            all.extend(&purged);
            log.remember_purged(&purged).await.expect("puts");
            assert_eq!(log.purged().await.expect("reads"), all);
        }
        assert_eq!((all.turned_down.count(), all.refused.count()), (6, 6));
        let places: Vec<_> = all
            .refused
            .places()
            .map(|(at, runs)| (&*at.source, at.partition, at.print, runs.len()))
            .collect();
        assert_eq!(places, [("e", 0, 0, 2), ("e", 1, 0, 2), ("e", 1, 3, 2)]);
        assert_eq!(log.numbers("purged").await.expect("lists"), [4], "older ones went");
    }
}
