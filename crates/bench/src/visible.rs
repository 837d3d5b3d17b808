//! When rows became visible: from counts of the table over time to a moment for each insert.
//!
//! Owns the reckoning. Does not own the counting, nor which rows came with which insert (`load`).
//!
//! The rows of an insert appear all at once, so that each count is the sum of whole inserts. Inserts leave in the order in which
//! they were sealed, a few at a time, and may overtake each other. So what a count adds to the one before it is looked for among
//! the earliest inserts that were not seen yet: the smallest choice of them, earliest first, whose rows give the sum. Where it is known when the server
//! began with an insert, a count that was answered before holds none of its rows: of two inserts of one size that overtake each other the sums say nothing.

use std::time::Duration;

use anyhow::{Context, bail};

/// Inserts among which one count is looked for: more than are on their way at a time, and than appear between two counts.
const AHEAD_MAX: usize = 14;

/// An insert whose rows are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Insert {
    /// Rows.
    pub rows: u64,
    /// It cannot have been visible before; zero where that is not known.
    pub not_before: Duration,
}

/// A count of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    /// When it was answered: the rows were visible then at the latest.
    pub answered: Duration,
    /// Rows.
    pub rows: u64,
}

/// When each of `inserts`, in the order of their sealing, was seen to be visible.
///
/// # Errors
/// When a count is no sum of whole inserts, or not all inserts were seen.
pub(crate) fn moments(inserts: &[Insert], counts: &[Count]) -> anyhow::Result<Vec<Duration>> {
    let mut moments: Vec<Option<Duration>> = vec![None; inserts.len()];
    // Places of the inserts that were not seen yet; the earliest first.
    let mut unseen: Vec<usize> = (0..inserts.len()).collect();
    let mut rows_seen = 0;
    for count in counts {
        let Some(added) = count.rows.checked_sub(rows_seen) else {
            bail!("the table had `{rows_seen}` rows and then `{}`", count.rows);
        };
        if added == 0 {
            continue;
        }
        let can_be_seen = |place: &usize| inserts[*place].not_before <= count.answered;
        let candidates: Vec<usize> = unseen.iter().copied().filter(can_be_seen).collect();
        for place in appeared(inserts, &candidates, added)? {
            moments[place] = Some(count.answered);
            unseen.retain(|other| *other != place);
        }
        rows_seen = count.rows;
    }
    let all: Option<Vec<Duration>> = moments.into_iter().collect();
    all.with_context(|| format!("`{}` inserts were never seen", unseen.len()))
}

/// Which of the `unseen` inserts make `added` rows.
fn appeared(inserts: &[Insert], unseen: &[usize], added: u64) -> anyhow::Result<Vec<usize>> {
    // In order, as a rule, however many they are.
    let mut sum = 0;
    for (number, place) in unseen.iter().enumerate() {
        sum += inserts[*place].rows;
        if sum == added {
            return Ok(unseen[..=number].to_vec());
        }
        if sum > added {
            break;
        }
    }
    let ahead = &unseen[..unseen.len().min(AHEAD_MAX)];
    let rows_of = |choice: u32| -> u64 {
        let chosen = ahead.iter().enumerate().filter(|(n, _)| choice >> n & 1 == 1);
        chosen.map(|(_, place)| inserts[*place].rows).sum()
    };
    let choices = (1..1_u32 << ahead.len()).filter(|choice| rows_of(*choice) == added);
    let Some(choice) = choices.min_by_key(|choice| (choice.count_ones(), *choice)) else {
        bail!("`{added}` rows appeared at once, which no choice of whole inserts gives");
    };
    Ok(ahead.iter().enumerate().filter(|(n, _)| choice >> n & 1 == 1).map(|(_, place)| *place).collect())
}

#[cfg(test)]
mod tests;
