//! Which dead letters: options to a condition on the dead-letter table.
//!
//! Owns the condition, and that it names letters of this pipeline only, whatever `--where` says. Does not own the questions.

use std::str::FromStr;

use admin::dead_letters::Table;
use admin::dead_letters::letters::time;
use clap::{Args, ValueEnum};
use clickhouse::types::{identifier, quote};
use pipeline::config::values::Period;
use pipeline::replays::object::Letter;

use crate::console::Mistake;

/// Which dead letters.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Filters")]
pub struct Filter {
    /// Only letters with these reasons, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub reason: Vec<Reason>,

    /// Only letters about these columns, separated by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub column: Vec<String>,

    /// Only records of this topic, file or other stream; `@replays` for records that failed in a replay.
    #[arg(long, visible_alias = "topic", value_name = "STREAM")]
    pub source: Option<String>,

    /// Only records of this input of the pipeline file, including those that failed in a replay.
    #[arg(long, value_name = "NAME")]
    pub input: Option<String>,

    /// Only letters of rows that this table of the pipeline file did not take.
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,

    /// Only records of this partition of the stream.
    #[arg(long, value_name = "N")]
    pub partition: Option<u32>,

    /// Only records at these positions: `17`, `17..` or `17..20`, which is 17, 18 and 19.
    #[arg(long, value_name = "FROM..TO")]
    pub position: Option<Positions>,

    /// Only letters written since this time: `2026-01-31T08:00:00Z`, or `2h` for two hours ago.
    #[arg(long, value_name = "TIME")]
    pub since: Option<Moment>,

    /// Only letters written before this time.
    #[arg(long, value_name = "TIME")]
    pub until: Option<Moment>,

    /// Only letters for which this SQL expression on the columns of the dead-letter table is true.
    #[arg(long = "where", value_name = "SQL")]
    pub condition: Option<Condition>,
}

/// The word that says why a record could not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Reason {
    Malformed,
    NoBody,
    TooLarge,
    Missing,
    WrongKind,
    OutOfRange,
    Schema,
    Late,
    Expression,
    Refused,
}

impl Reason {
    fn as_str(self) -> &'static str {
        use dataflow::Reason as R;
        match self {
            Self::Malformed => R::Malformed,
            Self::NoBody => R::NoBody,
            Self::TooLarge => R::TooLarge,
            Self::Missing => R::Missing,
            Self::WrongKind => R::WrongKind,
            Self::OutOfRange => R::OutOfRange,
            Self::Schema => R::Schema,
            Self::Late => R::Late,
            Self::Expression => R::Expression,
            Self::Refused => R::Refused,
        }
        .as_str()
    }
}

/// Positions from the first to the one before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Positions {
    from: u64,
    end: Option<u64>,
}

impl FromStr for Positions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let how = || "write `17`, `17..` or `17..20`".to_owned();
        let number = |text: &str| text.parse::<u64>().map_err(|_| how());
        let Some((from, end)) = text.split_once("..") else {
            let from = number(text)?;
            return Ok(Self { from, end: Some(from.saturating_add(1)) });
        };
        let from = if from.is_empty() { 0 } else { number(from)? };
        let end = if end.is_empty() { None } else { Some(number(end)?) };
        if end.is_some_and(|end| end <= from) {
            return Err(format!(
                "the range is empty: its end `{}` is exclusive; {}",
                end.unwrap_or(0),
                how()
            ));
        }
        Ok(Self { from, end })
    }
}

/// A moment as a person gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Unix milliseconds.
    At(i64),
    /// So long before now.
    Ago(Period),
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(time) = text.parse::<jiff::Timestamp>() {
            return Ok(Self::At(time.as_millisecond()));
        }
        let ago = text.parse::<Period>().map(Self::Ago);
        ago.map_err(|_| "is neither a time like `2026-01-31T08:00:00Z` nor a length of time like `2h`".into())
    }
}

impl Moment {
    fn ms(self, now_ms: i64) -> i64 {
        match self {
            Self::At(ms) => ms,
            Self::Ago(period) => now_ms.saturating_sub(i64::try_from(period.ms).unwrap_or(i64::MAX)),
        }
    }
}

/// An expression that stays within the parentheses that it is put into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition(String);

impl FromStr for Condition {
    type Err = String;

    /// Takes whatever the server may parse as one expression, and nothing that could end the condition around it: the
    /// parentheses must match, texts and names must be closed, and there is no comment and no second statement.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut open = Vec::new();
        let mut rest = text.char_indices().peekable();
        while let Some((at, c)) = rest.next() {
            let next = rest.peek().map(|(_, c)| *c);
            match c {
                '(' | '[' | '{' => open.push(c),
                ')' | ']' | '}' => {
                    let fits =
                        matches!((open.pop(), c), (Some('('), ')') | (Some('['), ']') | (Some('{'), '}'));
                    if !fits {
                        return Err(format!("`{c}` at character {} closes nothing that is open", at + 1));
                    }
                }
                '\'' | '"' | '`' => close(&mut rest, c)
                    .ok_or_else(|| format!("the `{c}` at character {} is not closed", at + 1))?,
                ';' => return Err("`;` would end the statement; give one expression".into()),
                '#' | '$' => return Err(format!("`{c}` is not taken outside of quotes")),
                '-' if next == Some('-') => return Err("comments (`--`) are not taken".into()),
                '/' if next == Some('*') => return Err("comments (`/*`) are not taken".into()),
                // To the server too: parentheses behind it would be counted here and not there.
                '/' if next == Some('/') => return Err("comments (`//`) are not taken".into()),
                '\0' => return Err("holds a byte 0".into()),
                // Lookalikes of quotes are quotes to some servers.
                '\u{2018}' | '\u{2019}' | '\u{201c}' | '\u{201d}' | '\u{2212}' | '\u{2014}' => {
                    return Err(format!("`{c}` is not allowed outside of quotes; write the plain character"));
                }
                _ => {}
            }
        }
        if let Some(open) = open.last() {
            return Err(format!("a `{open}` is not closed"));
        }
        if text.trim().is_empty() {
            return Err("is empty; write an expression such as `message LIKE '%255%'`".into());
        }
        Ok(Self(text.to_owned()))
    }
}

/// Goes behind the closing quote; `None` if there is none. A backslash and a doubled quote stand for the quote itself.
fn close(rest: &mut std::iter::Peekable<std::str::CharIndices<'_>>, quote: char) -> Option<()> {
    while let Some((_, c)) = rest.next() {
        if c == '\\' {
            rest.next()?;
        } else if c == quote {
            if rest.peek().is_none_or(|(_, next)| *next != quote) {
                return Some(());
            }
            rest.next();
        }
    }
    None
}

impl Filter {
    /// True if nothing is asked for but that the letter is this pipeline's.
    pub fn is_empty(&self) -> bool {
        let Self { reason, column, source, input, table, partition, position, since, until, condition } =
            self;
        reason.is_empty()
            && column.is_empty()
            && source.is_none()
            && input.is_none()
            && table.is_none()
            && partition.is_none()
            && position.is_none()
            && since.is_none()
            && until.is_none()
            && condition.is_none()
    }

    /// The condition for letters of this table.
    ///
    /// # Errors
    /// When the pipeline has never read the input that is named.
    pub fn on(&self, table: &Table, now_ms: i64) -> anyhow::Result<String> {
        let mut all = self.sql(&table.of, now_ms);
        if let Some(input) = &self.input {
            all += &format!(" AND {}", table.of_input(input).map_err(Mistake::of)?);
        }
        if let Some(name) = &self.table {
            all += &format!(" AND {}", table.of_table(name));
        }
        Ok(all)
    }

    /// The condition for letters, behind `of`, the one that names those of the pipeline.
    fn sql(&self, of: &str, now_ms: i64) -> String {
        let mut all = vec![of.to_owned()];
        let any = |name: &str, words: Vec<String>| format!("{} IN ({})", identifier(name), words.join(", "));
        if !self.reason.is_empty() {
            all.push(any("reason", self.reason.iter().map(|reason| quote(reason.as_str())).collect()));
        }
        if !self.column.is_empty() {
            all.push(any("column", self.column.iter().map(|column| quote(column)).collect()));
        }
        all.extend(self.source.iter().map(|source| format!("source = {}", quote(source))));
        all.extend(self.partition.iter().map(|partition| format!("partition = {partition}")));
        if let Some(Positions { from, end }) = self.position {
            all.push(format!("position >= {from}"));
            all.extend(end.map(|end| format!("position < {end}")));
        }
        all.extend(self.since.map(|since| format!("time >= {}", time(since.ms(now_ms)))));
        all.extend(self.until.map(|until| format!("time < {}", time(until.ms(now_ms)))));
        // It stands on lines of its own, so that an error of the server points to it.
        all.extend(self.condition.iter().map(|condition| format!("(\n{}\n)", condition.0)));
        all.join(" AND ")
    }
}

/// Reads `stream/partition/position`, where the position may have an era (`3:17`), and behind it `~` with which of the streams of that name is meant, and `#`
/// with the print of a row that a step made. Or `#print/number`, of a letter without a place.
///
/// # Errors
/// When the text is no such place.
pub fn place(text: &str) -> Result<Letter, String> {
    let how = "write `stream/partition/position`, as `list` shows it";
    if let Some((print, position)) = text.strip_prefix('#').and_then(|text| text.split_once('/'))
        && let (Some(print), Ok(position)) = (hexadecimal(print), position.parse())
    {
        return Ok(Letter { print, ..Letter::at("", 0, position) });
    }
    let (text, print) = match text.rsplit_once('#') {
        // Behind a `#` of the stream's own name are the partition and the position.
        Some((place, print)) if !print.contains('/') => (place, hexadecimal(print)),
        _ => (text, Some(0)),
    };
    let mut parts = text.rsplitn(3, '/');
    let (position, partition, source) = (parts.next(), parts.next(), parts.next());
    let position = position.and_then(place_in_partition);
    let partition = partition.and_then(|text| text.parse().ok());
    match (source, partition, position, print) {
        (Some(source), Some(partition), Some((era, position, nth)), Some(print)) if !source.is_empty() => {
            Ok(Letter { era, nth, print, ..Letter::at(source, partition, position) })
        }
        _ => Err(how.to_owned()),
    }
}

/// A letter's print as it is shown, in 16 digits.
fn hexadecimal(text: &str) -> Option<u64> {
    let is_whole = text.len() == 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(text, 16).ok().filter(|_| is_whole)
}

/// The era, the position in it, and which of the streams of the name is meant.
fn place_in_partition(text: &str) -> Option<(u64, u64, u32)> {
    let (place, nth) =
        text.rsplit_once('~').map_or((text, Some(0)), |(place, nth)| (place, nth.parse().ok()));
    let (era, position) = place.split_once(':').unwrap_or(("0", place));
    Some((era.parse().ok()?, position.parse().ok()?, nth?))
}

#[cfg(test)]
mod tests;
