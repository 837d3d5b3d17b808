//! What a part is killed in the middle of, and how often that was.
//!
//! Owns the stages, which part is killed in which of them, and the table of the report. Does not own a kill (`buffer::crash`), nor how a request is
//! caught that shows a stage (`buffer::proxy`).

use std::time::Duration;

use anyhow::ensure;

use super::Crash;
use crate::buffer::proxy::{Asked, At};
use crate::figure::{Figure, Shown};
use crate::grid::Grid;

/// From one kill to the next, at the least: two starts of a part and what it then waits for.
const EACH: Duration = Duration::from_secs(4);

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Part {
    Gateway,
    Pipeline,
    ClickHouse,
    Store,
}

/// All of them.
pub const PARTS: [Part; 4] = [Part::Gateway, Part::Pipeline, Part::ClickHouse, Part::Store];

impl Part {
    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gateway => "the gateway",
            Self::Pipeline => "the pipeline",
            Self::ClickHouse => "ClickHouse",
            Self::Store => "the store",
        }
    }

    /// From the start of one that was killed until the table had caught up, the longest time of all its kills.
    pub fn caught_up(self) -> Figure {
        let (key, label) = match self {
            Self::Gateway => {
                ("gateway_killed_caught_up_s", "gateway killed: from its start to caught up, the longest, s")
            }
            Self::Pipeline => ("pipeline_killed_caught_up_s", "pipeline killed: the same, s"),
            Self::ClickHouse => ("clickhouse_killed_caught_up_s", "ClickHouse killed: the same, s"),
            Self::Store => ("store_killed_caught_up_s", "store away: the same, s"),
        };
        Figure::new(key, label, Shown::Decimals(1))
    }

    /// The column of its kills.
    fn kills(self) -> Figure {
        let (key, label) = match self {
            Self::Gateway => ("gateway_kills", "gateway"),
            Self::Pipeline => ("pipeline_kills", "pipeline"),
            Self::ClickHouse => ("clickhouse_kills", "ClickHouse"),
            Self::Store => ("store_kills", "store"),
        };
        Figure::new(key, label, Shown::Whole)
    }
}

/// What goes on at the moment of a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A request of a sender waits for its answer.
    Request,
    /// A data object is on its way to the store, which never gets it.
    Object,
    /// The store has the data object, and its answer never comes.
    ObjectStored,
    /// The swap of the log's root is on its way to the store, which never gets it.
    Commit,
    /// The store has swapped the root, and its answer never comes.
    Committed,
    /// A data object is asked for.
    Read,
    /// A record of the pipeline's journal is on its way to the store, which never gets it.
    Record,
    /// The store has the record, and its answer never comes.
    RecordStored,
    /// ClickHouse has all of an insert, and has not answered.
    Insert,
    /// ClickHouse has answered the insert, and the answer never comes.
    Inserted,
    /// The part was killed a moment before, and its first step of work after the start is on its way.
    Start,
}

const STAGES: [Stage; 11] = [
    Stage::Request,
    Stage::Object,
    Stage::ObjectStored,
    Stage::Commit,
    Stage::Committed,
    Stage::Read,
    Stage::Record,
    Stage::RecordStored,
    Stage::Insert,
    Stage::Inserted,
    Stage::Start,
];

impl Stage {
    /// In a sentence, behind "while".
    pub fn name(self) -> &'static str {
        match self {
            Self::Request => "a request waits for its answer",
            Self::Object => "a data object is put",
            Self::ObjectStored => "a data object is stored and not answered",
            Self::Commit => "a commit is put",
            Self::Committed => "a commit is stored and not answered",
            Self::Read => "a data object is read",
            Self::Record => "the journal is put",
            Self::RecordStored => "the journal is stored and not answered",
            Self::Insert => "an insert runs",
            Self::Inserted => "an insert is done and not answered",
            Self::Start => "it has just started",
        }
    }

    /// The request by which the stage is seen; `None` where a request of a sender shows it. `part` is what is killed.
    pub fn shown_by(self, part: Part) -> Option<(Asked, At)> {
        Some(match self {
            Self::Request => return None,
            Self::Object => (Asked::PutObject, At::Coming),
            Self::ObjectStored => (Asked::PutObject, At::Answered),
            Self::Commit => (Asked::PutRoot, At::Coming),
            Self::Committed => (Asked::PutRoot, At::Answered),
            Self::Read => (Asked::GetObject, At::Coming),
            Self::Record => (Asked::PutRecord, At::Coming),
            Self::RecordStored => (Asked::PutRecord, At::Answered),
            Self::Insert => (Asked::Insert, At::Passed),
            Self::Inserted => (Asked::Insert, At::Answered),
            Self::Start => match part {
                // Both begin with a claim: of the log, and of the journal.
                Part::Gateway | Part::Store => (Asked::PutRoot, At::Coming),
                Part::Pipeline => (Asked::PutRecord, At::Coming),
                Part::ClickHouse => (Asked::Insert, At::Passed),
            },
        })
    }
}

/// What is killed in which stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// What.
    pub part: Part,
    /// When.
    pub stage: Stage,
}

impl Kill {
    /// Whether a request to ClickHouse shows the stage.
    pub fn is_at_clickhouse(self) -> bool {
        self.stage.shown_by(self.part).is_some_and(|(asked, _)| asked == Asked::Insert)
    }

    /// Whether it can be only where the store is behind a proxy.
    fn needs_proxy(self) -> bool {
        self.part == Part::Store || (self.stage != Stage::Request && !self.is_at_clickhouse())
    }
}

/// The stages that a part has a share in.
fn stages(part: Part) -> &'static [Stage] {
    match part {
        Part::Gateway => &[
            Stage::Request,
            Stage::Object,
            Stage::ObjectStored,
            Stage::Commit,
            Stage::Committed,
            Stage::Start,
        ],
        Part::Pipeline => &[
            Stage::Request,
            Stage::Read,
            Stage::Record,
            Stage::RecordStored,
            Stage::Insert,
            Stage::Inserted,
            Stage::Start,
        ],
        Part::ClickHouse => &[Stage::Request, Stage::Record, Stage::Insert, Stage::Inserted, Stage::Start],
        Part::Store => &[
            Stage::Request,
            Stage::Object,
            Stage::ObjectStored,
            Stage::Commit,
            Stage::Committed,
            Stage::Read,
            Stage::Record,
            Stage::RecordStored,
            Stage::Start,
        ],
    }
}

/// Each part in each of its stages, by turns.
fn kills(has_proxy: bool) -> Vec<Kill> {
    let nth = |n: usize| {
        PARTS.into_iter().filter_map(move |part| Some(Kill { part, stage: *stages(part).get(n)? }))
    };
    (0..STAGES.len()).flat_map(nth).filter(|kill| has_proxy || !kill.needs_proxy()).collect()
}

/// The kills of a load that is sent for so long, in their order: all of them, as often as there is time for.
///
/// # Errors
/// When there is not.
pub fn planned(has_proxy: bool, sending: Duration) -> anyhow::Result<Vec<Kill>> {
    let all = kills(has_proxy);
    let once = EACH * all.len() as u32;
    let rounds = (sending.as_secs() / once.as_secs()) as usize;
    ensure!(
        rounds > 0,
        "`--crash` kills {} times, which takes {} s, and the load ends after {:.0} s: offer it for longer (`--seconds`)",
        all.len(),
        once.as_secs(),
        sending.as_secs_f64()
    );
    Ok(all.repeat(rounds))
}

/// How often each part was killed in each stage; nothing where nothing was.
pub fn grid(crashes: &[Crash]) -> Option<Grid> {
    let count = |part: Part, stage: Stage| {
        let wanted = Kill { part, stage };
        crashes.iter().filter(|crash| crash.kill == wanted).count()
    };
    let mut grid = Grid::new("killed while", &PARTS.map(Part::kills));
    for stage in STAGES {
        if PARTS.into_iter().all(|part| count(part, stage) == 0) {
            continue;
        }
        grid.push(stage.name(), |column| {
            let part = PARTS.into_iter().find(|part| part.kills() == column)?;
            Some(count(part, stage)).filter(|count| *count > 0).map(|count| count as f64)
        });
    }
    (!grid.rows.is_empty()).then_some(grid)
}

#[cfg(test)]
mod tests;
