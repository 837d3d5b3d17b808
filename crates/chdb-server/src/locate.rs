//! Finds `libchdb.so`: the environment, the program's own folder, the project that the program was built in, the system.
//!
//! Owns the places, their order, and what makes a file fit to be loaded. Does not own the loading (`ffi`).
//!
//! Loading a library runs its code, so no place is searched that others may write to: never the working directory, never the
//! loader's own search. What is found without being named must belong to this user or to root, and neither it nor its folder
//! may be writable for everybody. The server's data folder is held to the same rule.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Names the library file outright.
pub const VARIABLE: &str = "FOREBAY_LIBCHDB";
/// The library's file name.
const FILE: &str = "libchdb.so";
/// Where `scripts/setup` puts the library, below the folder of the project.
const CACHED: &str = ".cache/libchdb/libchdb.so";
/// Folders of the system, which only root may write to.
const SYSTEM: [&str; 2] = ["/usr/local/lib", "/usr/lib"];

/// What to tell the user when the library cannot be loaded.
pub const HELP: &str = "set FOREBAY_LIBCHDB to the path of libchdb.so, or put it beside the executable; for a build in this project \
`scripts/setup demo` fetches it, or by hand: `npm pack @chdb/lib-linux-x64-gnu@26.7.3-stable.1`, unpack, and set FOREBAY_LIBCHDB to \
package/libchdb.so";

/// Why no library is loaded.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    /// It is in none of the places.
    #[error("no libchdb.so beside the executable, in the cache of its project, or in {}", SYSTEM.join(" or "))]
    Absent,
    /// The file named by the environment cannot be read.
    #[error("{VARIABLE} names `{}`, which cannot be read: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's words.
        reason: io::Error,
    },
    /// Others could have put their own code there.
    #[error("`{}` is not loaded: {why}", path.display())]
    Untrusted {
        /// The file or its folder.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// The path to load. A path from the environment is taken as it is, so that a wrong one is an error and not a
/// silent fall-back to another library.
///
/// # Errors
/// When there is none, or others may write to it.
pub fn library() -> Result<PathBuf, LocateError> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        return named_file(Path::new(&named));
    }
    let executable = std::env::current_exe().ok();
    let found = places(executable.as_deref()).into_iter().find(|file| file.is_file());
    let file = found.ok_or(LocateError::Absent)?;
    trusted(&file, effective_user())?;
    Ok(file)
}

/// The named file, absolute, so that the loader never searches for it. Whose it is, its namer knows.
fn named_file(named: &Path) -> Result<PathBuf, LocateError> {
    let unreadable = |reason| LocateError::Unreadable { path: named.to_owned(), reason };
    let path = named.canonicalize().map_err(unreadable)?;
    match is_open_to_all(&fs::metadata(&path).map_err(unreadable)?) {
        true => Err(LocateError::Untrusted { path, why: "everybody may write to it" }),
        false => Ok(path),
    }
}

/// Where a library may lie, in the order of search.
fn places(executable: Option<&Path>) -> Vec<PathBuf> {
    let folder = executable.and_then(Path::parent);
    // A project's own folder holds its lock file; `target/debug/deps` lies three below.
    let projects = executable
        .into_iter()
        .flat_map(|file| file.ancestors().skip(1))
        .filter(|base| base.join("Cargo.lock").is_file());
    folder
        .map(|folder| folder.join(FILE))
        .into_iter()
        .chain(projects.map(|base| base.join(CACHED)))
        .chain(SYSTEM.iter().map(|base| Path::new(base).join(FILE)))
        .collect()
}

/// Refuses a file that another user owns or may replace: the file itself, its folder, and of a link also the folder that holds the link.
fn trusted(file: &Path, user: u32) -> Result<(), LocateError> {
    let real = fs::canonicalize(file);
    let real = real.as_deref().unwrap_or(file);
    for path in [file.parent(), Some(real), real.parent()].into_iter().flatten() {
        if let Some(why) = distrust(path, user) {
            return Err(LocateError::Untrusted { path: path.to_owned(), why });
        }
    }
    Ok(())
}

/// Why a file or a folder may hold what another user has put there; `None` if only root and `user` can.
fn distrust(path: &Path, user: u32) -> Option<&'static str> {
    match fs::metadata(path) {
        Err(_) => Some("its owner cannot be read"),
        Ok(metadata) if ![0, user].contains(&metadata.uid()) => Some("another user owns it"),
        Ok(metadata) if is_open_to_all(&metadata) => Some("everybody may write to it"),
        Ok(_) => None,
    }
}

/// Refuses a data folder that another user owns or that everybody may write to: whoever prepares it decides which users the server has.
pub(crate) fn own_folder(folder: &Path) -> io::Result<()> {
    match distrust(folder, effective_user()) {
        Some(why) => Err(io::Error::other(format!(
            "{why}; name a folder with --path that belongs to this user and that nobody else may write to"
        ))),
        None => Ok(()),
    }
}

/// A folder with the sticky bit lets nobody take away what others have put there.
fn is_open_to_all(metadata: &Metadata) -> bool {
    metadata.mode() & 0o002 != 0 && !(metadata.is_dir() && metadata.mode() & 0o1000 != 0)
}

fn effective_user() -> u32 {
    // The owner of this process's own entry is its effective user; without /proc only root's files are taken.
    fs::metadata("/proc/self").map_or(0, |own| own.uid())
}

#[cfg(test)]
mod tests;
