//! What lies in a lane's folder: how much of it is needed, and how much is garbage.
//!
//! Owns the counting, page by page, for `forebay status`, the metrics and `forebay store check`. Reads only. Does not own the
//! standing of an object (`protocol::retire`).

use std::collections::BTreeMap;

use metrics::gauge;
use protocol::retire::{Judge, Marks, Standing};
use protocol::{Lane, names};
use store::{Entry, Key, Prefix, Store, StoreError};

/// The folders of a lane.
pub const FOLDERS: [&str; 6] = ["floor", "journal", "runs", "segments", "splits", "state"];

/// Folders beside them that hold what the journal points to by a position and not by a name: replayed dead letters, what is
/// remembered of them, and what was purged. Their own log retires them.
pub const LOGS: [&str; 3] = ["purged", "replayed", "replays"];

/// Objects and bytes of one kind and standing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many.
    pub objects: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// What was found, by folder and standing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Only what there is at least one of.
    pub tallies: BTreeMap<(&'static str, Standing), Tally>,
}

impl Survey {
    /// Counts one object of a folder.
    pub fn add(&mut self, folder: &'static str, standing: Standing, bytes: u64) {
        let tally = self.tallies.entry((folder, standing)).or_default();
        tally.objects += 1;
        tally.bytes += bytes;
    }

    /// Counts what lies in the [`LOGS`] of a lane's folder.
    ///
    /// # Errors
    /// When the store cannot be listed.
    pub async fn add_logs(&mut self, store: &dyn Store, folder: &str) -> Result<(), StoreError> {
        for kind in LOGS {
            let mut pages = Pages::new(store, folder, kind);
            while let Some(page) = pages.next().await? {
                page.iter().for_each(|entry| self.add(kind, Standing::Needed, entry.size_bytes));
            }
        }
        Ok(())
    }

    /// The sum over all folders.
    pub fn of(&self, standing: Standing) -> Tally {
        let of = self.tallies.iter().filter(|((_, s), _)| *s == standing);
        of.fold(Tally::default(), |sum, (_, t)| Tally {
            objects: sum.objects + t.objects,
            bytes: sum.bytes + t.bytes,
        })
    }

    /// Sets the gauges of objects and bytes, those of kinds without an object to 0.
    pub fn tell(&self) {
        for folder in FOLDERS.into_iter().chain(LOGS) {
            for standing in [Standing::Needed, Standing::UnderWay, Standing::Garbage, Standing::Foreign] {
                let tally = self.tallies.get(&(folder, standing)).copied().unwrap_or_default();
                let labels = [("kind", folder), ("standing", word(standing))];
                gauge!("forebay_store_objects", &labels).set(tally.objects as f64);
                gauge!("forebay_store_bytes", &labels).set(tally.bytes as f64);
            }
        }
    }
}

/// The word in status and metrics.
pub fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Needed => "needed",
        Standing::UnderWay => "under_way",
        Standing::Garbage => "garbage",
        Standing::Foreign => "foreign",
    }
}

/// The standing of an object in one of the [`FOLDERS`].
pub fn standing(judge: &Judge<'_>, folder: &str, object: &str, floor: u64) -> Standing {
    match (folder, names::number(object)) {
        ("floor" | "journal", None) => Standing::Foreign,
        ("floor" | "journal", Some(n)) if n < floor => Standing::Garbage,
        ("floor" | "journal", Some(_)) => Standing::Needed,
        _ => judge.standing(object),
    }
}

/// Counts everything in the lane's folder. Costs a listing of it. An owner that works meanwhile moves what is counted.
///
/// # Errors
/// When the store cannot be listed.
pub async fn survey(store: &dyn Store, folder: &str, lane: &Lane) -> Result<Survey, StoreError> {
    let judge = Judge::new(lane, Marks::seen_in(lane));
    let floor = lane.newest_checkpoint.unwrap_or(0);
    let mut survey = Survey::default();
    for kind in FOLDERS {
        let mut pages = Pages::new(store, folder, kind);
        while let Some(page) = pages.next().await? {
            for entry in page {
                survey.add(kind, standing(&judge, kind, entry.key.as_str(), floor), entry.size_bytes);
            }
        }
    }
    survey.add_logs(store, folder).await?;
    Ok(survey)
}

/// A listing, a page at a time.
pub struct Pages<'a> {
    store: &'a dyn Store,
    prefix: Prefix,
    after: Option<Key>,
}

impl<'a> Pages<'a> {
    /// The objects in one folder of the lane.
    pub fn new(store: &'a dyn Store, folder: &str, kind: &str) -> Self {
        let prefix = Prefix::new(&format!("{folder}/{kind}")).expect("a lane's folder is a valid prefix");
        Self { store, prefix, after: None }
    }

    /// The next page; `None` after the last.
    ///
    /// # Errors
    /// When the store cannot be listed.
    pub async fn next(&mut self) -> Result<Option<Vec<Entry>>, StoreError> {
        let page = self.store.list(&self.prefix, self.after.as_ref(), store::LIST_LIMIT_MAX).await?;
        self.after = page.last().map(|last| last.key.clone()).or(self.after.take());
        Ok((!page.is_empty()).then_some(page))
    }
}
