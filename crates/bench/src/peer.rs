//! Programs of others, measured in the same run: built here from sources that travel with this program.
//!
//! Owns the sources, and the build by the Go on this machine. Does not own what a peer does, nor its runs (`crate::clients`,
//! `glassflow::peer`); Flink is built by `flink::peer`. Versions are pinned by `go.mod` and `go.sum`; modules come by Go's own client.
//! Without Go a peer cannot be built, and the error says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// Every file of the Go module, so that a program without its repository can build it.
const SOURCES: [(&str, &str); 9] = [
    ("go.mod", include_str!("../peers/go.mod")),
    ("go.sum", include_str!("../peers/go.sum")),
    ("internal/rows/rows.go", include_str!("../peers/internal/rows/rows.go")),
    ("internal/run/run.go", include_str!("../peers/internal/run/run.go")),
    ("internal/native/native.go", include_str!("../peers/internal/native/native.go")),
    ("chgo/main.go", include_str!("../peers/chgo/main.go")),
    ("clickhousego/main.go", include_str!("../peers/clickhousego/main.go")),
    ("clickhousego/answers.go", include_str!("../peers/clickhousego/answers.go")),
    ("consumer/main.go", include_str!("../peers/consumer/main.go")),
];

/// A program of others that is measured beside ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::enum_variant_names, reason = "the names are their own")]
pub enum Peer {
    /// `glassflow`: a hand-written Go consumer: franz-go, sonic, ch-go's columns; at least once, no deduplication.
    FranzGo,
    /// `clients`: ch-go's columns and block encoder, carried by Go's HTTP client.
    ChGo,
    /// `clients`: clickhouse-go's column API over its HTTP protocol.
    ClickhouseGo,
}

impl Peer {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FranzGo => "franz-go",
            Self::ChGo => "ch-go",
            Self::ClickhouseGo => "clickhouse-go",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::FranzGo => "consumer",
            Self::ChGo => "chgo",
            Self::ClickhouseGo => "clickhousego",
        }
    }

    /// Builds it below `dir`, where several may be built, and gives the program's path. Takes a minute or two at the first time.
    ///
    /// # Errors
    /// When Go is not there, or refuses; its words are part of the error.
    pub fn build(self, dir: &Path) -> anyhow::Result<PathBuf> {
        let home = dir.join("peers");
        for (name, text) in SOURCES {
            let path = home.join(name);
            let parent = path.parent().context("a file of the module has a folder")?;
            std::fs::create_dir_all(parent).with_context(|| format!("cannot make `{}`", parent.display()))?;
            std::fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
        }
        let program = home.join("bin").join(self.package());
        let built = Command::new("go")
            .args(["build", "-mod=readonly", "-o"])
            .arg(&program)
            .arg(format!("./{}", self.package()))
            .current_dir(&home)
            .output()
            .with_context(|| {
                format!(
                    "cannot run `go`, which builds `{}`: install Go, or leave `--against` out",
                    self.name()
                )
            })?;
        if !built.status.success() {
            bail!(
                "`go build` of `{}` failed: {}",
                self.name(),
                String::from_utf8_lossy(&built.stderr).trim()
            );
        }
        Ok(program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_module_travels_with_the_program() {
        let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        let mut folders = vec![home.clone()];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("the folder is there") {
                let path = entry.expect("an entry").path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => found.push(path.strip_prefix(&home).expect("below").display().to_string()),
                }
            }
        }
        found.sort();
        let mut known: Vec<String> = SOURCES.iter().map(|(name, _)| (*name).to_owned()).collect();
        known.sort();
        assert_eq!(found, known);
    }
}
