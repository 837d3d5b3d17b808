//! Files that an owner follows into the log, as a gateway does: each append has a label with the file and the line behind its last one, a note says
//! from time to time what all labels have come to, and the next owner goes on from the note and the labels behind it.
//!
//! Owns the order of these steps, which is that of `gateway::files`. Does not own files that are renamed or copied, which the gateway's own tests have, nor
//! the bytes of the register (`object_log::note`). What must hold is in `oracle`.
//!
//! | step                                            | why                                                          |
//! |-------------------------------------------------|--------------------------------------------------------------|
//! | nothing is deleted until the start has read all | labels behind the note may be below what retention drops     |
//! | a file is noted before its first line           | a label of a file that nobody has noted says nothing         |
//! | a note is made while no append is under way     | its position must not be ahead of what it says               |
//! | the pin follows the note, and precedes the first | labels behind it stay, and no others                         |

use std::sync::Arc;

use object_log::labels::{self, label};
use object_log::{Append, Appender, LogError, LogPartition, Note, Notes, Owner, Pin, Root};
use tokio::sync::watch;

use crate::actors::block;
use crate::sim_store::World;
use crate::variant::Variant;

/// Stands in the high half of labels of files.
const OF_FILES: u64 = 0x4f46_4649_4c45_5301;

/// Time between two notes, unless a file is new.
const NOTE_EVERY_US: u64 = 4_000_000;

/// Lines of an append at the most.
const LINES_MAX: u64 = 4;

pub fn is_of_file(id: u128) -> bool {
    (id >> 64) as u64 == OF_FILES
}

fn id_of(file: usize) -> u128 {
    (u128::from(OF_FILES) << 64) | file as u128
}

/// How far each file is in the log; `None` of one that nobody has met.
#[derive(Clone, Debug, PartialEq)]
struct Table {
    /// The owner follows files, so there may be labels of files behind the note.
    is_followed: bool,
    lines: Vec<Option<u64>>,
}

impl Table {
    fn to_bytes(&self) -> Vec<u8> {
        let lines = self.lines.iter().flat_map(|lines| lines.unwrap_or(u64::MAX).to_le_bytes());
        std::iter::once(u8::from(self.is_followed)).chain(lines).collect()
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let lines = bytes[1..].chunks_exact(8).map(|lines| {
            let lines = u64::from_le_bytes(lines.try_into().expect("eight bytes"));
            (lines != u64::MAX).then_some(lines)
        });
        Self { is_followed: bytes[0] == 1, lines: lines.collect() }
    }
}

/// Where an owner is in its files.
pub struct Place {
    notes: Notes,
    roots: watch::Receiver<Root>,
    pin: Pin,
    needed: Option<u64>,
    table: Table,
    is_pinned: bool,
}

impl Place {
    /// Reads what was noted and the labels behind it, and notes what they have come to. Nothing may be deleted until [`started`](Self::started).
    pub async fn open(
        world: &World,
        partition: &LogPartition,
        owner: &Owner,
        follows: bool,
    ) -> Result<Self, LogError> {
        let (pin, root) = (owner.pin(), owner.root());
        let is_pinned = world.variant != Some(Variant::NotPinned);
        let (notes, found) = Notes::open(partition.clone(), &root).await?;
        let table = Table { is_followed: follows, lines: vec![None; world.plan.files.len()] };
        let mut place = Self { notes, roots: owner.roots(), pin, needed: None, table, is_pinned };
        let Some(found) = found else { return Ok(place) };
        let mut table = Table::from_bytes(&found.note.body);
        let was_followed = table.is_followed;
        if was_followed {
            let learn = |label: labels::Label| {
                if is_of_file(label.id)
                    && let Some(Some(lines)) = table.lines.get_mut(label.id as u64 as usize)
                {
                    *lines = (*lines).max(label.tag);
                }
            };
            labels::since(partition, &root, &found, learn).await?;
        }
        table.is_followed = follows;
        place.table = table;
        if was_followed || follows {
            let position = place.note(place.table.clone()).await?;
            place.needed = follows.then_some(position);
        }
        Ok(place)
    }

    /// All is read that the start needs.
    pub fn started(&self) {
        self.pin.set(self.needed.filter(|_| self.is_pinned));
    }

    async fn note(&mut self, table: Table) -> Result<u64, LogError> {
        let position = self.roots.borrow().next;
        // A first note may be there long before its write is answered.
        if self.needed.is_none() && self.is_pinned {
            self.pin.lower(position);
        }
        self.notes.write(&Note { position, body: table.to_bytes() }).await?;
        Ok(position)
    }

    fn is_behind(&self) -> bool {
        self.needed.is_some_and(|position| position < self.roots.borrow().next)
    }
}

/// Appends lines as they come, until an append fails, which is then for the owner to say.
pub async fn follow(world: Arc<World>, mut place: Place, appender: Appender) -> Result<(), LogError> {
    if !place.table.is_followed {
        return std::future::pending().await;
    }
    let mut noted_us = world.executor.now_us();
    let mut is_changed = false;
    loop {
        let before = place.table.clone();
        let there = world.plan.lines(world.executor.now_us());
        let is_new = there.iter().zip(&place.table.lines).any(|(there, known)| *there > 0 && known.is_none());
        for (known, _) in place.table.lines.iter_mut().zip(&there).filter(|(_, there)| **there > 0) {
            known.get_or_insert(0);
        }
        let is_due = world.executor.now_us() >= noted_us + NOTE_EVERY_US;
        let must_note = is_new && world.variant != Some(Variant::FileNotNoted);
        if must_note || (is_due && (is_changed || place.is_behind())) {
            let table = place.table.clone();
            let position = place.note(table).await?;
            place.needed = Some(position);
            place.started();
            (noted_us, is_changed) = (world.executor.now_us(), false);
        }
        for (file, there) in there.into_iter().enumerate() {
            let from = place.table.lines[file].unwrap_or(0);
            let to = there.min(from + 1 + world.draw(LINES_MAX));
            if from >= to {
                continue;
            }
            let texts: Vec<String> = (from..to).map(|line| format!("f{file}.{line}")).collect();
            let append = Append {
                producer: Some(label(id_of(file), to)),
                records: block(&texts),
                packed: None,
                digest: None,
            };
            if let Err(error) = appender.append(append).await {
                world.note(|| format!("file {file} is not followed any more: {error}"));
                return std::future::pending().await;
            }
            place.table.lines[file] = Some(to);
            is_changed = true;
        }
        if is_changed && world.variant == Some(Variant::NoteAhead) {
            // It says where files were before these appends, and counts as if it had seen them.
            let position = place.note(Table { is_followed: true, ..before }).await?;
            place.needed = Some(position);
            place.started();
        }
        world.executor.sleep_us(100_000 + world.draw(400_000)).await;
    }
}
