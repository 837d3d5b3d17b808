//! What closes when every input has ended.
//!
//! Owns when a seal may close everything that is open: when the process that seals has been told the end of each partition at the place where the seal leaves
//! it, and is to run to the end. Nobody is told which of the seals of such a process does, and where windows are in files their results come later; so each
//! guess is followed that fits all seals so far. Does not own what closing means (`oracle::windows`, `oracle::joins`), nor that a run which has come to its end has
//! closed everything (`drive::ends`).

use protocol::record::Seal;

use super::dedup::Sealed;
use super::{Broken, Fate};
use crate::records::Row;

/// Guesses at the most: more than one is right only until the results of closed windows have come.
const GUESSES_MAX: usize = 256;

/// An account of what is open.
pub trait Account: Clone + PartialEq {
    /// What became of each record of a seal whose frames hold the rows `of_tables`, each with the place of its table, if the seal closes all that is open in so many
    /// steps, from the first, or, of none, only what is due.
    ///
    /// # Errors
    /// When the seal is not the one that the rule gives.
    fn seal(
        &mut self,
        seal: &Seal,
        sealed: &Sealed,
        of_tables: &[(usize, Row)],
        closes: usize,
    ) -> Result<Vec<(u64, Fate)>, Broken>;

    /// Records that wait for their time.
    fn waiting(&self) -> u64;

    /// How many steps there are that can close, one behind the other.
    fn steps(&self) -> usize;

    /// Everything is given up, and time begins again: how many records were held, where so many are said to be.
    fn begin_again(&mut self, said: u64) -> u64;
}

/// The accounts that may be right.
#[derive(Clone, Debug)]
pub struct Guesses<A> {
    accounts: Vec<A>,
    /// Seals that have closed all that was open, and none of which could be anything else.
    closings: u64,
}

impl<A: Account> Guesses<A> {
    /// One.
    pub fn new(account: A) -> Self {
        Self { accounts: vec![account], closings: 0 }
    }

    /// Seals that have certainly closed what nothing else would have closed.
    pub fn closings(&self) -> u64 {
        self.closings
    }

    /// Those that may be right; one at least.
    pub fn iter(&self) -> impl Iterator<Item = &A> {
        self.accounts.iter()
    }

    /// As [`Account::seal`], of those that fit; `may_close` says whether the seal may close all that is open.
    ///
    /// # Errors
    /// When none fits.
    pub fn seal(
        &mut self,
        seal: &Seal,
        sealed: &Sealed,
        of_tables: &[(usize, Row)],
        may_close: bool,
    ) -> Result<Vec<(u64, Fate)>, Broken> {
        let (mut fitting, mut found, mut broken): (Vec<A>, _, _) = (Vec::new(), None, None);
        let mut is_closing = true;
        for before in std::mem::take(&mut self.accounts) {
            for closes in 0..=if may_close { before.steps() } else { 0 } {
                let mut account = before.clone();
                match account.seal(seal, sealed, of_tables, closes) {
                    Ok(fates) => {
                        is_closing &= closes > 0;
                        found.get_or_insert(fates);
                        fitting.extend((!fitting.contains(&account)).then_some(account));
                    }
                    Err(error) => _ = broken.get_or_insert(error),
                }
            }
        }
        fitting.truncate(GUESSES_MAX);
        self.closings += u64::from(is_closing && !fitting.is_empty());
        self.accounts = fitting;
        found.ok_or_else(|| broken.expect("there was a guess, and it does not fit"))
    }

    /// Records that wait, as the guess has it that has the fewest.
    pub fn waiting(&self) -> u64 {
        self.accounts.iter().map(A::waiting).min().unwrap_or_default()
    }

    /// A run has come to its end, and all that waits is out: guesses that have it otherwise are wrong.
    pub fn came_to_an_end(&mut self) {
        self.accounts.retain(|account| account.waiting() == 0);
    }

    /// As [`Account::begin_again`], where so many are said to be held; what it should be if no guess has it so.
    pub fn begin_again(&mut self, said: u64) -> u64 {
        let begin = |account: &A| {
            let mut account = account.clone();
            (account.begin_again(said), account)
        };
        let mut begun: Vec<(u64, A)> = self.accounts.iter().map(begin).collect();
        if begun.iter().any(|(held, _)| *held == said) {
            begun.retain(|(held, _)| *held == said);
        }
        let held = begun.first().map_or(0, |(held, _)| *held);
        self.accounts = begun.into_iter().map(|(_, account)| account).collect();
        self.accounts.dedup();
        held
    }
}
