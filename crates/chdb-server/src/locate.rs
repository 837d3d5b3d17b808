//! Finds `libchdb.so`: the environment, then a `.cache/libchdb` folder, then the loader's own search.

use std::path::{Path, PathBuf};

/// Names the library file outright.
pub const VARIABLE: &str = "FOREBAY_LIBCHDB";
/// Where `scripts/setup` puts the library, below the folder of the project.
const CACHED: &str = ".cache/libchdb/libchdb.so";
/// What the loader is asked for when no file was found.
const BARE: &str = "libchdb.so";

/// What to tell a person when the library cannot be loaded.
pub const HELP: &str = "looked at the path in FOREBAY_LIBCHDB, at .cache/libchdb/libchdb.so in the current folder \
and beside every parent of the executable, and in the loader's default places; `scripts/setup` fetches it, or by hand: \
`npm pack @chdb/lib-linux-x64-gnu@26.7.3-stable.1`, unpack, and set FOREBAY_LIBCHDB to package/libchdb.so";

/// The path to load. A path from the environment is taken as it is, so that a wrong one is an error and not a
/// silent fall-back to another library.
pub fn library() -> PathBuf {
    let named = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    named
        .or_else(|| cached(std::env::current_dir().ok().as_deref(), std::env::current_exe().ok().as_deref()))
        .unwrap_or_else(|| PathBuf::from(BARE))
}

/// The cached library in `folder`, or beside a parent of `executable`.
fn cached(folder: Option<&Path>, executable: Option<&Path>) -> Option<PathBuf> {
    let parents = executable.into_iter().flat_map(|file| file.ancestors().skip(1));
    folder.into_iter().chain(parents).map(|base| base.join(CACHED)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests;
