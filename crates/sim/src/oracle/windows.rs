//! The rule of a window, computed from the records alone.
//!
//! Owns an account of its own of the published rule: which results a seal must hold, and what becomes of each record. Does not own which windows there are
//! and what they hold ([`panes`], [`sessions`], [`behind`]), nor the window in the simulated pipeline (`sim::results`). Does not use the operator, nor its arithmetic.
//!
//! | results                                   | are sealed                                                                   |
//! |-------------------------------------------|------------------------------------------------------------------------------|
//! | of a window that a seal's watermark closes | in that seal; where windows are in files in that one or a later one, and once |
//! | before that, with `emit`                  | in the seals that the published rule says, each for the keys with something new |
//! | before that, where windows are in files    | in any later seal, if they are what any seal since the last result made them |
//!
//! | of a window over these results              | as those of a window over records, by the watermark less the lateness of the window before |
//!
//! Every result of a seal has one version, which is greater than all before it, whoever sealed those. At the end the table's row with the greatest version
//! of a closed window and key is the exact result.

mod behind;
mod early;
pub(super) mod panes;
mod sessions;

use std::collections::BTreeMap;

use protocol::record::Seal;

use super::dedup::Sealed;
use super::ends::Account;
use super::fold::{counts_of, rejects_alone};
use super::{Broken, Fate};
use crate::plan::Plan;
use crate::records::{Record, Row};
use crate::results::{Aggregates, Kind, Result as Of};
use behind::{Done, Second};
use early::Early;
use panes::Panes;
use sessions::Sessions;

/// Results of a seal, and whether they have anything that no seal before it has.
type Results = Vec<(Of, bool)>;

/// What is open, by the kind of window.
#[derive(Clone, Debug, PartialEq)]
enum Open {
    Panes(Panes),
    Sessions(Sessions),
}

impl Open {
    fn new(aggregates: Aggregates) -> Self {
        match aggregates.windows {
            Kind::Hopping { .. } | Kind::Cumulative { .. } => Self::Panes(Panes::new(aggregates)),
            Kind::Sessions { gap_ms, max_ms } => {
                Self::Sessions(Sessions::new(gap_ms, max_ms, aggregates.lateness_ms))
            }
        }
    }

    /// Whether a record is a part of any that is open, which it then is.
    fn take(&mut self, record: &Record, watermark_ms: i64) -> bool {
        match self {
            Self::Panes(panes) => panes.take(record, watermark_ms),
            Self::Sessions(sessions) => sessions.take(record, watermark_ms),
        }
    }

    /// The results of what a watermark closes.
    fn close(&mut self, watermark_ms: i64) -> Results {
        match self {
            Self::Panes(panes) => panes.close(watermark_ms),
            Self::Sessions(sessions) => sessions.close(watermark_ms),
        }
    }

    /// The least watermark that closes all; `None` if none is open.
    fn closing_ms(&self) -> Option<i64> {
        match self {
            Self::Panes(panes) => panes.closing_ms(),
            Self::Sessions(sessions) => sessions.closing_ms(),
        }
    }

    /// Records that are held.
    fn held(&self) -> u64 {
        match self {
            Self::Panes(panes) => panes.held(),
            Self::Sessions(sessions) => sessions.held(),
        }
    }
}

/// All windows that are open.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    aggregates: Aggregates,
    watermark_ms: i64,
    tables: Vec<usize>,
    open: Open,
    /// The window over its results.
    second: Option<Second>,
    /// Whether results may come in later seals than the one that closes their window.
    is_in_files: bool,
    /// Results that are due.
    due: Vec<Of>,
    /// The greatest version so far.
    version: u64,
    /// The exact results of closed windows, by the id of their rows, where rows have versions.
    exact: BTreeMap<u64, u64>,
    /// What may come of windows in files before they are closed.
    early: Early,
}

/// What the records of a seal became.
#[derive(Default)]
struct Taken {
    fates: Vec<(u64, Fate)>,
    absorbed: u64,
    late: u64,
    /// Rows of late records for their table.
    late_rows: Vec<Row>,
}

impl Model {
    /// None is open; `None` for a plan without a window.
    pub fn new(plan: &Plan) -> Option<Self> {
        let aggregates = plan.aggregates?;
        Some(Self {
            aggregates,
            watermark_ms: i64::MIN,
            tables: plan.tables.clone(),
            open: Open::new(aggregates),
            second: Second::new(aggregates),
            is_in_files: plan.is_in_files(),
            due: Vec::new(),
            version: 0,
            exact: BTreeMap::new(),
            early: Early::default(),
        })
    }

    /// The greatest watermark of all seals.
    pub fn watermark_ms(&self) -> i64 {
        self.watermark_ms
    }

    fn held(&self) -> u64 {
        self.open.held()
            + self.second.as_ref().map_or(0, Second::held)
            + self.due.iter().map(|of| of.last).sum::<u64>()
    }

    /// Whether no result of a closed window is still to come.
    pub fn is_out(&self) -> bool {
        self.due.is_empty() && self.early.is_out()
    }

    /// Whether the row with the greatest version of each closed window and key is the exact one, of all rows of a table.
    pub fn check_newest<'a>(&self, place: usize, rows: impl Iterator<Item = &'a Row>) -> Result<(), Broken> {
        let mut newest: BTreeMap<u64, Row> = BTreeMap::new();
        for row in rows {
            let kept = newest.entry(row[0]).or_insert(*row);
            *kept = if row[1] > kept[1] { *row } else { *kept };
        }
        // One that closed with the last seal may still be in files.
        let is_wrong = |(id, exact): &(&u64, &u64)| {
            !self.early.is_due(**id) && newest.get(id).is_none_or(|row| row[2] != **exact)
        };
        match self.exact.iter().find(is_wrong) {
            Some((id, exact)) if self.tables.contains(&place) => {
                let found = newest.get(id);
                Err((
                    "C6",
                    format!(
                        "the newest row of result {id} in table {place} is {found:?}, and should hold {exact}"
                    ),
                ))
            }
            _ => Ok(()),
        }
    }

    /// Whether what is held is in files where no row says so: results on their way to a second window, or records of keys without a new result.
    fn hides(&self) -> bool {
        self.is_in_files && (self.second.is_some() || self.aggregates.emits.is_some())
    }

    fn take(&mut self, read: &[Record]) -> Taken {
        let mut taken = Taken::default();
        for record in read {
            let fate = if !record.is_good {
                Fate::Dead
            } else if self.open.take(record, self.watermark_ms) {
                taken.absorbed += 1;
                Fate::Absorbed
            } else if self.aggregates.beside.is_some() {
                taken.late_rows.push([record.id, record.key, record.time_ms as u64]);
                Fate::Written
            } else {
                taken.late += 1;
                Fate::Late
            };
            taken.fates.push((record.id, fate));
        }
        taken
    }

    /// The rows that a seal must hold where each window has one result, and the records that they release: all that are due, unless they may come later.
    fn last_results(&mut self, closed: Results, of_tables: &[(usize, Row)]) -> (Vec<Row>, u64) {
        self.due.extend(closed.into_iter().map(|(of, _)| of));
        let (is_in_files, windows) = (self.is_in_files, self.aggregates.last_windows());
        let comes = |of: &Of| of_tables.iter().any(|(_, row)| *row == of.row(windows, None));
        let (now, later) = self.due.drain(..).partition::<Vec<Of>, _>(|of| !is_in_files || comes(of));
        self.due = later;
        (now.iter().map(|of| of.row(windows, None)).collect(), now.iter().map(|of| of.last).sum())
    }

    /// The rows that a seal has where windows have results before they are closed, and come from files.
    ///
    /// # Errors
    /// When one is none that may come, or its version is not greater than all before it.
    fn early_results(&mut self, closed: &Results, of_tables: &[(usize, Row)]) -> Result<Vec<Row>, Broken> {
        let Open::Panes(open) = &self.open else { unreachable!("sessions have no earlier results") };
        let windows = self.aggregates.windows;
        let row = |of: &Of| of.row(windows, Some(0));
        open.all().for_each(|of| self.early.seal(&row(of)));
        for (of, _) in closed {
            let [id, _, exact] = row(of);
            self.early.seal(&row(of));
            self.early.close(id);
            self.exact.insert(id, exact);
        }
        let found = of_tables.iter().filter(|(place, _)| *place == self.tables[0]).map(|(_, row)| *row);
        let rows: Vec<Row> = found.collect();
        let Some(&[_, version, _]) = rows.first() else { return Ok(rows) };
        if version <= self.version || rows.iter().any(|row| row[1] != version) {
            return Err(("C6", format!("results have versions {rows:?}, and earlier ones {}", self.version)));
        }
        self.version = version;
        for row in &rows {
            if !self.early.comes(row)? {
                // It was closed before the state was given up, and is open again.
                self.exact.remove(&row[0]);
            }
        }
        Ok(rows)
    }

    /// The same where windows have results before they are closed, of which the rows have versions.
    ///
    /// # Errors
    /// When the version is not greater than all before it.
    fn all_results(
        &mut self,
        closed: Results,
        before_ms: i64,
        of_tables: &[(usize, Row)],
    ) -> Result<(Vec<Row>, u64), Broken> {
        let Open::Panes(open) = &mut self.open else { unreachable!("sessions have no earlier results") };
        let released = closed.iter().map(|(of, _)| of.last).sum();
        let windows = self.aggregates.windows;
        for (of, _) in &closed {
            let [id, _, exact] = of.row(windows, Some(0));
            self.exact.insert(id, exact);
        }
        let found: Vec<&Row> =
            of_tables.iter().filter(|(place, _)| *place == self.tables[0]).map(|(_, row)| row).collect();
        let version = found.first().map_or(self.version + 1, |row| row[1]);
        if version <= self.version {
            return Err(("C6", format!("results have version {version}, and earlier ones {}", self.version)));
        }
        let last: Vec<Of> = closed.into_iter().filter(|(_, is_new)| *is_new).map(|(of, _)| of).collect();
        let between_ms = (before_ms, self.watermark_ms);
        // Only the process knows whether it is time for early results by the wall's clock: then there are all or none.
        let is_early = open.is_early(between_ms).unwrap_or_else(|| {
            let due = last.len() + open.firing(false, self.watermark_ms).len();
            found.len() > due
        });
        let firing = open.firing(is_early, self.watermark_ms);
        let rows: Vec<Row> = last.iter().chain(&firing).map(|of| of.row(windows, Some(version))).collect();
        open.fired(is_early, self.watermark_ms);
        firing.iter().for_each(|of| _ = self.exact.remove(&of.row(windows, None)[0]));
        if !found.is_empty() {
            self.version = version;
        }
        Ok((rows, released))
    }
}

impl Account for Model {
    fn seal(
        &mut self,
        seal: &Seal,
        sealed: &Sealed,
        of_tables: &[(usize, Row)],
        closes: usize,
    ) -> Result<Vec<(u64, Fate)>, Broken> {
        let taken = self.take(&sealed.read);
        let before_ms = self.watermark_ms;
        self.watermark_ms = before_ms.max(sealed.watermark_ms);
        if let Some(closing_ms) = self.open.closing_ms().filter(|_| closes > 0) {
            self.watermark_ms = self.watermark_ms.max(closing_ms);
        }
        let mut closed = self.open.close(self.watermark_ms);
        let mut of_second = None;
        if let Some(second) = &mut self.second {
            let (made, released) = (closed.len() as u64, closed.iter().map(|(of, _)| of.last).sum::<u64>());
            let mut done = second.seal(closed, sealed.watermark_ms, closes > 1);
            closed = std::mem::take(&mut done.closed);
            of_second = Some((made, released, done));
        }
        let (rows, released) = match self.aggregates.emits {
            None => self.last_results(closed, of_tables),
            Some(_) if self.is_in_files => (self.early_results(&closed, of_tables)?, 0),
            Some(_) => self.all_results(closed, before_ms, of_tables)?,
        };
        for place in &self.tables {
            compare(*place, &rows, of_tables)?;
        }
        if let Some(place) = self.aggregates.beside {
            compare(place, &taken.late_rows, of_tables)?;
        }
        rejects_alone(sealed)?;
        let (counts, derived) = (counts_of(seal), seal.derived.unwrap_or_default());
        let said = seal.absorbed.unwrap_or_default();
        let passed = taken.late_rows.len() as u64;
        let of_records = [counts.passed, counts.late_kept, counts.late, counts.absorbed];
        let of_results = [derived.rows, said.released, said.held, derived.absorbed, derived.dropped];
        let mut found = [of_records.as_slice(), &of_results].concat();
        let made = (rows.len() * self.tables.len()) as u64;
        let (made_first, released_first, Done { taken: inner, late: inner_late, .. }) =
            of_second.unwrap_or_default();
        let (made, released) = (made + made_first, released + released_first);
        let mut expected =
            vec![passed, passed, taken.late, taken.absorbed, made, released, self.held(), inner, inner_late];
        if self.hides() {
            // The ledger says how far results have come that are between the two windows, which nobody else sees.
            found.truncate(of_records.len());
            expected.truncate(of_records.len());
        }
        if found != expected {
            let names = "passed, late but written, late, absorbed, derived rows, released, held, and results absorbed and dropped";
            return Err(("C9", format!("{names} are {found:?}, and should be {expected:?}")));
        }
        Ok(taken.fates)
    }

    fn waiting(&self) -> u64 {
        self.held()
    }

    fn steps(&self) -> usize {
        1 + usize::from(self.second.is_some())
    }

    fn begin_again(&mut self, said: u64) -> u64 {
        let held = if self.hides() { said } else { self.held() };
        self.watermark_ms = i64::MIN;
        self.second.iter_mut().for_each(Second::begin_again);
        self.due.clear();
        self.early = Early::default();
        self.open = Open::new(self.aggregates);
        held
    }
}

/// Whether a table gets these rows, and no others.
fn compare(place: usize, expected: &[Row], of_tables: &[(usize, Row)]) -> Result<(), Broken> {
    let rows = of_tables.iter().filter(|(of, _)| *of == place).map(|(_, row)| *row);
    let (found, expected) = (sorted(rows.collect()), sorted(expected.to_vec()));
    match found == expected {
        true => Ok(()),
        false => Err(("C6", format!("table {place} gets {found:?}, and should get {expected:?}"))),
    }
}

fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort_unstable();
    items
}
