//! Where relative paths lead: those of a pipeline file from its own folder, those of the command line from where the program was started.
//!
//! Owns the program's working directory. Does not own the paths themselves, nor what is found there (`pipeline::config`,
//! `pipeline::wiring`). A command that loads a pipeline file enters the file's folder, so that the store, the files of a source, secrets
//! and certificates are the same ones from wherever the program is started, under the names that the file gives them. The text on standard
//! input has no folder: its paths stay those of the place where the program was started.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::Context;
use pipeline::config::model::Pipeline;

/// The folder in which the program was started.
fn start() -> anyhow::Result<&'static Path> {
    static START: OnceLock<PathBuf> = OnceLock::new();
    if START.get().is_none() {
        let here = std::env::current_dir().context("the working directory cannot be read")?;
        return Ok(START.get_or_init(|| here));
    }
    Ok(START.get().expect("just checked"))
}

/// A path of the command line, whatever folder was entered since.
///
/// # Errors
/// When the working directory is gone.
pub fn given(path: &Path) -> anyhow::Result<PathBuf> {
    Ok(start()?.join(path))
}

/// Enters the folder of a pipeline file, given as on the command line.
///
/// # Errors
/// When the folder cannot be entered.
pub fn enter(file: &Path) -> anyhow::Result<()> {
    let file = given(file)?;
    let is_stdin = file.file_name().is_some_and(|name| name == "-");
    let folder = file.parent().filter(|_| !is_stdin).unwrap_or(start()?);
    std::env::set_current_dir(folder)
        .with_context(|| format!("cannot enter the folder `{}`", folder.display()))
}

/// Goes back to where the program was started.
///
/// # Errors
/// When the folder is gone.
pub fn leave() -> anyhow::Result<()> {
    let start = start()?;
    std::env::set_current_dir(start).with_context(|| format!("cannot enter the folder `{}`", start.display()))
}

/// Does something in the folder of a pipeline file and comes back. A folder that cannot be entered is left to what then does not find its
/// files.
pub fn within<T>(file: &Path, work: impl FnOnce() -> T) -> T {
    let entered = enter(file);
    let done = work();
    if entered.is_ok() {
        // Where the program was started may be gone; then all that follows says so.
        let _ = leave();
    }
    done
}

/// A path as a shell takes it, for commands that are printed.
pub fn quoted(path: &Path) -> String {
    files::names::quoted(&path.to_string_lossy())
}

/// The address of a store that a pipeline file names, for commands that are printed: the same one from every folder. The file's folder is entered.
pub fn address(url: &str) -> String {
    if url.contains("://") {
        return url.to_owned();
    }
    std::path::absolute(url).map_or_else(|_| url.to_owned(), |path| path.display().to_string())
}

/// Why a store that an earlier release kept in the working directory would be missed: it took a relative `store` from there. `None` if there
/// is no such store, or this pipeline has one beside its file.
///
/// # Errors
/// When the working directory is gone.
pub fn store_elsewhere(pipeline: &Pipeline) -> anyhow::Result<Option<String>> {
    let url = pipeline.store.as_str();
    if url.contains("://") || Path::new(url).is_absolute() {
        return Ok(None);
    }
    let journal = |folder: PathBuf| folder.join(url).join(pipeline.pipeline.as_str());
    let (here, before) = (journal(std::env::current_dir()?), journal(start()?.to_owned()));
    if here == before || here.exists() || !before.is_dir() {
        return Ok(None);
    }
    let folder = quoted(here.parent().unwrap_or(Path::new("/")));
    let (here, from, before) = (quoted(&here), quoted(&before), before.display());
    Ok(Some(format!(
        "`store: {url}` is relative to the folder of the pipeline file, where this pipeline has no journal yet, but there is one at \
         `{before}`, because earlier releases took the path from the working directory; nothing was read or written. To continue with that \
         journal: `mkdir -p {folder} && mv {from} {here}`, or write the store's absolute path into the file"
    )))
}
