//! The rules of joins, computed from the records alone: of rows near in time, and of each row with the version at its time.
//!
//! Owns an account of its own of the published rule: which pairs a seal must hold, and what becomes of each record. Does not own which
//! joins are drawn (`plan::joined`), the join in the simulated pipeline (`sim::pairs`), nor what a window over its rows makes of them ([`behind`]). Does not use
//! the operator, nor its arithmetic.

mod behind;

use protocol::record::Seal;

use super::dedup::Sealed;
use super::ends::Account;
use super::fold::{counts_of, rejects_alone};
use super::{Broken, Fate};
use crate::pairs::{HAND_BYTES_ALL, Joins, Pair};
use crate::plan::Plan;
use crate::records::{Record, Row};
use behind::{Behind, Done};

/// A record that waits.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Held {
    record: Record,
    is_matched: bool,
}

/// Versions of one key and time that came with one seal: nobody says which of them was read last, so any may hold.
#[derive(Clone, Debug, PartialEq)]
struct Versions {
    key: u64,
    time_ms: i64,
    seal: u64,
    ids: Vec<u64>,
    /// How many of them the step holds.
    held: u64,
}

/// All records that wait, of both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    joins: Joins,
    watermark_ms: i64,
    tables: Vec<usize>,
    held: [Vec<Held>; 2],
    /// In place of the right side's, with a temporal join.
    versions: Vec<Versions>,
    seals: u64,
    /// Versions that others have replaced, but which the step still holds in files, if it has such: they go with a merge, whenever that ends.
    replaced: u64,
    is_in_files: bool,
    /// Whether rows without a match may come in later seals than the one that releases them.
    is_late: bool,
    /// Those that are due: the place of their table, and whether that is one of those without a match of a side.
    due: Vec<(Option<usize>, Row)>,
    /// The window over its rows.
    behind: Option<Behind>,
}

/// Of a seal's ledger, what rows say in any case, and what records do.
const LEDGER_SEEN: usize = 4;
const LEDGER_OF_RECORDS: usize = 3;

/// What a row of the result may be.
type Allowed = Vec<Row>;

/// The rows of each side for the table of those without a match.
type Beside = [Vec<Row>; 2];

impl Model {
    /// None waits; `None` for a plan without a join.
    pub fn new(plan: &Plan) -> Option<Self> {
        let (tables, held, versions) = (plan.tables.clone(), Default::default(), Vec::new());
        let joins = plan.joins?;
        let is_late = plan.is_in_files() && !joins.is_temporal && joins.hand_bytes < HAND_BYTES_ALL;
        let is_in_files = joins.is_temporal && plan.is_in_files();
        let (watermark_ms, due) = (i64::MIN, Vec::new());
        let behind = Behind::new(joins, plan.is_in_files());
        Some(Self {
            joins,
            watermark_ms,
            tables,
            held,
            versions,
            seals: 0,
            replaced: 0,
            is_in_files,
            is_late,
            due,
            behind,
        })
    }

    fn held_now(&self) -> u64 {
        let waiting: u64 = self.held.iter().map(|side| side.len() as u64).sum();
        let versions: u64 = self.versions.iter().map(|versions| versions.held).sum();
        waiting + versions + self.behind.as_ref().map_or(0, Behind::held)
    }

    fn floor_ms(&self) -> i64 {
        self.watermark_ms.saturating_sub(self.joins.lateness_ms)
    }

    fn matches(&self, left: &Record, right: &Record) -> bool {
        let Joins { before_ms, after_ms, .. } = self.joins;
        let apart = right.time_ms - left.time_ms;
        left.key == right.key && -before_ms <= apart && apart <= after_ms
    }

    /// The versions of a key that hold at a time, of those that are not newer than `seal`.
    fn holding(&self, key: u64, time_ms: i64, seal: u64) -> Option<&Versions> {
        let of_key = self.versions.iter().filter(|versions| versions.key == key && versions.seal <= seal);
        let there = of_key.filter(|versions| versions.time_ms <= time_ms);
        there.max_by_key(|versions| (versions.time_ms, versions.seal))
    }

    /// Takes a version, unless a later one held already when the last seal was made; whether it did.
    fn take_version(&mut self, record: &Record) -> bool {
        let Record { id, key, time_ms, .. } = *record;
        let holds = self.seals.checked_sub(1).and_then(|seal| self.holding(key, self.floor_ms(), seal));
        if holds.is_some_and(|holds| holds.time_ms > time_ms) {
            return false;
        }
        let seal = self.seals;
        let is_like = |other: &&mut Versions| (other.key, other.time_ms, other.seal) == (key, time_ms, seal);
        match self.versions.iter_mut().find(is_like) {
            Some(like) => {
                like.ids.push(id);
                like.held += 1;
            }
            None => self.versions.push(Versions { key, time_ms, seal, ids: vec![id], held: 1 }),
        }
        true
    }

    /// Left records get their versions, and versions that no other record can get any more go; how many of both.
    fn release_versions(&mut self, made: &mut Vec<Allowed>, beside: &mut Beside) -> u64 {
        let (floor_ms, before) = (self.floor_ms(), self.held_now());
        let left = std::mem::take(&mut self.held[0]);
        let (due, waits): (Vec<Held>, Vec<Held>) =
            left.into_iter().partition(|held| held.record.time_ms < floor_ms);
        self.held[0] = waits;
        for Record { id, key, time_ms, .. } in due.into_iter().map(|held| held.record) {
            let pair = |right| Pair { ids: [Some(id), right], key, time_ms }.row();
            match self.holding(key, time_ms, self.seals) {
                Some(versions) => made.push(versions.ids.iter().map(|right| pair(Some(*right))).collect()),
                None if self.joins.keeps[0] => made.push(vec![pair(None)]),
                None => beside[0].push(pair(None)),
            }
        }
        let newest: Vec<Versions> = self.versions.clone();
        self.versions.retain_mut(|versions| {
            let Versions { key, time_ms, seal, .. } = *versions;
            let replaces = |other: &Versions| {
                other.key == key && other.time_ms <= floor_ms && (other.time_ms, other.seal) > (time_ms, seal)
            };
            if time_ms <= floor_ms {
                versions.held = 1;
            }
            !newest.iter().any(replaces)
        });
        self.seals += 1;
        before - self.held_now()
    }

    /// The pairs that a record makes with those that wait on the other side.
    fn meet(&mut self, side: usize, record: Record, pairs: &mut Vec<Pair>) {
        let others = std::mem::take(&mut self.held[1 - side]);
        let mut own = Held { record, is_matched: false };
        let meet = |mut other: Held| {
            let (left, right) = if side == 0 { (record, other.record) } else { (other.record, record) };
            if self.matches(&left, &right) {
                (own.is_matched, other.is_matched) = (true, true);
                let time_ms = left.time_ms.max(right.time_ms);
                pairs.push(Pair { ids: [Some(left.id), Some(right.id)], key: left.key, time_ms });
            }
            other
        };
        let others = others.into_iter().map(meet).collect();
        self.held[1 - side] = others;
        self.held[side].push(own);
    }

    /// Whether no row is still to come that is due.
    pub fn is_out(&self) -> bool {
        self.due.is_empty() && self.behind.as_ref().is_none_or(Behind::is_out)
    }

    /// Rows without a match come that are due, or wait for a later seal.
    fn let_out(&mut self, made: &mut Vec<Allowed>, beside: &mut Beside, of_tables: &[(usize, Row)]) {
        let first = self.tables[0];
        let comes = |(side, row): &(Option<usize>, Row)| {
            let place = side.map_or(Some(first), |side| self.joins.beside[side]);
            of_tables.iter().any(|(of, found)| Some(*of) == place && found == row)
        };
        // Those that no table takes are seen by nobody.
        let (now, later): (Vec<_>, Vec<_>) = self
            .due
            .iter()
            .filter(|(side, _)| side.is_none_or(|side| self.joins.beside[side].is_some()))
            .copied()
            .partition(comes);
        for (side, row) in now {
            match side {
                Some(side) => beside[side].push(row),
                None => made.push(vec![row]),
            }
        }
        self.due = later;
    }

    /// Records that no other can match any more go; how many.
    fn release(&mut self, pairs: &mut Vec<Pair>, beside: &mut Beside) -> u64 {
        let floor_ms = self.floor_ms();
        let longest_ms = [self.joins.after_ms, self.joins.before_ms];
        let mut released = 0;
        for side in [0, 1] {
            let is_due = |held: &&Held| floor_ms > held.record.time_ms + longest_ms[side];
            for held in self.held[side].iter().filter(is_due) {
                released += 1;
                let Record { id, key, time_ms, .. } = held.record;
                let lonely = Pair::lonely(side, id, key, time_ms);
                match self.joins.keeps[side] {
                    _ if held.is_matched => {}
                    // To a window it does not matter in which seal they come.
                    true if self.behind.is_some() => pairs.push(lonely),
                    true if self.is_late => self.due.push((None, lonely.row())),
                    false if self.is_late => self.due.push((Some(side), lonely.row())),
                    true => pairs.push(lonely),
                    false => beside[side].push(lonely.row()),
                }
            }
            self.held[side].retain(|held| !is_due(&held));
        }
        released
    }

    /// The least watermark that releases all that waits; `None` if nothing does.
    fn closing_ms(&self) -> Option<i64> {
        let longest_ms =
            if self.joins.is_temporal { [0; 2] } else { [self.joins.after_ms, self.joins.before_ms] };
        let last_ms = |side: usize| {
            self.held[side].iter().map(move |held| held.record.time_ms + longest_ms[side]).max()
        };
        [0, 1].into_iter().filter_map(last_ms).max().map(|last_ms| last_ms + self.joins.lateness_ms + 1)
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
        let (mut fates, mut pairs) = (Vec::new(), Vec::new());
        let (mut late, mut absorbed) = (0, 0);
        for (record, side) in sealed.read.iter().zip(&sealed.sides) {
            let fate = if !record.is_good {
                Fate::Dead
            } else if self.joins.is_temporal && *side == 1 {
                match self.take_version(record) {
                    true => Fate::Absorbed,
                    false => Fate::Late,
                }
            } else if record.time_ms < self.floor_ms() {
                Fate::Late
            } else if self.joins.is_temporal {
                self.held[0].push(Held { record: *record, is_matched: false });
                Fate::Absorbed
            } else {
                self.meet(*side, *record, &mut pairs);
                Fate::Absorbed
            };
            late += u64::from(fate == Fate::Late);
            absorbed += u64::from(fate == Fate::Absorbed);
            fates.push((record.id, fate));
        }
        self.watermark_ms = self.watermark_ms.max(sealed.watermark_ms);
        if let Some(closing_ms) = self.closing_ms().filter(|_| closes > 0) {
            self.watermark_ms = self.watermark_ms.max(closing_ms);
        }
        let (mut made, mut beside): (Vec<Allowed>, Beside) = Default::default();
        let released = match self.joins.is_temporal {
            true => self.release_versions(&mut made, &mut beside),
            false => self.release(&mut pairs, &mut beside),
        };
        self.let_out(&mut made, &mut beside, of_tables);
        let lonely = self.check_beside(beside, of_tables)?;
        made.extend(pairs.iter().map(|pair| vec![pair.row()]));
        let done = self.go_behind(&mut made, sealed.watermark_ms, closes > 1, of_tables);
        for place in &self.tables {
            let rows = of_tables.iter().filter(|(of, _)| of == place).map(|(_, row)| *row);
            let found = sorted(rows.collect());
            let expected = sorted(likeliest(&made, &found));
            if found != expected {
                let what = format!("table {place} gets the rows {found:?}, and should get {expected:?}");
                return Err(("C6", what));
            }
        }
        rejects_alone(sealed)?;
        let (counts, derived) = (counts_of(seal), seal.derived.unwrap_or_default());
        let held = self.held_now();
        let said = seal.absorbed.unwrap_or_default();
        let replaced = if self.is_in_files { said.held.saturating_sub(held) } else { 0 };
        let released = (released + self.replaced).saturating_sub(replaced) + done.released;
        let held = held + replaced;
        self.replaced = replaced;
        let of_records = [counts.passed, counts.late, counts.absorbed];
        let of_rows = [derived.rows, said.released, said.held, derived.absorbed, derived.dropped];
        let mut found = [of_records.as_slice(), &of_rows].concat();
        let rows = (made.len() * self.tables.len()) as u64 + lonely + done.taken + done.late;
        let mut expected = vec![0, late, absorbed, rows, released, held, done.taken, done.late];
        if self.is_late {
            // How far they are released that have a match no row says; nor does any how many that have none are in the window behind.
            let seen = if self.behind.is_some() { LEDGER_OF_RECORDS } else { LEDGER_SEEN };
            found.truncate(seen);
            expected.truncate(seen);
        }
        if found != expected {
            let names = "passed, late, absorbed, derived rows, released, held, and rows of the join absorbed and dropped";
            return Err(("C9", format!("{names} are {found:?}, and should be {expected:?}")));
        }
        Ok(fates)
    }

    fn waiting(&self) -> u64 {
        let held: u64 = self.held.iter().map(|side| side.len() as u64).sum();
        held + self.due.len() as u64 + self.behind.as_ref().map_or(0, Behind::held)
    }

    fn steps(&self) -> usize {
        1 + usize::from(self.behind.is_some())
    }

    fn begin_again(&mut self, said: u64) -> u64 {
        let replaced = std::mem::take(&mut self.replaced);
        let held = if self.is_late { said } else { self.held_now() + replaced };
        self.due.clear();
        self.behind.iter_mut().for_each(Behind::begin_again);
        self.watermark_ms = i64::MIN;
        self.held = Default::default();
        self.versions.clear();
        held
    }
}

impl Model {
    /// The rows go into the window behind, if there is one, and its results are made in their place. There each row has one form.
    fn go_behind(
        &mut self,
        made: &mut Vec<Allowed>,
        lane_ms: i64,
        closes: bool,
        of_tables: &[(usize, Row)],
    ) -> Done {
        let Some(behind) = &mut self.behind else { return Done::default() };
        let rows: Vec<Row> = made.drain(..).filter_map(|allowed| allowed.first().copied()).collect();
        let (done, results) = behind.seal(&rows, lane_ms, closes, of_tables);
        made.extend(results.into_iter().map(|row| vec![row]));
        done
    }

    /// Whether the tables of rows without a match get theirs; how many there are.
    fn check_beside(&self, beside: Beside, of_tables: &[(usize, Row)]) -> Result<u64, Broken> {
        let mut lonely = 0;
        for (place, expected) in self.joins.beside.into_iter().zip(beside) {
            let Some(place) = place else { continue };
            let rows = of_tables.iter().filter(|(of, _)| *of == place).map(|(_, row)| *row);
            let (found, expected) = (sorted(rows.collect()), sorted(expected));
            if found != expected {
                let what =
                    format!("table {place} gets {found:?}, and the rows without a match are {expected:?}");
                return Err(("C6", what));
            }
            lonely += expected.len() as u64;
        }
        Ok(lonely)
    }
}

/// Of each row's allowed forms the one that was found, or any.
fn likeliest(made: &[Allowed], found: &[Row]) -> Vec<Row> {
    let is_found = |row: &&Row| found.binary_search(row).is_ok();
    made.iter().filter_map(|allowed| allowed.iter().find(is_found).or(allowed.first())).copied().collect()
}

fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort_unstable();
    items
}
