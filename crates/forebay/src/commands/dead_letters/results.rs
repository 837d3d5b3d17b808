//! What became of replayed letters, for users and programs.
//!
//! Owns how the results are shown. Does not own where they come from ([`admin::dead_letters::results`]).

use std::collections::BTreeMap;
use std::time::Duration;

use admin::dead_letters::choose::Choice;
use admin::dead_letters::results::{Failure, Outcome, Results};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use super::output;
use crate::console::{Exit, print, say};

/// Prints a line for each letter, and how many had each result.
///
/// # Errors
/// When standard output cannot be written.
pub fn print_all(results: &[Results], as_json: bool) -> anyhow::Result<()> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let mut rows = Vec::new();
    for result in results {
        let Results { head, position, is_already, outcome } = result;
        let letter_again = result.letter_again();
        let word = outcome.word();
        let nothing = Failure::default();
        let failure = if let Outcome::DeadLetter(failure) = outcome { failure } else { &nothing };
        let shown = if *is_already { format!("already replayed: {word}") } else { word.to_owned() };
        *sums.entry(shown.clone()).or_default() += 1;
        if as_json {
            let line = json!({
                "id": head.letter.to_string(), "source": head.letter.source, "partition": head.letter.partition,
                "position": head.letter.position, "result": word, "already": is_already,
                "replay_position": position, "letter": letter_again, "reason": failure.reason, "column": failure.column,
                "message": failure.message
            });
            print(&format!("{line}\n"))?;
        } else {
            let again = letter_again.unwrap_or_default();
            let why = [&again, &failure.reason, &failure.message].map(String::as_str);
            let why = why.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ");
            rows.push(vec![head.letter.to_string(), head.reason.clone(), shown, why]);
        }
    }
    if !as_json && !rows.is_empty() {
        print(&output::columns(&["LETTER", "WAS", "RESULT", "WHY"], &rows))?;
    }
    let sums: Vec<String> = sums.iter().map(|(word, count)| format!("{count} {word}")).collect();
    if !sums.is_empty() {
        say(&sums.join(", "));
    }
    Ok(())
}

/// Prints what would be replayed.
///
/// # Errors
/// When standard output cannot be written.
pub fn print_choice(choice: &Choice, as_json: bool) -> anyhow::Result<Exit> {
    let all = [
        (&choice.fresh, "would be replayed"),
        (&choice.already, "already replayed"),
        (&choice.anew, "is read again"),
    ];
    let all = all.into_iter().flat_map(|(heads, what)| heads.iter().map(move |head| (head, what)));
    let mut rows = Vec::new();
    for (head, what) in all {
        if as_json {
            let line = json!({
                "id": head.letter.to_string(), "reason": head.reason, "already": what == "already replayed",
                "read_again": what == "is read again"
            });
            print(&format!("{line}\n"))?;
        } else {
            rows.push(vec![
                head.letter.to_string(),
                head.reason.clone(),
                head.column.clone(),
                what.to_owned(),
            ]);
        }
    }
    if as_json {
        return Ok(Exit::Done);
    }
    print(&output::columns(&["LETTER", "REASON", "COLUMN", "WHAT"], &rows))
}

/// A bar on a terminal, and nothing elsewhere.
pub fn bar(records: u64) -> ProgressBar {
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let target = if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} records read {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(Some(records), target).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
