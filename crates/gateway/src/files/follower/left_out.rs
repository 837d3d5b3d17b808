//! Files that the patterns mean and that are not followed: how many, and the warnings about them.
//!
//! Owns the counts of one look, and that each problem is logged once and not once a file where there may be thousands. Does not own what is left out: `files::find` and `files::follower`
//! decide that.
//!
//! | left out              | is logged                                                       |
//! |-----------------------|-----------------------------------------------------------------|
//! | no room, not UTF-8    | all of them at once, again when there are twice as many         |
//! | compressed, unreadable | each by its name, [`COMPLAINTS_MAX`] of a kind                  |

use std::collections::BTreeSet;

/// Complaints of a kind that are remembered, so that each is made once.
const COMPLAINTS_MAX: usize = 1_000;

/// Why a file is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::files) enum Why {
    /// The note names as many files as it can.
    NoRoom,
    /// Its name is no text.
    NotUtf8,
    Compressed,
    /// It cannot be inspected or opened, or its folder cannot be listed.
    Unreadable,
}

impl Why {
    pub const ALL: [Self; 4] = [Self::NoRoom, Self::NotUtf8, Self::Compressed, Self::Unreadable];

    /// As metrics name it.
    pub fn word(self) -> &'static str {
        match self {
            Self::NoRoom => "no_room",
            Self::NotUtf8 => "not_utf8",
            Self::Compressed => "compressed",
            Self::Unreadable => "unreadable",
        }
    }
}

/// What was found of one kind.
#[derive(Debug, Default)]
struct Kind {
    /// Files at the look that is under way, or was the last.
    count: usize,
    /// Files of which the last warning spoke; 0 if there have been none since.
    warned: usize,
    complaints: BTreeSet<String>,
}

/// What is left out.
#[derive(Debug, Default)]
pub(super) struct LeftOut([Kind; Why::ALL.len()]);

impl LeftOut {
    /// A look begins.
    pub fn begin(&mut self) {
        self.0.iter_mut().for_each(|kind| kind.count = 0);
    }

    /// One more was found.
    pub fn add(&mut self, why: Why) {
        self.0[why as usize].count += 1;
    }

    /// Files that the last look left out for this reason.
    pub fn count(&self, why: Why) -> usize {
        self.0[why as usize].count
    }

    /// How many there are, at the end of a look, if that should be logged: some where there were none, or twice as many as were logged.
    pub fn should_warn(&mut self, why: Why) -> Option<usize> {
        let Kind { count, warned, .. } = &mut self.0[why as usize];
        if *count == 0 {
            *warned = 0;
            return None;
        }
        let is_news = *warned == 0 || *count >= 2 * *warned;
        is_news.then(|| {
            *warned = *count;
            *count
        })
    }

    /// What should be logged of a problem: nothing if it was logged before; a word about those that follow instead, once as many were logged as are remembered.
    pub fn complaint(&mut self, why: Why, problem: String) -> Option<String> {
        let complaints = &mut self.0[why as usize].complaints;
        if complaints.len() > COMPLAINTS_MAX || complaints.contains(&problem) {
            return None;
        }
        let last = format!(
            "more than {COMPLAINTS_MAX} such problems were logged, and further ones are not; the metric `forebay_gateway_files_left_out` counts the files"
        );
        let logged = if complaints.len() == COMPLAINTS_MAX { last } else { problem.clone() };
        complaints.insert(problem);
        Some(logged)
    }
}

#[cfg(test)]
mod tests;
