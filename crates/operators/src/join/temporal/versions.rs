//! The versions of the right side, by key and time.
//!
//! Owns which version in memory holds at a time, which ones are no longer needed, and the memory of all of them. Does not own what a row gets of its version
//! (`results`), nor versions that have left memory (`spilled`): only settled ones do.
//!
//! The versions of a key are a chain, from the newest to the older ones: by time, and of one time in the order of arrival. A version is *settled* once the floor (the
//! watermark less `lateness`) has reached its time: then no left row that waits or comes is earlier, so all older ones of the key go. So a key has at most one
//! settled version between two seals. Chains of more are as long as the versions of a key that are still ahead of the floor.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashSet};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, new_null_array};
use arrow_schema::ArrowError;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Slot;

use super::super::arena::{Arena, NONE, NUMBERS_MAX, Row, UNLINKED};
use super::super::columns;
use super::super::incoming::Taken;
use super::super::pages::{BYTES_MAX, ROWS_ENOUGH, ROWS_MAX};
use super::super::plan::{JoinSide, Plan};
use super::super::state::Fresh;
use super::DELETED_MS;
use super::results::{Place, Version};

/// Freed versions that are never worth moving the others for, unless they are wide.
const DEAD_MIN: u64 = 2 * ROWS_MAX as u64;

/// Memory of freed versions that is never worth it.
const DEAD_BYTES_MIN: usize = 64 << 10;

/// The table of keys is made smaller when it has room for this many times its keys, and the list of versions that are ahead likewise.
const ROOM_MAX: usize = 8;

/// Memory of a version beside its columns, at least.
const BESIDE_BYTES: usize = size_of::<Row>() + size_of::<Entry>();

/// The newest version of a key.
struct Entry {
    /// The low half of the key's hash; the row has all of it.
    hash: u64,
    newest: u32,
}

/// The columns of versions that follow one another.
struct Page {
    first: u32,
    /// Its versions, freed ones too.
    len: u32,
    live: u32,
    columns: Vec<ArrayRef>,
    /// Memory of the columns.
    bytes: usize,
}

impl Page {
    fn new(first: u32, len: u32, columns: Vec<ArrayRef>) -> Self {
        let bytes = columns.iter().map(columns::memory_bytes).sum();
        Self { first, len, live: len, columns, bytes }
    }

    fn end(&self) -> u32 {
        self.first + self.len
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes + self.columns.capacity() * size_of::<ArrayRef>()
    }

    /// Memory of its freed versions, by their share.
    fn dead_bytes(&self) -> usize {
        self.bytes / self.len.max(1) as usize * (self.len - self.live) as usize
    }
}

/// What is in memory for a key at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// No version of that time or before.
    Nothing,
    /// The key is deleted.
    Deleted,
    /// This version.
    Version(u32),
}

/// The versions.
#[derive(Default)]
pub(super) struct Versions {
    /// The bit of a row says that it deletes its key.
    pub arena: Arena,
    /// Ascending by the numbers of their rows.
    pages: Vec<Page>,
    keys: HashTable<Entry>,
    /// Versions that are not settled, the earliest first, and those without a key.
    ahead: BinaryHeap<Reverse<(i64, u32)>>,
    /// Settled ones that delete their key, the earliest first.
    deletions: BTreeSet<(i64, u32)>,
    /// Whether versions that delete their key stay when they are forgotten, because files may have what they hide. They go to a file themselves, and from there with a merge.
    keeps_deletions: bool,
    /// Keys that came back since the last seal after such a version, which was freed: what files have of them stays hidden.
    revived: HashSet<u128>,
}

impl Versions {
    /// Versions held. Those that were freed since the last seal are held until the next one, which releases them.
    pub fn held(&self) -> u64 {
        self.live() + self.revived.len() as u64
    }

    fn live(&self) -> u64 {
        self.pages.iter().map(|page| u64::from(page.live)).sum()
    }

    /// Some versions are in files from now on.
    pub fn keep_deletions(&mut self) {
        self.keeps_deletions = true;
    }

    /// Whether what files have of a key is replaced by a version that was settled at the last seal, of `floor_ms`; the first version since that is `sealed`.
    pub fn hides_files(&self, hash: u128, (floor_ms, sealed): (i64, u32)) -> bool {
        let mut at = self.newest(hash);
        while at != NONE && (at >= sealed || self.arena.get(at).time_ms > floor_ms) {
            at = self.arena.get(at).older;
        }
        at != NONE || self.revived.contains(&hash)
    }

    /// Memory held in bytes.
    pub fn memory_bytes(&self) -> usize {
        let pages: usize = self.pages.iter().map(Page::memory_bytes).sum();
        let empty = (self.pages.capacity() - self.pages.len()) * size_of::<Page>();
        let times = (self.ahead.capacity() + self.deletions.len()) * size_of::<(i64, u32)>();
        self.arena.memory_bytes() + pages + empty + self.keys.allocation_size() + times
    }

    /// How many of them are settled.
    pub fn settled(&self) -> u64 {
        self.live() - self.ahead.len() as u64
    }

    /// The first settled ones, in the order of arrival; as many of them, if there are.
    pub fn first_settled(&self, floor_ms: i64, count: usize) -> Vec<u32> {
        let is_settled = |id: &u32| {
            let Row { time_ms, newer, .. } = self.arena.get(*id);
            *time_ms <= floor_ms && *newer != UNLINKED
        };
        self.by_arrival().into_iter().filter(is_settled).take(count).collect()
    }

    /// The first settled ones, in the order of arrival, that hold about so many bytes, and how many of them go to each run of `run_bytes`. Each counts by its share of its page: those
    /// that came together are alike, but the first ones may be far from the mean of all.
    pub fn first_of_bytes(&self, floor_ms: i64, bytes: u64, run_bytes: u64) -> (Vec<u32>, Vec<u32>) {
        let mut ids = self.first_settled(floor_ms, usize::MAX);
        let (mut runs, mut all, mut of_run) = (Vec::<u32>::new(), 0, run_bytes);
        for id in &ids {
            if all > bytes {
                break;
            }
            if of_run >= run_bytes {
                runs.push(0);
                of_run = 0;
            }
            let page = &self.pages[self.page_of(*id)];
            let own = (page.bytes / page.len.max(1) as usize + BESIDE_BYTES) as u64;
            (all, of_run) = (all + own, of_run + own);
            if let Some(count) = runs.last_mut() {
                *count += 1;
            }
        }
        ids.truncate(runs.iter().map(|count| *count as usize).sum());
        (ids, runs)
    }

    /// Drops settled versions, which are held elsewhere from now on. All are sealed.
    ///
    /// # Errors
    /// When columns of one form do not go together.
    pub fn drop_settled(&mut self, ids: &[u32], floor_ms: i64) -> Result<(), ArrowError> {
        for id in ids {
            self.forget(*id);
            self.free(*id);
        }
        self.tidy(floor_ms, self.arena.next())
    }

    /// Memory of the pages from this version on.
    pub fn bytes_from(&self, first: u32) -> usize {
        let at = self.pages.partition_point(|page| page.first < first);
        self.pages[at..].iter().map(Page::memory_bytes).sum()
    }

    /// The versions of a batch that came since the last seal, by the first of them.
    pub fn fresh(&self, first: u32) -> Fresh<'_> {
        let page = &self.pages[self.page_of(first)];
        let (ids, columns, bytes) = (first..page.end(), &page.columns[..], page.bytes);
        Fresh { side: JoinSide::Right, arena: &self.arena, ids, columns, bytes }
    }

    fn page_of(&self, id: u32) -> usize {
        self.pages.partition_point(|page| page.first <= id) - 1
    }

    /// Takes versions in, and says how many come too late for anybody: a later one of their key held at the seal before, of `floor_ms`; the first version since that is
    /// `sealed`. Versions of one seal never make each other late, so their order does not matter.
    ///
    /// # Errors
    /// When a column cannot be taken apart.
    pub fn absorb(
        &mut self,
        plan: &Plan,
        (floor_ms, sealed): (i64, u32),
        taken: Taken,
    ) -> Result<u64, String> {
        let Taken { rows, times_ms } = taken;
        let first = self.arena.next();
        let deletes = deletions(plan, &rows.columns);
        let mut kept = Vec::with_capacity(times_ms.len());
        for (row, (time_ms, hash)) in times_ms.iter().copied().zip(rows.hashes.iter().copied()).enumerate() {
            let id = self.arena.next();
            let is_deletion = deletes(row);
            if rows.keyed.as_ref().is_some_and(|keyed| keyed.is_null(row)) {
                self.arena.push(Row { hash, time_ms, older: NONE, newer: UNLINKED }, is_deletion);
            } else {
                let (mut newer, mut older) = self.place(hash, time_ms);
                if newer < sealed && self.arena.get(newer).time_ms <= floor_ms {
                    if !self.is_forgotten(newer, floor_ms) {
                        continue;
                    }
                    self.forget(newer);
                    self.free(newer);
                    self.revived.insert(hash);
                    (newer, older) = self.place(hash, time_ms);
                }
                self.arena.push(Row { hash, time_ms, older, newer }, is_deletion);
                self.link(id);
            }
            self.ahead.push(Reverse((time_ms, id)));
            kept.push(row as u32);
        }
        let late = times_ms.len() - kept.len();
        if kept.is_empty() {
            return Ok(late as u64);
        }
        let columns = if late == 0 { rows.columns } else { rows.take(&kept)?.columns };
        self.pages.push(Page::new(first, kept.len() as u32, columns));
        Ok(late as u64)
    }

    /// Takes versions of a snapshot in. [`link_all`](Self::link_all) must be called after the last of them.
    pub fn load(&mut self, plan: &Plan, taken: Taken) {
        let Taken { rows, times_ms } = taken;
        let first = self.arena.next();
        let deletes = deletions(plan, &rows.columns);
        for (row, (time_ms, hash)) in times_ms.iter().copied().zip(rows.hashes).enumerate() {
            let is_keyed = rows.keyed.as_ref().is_none_or(|keyed| keyed.is_valid(row));
            let newer = if is_keyed { NONE } else { UNLINKED };
            self.arena.push(Row { hash, time_ms, older: NONE, newer }, deletes(row));
        }
        self.pages.push(Page::new(first, times_ms.len() as u32, rows.columns));
    }

    /// Makes the chains of versions that are all new, in the order of their arrival.
    pub fn link_all(&mut self, floor_ms: i64) {
        for id in 0..self.arena.next() {
            let Row { hash, time_ms, newer, .. } = *self.arena.get(id);
            let is_keyed = newer != UNLINKED;
            if is_keyed {
                let (newer, older) = self.place(hash, time_ms);
                let row = self.arena.get_mut(id);
                (row.newer, row.older) = (newer, older);
                self.link(id);
            }
            if time_ms > floor_ms || !is_keyed {
                self.ahead.push(Reverse((time_ms, id)));
            } else if self.arena.is_matched(id) {
                self.deletions.insert((time_ms, id));
            }
        }
    }

    /// Whether a settled version is there only because of files.
    fn is_forgotten(&self, id: u32, floor_ms: i64) -> bool {
        let is_before = self.arena.get(id).time_ms < floor_ms.saturating_sub(DELETED_MS);
        self.keeps_deletions && is_before && self.arena.is_matched(id)
    }

    fn newest(&self, hash: u128) -> u32 {
        let is_of = |entry: &Entry| entry.hash == hash as u64 && self.arena.get(entry.newest).hash == hash;
        self.keys.find(hash as u64, is_of).map_or(NONE, |entry| entry.newest)
    }

    /// Between which two versions of its key one of this time stands: the newer one and the older one. Versions come mostly in the order of time, so this is one step.
    fn place(&self, hash: u128, time_ms: i64) -> (u32, u32) {
        let (mut newer, mut at) = (NONE, self.newest(hash));
        while at != NONE && self.arena.get(at).time_ms > time_ms {
            (newer, at) = (at, self.arena.get(at).older);
        }
        (newer, at)
    }

    /// Makes a version known to its neighbours.
    fn link(&mut self, id: u32) {
        let Row { hash, older, newer, .. } = *self.arena.get(id);
        if older != NONE {
            self.arena.get_mut(older).newer = id;
        }
        if newer != NONE {
            self.arena.get_mut(newer).older = id;
            return;
        }
        let arena = &self.arena;
        // The entry still names the version that was the newest before, which is `older`.
        let is_of = |entry: &Entry| entry.hash == hash as u64 && entry.newest == older;
        debug_assert!(older == NONE || arena.get(older).hash == hash);
        match self.keys.entry(hash as u64, is_of, |entry| entry.hash) {
            Slot::Occupied(found) => found.into_mut().newest = id,
            Slot::Vacant(place) => _ = place.insert(Entry { hash: hash as u64, newest: id }),
        }
    }

    /// What holds for each asked key and time; times ascend. A key is none if it has a NULL.
    pub fn holding(&self, asked: impl Iterator<Item = (Option<u128>, i64)>) -> Vec<Holds> {
        let mut by_key: Vec<(u128, Reverse<usize>, i64)> = Vec::new();
        let mut found = Vec::new();
        for (at, (hash, time_ms)) in asked.enumerate() {
            by_key.extend(hash.map(|hash| (hash, Reverse(at), time_ms)));
            found.push(Holds::Nothing);
        }
        // Each chain is walked once, whatever the number of rows of its key.
        by_key.sort_unstable();
        for rows in by_key.chunk_by(|one, other| one.0 == other.0) {
            let mut version = self.newest(rows[0].0);
            for (_, Reverse(at), time_ms) in rows {
                while version != NONE && self.arena.get(version).time_ms > *time_ms {
                    version = self.arena.get(version).older;
                }
                found[*at] = match version {
                    NONE => Holds::Nothing,
                    deletion if self.arena.is_matched(deletion) => Holds::Deleted,
                    version => Holds::Version(version),
                };
            }
        }
        found
    }

    /// Frees the versions that are no longer needed, because no left row comes before `floor_ms` any more; how many there were. `sealed` is the first version since the seal before.
    ///
    /// # Errors
    /// When columns of one form do not go together.
    pub fn settle(&mut self, floor_ms: i64, sealed: u32) -> Result<u64, ArrowError> {
        let before = self.held();
        while let Some(Reverse((time_ms, id))) =
            self.ahead.peek().copied().filter(|first| first.0.0 <= floor_ms)
        {
            self.ahead.pop();
            if self.arena.get(id).newer == UNLINKED {
                self.free(id);
                continue;
            }
            let mut older = std::mem::replace(&mut self.arena.get_mut(id).older, NONE);
            while older != NONE {
                let next = self.arena.get(older).older;
                self.free(older);
                older = next;
            }
            if self.arena.is_matched(id) {
                self.deletions.insert((time_ms, id));
            }
        }
        let forgotten_ms = floor_ms.saturating_sub(DELETED_MS);
        while let Some((_, id)) = self.deletions.first().copied().filter(|first| first.0 < forgotten_ms)
            && !self.keeps_deletions
        {
            self.forget(id);
            self.free(id);
        }
        self.revived.clear();
        let freed = before - self.held();
        self.tidy(floor_ms, sealed)?;
        Ok(freed)
    }

    /// Takes a settled version out of its chain, of which it is the oldest.
    fn forget(&mut self, id: u32) {
        let Row { hash, newer, .. } = *self.arena.get(id);
        if newer != NONE {
            self.arena.get_mut(newer).older = NONE;
        } else if let Ok(found) = self.keys.find_entry(hash as u64, |entry| entry.newest == id) {
            found.remove();
        }
    }

    /// Gives a version up that is in no chain any more.
    fn free(&mut self, id: u32) {
        if self.arena.is_matched(id) {
            let time_ms = self.arena.get(id).time_ms;
            self.deletions.remove(&(time_ms, id));
        }
        let page = self.page_of(id);
        self.pages[page].live -= 1;
        self.arena.release(id);
    }

    /// Keeps the memory in proportion to what is held.
    fn tidy(&mut self, floor_ms: i64, sealed: u32) -> Result<(), ArrowError> {
        let from = self.pages.partition_point(|page| page.first < sealed);
        let new = self.pages.split_off(from);
        self.pages.retain(|page| page.live > 0);
        for page in new.into_iter().filter(|page| page.live > 0) {
            self.pages.push(page);
            self.merge()?;
        }
        let held = self.held();
        let in_pages: u64 = self.pages.iter().map(|page| u64::from(page.len)).sum();
        let dead = in_pages.max(self.arena.kept()).saturating_sub(held);
        // Of wide versions few are much: a page stays as long as one of a thousand is held. Each byte that was freed pays for two that are moved, and for places and keys
        // beside them, which are made anew: of a great many narrow versions these are most of it.
        let bytes: usize = self.pages.iter().map(|page| page.bytes).sum();
        let dead_bytes: usize = self.pages.iter().map(Page::dead_bytes).sum();
        let beside = held as usize * BESIDE_BYTES;
        let are_wide = dead_bytes > DEAD_BYTES_MIN.max((bytes - dead_bytes + beside) / 2);
        if dead > held.max(DEAD_MIN) || are_wide || self.arena.next() > NUMBERS_MAX {
            let mut moved = self.moved()?;
            moved.keeps_deletions = self.keeps_deletions;
            moved.link_all(floor_ms);
            *self = moved;
        }
        if self.keys.capacity() > ROOM_MAX * self.keys.len().max(1_024) {
            self.keys.shrink_to(2 * self.keys.len(), |entry| entry.hash);
        }
        // Of a side that is read from its beginning all versions are ahead for a while.
        if self.ahead.capacity() > ROOM_MAX * self.ahead.len().max(1_024) {
            self.ahead.shrink_to(2 * self.ahead.len());
        }
        Ok(())
    }

    /// Puts the last pages together while they are small and alike, so that a version is copied a few times and pages are few.
    fn merge(&mut self) -> Result<(), ArrowError> {
        while let [.., before, last] = &self.pages[..] {
            let is_small = (before.len.max(last.len) as usize) < ROWS_ENOUGH;
            let is_next = before.end() == last.first && before.len < 2 * last.len;
            if !is_small || !is_next || before.bytes + last.bytes > BYTES_MAX {
                break;
            }
            let (first, len, live) = (before.first, before.len + last.len, before.live + last.live);
            let of = |at: usize| columns::chain(vec![before.columns[at].clone(), last.columns[at].clone()]);
            let columns = (0..last.columns.len()).map(of).collect::<Result<Vec<ArrayRef>, _>>()?;
            self.pages.truncate(self.pages.len() - 2);
            self.pages.push(Page { live, ..Page::new(first, len, columns) });
        }
        Ok(())
    }

    /// The versions that are held, in new memory and with new numbers in the order of the old ones, in no chain yet.
    fn moved(&self) -> Result<Self, ArrowError> {
        let mut moved = Self::default();
        self.in_parts(&self.by_arrival(), ROWS_MAX, &mut |part, columns| {
            let first = moved.arena.next();
            for id in part {
                let row = *self.arena.get(*id);
                let newer = if row.newer == UNLINKED { UNLINKED } else { NONE };
                moved.arena.push(Row { older: NONE, newer, ..row }, self.arena.is_matched(*id));
            }
            moved.pages.push(Page::new(first, part.len() as u32, columns));
            Ok::<(), ArrowError>(())
        })?;
        Ok(moved)
    }

    /// The versions that are held, in the order of their arrival.
    pub fn by_arrival(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.ahead.iter().map(|Reverse((_, id))| *id).collect();
        for entry in &self.keys {
            let mut at = entry.newest;
            while at != NONE {
                ids.push(at);
                at = self.arena.get(at).older;
            }
        }
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The stored columns of these versions in as few parts as their texts allow, each of at most `rows_max` rows.
    ///
    /// # Errors
    /// When `each` fails.
    pub fn in_parts<E: From<ArrowError>>(
        &self,
        ids: &[u32],
        rows_max: usize,
        each: &mut impl FnMut(&[u32], Vec<ArrayRef>) -> Result<(), E>,
    ) -> Result<(), E> {
        let columns = self.pages.first().map_or(0, |page| page.columns.len());
        let gather = |part: &[u32]| {
            let (concerned, places) = self.places(part);
            let of = |at: usize| {
                let of_pages = concerned.iter().map(|page| self.pages[*page].columns[at].clone());
                columns::gather(of_pages.collect(), &places)
            };
            (0..columns).map(of).collect()
        };
        columns::in_parts(ids, rows_max, &gather, each)
    }

    /// The stored columns of versions, with nulls where there is none. Those that are not in memory are in `chunks`, columns that were read, each by its chunk and its row there.
    ///
    /// # Errors
    /// When the texts of a column take more than 2 GiB.
    pub fn gather(
        &self,
        plan: &Plan,
        versions: &[Version],
        chunks: &[&[ArrayRef]],
    ) -> Result<Vec<ArrayRef>, ArrowError> {
        let in_memory = versions.iter().map(|version| match version {
            Version::InMemory(id) => *id,
            Version::None | Version::Read(_) => NONE,
        });
        let (concerned, mut places) = self.places(&in_memory.collect::<Vec<_>>());
        // Behind the pages there is a column of one null, and then the chunks.
        for (place, version) in places.iter_mut().zip(versions) {
            if let Version::Read(Place { chunk, row }) = version {
                *place = (concerned.len() + 1 + *chunk as usize, *row as usize);
            }
        }
        let of = |(at, form): (usize, _)| {
            let of_pages = concerned.iter().map(|page| self.pages[*page].columns[at].clone());
            let read = chunks.iter().map(|columns| columns[at].clone());
            columns::gather(of_pages.chain([new_null_array(form, 1)]).chain(read).collect(), &places)
        };
        plan.side(JoinSide::Right).columns.iter().map(|stored| &stored.form).enumerate().map(of).collect()
    }

    /// The pages that these versions are in, and where in which of them each is; [`NONE`] is the first row of one behind the last.
    fn places(&self, ids: &[u32]) -> (Vec<usize>, Vec<(usize, usize)>) {
        const UNSEEN: u32 = u32::MAX;
        let (mut concerned, mut slots) = (Vec::new(), vec![UNSEEN; self.pages.len()]);
        let mut places = Vec::with_capacity(ids.len());
        for id in ids {
            if *id == NONE {
                places.push((usize::MAX, 0));
                continue;
            }
            let at = self.page_of(*id);
            if slots[at] == UNSEEN {
                slots[at] = concerned.len() as u32;
                concerned.push(at);
            }
            places.push((slots[at] as usize, (*id - self.pages[at].first) as usize));
        }
        let behind = concerned.len();
        places.iter_mut().filter(|place| place.0 == usize::MAX).for_each(|place| place.0 = behind);
        (concerned, places)
    }
}

/// Which rows of these stored columns delete their key.
pub(super) fn deletions(plan: &Plan, columns: &[ArrayRef]) -> impl Fn(usize) -> bool + use<> {
    let deleted = plan.deleted.map(|at| columns[at].as_boolean().clone());
    move |row| deleted.as_ref().is_some_and(|deleted| deleted.is_valid(row) && deleted.value(row))
}
