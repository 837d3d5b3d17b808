//! What the next run would change: the pipeline file and the tables as they are now, beside what the journal holds.
//!
//! Owns the comparison, as pure functions. Does not own what is refused (`engine::change`, `engine::start`), nor the questions to the store, the
//! sources and the tables (the program's `check`).
//!
//! | what is compared            | with                                                        |
//! |-----------------------------|-------------------------------------------------------------|
//! | inputs, steps, tables       | what the file said at the newest start ([`protocol::record::Part`]) |
//! | steps that keep state       | whose state the journal holds                               |
//! | columns of a table          | those of the newest insert                                  |
//! | partitions                  | where the journal stands                                    |
//!
//! Of batch settings, addresses and passwords the journal holds nothing: they change no row.

use dataflow::position::{self, Position};
use engine::change::{self, Composition, Fate};
use engine::layouts;
use pipeline::parts;
use protocol::Lane;
use protocol::record::Part;
use serde::Serialize;

/// What the next run makes of an input, step, state, table, column or partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Becomes {
    /// It is as it was.
    Same,
    /// It was not there before.
    New,
    /// It is not there any more.
    Gone,
    /// It is another.
    Changed,
    /// Somebody must decide before a run.
    Undecided,
}

/// What a line of a plan is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// An input.
    Input,
    /// A step.
    Step,
    /// What a step remembers.
    State,
    /// A table.
    Table,
    /// The columns of a table.
    Columns,
    /// A partition of an input.
    Partition,
}

impl About {
    /// The word for it in the printed plan.
    pub fn word(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Step => "step",
            Self::State => "state",
            Self::Table => "table",
            Self::Columns => "columns",
            Self::Partition => "partition",
        }
    }
}

/// One line of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Item {
    /// What it is about.
    pub about: About,
    /// Its name.
    pub name: String,
    /// What becomes of it.
    pub becomes: Becomes,
    /// The rest in words; empty if there is nothing to say.
    pub words: String,
}

impl Item {
    fn new(about: About, name: &str, becomes: Becomes, words: impl Into<String>) -> Self {
        Self { about, name: name.to_owned(), becomes, words: words.into() }
    }

    /// Whether the next run differs in it from the run before.
    pub fn is_change(&self) -> bool {
        self.becomes != Becomes::Same
    }
}

/// A table as it is now.
#[derive(Clone, Debug)]
pub struct TableNow {
    /// `database.table`.
    pub name: String,
    /// Its columns; `None` if it is not there yet.
    pub layout: Option<dataflow::Layout>,
}

/// A partition that the next run would read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionNow {
    /// Its input.
    pub input: String,
    /// The topic or file.
    pub stream: String,
    /// Its number there.
    pub index: u32,
    /// Where reading goes on.
    pub next: Position,
    /// Its end, if that is known.
    pub end: Option<Position>,
}

/// What the next run would change. `made` is `None` if the steps could not be made, `said` is what the file says.
pub fn compare(
    lane: &Lane,
    said: &[Part],
    made: Option<&Composition>,
    tables: &[TableNow],
    partitions: &[PartitionNow],
) -> Vec<Item> {
    let mut items = Vec::new();
    items.extend(named(lane, said, parts::INPUT, About::Input));
    let is_one_input = partitions.windows(2).all(|two| two[0].input == two[1].input);
    items.extend(partitions.iter().map(|partition| of_partition(lane, partition, is_one_input)));
    items.extend(steps(lane, said));
    if let Some(made) = made {
        items.extend(states(lane, made));
    }
    items.extend(named(lane, said, parts::TABLE, About::Table));
    items.extend(tables.iter().filter_map(|table| columns(lane, table)));
    items
}

fn of_kind<'a>(all: &'a [Part], kind: &str) -> Vec<&'a Part> {
    all.iter().filter(|part| part.kind == kind).collect()
}

/// Parts that are known by their names: inputs and tables.
fn named(lane: &Lane, said: &[Part], kind: &str, about: About) -> Vec<Item> {
    let (before, now) = (of_kind(&lane.parts, kind), of_kind(said, kind));
    let mut items = Vec::new();
    for part in &now {
        let was = before.iter().find(|was| was.name == part.name);
        items.push(match was {
            None => Item::new(about, &part.name, Becomes::New, &*part.text),
            Some(was) if was.text == part.text => Item::new(about, &part.name, Becomes::Same, ""),
            Some(was) => Item::new(
                about,
                &part.name,
                Becomes::Changed,
                format!("was: {}; is: {}", was.text, part.text),
            ),
        });
    }
    let is_gone = |was: &&&Part| !now.iter().any(|part| part.name == was.name);
    items.extend(before.iter().filter(is_gone).map(|was| {
        let words = if about == About::Table { "it gets no more rows; those that it has stay" } else { "" };
        Item::new(about, &was.name, Becomes::Gone, words)
    }));
    items
}

/// Steps have no names, but an order: those that are the same in both stand for themselves, what is between them is new, gone or changed.
fn steps(lane: &Lane, said: &[Part]) -> Vec<Item> {
    let (before, now) = (of_kind(&lane.parts, parts::STEP), of_kind(said, parts::STEP));
    let pairs = common(&before, &now);
    let (mut items, mut b, mut n) = (Vec::new(), 0, 0);
    for (at, to) in pairs.into_iter().chain([(before.len(), now.len())]) {
        items.extend(between(&before[b..at], &now[n..to], n));
        if let Some(same) = now.get(to) {
            items.push(Item::new(About::Step, &place(to, same), Becomes::Same, ""));
        }
        (b, n) = (at + 1, to + 1);
    }
    items
}

fn place(at: usize, part: &Part) -> String {
    format!("{} {}", at + 1, part.name)
}

/// Steps of which none is the same: one that stands for another of its kind has changed.
fn between(before: &[&Part], now: &[&Part], first: usize) -> Vec<Item> {
    let mut left: Vec<&Part> = before.to_vec();
    let mut items = Vec::new();
    for (at, part) in now.iter().enumerate() {
        let name = place(first + at, part);
        items.push(match left.iter().position(|was| was.name == part.name) {
            Some(was) => {
                let words = format!("was: {}; is: {}", left.remove(was).text, part.text);
                Item::new(About::Step, &name, Becomes::Changed, words)
            }
            None => Item::new(About::Step, &name, Becomes::New, &*part.text),
        });
    }
    items.extend(left.into_iter().map(|was| Item::new(About::Step, &was.name, Becomes::Gone, &*was.text)));
    items
}

/// The longest list of pairs that are the same in both, in order.
fn common(before: &[&Part], now: &[&Part]) -> Vec<(usize, usize)> {
    let mut most = vec![vec![0_usize; now.len() + 1]; before.len() + 1];
    for b in (0..before.len()).rev() {
        for n in (0..now.len()).rev() {
            most[b][n] = match before[b] == now[n] {
                true => most[b + 1][n + 1] + 1,
                false => most[b + 1][n].max(most[b][n + 1]),
            };
        }
    }
    let (mut pairs, mut b, mut n) = (Vec::new(), 0, 0);
    while b < before.len() && n < now.len() {
        if before[b] == now[n] {
            pairs.push((b, n));
            (b, n) = (b + 1, n + 1);
        } else if most[b + 1][n] >= most[b][n + 1] {
            b += 1;
        } else {
            n += 1;
        }
    }
    pairs
}

fn states(lane: &Lane, made: &Composition) -> Vec<Item> {
    if lane.pipeline.is_empty() {
        let new = change::labels(&made.steps).into_iter().zip(&made.steps);
        return new
            .map(|(label, step)| Item::new(About::State, &label, Becomes::New, &*step.shape))
            .collect();
    }
    let item = |fate: change::StepFate| {
        let (becomes, words) = match &fate.fate {
            Fate::Kept => (Becomes::Same, String::new()),
            Fate::Changed { was, now } => (Becomes::Undecided, format!("was: {was}; is: {now}")),
            Fate::Added { now } => (Becomes::Undecided, format!("is new at its place: {now}")),
            Fate::Removed { was } => (Becomes::Undecided, format!("is no longer in the file: {was}")),
        };
        Item::new(About::State, &fate.label, becomes, words)
    };
    change::fates(lane, made).into_iter().map(item).collect()
}

/// How the table's columns differ from those of its newest insert.
fn columns(lane: &Lane, table: &TableNow) -> Option<Item> {
    let known = &lane.tables[lane.table(&table.name)?];
    let before = layouts::from_record(&*known.newest_layout()?);
    let words = before.difference(table.layout.as_ref()?);
    (!words.is_empty()).then(|| Item::new(About::Columns, &table.name, Becomes::Changed, words))
}

fn of_partition(lane: &Lane, now: &PartitionNow, is_one_input: bool) -> Item {
    let input = if is_one_input { String::new() } else { format!("{}:", now.input) };
    let name = format!("{input}{}/{}", now.stream, now.index);
    let is_known =
        lane.input(&now.input).is_some_and(|input| lane.partition(input, &now.stream, now.index).is_some());
    let becomes = if is_known { Becomes::Same } else { Becomes::New };
    let from = position::shown(now.next);
    let words = match now.end {
        Some(end) => match position::between(now.next, end) {
            Some(count) => format!("read from {from} to {}: {count} positions", position::shown(end)),
            None => format!("read from {from} to {}", position::shown(end)),
        },
        None => format!("read from {from} to its end, which is not known"),
    };
    Item::new(About::Partition, &name, becomes, words)
}

#[cfg(test)]
mod tests;
