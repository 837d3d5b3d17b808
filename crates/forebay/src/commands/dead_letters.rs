//! `forebay dead-letters`: lists records that could not be written, sends them through the pipeline again, deletes them.
//!
//! Owns the words of the command line and what is printed. Does not own what is read of letters ([`admin::dead_letters`]). Only `purge`
//! changes a table, and only the one of dead letters.
//!
//! | module      | what it owns                                                        |
//! |-------------|---------------------------------------------------------------------|
//! | [`filter`]  | which letters: options to a condition that cannot reach beyond them |
//! | [`list`]    | the table of letters, lines of JSON, counts by reason               |
//! | [`show`]    | one letter whole                                                    |
//! | [`replay`]  | putting records into the replay log, the wait, the results          |
//! | [`results`] | the words of the results                                            |
//! | [`purge`]   | the deletion                                                        |
//! | [`output`]  | columns for people                                                  |

mod filter;
mod list;
pub(crate) mod output;
mod purge;
mod replay;
mod results;
mod show;

use clap::{Args, Subcommand};

use crate::console::Exit;

/// Lists, shows, replays and deletes dead letters: records that could not be written.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay dead-letters list user-events.yaml --summary
  forebay dead-letters show user-events.yaml user_events/2/1234
  forebay dead-letters replay user-events.yaml --reason out_of_range --since 2h
  forebay dead-letters purge user-events.yaml --until 30d --yes

A dead letter is named by the position of its record: stream/partition/position. A replayed record that fails again is a \
dead letter of the stream `@replays`; its header `forebay_origin` holds the record's original position.")]
pub struct DeadLetters {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(list::List),
    Show(show::Show),
    Replay(replay::Replay),
    Purge(purge::Purge),
}

impl DeadLetters {
    /// Runs the command.
    ///
    /// # Errors
    /// When the table, the journal or the replay log cannot be read or written.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        match &self.action {
            Action::List(list) => list.execute(),
            Action::Show(show) => show.execute(),
            Action::Replay(replay) => replay.execute(),
            Action::Purge(purge) => purge.execute(),
        }
    }
}
