//! Flink SQL over the same backlog: the same windows and aggregates, into files; and what other workloads need to run Flink ([`Flink`]).
//!
//! Owns the job, its process, and the verdict over its files. Does not own the jars (`crate::maven`), the backlog (`crate::flink`), nor the
//! jobs of other workloads (`crate::nexmark`). Flink has no sink for ClickHouse among its own modules, and none can be fetched by Maven
//! alone, so it writes CSV by its own connector: it does less than Forebay, whose rows are in the table.
//!
//! It is one process with Flink's mini cluster, from the start of the Java machine to the end of the job: in a short run much of its time is the
//! compiling of its own code. Forty million messages and more show its steady rate.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use workloads::content::Content;
use workloads::flink::{Workload, oracle};

use super::Bench;
use crate::RUN_MAX;
use crate::child::{Child, End};
use crate::figure::{self, Figures};
use crate::maven::{self, Jars};
use crate::report::{Run, Verdict, of_content};
use crate::topic::Topic;
use crate::trace::Trace;

const POM: &str = include_str!("../../peers-flink/pom.xml");
const JOB: &str = include_str!("../../peers-flink/Windows.java");

/// The arm's name.
pub(crate) const ARM: &str = "Flink SQL 2.3.0, one process, into CSV files";

/// Memory for Java's heap.
const HEAP: &str = "-Xmx3g";

/// What Java must let Flink look into.
const OPENS: [&str; 3] = ["java.base/java.lang", "java.base/java.util", "java.base/java.time"];

/// A job that can be run.
pub(crate) struct Flink {
    /// What Java's `-cp` says.
    class_path: String,
    /// The job's class.
    class: &'static str,
}

impl Flink {
    /// Fetches the jars into `dir`, where a later measurement finds them, and compiles the job. Takes minutes at the first time.
    ///
    /// # Errors
    /// When Maven or Java is not there, or refuses; their words are part of the error.
    pub fn windows(dir: &Path) -> anyhow::Result<Self> {
        Self::build(dir, "Windows", JOB)
    }

    /// The same of any job: the text of a class without a package.
    ///
    /// # Errors
    /// As [`Self::windows`].
    pub fn build(dir: &Path, class: &'static str, text: &str) -> anyhow::Result<Self> {
        let jars = Jars::fetch(dir, "flink", POM)?;
        let file = format!("{class}.java");
        std::fs::write(jars.home.join(&file), text).with_context(|| format!("cannot write `{file}`"))?;
        let class_path = jars.class_path();
        let compile = ["-cp", &class_path, "-d", ".", &file];
        let javac = &mut Command::new("javac");
        maven::run(javac.args(compile).current_dir(&jars.home), "javac, which compiles Flink's job")?;
        Ok(Self { class_path, class })
    }

    /// Runs the job to its end, in a folder for its logs.
    ///
    /// # Errors
    /// When it fails; its words are part of the error.
    pub async fn run(&self, arguments: &[String], dir: &Path) -> anyhow::Result<End> {
        let mut command = Command::new("java");
        command.arg(HEAP).args(OPENS.map(|package| format!("--add-opens={package}=ALL-UNNAMED")));
        command.args(["-cp", &self.class_path, self.class]).args(arguments);
        let mut child = Child::start("flink", command, dir)?;
        let end = child.wait(RUN_MAX).await?;
        if !end.status.success() {
            let words = std::fs::read_to_string(dir.join("flink.err")).unwrap_or_default();
            let words: Vec<&str> = words.lines().filter(|line| !line.starts_with("\tat ")).take(20).collect();
            bail!("Flink failed ({}): {}", end.status, words.join("\n"));
        }
        Ok(end)
    }
}

impl Bench<'_> {
    /// One run of Flink over the backlog.
    pub(super) async fn flink(
        &self,
        flink: &Flink,
        number: u32,
        expected: Content,
        topic: &Topic,
    ) -> anyhow::Result<Run> {
        let workload = &self.plan.workload;
        let dir = self.place.folder(&format!("run-{number}-flink"))?;
        let results = dir.join("results");
        let touched = self.place.touch_memory()?;
        let spec = workload.spec();
        let arguments = [
            self.brokers()?.to_owned(),
            topic.name().to_owned(),
            format!("{}-flink-{number}", self.place.name),
            results.display().to_string(),
            spec.window_ms.to_string(),
            spec.disorder_ms.to_string(),
            crate::place::cores().to_string(),
        ];
        let end = flink.run(&arguments, &dir).await?;
        let found = content(workload, &results)?;
        let records = workload.records_total() as f64;
        let mut figures = Figures::default();
        figures.put(figure::RECORDS_PER_CPU_S, records / end.usage.cpu_s());
        figures.put(figure::RECORDS_PER_S, records / end.wall.as_secs_f64());
        figures.put(
            super::RECORDS_PER_S_AND_CORE,
            records / end.wall.as_secs_f64() / crate::place::cores() as f64,
        );
        end.put_into(&mut figures);
        figures.put_if(figure::FIRST_TOUCH_MS, touched);
        let verdict = Verdict::of(of_content(expected, found));
        Ok(Run { arm: ARM.to_owned(), figures, verdict, not_valid: None, trace: Trace::default() })
    }
}

/// What the files below a folder hold of the windows that close.
fn content(workload: &Workload, folder: &Path) -> anyhow::Result<Content> {
    let mut content = Content::default();
    let mut ids = std::collections::BTreeSet::new();
    for file in files(folder)? {
        let opened =
            std::fs::File::open(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
        for line in BufReader::new(opened).lines() {
            let line = line?;
            let (id, hash) = oracle::of_csv(&line).with_context(|| format!("`{line}` is no result"))?;
            // At the end of its input Flink also closes the window that was not complete.
            if id.1 < workload.end_time_ms() {
                content = content.plus(Content { rows: 1, ids: 0, checksum: hash });
                ids.insert(id);
            }
        }
    }
    Ok(Content { ids: ids.len() as u64, ..content })
}

/// The files that are complete.
pub(crate) fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("Flink wrote no `{}`", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if !name.starts_with(['.', '_']) && path.is_file() {
            files.push(path);
        }
    }
    ensure!(!files.is_empty(), "Flink completed no file in `{}`", folder.display());
    Ok(files)
}

#[cfg(test)]
mod tests {
    use workloads::flink::Spec;

    use super::*;

    #[test]
    fn complete_files_are_read_and_the_window_that_did_not_close_is_left_out() {
        let dir = std::env::temp_dir().join(format!("forebay-bench-flink-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a folder for temporary files");
        let workload = Workload::new(Spec { windows: 1, ..Spec::default() }).expect("valid");
        let (start, end) = (workload.spec().start_time_ms, workload.end_time_ms());
        let metrics = [",1.5"; 16].concat();
        std::fs::write(dir.join("part-1"), format!("7,{start},3{metrics}\n8,{end},1{metrics}\n"))
            .expect("written");
        std::fs::write(dir.join(".part-2.inprogress"), "no result").expect("written");
        let found = content(&workload, &dir);
        std::fs::remove_dir_all(&dir).expect("it was just made");
        let found = found.expect("results");
        assert_eq!((found.rows, found.ids), (1, 1));
    }
}
