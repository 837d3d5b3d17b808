//! Where the file is that a position belongs to, after its name was given to another one or to none.
//!
//! Owns the search and what follows from it. Does not own the comparison (`files`), the listings that are searched (`around`), or which names a source
//! has (`find`).
//!
//! A file itself has the beginning that it had and, in front of the position, the bytes that were read there (`mark`).
//!
//! | under its name stands                 | what is read                                                                 |
//! |---------------------------------------|------------------------------------------------------------------------------|
//! | the file itself                       | it                                                                           |
//! | the same, shorter than the position   | its copy in the same folder; else refused: it was cut                        |
//! | the file, compressed, with other bytes | it, if they are inflated to what was read: a good copy of a damaged file     |
//! | the file, cut                         | its copy in the same folder; else refused                                    |
//! | nothing, or another file              | the file under its new name in the same folder, or among the paths           |
//! | another file with all that was read   | the same, but no copy; else it, since it was put there in place of the one before (`rsync`, an editor, a backup) |
//! | a link that led to the file           | the file where the link leads now, or led when the file was first seen, as above |
//! | the file, emptied or written over     | its copy in the same folder, whose name begins alike (`copytruncate`)        |
//! | nothing, or another file, with a copy | the copy in the same folder, if at least [`EVIDENCE_MIN`] bytes show it and its name is longer |
//! | the same, and has another name by now | the same                                                                     |
//! | and neither is found                  | nothing more if it was read to its end; else refused                         |

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use dataflow::{ReadFrom, SourceError, SourceFault};
use files::copies::{Alike, is_name_of_copy};
use files::identity::head;
use files::links::{folder, hops};
use files::names::quoted;
use files::{Beginning, Identity, Likeness};

use super::around::{self, Around, Sibling};
use super::find::failed;
use super::inflate::{self, At, Packing, Stands, plain_length};
use super::mark::{self, Mark};

/// A name that was given to more files than this is not a log's.
pub(super) const NAMESAKES_MAX: u32 = 1 << 16;

/// Inflated bytes that are held until their checksum is known: few, since nothing of them is kept.
const HOLD_BYTES_MAX: usize = 64 << 10;

/// So many bytes that are the same show that a file is a copy of one that is gone.
pub(super) const EVIDENCE_MIN: u64 = 64;

/// Of fewer bytes nobody can tell whether they are the first ones of a file that had more.
const FEW: u64 = 16;

/// The file of a position.
#[derive(Debug)]
pub(super) enum Place {
    /// Here it is, open at its start.
    At(File, String),
    /// Nowhere, and nothing of it is missed.
    Finished,
}

/// Finds the file that `from` means, under its name or in what is `around`.
///
/// # Errors
/// [`SourceFault::Refused`] when its records may be lost. When the paths cannot be looked through or the file's folder cannot be listed: a file
/// that nobody could look for is not known to be gone.
pub(super) fn find(from: &ReadFrom, around: &Around<'_>) -> Result<Place, SourceError> {
    let found = find_once(from, around);
    // Files may have been renamed since the listings were made.
    let is_in_doubt = match &found {
        Err(error) => error.fault == SourceFault::Refused,
        Ok(Place::Finished) => has_moved(from, around)?,
        Ok(Place::At(..)) => false,
    };
    match is_in_doubt && around.renew() {
        true => find_once(from, around),
        false => found,
    }
}

/// Whether files have moved since they were listed: a name leads no more to the inode that it led to. Another file may have that by now, which has not moved.
fn has_moved(from: &ReadFrom, around: &Around<'_>) -> Result<bool, SourceError> {
    let Some(identity) = Identity::parse(&from.identity) else { return Ok(false) };
    let inode = identity.node().inode;
    let itself = itself(&from.partition.stream, &identity, around)?;
    let leads_there = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|now| now.ino() == inode);
    Ok(!itself.is_empty() && !itself.iter().any(leads_there))
}

fn find_once(from: &ReadFrom, around: &Around<'_>) -> Result<Place, SourceError> {
    let path = &*from.partition.stream;
    let next = from.plain()?;
    let refuse = |message: String| Err(SourceError::new(SourceFault::Refused, message).at(&from.partition));
    if from.partition.index >= NAMESAKES_MAX {
        return refuse(format!("file `{path}` has no partition `{}`", from.partition.index));
    }
    // That one alone: another partition of the name may be read on, or be known by its copy.
    let named = quoted(&format!("{path}/{}", from.partition.index));
    let forget = format!("`forebay forget FILE --partition {named}`");
    let mark = Mark::from(from.leader_epoch);
    let read = Read { next, mark };
    let (mut shorter, mut replaced) = (None, None);
    let (found, now) = match files::open(path) {
        Ok(file) => {
            let failed = |error| failed(path, "opened", &error);
            let now = Identity::of(&file).map_err(failed)?;
            let found = match Identity::parse(&from.identity) {
                Some(identity) => compare(&identity, &file, read).map_err(failed)?,
                None => Likeness::Other,
            };
            let found = match (found, read.stands_in(&file).map_err(failed)?) {
                (Likeness::Same, Has::AsRead) => return Ok(Place::At(file, path.to_owned())),
                (Likeness::Same, Has::Others) => Likeness::Overwritten,
                (found, _) => found,
            };
            if has_lost_its_content(found) && read.is_in_packed(&file, path, from).map_err(failed)? {
                return Ok(Place::At(file, path.to_owned()));
            }
            match found {
                Likeness::Same => shorter = Some(file),
                Likeness::Copy if read.is_in(&file, path, from).map_err(failed)? => replaced = Some(file),
                _ => {}
            }
            (Some(found), Some(now))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => (None, None),
        Err(error) => return Err(failed(path, "opened", &error)),
    };
    if let Some(identity) = Identity::parse(&from.identity) {
        let instead = match replaced {
            Some(_) => Instead::Found,
            None if found.is_some_and(has_lost_its_content) || shorter.is_some() => Instead::Emptied,
            None => Instead::Unknown,
        };
        if let Some(place) = elsewhere(path, &identity, read, instead, around)? {
            return Ok(place);
        }
        if let Some(file) = replaced {
            tracing::info!(
                file = path,
                position = next,
                "another file with all that was read stands in the place of the one that was read, so it is read on"
            );
            return Ok(Place::At(file, path.to_owned()));
        }
        if found == Some(Likeness::Cut) {
            let few = match now.as_ref().is_some_and(|now| now.covers() < FEW) {
                true => {
                    "If it was emptied and is being written anew, start again once it has 16 bytes. Otherwise bring"
                }
                false => "Bring",
            };
            return refuse(format!(
                "file `{path}` was cut to fewer bytes than it had when it was first seen; it was read to position `{next}`, and whether anything behind \
                 it is lost nobody can tell. {few} the whole file back in place (`cat whole > file`), or take it out of the pipeline with {forget}: \
                 what is left of it is read as a new file then"
            ));
        }
        // Whoever reads at the position says that it is beyond the end.
        if let Some(file) = shorter {
            return Ok(Place::At(file, path.to_owned()));
        }
        // Nothing was ever in it that could be missed, or nothing is left of it that was not read.
        if mark.is_end {
            tracing::info!(file = path, position = next, "a file that was read to its end was deleted");
            return Ok(Place::Finished);
        }
    }
    let recorded = &from.identity;
    let now = now.map(|now| now.to_string()).unwrap_or_default();
    let what = match found {
        None => "is gone".to_owned(),
        Some(Likeness::Emptied) => "was emptied".to_owned(),
        Some(Likeness::Overwritten) => format!("was written over (recorded `{recorded}`, now `{now}`)"),
        _ => format!("is another one than was read (recorded `{recorded}`, now `{now}`)"),
    };
    refuse(format!(
        "file `{path}` {what}, and the one before was read to position `{next}` only, not to its end; it is in its folder under no other \
         name. Bring it back, or take it out of the pipeline with {forget}: what was not read of it is lost then"
    ))
}

/// Whether a file that is still there has not the bytes any more that were read: they are in a copy, or nowhere.
fn has_lost_its_content(now: Likeness) -> bool {
    match now {
        Likeness::Emptied | Likeness::Cut | Likeness::Overwritten => true,
        Likeness::Same | Likeness::Copy | Likeness::Other => false,
    }
}

/// How far a file was read.
#[derive(Clone, Copy)]
struct Read {
    next: u64,
    mark: Mark,
}

/// What a file with the beginning that was read has in front of the position.
enum Has {
    /// The bytes that were read there, as far as anybody can tell.
    AsRead,
    /// Other ones.
    Others,
    /// Fewer than were read.
    Fewer,
}

impl Read {
    /// Whether a compressed file whose first bytes are others has, inflated, what was read: a good copy was written over one that was damaged. Where
    /// the bytes in front of the position are not known, as of the first member, the first ones of the compressed file and the start of a line there
    /// have to do.
    fn is_in_packed(self, file: &File, path: &str, from: &ReadFrom) -> std::io::Result<bool> {
        if inflate::packing(file)? == Packing::Plain || (self.mark.is_end && !self.mark.has_hash()) {
            return Ok(false);
        }
        let At { stands, before, .. } =
            match inflate::open(file.try_clone()?, path, self.next, HOLD_BYTES_MAX, &|| true) {
                Ok(at) => at,
                Err(error) if error.raw_os_error().is_some() => return Err(error),
                // It is damaged in front of the position.
                Err(_) => return Ok(false),
            };
        let begins_so = || {
            let head = head(file)?;
            Ok(Identity::parse(&from.identity).is_some_and(|identity| identity.agrees(&head) >= FEW))
        };
        match stands {
            Stands::Line | Stands::AfterWhole if self.mark.has_hash() => Ok(self.mark.is_behind(&before)),
            Stands::Line | Stands::AfterWhole => begins_so(),
            Stands::Middle | Stands::Beyond(_) => Ok(false),
        }
    }

    /// Whether a file that begins as the one that was read has all of it.
    fn is_in(self, file: &File, path: &str, from: &ReadFrom) -> std::io::Result<bool> {
        Ok(match inflate::packing(file)? {
            Packing::Plain => matches!(self.stands_in(file)?, Has::AsRead),
            _ => self.is_in_packed(file, path, from)?,
        })
    }

    /// Whether enough bytes are known to tell by them alone that a file is a copy.
    fn shows(self, identity: &Identity) -> bool {
        let marked = if self.mark.has_hash() { self.next.min(mark::BYTES) } else { 0 };
        identity.covers().max(marked) >= EVIDENCE_MIN
    }

    /// Whether a plain file begins as the one that was read, and the bytes in front of the position show by themselves that it is a copy.
    fn shows_in(self, identity: &Identity, file: &File) -> std::io::Result<bool> {
        let is_enough = self.mark.has_hash() && self.next.min(mark::BYTES) >= EVIDENCE_MIN;
        Ok(is_enough
            && identity.beginning(&head(file)?) == Beginning::Alike
            && inflate::packing(file)? == Packing::Plain
            && matches!(self.stands_in(file)?, Has::AsRead))
    }

    fn stands_in(self, file: &File) -> std::io::Result<Has> {
        Ok(match plain_length(file)? {
            Some(length) if length < self.next => Has::Fewer,
            Some(_) if !self.mark.fits(file, self.next)? => Has::Others,
            Some(_) | None => Has::AsRead,
        })
    }
}

/// How a file compares with what was recorded. A file that was first seen with a few bytes, and has grown since, is known in a copy by the bytes in front of
/// the position.
fn compare(identity: &Identity, file: &File, read: Read) -> std::io::Result<Likeness> {
    match identity.compare(file)? {
        Likeness::Other if read.shows_in(identity, file)? => Ok(Likeness::Copy),
        likeness => Ok(likeness),
    }
}

/// Whether `copy`, which nobody has read, was made of the file of `from`, which stands at `original`: a rotation by `copytruncate` that has not come to
/// its second step, or a backup. It has no byte that the file has not.
///
/// # Errors
/// When it cannot be read.
pub(super) fn is_being_copied(from: &ReadFrom, original: &str, copy: &str) -> Result<bool, SourceError> {
    let read = Read { next: from.plain()?, mark: Mark::from(from.leader_epoch) };
    let compare = || -> std::io::Result<bool> {
        let (copied, original) = (files::open(copy)?, files::open(original)?);
        let is_beginning = is_beginning(&copied, &original)?;
        // Only now: while it has what was read of it, it is what was compared. If it was emptied since, the next run shows what the copy is; until then
        // that is not read from its beginning.
        Ok(is_beginning || !matches!(read.stands_in(&original)?, Has::AsRead))
    };
    match compare() {
        // It has gone since names were listed.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        compared => compared.map_err(|error| failed(copy, "read", &error)),
    }
}

/// Whether all of `file` is the beginning of the other one, and enough to say so.
fn is_beginning(file: &File, of: &File) -> std::io::Result<bool> {
    let length = file.metadata()?.len();
    let mut compared = 0;
    while compared < length {
        let before = compared;
        if files::copies::compare(file, of, &mut compared)? == Alike::Other {
            return Ok(false);
        }
        // It has become shorter meanwhile.
        if compared == before {
            break;
        }
    }
    Ok(length >= EVIDENCE_MIN)
}

/// What stands under the name of a file that is looked for elsewhere.
enum Instead {
    /// Another one with all that was read. It goes before any copy: of both, it alone is shown under the name.
    Found,
    /// The file itself, without what was read.
    Emptied,
    /// Nothing, or a file that says nothing of it.
    Unknown,
}

/// The file under another name.
fn elsewhere(
    path: &str,
    identity: &Identity,
    read: Read,
    instead: Instead,
    around: &Around<'_>,
) -> Result<Option<Place>, SourceError> {
    let mut was_copied = matches!(instead, Instead::Emptied);
    for path in itself(path, identity, around)? {
        match open(&path, identity, read) {
            Some((Likeness::Same, place)) => return Ok(Some(place)),
            Some((now, _)) => was_copied |= has_lost_its_content(now),
            None => {}
        }
    }
    // Of a file that is gone nothing is left that would tell that it was copied: then the copy itself has to.
    if matches!(instead, Instead::Found) || (!was_copied && !read.shows(identity)) {
        return Ok(None);
    }
    let print = around::print(identity);
    let mut copies = BTreeSet::new();
    for name in names(path, identity) {
        let folder = around.folder(&folder(&name))?;
        let may_be_copy = |sibling: &&Sibling| {
            let is_called_so = was_copied || is_named_as_copy(&name, &sibling.path);
            is_called_so && sibling.may_begin(print)
        };
        copies.extend(folder.named(stem(&name)).filter(may_be_copy).map(|sibling| sibling.path.clone()));
    }
    // The file itself is none of them, by its node: its inode alone may be that of a copy by now.
    let copy = |copy: &PathBuf| match open(copy, identity, read)? {
        (Likeness::Copy, place) => Some(place),
        _ => None,
    };
    let length = |place: &Place| match place {
        Place::At(file, _) => file.metadata().map_or(0, |metadata| metadata.len()),
        Place::Finished => 0,
    };
    // The longest has the most: another one may have been made before the last lines were written. Of those as long, the first by name.
    let found = copies.iter().rev().filter_map(copy).max_by_key(length);
    if let (Some(Place::At(_, copy)), false) = (&found, was_copied) {
        tracing::info!(
            file = path,
            copy,
            position = read.next,
            "the file is gone, and another one has all that was read of it: it is taken for its copy and read on"
        );
    }
    Ok(found)
}

/// The names that the file itself may have now: one that the paths mean first, for it is shown under that.
fn itself(path: &str, identity: &Identity, around: &Around<'_>) -> Result<Vec<PathBuf>, SourceError> {
    let inode = identity.node().inode;
    let mut itself = around.meant(inode)?;
    for name in names(path, identity) {
        itself.extend_from_slice(around.folder(&folder(&name))?.of_inode(inode));
    }
    Ok(itself)
}

/// Whether a file may be called so because it is a copy of the other one.
fn is_named_as_copy(original: &Path, path: &Path) -> bool {
    original.to_str().zip(path.to_str()).is_some_and(|(original, path)| is_name_of_copy(original, path))
}

/// The names that a file had: the one that is meant, those that links lead to from there, and the one that they led to when it was first seen.
pub(super) fn names(path: &str, identity: &Identity) -> Vec<PathBuf> {
    let mut names = vec![PathBuf::from(path)];
    for name in hops(Path::new(path)).into_iter().chain(identity.real().map(PathBuf::from)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// What a file is, with its place; `None` for one that is of no use.
fn open(path: &Path, identity: &Identity, read: Read) -> Option<(Likeness, Place)> {
    let file = files::open(path).ok()?;
    let likeness = match (compare(identity, &file, read).ok()?, read.stands_in(&file).ok()?) {
        (Likeness::Same, Has::Others) => Likeness::Overwritten,
        (Likeness::Same, Has::Fewer) => Likeness::Cut,
        (Likeness::Copy, Has::Others | Has::Fewer) => Likeness::Other,
        (likeness, _) => likeness,
    };
    Some((likeness, Place::At(file, path.to_str()?.to_owned())))
}

/// The beginning that a copy's name has in common with the file's: `app` for `app.log`.
fn stem(path: &Path) -> &str {
    path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
}
