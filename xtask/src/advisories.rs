//! Compares `Cargo.lock` with the committed list of advisories.
//!
//! Owns the two formats and what "affected" means. Does not own the list (`scripts/advisories.txt`), nor where it comes from.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};

/// A list older than this is worth a warning: most advisories are acted upon within a season.
const AGE_DAYS_MAX: i64 = 120;

/// Three numbers; what follows a hyphen or a plus is left out, since no list names it.
type Version = [u64; 3];

/// A committed list.
#[derive(Debug)]
pub struct List {
    /// The day up to which the database was looked through, in days since 1970.
    as_of_days: i64,
    entries: Vec<Advisory>,
}

#[derive(Debug)]
struct Advisory {
    id: String,
    package: String,
    /// Alternatives; each is a conjunction of bounds.
    good: Vec<Vec<Bound>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    AtLeast(Version),
    Below(Version),
}

/// Prints what is affected and how old the list is.
///
/// # Errors
/// When a crate is affected, or a file cannot be read.
pub fn run() -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path: &str| {
        std::fs::read_to_string(root.join(path)).with_context(|| format!("cannot read `{path}`"))
    };
    let list = List::parse(&read("scripts/advisories.txt")?)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 86_400);
    if let Some(warning) = list.warning(i64::try_from(now)?) {
        eprintln!("warning: {warning}");
    }
    let affected = list.affected(&read("Cargo.lock")?);
    if !affected.is_empty() {
        bail!("Cargo.lock holds crates with known advisories; update them:\n{}", affected.join("\n"));
    }
    println!("advisories: none of {} concerns Cargo.lock", list.entries.len());
    Ok(())
}

impl List {
    fn parse(text: &str) -> anyhow::Result<List> {
        let mut list = List { as_of_days: 0, entries: Vec::new() };
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let wrong = || format!("`{line}` is no line of a list of advisories");
            let (first, rest) = line.split_once(' ').with_context(wrong)?;
            if first == "as-of" {
                list.as_of_days = days(rest).with_context(wrong)?;
                continue;
            }
            let (package, good) = rest.split_once(' ').with_context(wrong)?;
            let good = good.split(';').map(|all| all.split(',').map(bound).collect::<Option<Vec<_>>>());
            list.entries.push(Advisory {
                id: first.to_owned(),
                package: package.to_owned(),
                good: good.collect::<Option<_>>().with_context(wrong)?,
            });
        }
        if list.as_of_days == 0 {
            bail!("the list does not say how old it is: a line `as-of 2026-01-31` is missing");
        }
        Ok(list)
    }

    /// Words about a list that has grown old.
    fn warning(&self, now_days: i64) -> Option<String> {
        let age = now_days - self.as_of_days;
        (age > AGE_DAYS_MAX).then(|| {
            format!(
                "scripts/advisories.txt is {age} days old; look through the database again and move `as-of`"
            )
        })
    }

    /// A line for each crate of a lock file that an advisory concerns.
    fn affected(&self, lock: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, text) in packages(lock) {
            let Some(found) = version(text) else { continue };
            for advisory in self.entries.iter().filter(|advisory| advisory.package == name) {
                if !advisory.good.iter().any(|all| all.iter().all(|bound| bound.holds(found))) {
                    lines.push(format!("{}: {name} {text}", advisory.id));
                }
            }
        }
        lines
    }
}

impl Bound {
    fn holds(self, version: Version) -> bool {
        match self {
            Bound::AtLeast(least) => version >= least,
            Bound::Below(most) => version < most,
        }
    }
}

/// Name and version of each package.
fn packages(lock: &str) -> impl Iterator<Item = (&str, &str)> {
    let versions = lock.lines().skip(1).chain([""]);
    lock.lines()
        .zip(versions)
        .filter_map(|(name, version)| Some((value(name, "name")?, value(version, "version")?)))
}

/// The text of a line `key = "text"`.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"')
}

fn bound(text: &str) -> Option<Bound> {
    let text = text.trim();
    match (text.strip_prefix(">="), text.strip_prefix('<')) {
        (Some(least), _) => version(least).map(Bound::AtLeast),
        (None, Some(most)) => version(most).map(Bound::Below),
        (None, None) => None,
    }
}

fn version(text: &str) -> Option<Version> {
    let numbers = text.trim().split(['-', '+']).next()?;
    let mut numbers = numbers.split('.').map(|number| number.parse().ok());
    let version = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(version)
}

/// Days since 1970 of `2026-01-31`, by the usual count of days in a Gregorian calendar whose years begin in March.
fn days(date: &str) -> Option<i64> {
    let mut parts = date.trim().split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

#[cfg(test)]
mod tests;
