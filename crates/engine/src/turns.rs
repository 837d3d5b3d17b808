//! A table that is seen otherwise in turns: behind a balancer whose servers differ.
//!
//! Owns the counts, the bounds and the words. Views are made on each server, and an ALTER reaches one replica after the other. Whichever server was seen last would
//! have the lane opened again, without end; and once it was opened for the server that has more, nobody would be told that the others have less. Does not own
//! what a lane is opened again for ([`crate::layouts`]), nor how it is told ([`crate::reopened`]). Pure.
//!
//! | within `PERIOD`                                      | what happens                                                            |
//! |------------------------------------------------------|-------------------------------------------------------------------------|
//! | opened again less than `OPENINGS_MAX` times          | the next time at once                                                   |
//! | so often, or more                                    | a warning, once; told in `/status` as long as it is so; the next time for views after `PAUSE`, for partitions and the order of inserts after `PAUSE_OF_INSERTS` |
//! | polls saw `FLIPS_MAX` times that views came or went  | a warning, once; told in `/status` as long as it is so                  |

use std::time::Duration;

/// Openings within `PERIOD` from which on somebody should look: who adds a few views one by one is below that, or soon done.
const OPENINGS_MAX: usize = 3;

/// Times within `PERIOD` that a table feeds views where it fed none, or none where it fed some: nobody makes and drops a view twice.
const FLIPS_MAX: usize = 4;

/// Longer than any ALTER takes to reach all replicas that work.
pub const PERIOD: Duration = Duration::from_secs(600);

/// From then on the lane is opened again for views once in so long: each time some seconds are lost.
const PAUSE: Duration = Duration::from_secs(60);

/// The same for what concerns the inserts themselves, such as the key of partitions: rows that were cut otherwise are refused.
const PAUSE_OF_INSERTS: Duration = Duration::from_secs(2);

/// What it means and what to do.
pub const WORDS: &str = "the table is seen with other views, partitions or columns in turns. Unless somebody is changing it, the servers behind `url` differ: rows that are \
     inserted through one server reach no view that only another one has. Compare the table and its views on each server (`SHOW CREATE TABLE`), and make them the same \
     on all: `CREATE MATERIALIZED VIEW … ON CLUSTER … TO` a replicated table, for views that were created on each server by a statement of their own have hidden \
     tables of their own; or point `url` at one server. Rows are written meanwhile; the lane is opened again for views that it does not know once a minute at the most";

/// What polls saw of one table in this run, and how often the lane was opened again for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// How often it was opened again.
    pub times: u64,
    /// Whether servers seem to differ, which is told.
    pub is_told: bool,
    /// When it was opened again lately, the newest last; `OPENINGS_MAX` at the most.
    openings: Vec<Duration>,
    /// Whether the newest poll saw views.
    feeds_views: Option<bool>,
    /// When polls saw lately that they came or went, the newest last; `FLIPS_MAX` at the most.
    flips: Vec<Duration>,
}

impl Turns {
    /// It is opened again.
    pub fn opened(&mut self, now: Duration) {
        self.times += 1;
        remember(&mut self.openings, now, OPENINGS_MAX);
    }

    /// A poll saw whether the table feeds views.
    pub fn saw(&mut self, feeds_views: bool, now: Duration) {
        let before = self.feeds_views.replace(feeds_views);
        if before.is_some_and(|before| before != feeds_views) {
            remember(&mut self.flips, now, FLIPS_MAX);
        }
    }

    /// Whether it may be opened again now, for what concerns the `inserts` themselves or for views.
    pub fn may_open(&self, inserts: bool, now: Duration) -> bool {
        let pause = if inserts { PAUSE_OF_INSERTS } else { PAUSE };
        let last = self.openings.last();
        !is_often(&self.openings, OPENINGS_MAX, now)
            || last.is_none_or(|last| now.saturating_sub(*last) >= pause)
    }

    /// Whether what was seen is too often otherwise to be by chance.
    pub fn differs(&self, now: Duration) -> bool {
        is_often(&self.openings, OPENINGS_MAX, now) || is_often(&self.flips, FLIPS_MAX, now)
    }

    /// Whether it begins, or ends, to be told.
    pub fn tell(&mut self, now: Duration) -> Option<bool> {
        let differs = self.differs(now);
        (std::mem::replace(&mut self.is_told, differs) != differs).then_some(differs)
    }
}

fn remember(times: &mut Vec<Duration>, now: Duration, max: usize) {
    if times.len() == max {
        times.remove(0);
    }
    times.push(now);
}

fn is_often(times: &[Duration], max: usize, now: Duration) -> bool {
    times.len() == max && times.first().is_some_and(|first| now.saturating_sub(*first) < PERIOD)
}

#[cfg(test)]
mod tests;
