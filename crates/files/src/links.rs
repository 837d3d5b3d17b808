//! Where symbolic links lead.
//!
//! Owns the paths that a name leads to, also one whose file has gone. Does not own what is looked for there: those who read files do.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The system follows so many links, too.
const LINKS_MAX: usize = 40;

/// The paths that the links at `path` lead to one after the other, without `path` itself; none if it is no link. The last may not be there.
pub fn hops(path: &Path) -> Vec<PathBuf> {
    let mut hops = Vec::new();
    let mut at = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = std::fs::read_link(&at) else { break };
        at = folder(&at).join(target);
        // A way with `..` in it leads elsewhere once a folder on it is another one.
        if let (Ok(real), Some(name)) = (std::fs::canonicalize(folder(&at)), at.file_name()) {
            at = real.join(name);
        }
        hops.push(at.clone());
    }
    hops
}

/// The path of the file with this device and inode without any link, if `path` leads to it through one; `None` too if that is not UTF-8.
pub fn real(path: &Path, device: Option<u64>, inode: u64) -> Option<String> {
    let real = std::fs::canonicalize(path).ok()?;
    if real == std::path::absolute(path).ok()? {
        return None;
    }
    // The name may have been given to another one since the file was opened.
    let metadata = std::fs::metadata(&real).ok()?;
    let is_it = metadata.ino() == inode && device.is_none_or(|device| device == metadata.dev());
    is_it.then(|| real.to_str().map(str::to_owned)).flatten()
}

/// The folder of a path.
pub fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}
