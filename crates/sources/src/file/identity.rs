//! What makes a file itself, whatever its name and however it has grown.
//!
//! Owns the text of an identity and the comparison of a file with one. Does not own where a file is looked for (`place`).
//!
//! `2:device:inode:birth:length=hash,…`: the fingerprint is a hash of the first 16, 64, 256 and 1024 bytes, as far as the file had them
//! when it was first seen, and of all of them if there were fewer. Each is compared over its own length, so a file that grows stays
//! itself, and one that was cut is told from one that was written over. Earlier programs wrote `inode:birth:length:hash`.
//!
//! | node     | bytes                             | what it is                                          |
//! |----------|-----------------------------------|-----------------------------------------------------|
//! | the same | all hashes agree                  | [`Likeness::Same`]                                  |
//! | the same | none are left                     | [`Likeness::Emptied`]                               |
//! | the same | fewer than hashed; those agree    | [`Likeness::Cut`]                                   |
//! | the same | other ones                        | [`Likeness::Overwritten`]                           |
//! | another  | all hashes agree, 64 bytes or more | [`Likeness::Copy`]                                 |
//! | another  | other ones                        | [`Likeness::Other`]                                 |
//!
//! A device's number changes when a disk is mounted again, so it counts only where the file system keeps no births.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::UNIX_EPOCH;

/// The lengths at the head of a file that are hashed: enough to tell two logs apart, few enough to be there early.
const LENGTHS: [u64; 4] = [16, 64, 256, 1024];

/// A copy of a file is known by its bytes alone: fewer than this may be alike by chance.
const COPY_BYTES_MIN: u64 = 64;

/// How a file compares with an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Likeness {
    Same,
    Emptied,
    Cut,
    Overwritten,
    Copy,
    Other,
}

/// An identity in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// `None` in what earlier programs wrote.
    device: Option<u64>,
    pub(super) inode: u64,
    /// 0 where the file system keeps none.
    birth_ns: u128,
    /// Lengths, ascending, and their hashes.
    prints: Vec<(u64, u64)>,
}

impl Identity {
    /// Of an open file.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let head = head(file, LENGTHS[LENGTHS.len() - 1])?;
        let length = head.len() as u64;
        let mut lengths: Vec<u64> = LENGTHS.into_iter().filter(|l| *l <= length).collect();
        if lengths.last() != Some(&length) {
            lengths.push(length);
        }
        let prints = lengths.into_iter().map(|l| (l, hash(&head, l))).collect();
        let (device, inode) = (Some(metadata.dev()), metadata.ino());
        Ok(Self { device, inode, birth_ns: birth_ns(&metadata), prints })
    }

    /// Reads the text of one; `None` if it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let print =
            |length: &str, hash: &str| Some((length.parse().ok()?, u64::from_str_radix(hash, 16).ok()?));
        match parts[..] {
            ["2", device, inode, birth, prints] => Some(Self {
                device: Some(device.parse().ok()?),
                inode: inode.parse().ok()?,
                birth_ns: birth.parse().ok()?,
                prints: prints
                    .split(',')
                    .map(|pair| pair.split_once('=').and_then(|(length, hash)| print(length, hash)))
                    .collect::<Option<_>>()?,
            }),
            [inode, birth, length, hash] => Some(Self {
                device: None,
                inode: inode.parse().ok()?,
                birth_ns: birth.parse().ok()?,
                prints: vec![print(length, hash)?],
            }),
            _ => None,
        }
    }

    /// Compares a file with it.
    pub(super) fn compare(&self, file: &File) -> io::Result<Likeness> {
        let metadata = file.metadata()?;
        let covered = self.prints.last().map_or(0, |(length, _)| *length).min(LENGTHS[LENGTHS.len() - 1]);
        let head = head(file, covered)?;
        let length = head.len() as u64;
        let mut held = self.prints.iter().filter(|(l, _)| *l <= length);
        let agrees = held.all(|(l, expected)| hash(&head, *l) == *expected);
        Ok(match (self.is_node(&metadata), agrees) {
            (true, true) if length >= covered => Likeness::Same,
            (true, _) if length == 0 => Likeness::Emptied,
            (true, true) => Likeness::Cut,
            (true, false) => Likeness::Overwritten,
            (false, true) if length >= covered && covered >= COPY_BYTES_MIN => Likeness::Copy,
            (false, _) => Likeness::Other,
        })
    }

    fn is_node(&self, metadata: &Metadata) -> bool {
        let birth_ns = birth_ns(metadata);
        let are_births_known = self.birth_ns != 0 && birth_ns != 0;
        let is_device = self.device.is_none_or(|device| device == metadata.dev());
        self.inode == metadata.ino() && (if are_births_known { self.birth_ns == birth_ns } else { is_device })
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let prints: Vec<String> =
            self.prints.iter().map(|(length, hash)| format!("{length}={hash:016x}")).collect();
        write!(f, "2:{}:{}:{}:{}", self.device.unwrap_or(0), self.inode, self.birth_ns, prints.join(","))
    }
}

fn head(file: &File, bytes: u64) -> io::Result<Vec<u8>> {
    // Reads at a place, so that whoever reads the file further on is not disturbed.
    let mut head = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    let mut length = 0;
    while length < head.len() {
        match file.read_at(&mut head[length..], length as u64) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    head.truncate(length);
    Ok(head)
}

fn hash(head: &[u8], length: u64) -> u64 {
    let length = usize::try_from(length).map_or(head.len(), |length| length.min(head.len()));
    xxhash_rust::xxh3::xxh3_64(&head[..length])
}

/// Not every file system keeps the birth.
fn birth_ns(metadata: &Metadata) -> u128 {
    let birth = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    birth.map_or(0, |time| time.as_nanos())
}

#[cfg(test)]
mod tests;
