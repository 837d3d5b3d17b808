//! Java programs of others, measured in the same run: their jars come by the Maven on this machine.
//!
//! Owns the fetching, by a pom that travels with this program and pins every version. Does not own what a program does or how it is started
//! (`flink::peer`, `dedup::questdb`). Without Maven and Java there is no such peer, and that is said.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use workloads::flink::oracle::hash;

/// Jars that are here.
#[derive(Clone, Debug)]
pub(crate) struct Jars {
    /// The folder of this pom's jars, where a program may keep more.
    pub home: PathBuf,
}

impl Jars {
    /// Fetches what `pom` names into a folder of its own below `dir`, where a later measurement finds it. Takes minutes at the first time.
    ///
    /// # Errors
    /// When Maven is not there, or refuses; its words are part of the error.
    pub fn fetch(dir: &Path, name: &str, pom: &str) -> anyhow::Result<Self> {
        // By the pom's content: other pins are other jars.
        let home = dir.join(format!("{name}-{:016x}", hash(pom.as_bytes())));
        let complete = home.join("complete");
        std::fs::create_dir_all(&home).with_context(|| format!("cannot make `{}`", home.display()))?;
        if !complete.exists() {
            let path = home.join("pom.xml");
            std::fs::write(&path, pom).with_context(|| format!("cannot write `{}`", path.display()))?;
            let into = format!("-DoutputDirectory={}", home.join("libs").display());
            let fetch = ["-q", "-B", "dependency:copy-dependencies", &into, "-DincludeScope=runtime"];
            let what = format!("mvn, which fetches the jars of {name}");
            run(Command::new("mvn").args(fetch).current_dir(&home), &what)?;
            std::fs::write(&complete, "")
                .with_context(|| format!("cannot write `{}`", complete.display()))?;
        }
        Ok(Self { home })
    }

    /// What Java's `-cp` says: the folder itself, and all jars.
    pub fn class_path(&self) -> String {
        format!("{}:{}/*", self.home.display(), self.home.join("libs").display())
    }
}

/// Runs a command to its end.
///
/// # Errors
/// When it cannot be started, or fails; its words are part of the error.
pub(crate) fn run(command: &mut Command, what: &str) -> anyhow::Result<()> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {what}: install it, or leave `--against` out"))?;
    if !output.status.success() {
        let words = [output.stdout, output.stderr].concat();
        bail!("{what}, failed: {}", String::from_utf8_lossy(&words).trim());
    }
    Ok(())
}
