//! What the source holds, sorted by key without holding it in memory.
//!
//! Owns the temporary files: [`FILES`] of them, by the top bits of the hash, so that one at a time can be read and sorted.
//! Their names go as soon as they are open, so that a process that is killed leaves none of their bytes. Does not own where entries come from (`verify::reading`), nor
//! what follows from those of one key (`verify::expect`).

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::place::{Place, Places};

/// Files, by the top 8 bits of the hash: a billion rows are 49 GB of files, and 220 MB of memory for each.
pub const FILES: usize = 256;

/// Bytes of an entry in a file.
const ENTRY_BYTES: usize = 49;

/// Bytes gathered for a file before they are written.
const BUFFER_BYTES: usize = 32 << 10;

static COUNTER: AtomicU64 = AtomicU64::new(0);

/// One row that the source's records make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Hash of its key.
    pub hash: u64,
    /// Its time as the steps see it, Unix milliseconds; where rows replace each other, what orders those of a key
    /// ([`super::newest`]).
    pub order: i64,
    /// Its record, and which item of it.
    pub place: Place,
    /// The sum of its other values ([`clickhouse::reconcile::Value`]); 0 if they are not compared.
    pub value: u64,
    /// The columns with a DEFAULT that it left out.
    pub missing: u64,
    /// Whether it deletes its key.
    pub is_deleted: bool,
}

/// Entries on disk.
pub struct Spill {
    files: Vec<BufWriter<File>>,
    entries: u64,
    /// Records and items that never became rows, though they would now.
    left_out: Places,
}

impl Spill {
    /// An empty spill in a new folder below `parent`.
    ///
    /// # Errors
    /// When the folder or a file cannot be made.
    pub fn new(parent: &Path) -> io::Result<Self> {
        let folder = folder(parent)?;
        let open = |n: usize| -> io::Result<BufWriter<File>> {
            let file =
                File::options().read(true).write(true).create_new(true).open(folder.join(n.to_string()))?;
            Ok(BufWriter::with_capacity(BUFFER_BYTES, file))
        };
        let files = (0..FILES).map(open).collect::<io::Result<Vec<_>>>();
        if let Err(error) = fs::remove_dir_all(&folder) {
            // Some network file systems keep the names of open files.
            tracing::warn!(folder = %folder.display(), %error, "temporary files stay behind");
        }
        Ok(Self { files: files?, entries: 0, left_out: Places::new() })
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// When the disk is full, or fails.
    pub fn push(&mut self, entry: &Entry) -> io::Result<()> {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&entry.hash.to_le_bytes());
        bytes[8..16].copy_from_slice(&entry.order.to_le_bytes());
        bytes[16..20].copy_from_slice(&entry.place.partition.to_le_bytes());
        bytes[20..28].copy_from_slice(&entry.place.position.to_le_bytes());
        bytes[28..36].copy_from_slice(&entry.value.to_le_bytes());
        bytes[36..44].copy_from_slice(&entry.missing.to_le_bytes());
        bytes[44..48].copy_from_slice(&entry.place.print().to_le_bytes());
        bytes[48] = u8::from(entry.is_deleted);
        self.entries += 1;
        self.files[(entry.hash >> 56) as usize].write_all(&bytes)
    }

    /// Entries so far.
    pub fn len(&self) -> u64 {
        self.entries
    }

    /// Records and items that never became rows: [`Spill::sorted`] leaves them out from now on.
    pub fn leave_out(&mut self, places: Places) {
        self.left_out = places;
    }

    /// The entries of file `n`, by hash, then order and place.
    ///
    /// # Errors
    /// When the file cannot be read back.
    pub fn sorted(&mut self, n: usize) -> io::Result<Vec<Entry>> {
        let file = &mut self.files[n];
        file.flush()?;
        let file = file.get_mut();
        let count = file.stream_position()? / ENTRY_BYTES as u64;
        file.rewind()?;
        let mut entries = Vec::with_capacity(count as usize);
        let mut reader = BufReader::with_capacity(1 << 20, &*file);
        let mut bytes = [0; ENTRY_BYTES];
        for _ in 0..count {
            reader.read_exact(&mut bytes)?;
            let entry = entry(&bytes);
            if !entry.place.is_in(&self.left_out) {
                entries.push(entry);
            }
        }
        drop(reader);
        file.seek(io::SeekFrom::End(0))?;
        entries.sort_unstable();
        Ok(entries)
    }
}

fn entry(bytes: &[u8; ENTRY_BYTES]) -> Entry {
    let (hash, rest) = bytes.split_first_chunk().expect("49 bytes");
    let (time, rest) = rest.split_first_chunk().expect("41 bytes");
    let (partition, rest) = rest.split_first_chunk().expect("33 bytes");
    let (position, rest) = rest.split_first_chunk().expect("29 bytes");
    let (value, rest) = rest.split_first_chunk().expect("21 bytes");
    let (missing, rest) = rest.split_first_chunk().expect("13 bytes");
    let (print, rest) = rest.split_first_chunk().expect("5 bytes");
    let (partition, position) = (u32::from_le_bytes(*partition), u64::from_le_bytes(*position));
    let place = Place::of_print(partition, position, u32::from_le_bytes(*print).into());
    Entry {
        hash: u64::from_le_bytes(*hash),
        order: i64::from_le_bytes(*time),
        place: place.expect("a print of 32 bits"),
        value: u64::from_le_bytes(*value),
        missing: u64::from_le_bytes(*missing),
        is_deleted: rest[0] != 0,
    }
}

/// A new folder below `parent`. Another process may have had this one's number, and been killed before it took its folder away: in a container it is always
/// the same.
fn folder(parent: &Path) -> io::Result<PathBuf> {
    loop {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("forebay-verify-{}-{number}", std::process::id()));
        match fs::DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| folder),
        }
    }
}

#[cfg(test)]
mod tests;
