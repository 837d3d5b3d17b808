//! What makes a file itself, whatever its name and however it has grown.
//!
//! Owns the text of an identity and the comparison of a file with one. Does not own where a file is looked for.
//!
//! `2:device:inode:birth:length=hash,…`: the fingerprint is a hash of the first 16, 64, 256 and 1024 bytes, as far as the file had them
//! when it was first seen, and of all of them if there were fewer. Each is compared over its own length, so a file that grows stays
//! itself, and one that was cut is told from one that was written over. Earlier programs wrote `inode:birth:length:hash`.
//!
//! A file that was reached through a symbolic link has a sixth part, the path without links, in which `%`, `:` and control characters are written as `%`
//! and two digits: the link may lead elsewhere later, and the file is looked for where it was. It is no part of any comparison.
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
use std::path::Path;
use std::time::UNIX_EPOCH;

use crate::links;

/// The lengths at the head of a file that are hashed: enough to tell two logs apart, few enough to be there early.
const LENGTHS: [u64; 4] = [16, 64, 256, 1024];

/// A copy of a file is known by its bytes alone: fewer than this may be alike by chance.
pub const COPY_BYTES_MIN: u64 = 64;

/// A file's beginning is read so often until it stands still. One that is written over each time has none that anybody could know it by.
const READS_MAX: usize = 8;

/// Reads at an offset, as [`FileExt::read_at`] does.
type ReadAt<'a> = dyn FnMut(&mut [u8], u64) -> io::Result<usize> + 'a;

/// How a file compares with an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// The file itself, perhaps grown.
    Same,
    /// The file itself, with nothing in it.
    Emptied,
    /// The file itself, shorter than it was.
    Cut,
    /// The file itself, with other bytes at its beginning.
    Overwritten,
    /// Another file with the same beginning.
    Copy,
    /// Another file.
    Other,
}

/// How a file's first bytes compare with those of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// All that were hashed are there, and are the same.
    Alike,
    /// Fewer are there; as far as hashes cover those, they are the same.
    Shorter,
    /// Others.
    Other,
}

/// The file system's name of a file, as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The device; `None` where it is not known.
    pub device: Option<u64>,
    /// The inode, which another file may have later.
    pub inode: u64,
    /// When it was created, in nanoseconds since 1970; 0 where the file system keeps none.
    pub birth_ns: u128,
}

impl Node {
    /// Of the file that the metadata describe.
    pub fn of(metadata: &Metadata) -> Self {
        Self { device: Some(metadata.dev()), inode: metadata.ino(), birth_ns: birth_ns(metadata) }
    }

    /// Whether both are the same file.
    pub fn is(&self, other: &Self) -> bool {
        let are_births_known = self.birth_ns != 0 && other.birth_ns != 0;
        let is_device = self.device.is_none() || other.device.is_none() || self.device == other.device;
        self.inode == other.inode
            && (if are_births_known { self.birth_ns == other.birth_ns } else { is_device })
    }
}

/// An identity in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its device is `None` in what earlier programs wrote.
    node: Node,
    /// Lengths, ascending, and their hashes.
    prints: Vec<(u64, u64)>,
    /// Where it was, if links led there.
    real: Option<String>,
}

impl Identity {
    /// Of an open file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self::of_head(Node::of(&file.metadata()?), &head(file)?))
    }

    /// Of the file `node`, which begins with `head` ([`head`]).
    pub fn of_head(node: Node, head: &[u8]) -> Self {
        let length = head.len() as u64;
        let mut lengths: Vec<u64> = LENGTHS.into_iter().filter(|l| *l <= length).collect();
        if lengths.last() != Some(&length) {
            lengths.push(length);
        }
        let prints = lengths.into_iter().map(|l| (l, hash(head, l))).collect();
        Self { node, prints, real: None }
    }

    /// With the place that links lead to from `path`, if they lead to this file.
    #[must_use]
    pub fn reached_by(self, path: &str) -> Self {
        Self { real: links::real(Path::new(path), self.node.device, self.node.inode), ..self }
    }

    /// Of the same file, of which more is known now: it begins with `head`.
    #[must_use]
    pub fn grown(&self, head: &[u8]) -> Self {
        Self { real: self.real.clone(), ..Self::of_head(self.node, head) }
    }

    /// The path without links that the file had, if it was reached through one.
    pub fn real(&self) -> Option<&str> {
        self.real.as_deref()
    }

    /// The device and inode that the file had.
    pub fn node(&self) -> Node {
        self.node
    }

    /// Bytes at the file's beginning that it was made of.
    pub fn covers(&self) -> u64 {
        self.prints.last().map_or(0, |(length, _)| *length)
    }

    /// Bytes of a beginning so long that are compared.
    pub fn compares(&self, length: u64) -> u64 {
        self.prints.iter().map(|(print, _)| *print).filter(|print| *print <= length).max().unwrap_or(0)
    }

    /// Bytes of a beginning up to which all hashes agree.
    pub fn agrees(&self, head: &[u8]) -> u64 {
        let agrees = |(l, expected): &&(u64, u64)| *l <= head.len() as u64 && hash(head, *l) == *expected;
        self.prints.iter().take_while(agrees).last().map_or(0, |(length, _)| *length)
    }

    /// The hash of the first `length` bytes, if it was made of that.
    pub fn print(&self, length: u64) -> Option<u64> {
        self.prints.iter().find(|(print, _)| *print == length).map(|(_, hash)| *hash)
    }

    /// The identity of `file` as it is now, if it has all the bytes that this one was made of: the same file, perhaps grown, or a copy. The
    /// bytes are read once, so that what is compared is what the new identity is made of.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn begins_like(&self, file: &File) -> io::Result<Option<Self>> {
        let node = Node::of(&file.metadata()?);
        let head = head(file)?;
        let length = head.len() as u64;
        let agrees = self.prints.iter().all(|(l, expected)| *l <= length && hash(&head, *l) == *expected);
        Ok(agrees.then(|| Self::of_head(node, &head)))
    }

    /// How a file that begins with `head` ([`head`]) compares, whichever file it is.
    pub fn beginning(&self, head: &[u8]) -> Beginning {
        let length = head.len() as u64;
        let mut held = self.prints.iter().filter(|(l, _)| *l <= length);
        match held.all(|(l, expected)| hash(head, *l) == *expected) {
            true if length >= self.covers() => Beginning::Alike,
            true => Beginning::Shorter,
            false => Beginning::Other,
        }
    }

    /// Reads the text of one; `None` if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts: Vec<&str> = text.split(':').collect();
        let print =
            |length: &str, hash: &str| Some((length.parse().ok()?, u64::from_str_radix(hash, 16).ok()?));
        let real = match parts.len() {
            6 => Some(unescaped(parts.pop()?)?),
            _ => None,
        };
        match parts[..] {
            ["2", device, inode, birth, prints] => Some(Self {
                node: Node {
                    device: Some(device.parse().ok()?),
                    inode: inode.parse().ok()?,
                    birth_ns: birth.parse().ok()?,
                },
                prints: prints
                    .split(',')
                    .map(|pair| pair.split_once('=').and_then(|(length, hash)| print(length, hash)))
                    .collect::<Option<_>>()?,
                real,
            }),
            [inode, birth, length, hash] => Some(Self {
                node: Node { device: None, inode: inode.parse().ok()?, birth_ns: birth.parse().ok()? },
                prints: vec![print(length, hash)?],
                real: None,
            }),
            _ => None,
        }
    }

    /// Compares a file with it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn compare(&self, file: &File) -> io::Result<Likeness> {
        let metadata = file.metadata()?;
        let covered = self.prints.last().map_or(0, |(length, _)| *length).min(LENGTHS[LENGTHS.len() - 1]);
        let head = first(file, covered)?;
        let length = head.len() as u64;
        let mut held = self.prints.iter().filter(|(l, _)| *l <= length);
        let agrees = held.all(|(l, expected)| hash(&head, *l) == *expected);
        Ok(match (self.node.is(&Node::of(&metadata)), agrees) {
            (true, true) if length >= covered => Likeness::Same,
            (true, _) if length == 0 => Likeness::Emptied,
            (true, true) => Likeness::Cut,
            (true, false) => Likeness::Overwritten,
            (false, true) if length >= covered && covered >= COPY_BYTES_MIN => Likeness::Copy,
            (false, _) => Likeness::Other,
        })
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let prints: Vec<String> =
            self.prints.iter().map(|(length, hash)| format!("{length}={hash:016x}")).collect();
        write!(
            f,
            "2:{}:{}:{}:{}",
            self.node.device.unwrap_or(0),
            self.node.inode,
            self.node.birth_ns,
            prints.join(",")
        )?;
        self.real.as_ref().map_or(Ok(()), |real| write!(f, ":{}", escaped(real)))
    }
}

fn escaped(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for character in path.chars() {
        match character {
            '%' | ':' | '\0'..='\x1f' | '\x7f' => text.push_str(&format!("%{:02x}", character as u32)),
            _ => text.push(character),
        }
    }
    text
}

/// `None` if nobody has written it.
fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut path = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        path.push(u8::from_str_radix(part.get(..2)?, 16).ok().filter(u8::is_ascii)?.into());
        path.push_str(&part[2..]);
    }
    Some(path)
}

/// The first bytes of a file, as many as an identity is made of, all as they were at one moment.
///
/// # Errors
/// When it cannot be read.
pub fn head(file: &File) -> io::Result<Vec<u8>> {
    first(file, LENGTHS[LENGTHS.len() - 1])
}

/// The hash of the first `length` bytes of a beginning, as an identity has it; `None` if there are fewer.
pub fn print(head: &[u8], length: u64) -> Option<u64> {
    (length <= head.len() as u64).then(|| hash(head, length))
}

/// Reads at a place, so that whoever reads the file further on is not disturbed.
fn first(file: &File, bytes: u64) -> io::Result<Vec<u8>> {
    first_of(usize::try_from(bytes).map_err(io::Error::other)?, &mut |out, offset| file.read_at(out, offset))
}

/// The first bytes of what `read_at` reads. A file that is shorter takes several calls, between which it may be emptied and written again: the bytes of
/// two contents together are no file's beginning. So they count only if they are still there behind the last call.
fn first_of(bytes: usize, read_at: &mut ReadAt<'_>) -> io::Result<Vec<u8>> {
    let mut before: Option<Vec<u8>> = None;
    for _ in 0..READS_MAX {
        let mut head = vec![0; bytes];
        let (mut length, mut calls) = (0, 0);
        while length < head.len() {
            match read_at(&mut head[length..], length as u64) {
                Ok(0) => break,
                Ok(read) => (length, calls) = (length + read, calls + 1),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        head.truncate(length);
        match before {
            Some(before) if head.starts_with(&before) => return Ok(before),
            None if length == bytes && calls == 1 => return Ok(head),
            _ => before = Some(head),
        }
    }
    Ok(Vec::new())
}

fn hash(head: &[u8], length: u64) -> u64 {
    let length = usize::try_from(length).map_or(head.len(), |length| length.min(head.len()));
    crate::hash(&head[..length])
}

/// Not every file system keeps the birth.
fn birth_ns(metadata: &Metadata) -> u128 {
    let birth = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    birth.map_or(0, |time| time.as_nanos())
}

#[cfg(test)]
mod tests;
