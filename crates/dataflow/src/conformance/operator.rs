//! The rules of [`Operator`] and [`State`] as tests that any step runs.
//!
//! Owns what holds for a step whatever it computes: accounts, seals, restarts, damage, and that results depend on rows and watermarks alone. Does not own what
//! a step makes of its rows, which its own tests compare with a model. A step's test calls [`run`] with a [`Fixture`].
//!
//! | rule                                                          | function                                        |
//! |---------------------------------------------------------------|--------------------------------------------------|
//! | rows in = out + absorbed + duplicates + late + rejects; absorbed = released + held | every play ([`play`]) |
//! | without a batch nothing is let out that was not due            | every play                                       |
//! | how a batch is handed over and cut changes nothing             | [`a_batch_may_be_handed_over_in_any_way`], [`batches_may_be_cut_anywhere`], [`a_seal_more_changes_nothing`] |
//! | where order has no meaning, it changes nothing                 | [`batches_may_come_in_any_order`]                |
//! | snapshot and deltas are the live state                         | [`a_start_goes_on_from_any_seal`]                |
//! | a new step's state is that of none                             | [`an_empty_state_is_a_state`]                    |
//! | damaged bytes are errors                                       | [`damaged_state_is_an_error`]                    |
//! | another step's state is refused                                | [`state_of_other_settings_is_refused`]           |
//! | time goes on only                                              | [`time_does_not_go_back`]                        |
//! | the end lets out what is held                                  | [`closing_lets_out_what_is_held`]                |
//! | other columns are errors                                       | [`other_columns_are_an_error`]                   |
//! | a forgotten key counts as never seen                           | [`a_forgotten_key_passes_once_more`]             |

pub mod play;
mod rules;

use crate::{Batch, Operator};

pub use rules::*;

/// What happens to a step.
#[derive(Clone, Debug)]
pub enum Act {
    /// A batch comes, by the input of this number.
    Batch(usize, Batch),
    /// A seal with this watermark.
    Cut(i64),
}

/// A step, and what happens to it.
pub trait Fixture {
    /// A new step; each call gives one with the same settings.
    fn step(&self) -> Box<dyn Operator>;

    /// Steps of the same word with another setting each, whose state is not this one's.
    fn others(&self) -> Vec<Box<dyn Operator>> {
        Vec::new()
    }

    /// Three seals or more, with ascending watermarks and at least two batches before one of them. Sums are exact, whatever is added first.
    fn acts(&self) -> Vec<Act>;

    /// Whether results may leave with later seals than that which releases them, as those in files do.
    fn leaves_later(&self) -> bool {
        false
    }

    /// Whether rows depend on how many seals there are, as results before a window is closed do.
    fn counts_seals(&self) -> bool {
        false
    }

    /// Whether the rows that come out depend on the order of batches between two seals.
    fn keeps_order(&self) -> bool {
        true
    }

    /// Whether it reads columns by their names.
    fn reads_columns(&self) -> bool {
        true
    }
}

/// Runs every rule.
pub fn run(fixture: &dyn Fixture) {
    a_batch_may_be_handed_over_in_any_way(fixture);
    batches_may_be_cut_anywhere(fixture);
    batches_may_come_in_any_order(fixture);
    a_seal_more_changes_nothing(fixture);
    a_start_goes_on_from_any_seal(fixture);
    an_empty_state_is_a_state(fixture);
    damaged_state_is_an_error(fixture);
    state_of_other_settings_is_refused(fixture);
    time_does_not_go_back(fixture);
    closing_lets_out_what_is_held(fixture);
    other_columns_are_an_error(fixture);
    a_forgotten_key_passes_once_more(fixture);
}
