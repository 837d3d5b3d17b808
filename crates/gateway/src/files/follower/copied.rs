//! Files that were replaced, and their copies.
//!
//! Owns which unknown file is a known one's copy, in which it is read on, and what is lost if there is none. Does not own how bytes are compared
//! and what a copy is called (`files::copies`, of the crate).

use std::fs::File;

use files::copies::{Alike, compare, is_name_of_copy};
use files::{Identity, Node};

use super::{COPY_BYTES_MIN, Follower, GONE_MS};
use crate::files::find::Found;
use crate::files::scan::{Copied, Scan, is_young};
use crate::files::table::Known;

/// Looks that must have found no copy of a file that was replaced.
const LOOKS_MIN: u32 = 3;

impl Follower {
    /// A known file has been emptied or written over: its rest is in its copy, or lost.
    ///
    /// A look may miss a copy that is renamed meanwhile. If it were called lost then, the next look would find a new file in it and read all of it
    /// once more. So several looks over some time must have found none; until then what has replaced the file waits, and what is called like its copy.
    pub(super) fn replaced(&mut self, number: u64, scan: &mut Scan, now_ms: i64) {
        let node = self.table.files[&number].identity.node();
        if let Some(copy) = self.find_copy(&self.copied(number), scan) {
            // Whatever stands there now is a new file.
            scan.give_back(node);
            return self.adopt(number, copy, scan);
        }
        let live = self.live.entry(number).or_default();
        let (since_ms, looks) = *live.missed.get_or_insert((now_ms, 0));
        live.missed = Some((since_ms, looks + 1));
        if looks + 1 < LOOKS_MIN || now_ms - since_ms < GONE_MS {
            return;
        }
        scan.give_back(node);
        let (Some(known), Some(live)) = (self.table.files.remove(&number), self.live.remove(&number)) else {
            return;
        };
        self.is_changed = true;
        // What it had when it was seen last; how much was added since nobody knows.
        let bytes = known.bytes.saturating_sub(live.read);
        if bytes > 0 {
            tracing::error!(
                stream = self.rules.stream,
                file = known.path,
                position = live.read,
                bytes,
                "a file was emptied or written over before it was read to its end, and there is no copy beside it; those bytes are lost"
            );
            self.lost.truncated += 1;
            self.lost.bytes += bytes;
        } else {
            tracing::info!(
                stream = self.rules.stream,
                file = known.path,
                position = live.read,
                "a file was emptied or written over after it was read; it is read from its start"
            );
        }
    }

    pub(super) fn copied(&self, number: u64) -> Copied {
        let (known, live) = (&self.table.files[&number], &self.live[&number]);
        Copied {
            path: known.path.clone(),
            at: known.at.clone(),
            identity: known.identity.clone(),
            read: live.read,
            mark: known.mark,
            met_ms: known.met_ms,
            bytes_min: 0,
        }
    }

    /// The copy of a file that was replaced: beside it, called like a copy, not older, with all that was read of it. Or what was put in its place, which
    /// must be the same before the position too: a file of that name that only begins alike is the next one.
    pub(super) fn find_copy(&self, of: &Copied, scan: &mut Scan) -> Option<(String, File, Identity)> {
        let is_known = |node: Node| self.table.files.values().any(|known| known.identity.node().is(&node));
        let copies = scan.folders.beside(&of.at).into_iter();
        copies.filter(|sibling| sibling.bytes >= of.read && !is_known(sibling.node)).find_map(|sibling| {
            let is_copy = is_name_of_copy(&of.path, &sibling.path) && is_young(sibling.node, of.met_ms);
            let is_in_place = sibling.path == of.at || sibling.path == of.path;
            let file = if is_copy || is_in_place { File::open(&sibling.path).ok() } else { None }?;
            let has_all = || of.identity.covers() >= COPY_BYTES_MIN && of.mark.fits(&file, of.read);
            if !(is_copy || has_all()) {
                return None;
            }
            let identity = of.identity.begins_like(&file).ok()??;
            // Not if the name was given to another file since it was listed.
            let is_it = identity.node().is(&sibling.node) && identity.covers() >= of.bytes_min;
            is_it.then_some((sibling.path, file, identity))
        })
    }

    pub(super) fn adopt(
        &mut self,
        number: u64,
        (path, file, identity): (String, File, Identity),
        scan: &mut Scan,
    ) {
        scan.take(identity.node());
        self.adopt_as(number, (path, file, identity));
    }

    /// A known file is read on in its copy.
    fn adopt_as(&mut self, number: u64, (path, file, identity): (String, File, Identity)) {
        let (Some(known), Some(live)) = (self.table.files.get_mut(&number), self.live.get_mut(&number))
        else {
            return;
        };
        tracing::info!(
            stream = self.rules.stream,
            file = known.path,
            copy = path,
            "a file is read on in its copy"
        );
        known.bytes = file.metadata().map_or(known.bytes, |metadata| metadata.len());
        live.there = known.bytes;
        (known.at, known.identity, known.is_lost) = (path, identity, false);
        (live.file, live.is_over, live.gone_ms, live.is_judged) = (Some(file), false, 0, false);
        live.missed = None;
        self.is_changed = true;
    }

    /// Whether a file that is not known stands where a known one stood, with all that was read of it. Once that one has been let go, it is read on here.
    fn is_in_place(&mut self, found: &Found, file: &File) -> bool {
        let is_it = |(number, known): &(&u64, &Known)| {
            let live = &self.live[number];
            live.is_gone()
                && (known.at == found.path || known.path == found.path)
                && known.identity.covers() >= COPY_BYTES_MIN
                && found.bytes >= live.read
                && known.mark.fits(file, live.read)
        };
        let furthest = |(number, _): &(&u64, &Known)| self.live[number].read;
        let Some((number, known)) = self.table.files.iter().filter(is_it).max_by_key(furthest) else {
            return false;
        };
        let (number, like) = (*number, known.identity.begins_like(file));
        match (like, file.try_clone()) {
            (Ok(Some(identity)), Ok(file)) => {
                if self.live[&number].is_judged {
                    self.adopt_as(number, (found.path.clone(), file, identity));
                }
                true
            }
            _ => false,
        }
    }

    /// Whether a file that is not known is the copy of a known one, or may be.
    pub(super) fn is_copy(&mut self, found: &Found, file: &File) -> bool {
        let folder = |path: &str| crate::files::find::folder(std::path::Path::new(path));
        let originals = self.table.files.iter().filter(|(_, known)| {
            is_name_of_copy(&known.path, &found.path)
                && is_young(found.node, known.met_ms)
                && folder(&known.at) == folder(&found.path)
        });
        let originals: Vec<u64> = originals.map(|(number, _)| *number).collect();
        if self.is_in_place(found, file) {
            return true;
        }
        for number in originals {
            let (known, live) = (&self.table.files[&number], &self.live[&number]);
            if live.is_over || live.is_gone() && !live.is_judged {
                return true;
            }
            if live.is_gone() {
                let was_held = self.held.contains_key(&(number, found.node.device, found.node.inode));
                if let Ok(Some(identity)) = known.identity.begins_like(file)
                    && (was_held || known.identity.covers() >= COPY_BYTES_MIN)
                    && found.bytes >= live.read
                    && let Ok(file) = file.try_clone()
                {
                    self.adopt_as(number, (found.path.clone(), file, identity));
                    return true;
                }
                continue;
            }
            let opened = match &live.file {
                Some(original) => original.try_clone(),
                None => File::open(&known.at),
            };
            let is_it = |original: &File| {
                original.metadata().is_ok_and(|metadata| Node::of(&metadata).is(&known.identity.node()))
            };
            let Some(original) = opened.ok().filter(is_it) else {
                self.is_stale = true;
                return true;
            };
            let pair = (number, found.node.device, found.node.inode);
            let alike = compare(file, &original, self.held.entry(pair).or_default());
            // Only now: while it is what it was, so is what was compared.
            let is_intact = known.identity.begins_like(&original).is_ok_and(|identity| identity.is_some());
            match (is_intact, alike) {
                (true, Ok(Alike::Other)) => drop(self.held.remove(&pair)),
                (true, Ok(Alike::SoFar) | Err(_)) => return true,
                (false, _) => {
                    // It was compared with what has replaced the original.
                    self.held.remove(&pair);
                    self.is_stale = true;
                    self.live.entry(number).or_default().is_over = true;
                    return true;
                }
            }
        }
        false
    }
}
