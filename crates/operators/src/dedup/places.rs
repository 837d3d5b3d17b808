//! Small numbers for the buckets that are in use.
//!
//! Owns the map from a bucket number (64 bits) to a *place* and back, and how many slots of the table name each place. Places are
//! given out from below, so a slot needs a few bits for its time whatever the window (see `table`), and a bucket expires by one write here instead of a walk
//! through the table: its place becomes dead, and the slots that name it are cleared when their segment is next swept. In the
//! same manner a bucket closes: its place takes no more slots (a new record of the bucket gets a new place), so what is to be
//! written to a file is fixed at one instant, and leaves the table by one write here when the file is durable.

use std::collections::BTreeMap;

/// The number of a bucket in use. 0 is never given out: it marks an empty slot.
pub type Place = u32;

/// Stands for "no bucket": an expired place. Not near any bucket of a record (see `window`).
const DEAD: i64 = i64::MAX;

/// The buckets in use.
#[derive(Debug)]
pub struct Places {
    /// The bucket of each place, or [`DEAD`]; entry 0 is not used.
    buckets: Vec<i64>,
    /// How many slots name each place.
    slots: Vec<u64>,
    /// The places that are not dead, by bucket.
    live: BTreeMap<i64, Place>,
    /// Places that take no more slots, with their buckets.
    closing: Vec<(i64, Place)>,
    /// Places that no slot names.
    free: Vec<Place>,
    /// Slots that name a live place.
    live_slots: u64,
    /// Slots that name a dead place.
    dead_slots: u64,
    /// The bucket asked for last: records come roughly in the order of time.
    last: (i64, Place),
}

impl Places {
    /// No bucket is in use.
    pub fn new() -> Self {
        Self {
            buckets: vec![DEAD],
            slots: vec![0],
            live: BTreeMap::new(),
            closing: Vec::new(),
            free: Vec::new(),
            live_slots: 0,
            dead_slots: 0,
            last: (DEAD, 0),
        }
    }

    /// The place of `bucket`, new if need be, with one slot more.
    #[inline]
    pub fn take(&mut self, bucket: i64) -> Place {
        if self.last.0 != bucket {
            self.last = (bucket, self.find_or_add(bucket));
        }
        let place = self.last.1;
        self.slots[place as usize] += 1;
        self.live_slots += 1;
        place
    }

    fn find_or_add(&mut self, bucket: i64) -> Place {
        if let Some(place) = self.live.get(&bucket) {
            return *place;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.buckets.push(DEAD);
            self.slots.push(0);
            Place::try_from(self.buckets.len() - 1).expect("a place has a slot, and 2^32 slots are 64 GB")
        });
        self.buckets[place as usize] = bucket;
        self.live.insert(bucket, place);
        place
    }

    /// True if the next new bucket gets a place below `end`.
    #[inline]
    pub fn has_below(&self, end: usize) -> bool {
        self.buckets.len() < end || !self.free.is_empty()
    }

    /// Places that wait to be given out again.
    pub fn unused(&self) -> usize {
        self.free.len()
    }

    /// One slot less names `place`.
    pub fn release(&mut self, place: Place) {
        let index = place as usize;
        self.slots[index] -= 1;
        if self.buckets[index] != DEAD {
            self.live_slots -= 1;
            return;
        }
        self.dead_slots -= 1;
        if self.slots[index] == 0 {
            self.free.push(place);
        }
    }

    /// The bucket of a place that is not dead.
    #[inline]
    pub fn bucket(&self, place: Place) -> Option<i64> {
        Some(self.buckets[place as usize]).filter(|b| *b != DEAD)
    }

    /// The place of a bucket in use that takes new slots.
    pub fn find(&self, bucket: i64) -> Option<Place> {
        self.live.get(&bucket).copied()
    }

    /// The buckets in use with their places and slots: those that take new ones in the order of time, then those that are closing.
    pub fn live(&self) -> impl Iterator<Item = (i64, Place, u64)> {
        let open = self.live.iter().map(|(bucket, place)| (*bucket, *place));
        open.chain(self.closing.iter().copied())
            .map(|(bucket, place)| (bucket, place, self.slots[place as usize]))
    }

    /// The places of these buckets take no more slots from here on.
    pub fn close(&mut self, buckets: &[i64]) {
        for bucket in buckets {
            if let Some(place) = self.live.remove(bucket) {
                self.closing.push((*bucket, place));
            }
        }
        self.last = (DEAD, 0);
    }

    /// The closing buckets with their places.
    pub fn closing(&self) -> &[(i64, Place)] {
        &self.closing
    }

    /// For each place, whether it is closing.
    pub fn closing_flags(&self) -> Vec<bool> {
        let mut flags = vec![false; self.buckets.len()];
        self.closing.iter().for_each(|(_, place)| flags[*place as usize] = true);
        flags
    }

    /// What was closing lies in a file now: its places become dead.
    pub fn closed(&mut self) {
        for (_, place) in std::mem::take(&mut self.closing) {
            self.end(place);
        }
    }

    /// Makes every bucket below `floor` dead.
    pub fn expire(&mut self, floor: i64) {
        let kept = self.live.split_off(&floor);
        for place in std::mem::replace(&mut self.live, kept).into_values() {
            self.end(place);
        }
        let (closing, ended): (Vec<_>, Vec<_>) =
            self.closing.iter().copied().partition(|(bucket, _)| *bucket >= floor);
        self.closing = closing;
        ended.into_iter().for_each(|(_, place)| self.end(place));
    }

    /// Gives back the buckets that no slot names any more. Not to be called while places of removed slots are still held.
    pub fn prune(&mut self) {
        let slots = &self.slots;
        let ended: Vec<Place> =
            self.live.extract_if(.., |_, p| slots[*p as usize] == 0).map(|(_, p)| p).collect();
        ended.into_iter().for_each(|place| self.end(place));
    }

    fn end(&mut self, place: Place) {
        let index = place as usize;
        self.buckets[index] = DEAD;
        self.live_slots -= self.slots[index];
        self.dead_slots += self.slots[index];
        if self.slots[index] == 0 {
            self.free.push(place);
        }
        if self.last.1 == place {
            self.last = (DEAD, 0);
        }
    }

    /// Slots that name a live place.
    pub fn live_slots(&self) -> u64 {
        self.live_slots
    }

    /// Slots that name a dead place.
    pub fn dead_slots(&self) -> u64 {
        self.dead_slots
    }

    /// Places ever given out at one time, and the unused place 0.
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Memory held in bytes; a tree entry is counted as 32.
    pub fn memory_bytes(&self) -> usize {
        self.buckets.capacity() * 8
            + self.slots.capacity() * 8
            + self.free.capacity() * 4
            + self.live.len() * 32
            + self.closing.capacity() * 16
    }
}
