//! Compressed files that may be files that were read before they were compressed.
//!
//! Owns that question, which is asked to warn the operator: they are read as new files all the same. Does not own where a file that was read is found
//! (`place`).

use std::collections::BTreeMap;
use std::io::{Read, Seek};

use dataflow::ReadFrom;
use files::{Beginning, Identity};

use super::inflate::{self, Packing};
use super::place::EVIDENCE_MIN;

/// Bytes of a text that are compared: no identity is made of more.
const TEXT_BYTES: u64 = 1024;

/// Files of one name that a file is compared with, the newest ones: who rotates a file each minute has thousands.
const NAMESAKES_MAX: usize = 64;

/// The files that were read, by the names that they had.
pub(super) struct Before<'a>(BTreeMap<&'a str, Vec<&'a ReadFrom>>);

impl<'a> Before<'a> {
    /// Of these files.
    pub(super) fn new(known: &'a [ReadFrom]) -> Self {
        let mut by_name: BTreeMap<&str, Vec<&ReadFrom>> = BTreeMap::new();
        for from in known {
            by_name.entry(&from.partition.stream).or_default().push(from);
        }
        Self(by_name)
    }

    /// The name of a file that was read and that the one at `path` may be: it is compressed, is called like a rotated one (`app.log.1.gz` of `app.log`),
    /// and its text begins alike.
    pub(super) fn packed(&self, path: &str) -> Option<&'a str> {
        let namesakes = path.match_indices(['.', '-', '_']).filter_map(|(end, _)| self.0.get(&path[..end]));
        let mut text = None;
        for from in namesakes.flat_map(|namesakes| namesakes.iter().rev().take(NAMESAKES_MAX)) {
            let Some(identity) = Identity::parse(&from.identity) else { continue };
            if identity.covers() < EVIDENCE_MIN {
                continue;
            }
            let text: &Vec<u8> = text.get_or_insert_with(|| beginning(path).unwrap_or_default());
            if identity.beginning(text) == Beginning::Alike {
                return Some(&from.partition.stream);
            }
        }
        None
    }
}

/// The beginning of a compressed file's text, as far as it can be read; no checksum is waited for. `None` of any other file.
fn beginning(path: &str) -> Option<Vec<u8>> {
    let mut file = files::open(path).ok()?;
    let packing = inflate::packing(&file).ok()?;
    file.rewind().ok()?;
    let inflated: Box<dyn Read> = match packing {
        Packing::Plain => return None,
        Packing::Gzip => Box::new(flate2::read::MultiGzDecoder::new(file)),
        Packing::Zstd => Box::new(zstd::stream::read::Decoder::new(file).ok()?),
    };
    let mut text = Vec::new();
    inflated.take(TEXT_BYTES).read_to_end(&mut text).ok()?;
    Some(text)
}
