//! What all commands share with the terminal: how they end, what they print with, the file that they name.
//!
//! Owns exit codes and the ways to standard output and standard error. Does not own the commands, which use it, nor the log ([`crate::logging`]).
//!
//! | code | meaning                                                                                          |
//! |------|--------------------------------------------------------------------------------------------------|
//! | 0    | success                                                                                          |
//! | 1    | failure; the message says why, and starting again may help                                       |
//! | 2    | error in the command line or the pipeline file; nothing was started                              |
//! | 3    | another process has taken over the pipeline                                                      |
//! | 4    | the operator must decide something; starting again does not help                                 |
//! | 5    | all was done, but more records became dead letters than `dead_letters.fail_above` allows         |
//! | 130  | stopped at once by a second signal; nothing that was sealed is lost                              |

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use dataflow::printing;

/// How a command ended, when it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Failed.
    Failed = 1,
    /// A fault of the command line or the pipeline file.
    Fault = 2,
    /// Another process has taken the pipeline over.
    Fenced = 3,
    /// The operator must decide.
    Person = 4,
    /// More records became dead letters than the pipeline file allows.
    DeadLetters = 5,
    /// Stopped at once by a second signal.
    Stopped = 130,
}

/// A mistake in the command line or the pipeline file: a command that fails with it ends with [`Exit::Fault`].
#[derive(Debug)]
pub struct Mistake(String);

impl Mistake {
    /// The same error as a mistake.
    pub fn of(error: impl Into<anyhow::Error>) -> anyhow::Error {
        anyhow::Error::new(Self(format!("{:#}", error.into())))
    }
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mistake {}

/// A pipeline file on the command line.
#[derive(Clone, Debug, Args)]
pub struct PipelineFile {
    /// The pipeline file; `-` for standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// Tells the user something beside the output: a line on standard error. Where that cannot be written (a full disk), the work goes on
/// without it.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", printing::escaped_lines(text));
}

/// As [`say`], for lines of which every part was escaped.
pub fn tell(lines: &str) {
    let _ = std::io::stderr().write_all(lines.as_bytes());
}

/// Says on standard error why a command did not do what it was asked to, whatever is logged.
pub fn refuse(why: impl std::fmt::Display) {
    say(&format!("forebay: {why}"));
}

/// Writes to standard output. A reader that has seen enough (`forebay schema | head`) is no failure.
///
/// # Errors
/// When standard output cannot be written for another reason.
pub fn print(text: &str) -> anyhow::Result<Exit> {
    let mut out = std::io::stdout().lock();
    // Texts of records and servers may be anywhere in it. A pipe gets them as they are.
    let text = if out.is_terminal() { printing::escaped_lines(text) } else { Cow::Borrowed(text) };
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("cannot write to standard output"))
        }
        _ => Ok(Exit::Done),
    }
}
