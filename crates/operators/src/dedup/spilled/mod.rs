//! Kept records that left memory: immutable sorted files, of which filters and indices stay in memory.
//!
//! Owns the spilled half of the set of (key hash, bucket): what may hold a key, what must be read to be sure, which runs are merged, and
//! the work of writing them. Does not own reads and writes: it says what must be read and written, and the engine does it
//! (`engine::state_files`). Nor does it own the half in memory (`dedup::kept`).
//!
//! A *run* is what was spilled at one time, or several runs merged; its hashes are cut into *parts*, one file each, so that
//! neither writing nor merging ever holds more than one part in memory. A new key is asked of one filter a run, hence few runs.
//! A record that is forgotten after its run was written is remembered as dead beside the run, until a merge leaves it out.
//!
//! | module   | what it owns                                       |
//! |----------|----------------------------------------------------|
//! | [`fuse`] | a filter of 13.5 bits a key                        |
//! | [`part`] | the bytes of a file, its index, and all checks     |
//! | [`runs`] | the runs in use, lookups, the choice of merges   |
//! | [`work`] | spilling and merging, step by step                  |

pub mod fuse;
pub mod part;
pub mod runs;
pub mod work;

/// The sizes that decide when something is spilled or cut. Tests take tiny ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Keys in memory above which buckets are spilled, until half of them are left.
    pub open_keys_max: u64,
    /// Pairs in a part at the most, on average: half a million is a file of 9 MB, and some 40 MB of memory while it is made.
    pub part_pairs: u64,
    /// Pairs in a block at the most, on average: 64 are 1 KB. A known key costs the block that holds it, and of that the reading, the
    /// copy and the checksum; its count and its sum cost 1.5 bits a key on disk and half a bit in memory.
    pub block_pairs: u64,
    /// Runs beyond which neighbours are merged though they expire at different times.
    pub runs_max: usize,
}

impl Sizes {
    /// The sizes for this much memory for keys.
    pub fn new(open_bytes: u64) -> Self {
        Self {
            open_keys_max: (open_bytes / super::OPEN_KEY_BYTES).clamp(1, super::OPEN_KEYS_MAX),
            part_pairs: 1 << 19,
            block_pairs: 64,
            runs_max: 16,
        }
    }
}
