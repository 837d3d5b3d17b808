//! What a benchmark found: runs of arms, their medians, the verdict.
//!
//! Owns the shape of `--json` and the arithmetic, for every workload alike. Does not own the figures (`figure`), nor how they are
//! shown (`table`, `html`).
//!
//! An *arm* is one way to do the same work; arms take turns, so that what the machine does meanwhile meets all of them.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value};
use workloads::content::Content;

use super::figure::{Figure, Figures};
use super::grid::Grid;
use super::trace::Trace;

/// All runs of a benchmark.
#[derive(Debug, Serialize)]
pub struct Report {
    /// What was run where.
    pub setting: Setting,
    /// In the order in which they ran.
    pub runs: Vec<Run>,
    /// Medians and ranges of the first arm, which is what is measured.
    pub summary: Summary,
    /// Medians and ranges of every arm.
    pub arms: Vec<Arm>,
    /// What is compared in a table of its own.
    #[serde(rename = "tables", skip_serializing_if = "Vec::is_empty")]
    pub grids: Vec<Grid>,
    /// True if every run did its work right.
    pub right: bool,
    /// What is to be reached.
    pub goals: Vec<Goal>,
    /// Whether every goal is; `None` if one of them cannot be judged.
    pub goals_met: Option<bool>,
}

/// What was run where.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// The workload's name.
    pub workload: &'static str,
    /// What is measured, in sentences for people.
    pub sentences: Vec<String>,
    /// The same in numbers, for programs.
    #[serde(flatten)]
    pub facts: Map<String, Value>,
    /// The version of the server.
    pub clickhouse: String,
    /// `release` or `development`.
    pub build: &'static str,
    /// The processor's name as the system tells it.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
}

/// One run of one arm.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The arm.
    pub arm: String,
    /// What was measured.
    #[serde(flatten)]
    pub figures: Figures,
    /// Whether the work was done right.
    pub verdict: Verdict,
    /// Why its figures are not to be quoted, however right the table is; then they count in no median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_valid: Option<String>,
    /// What it did over time.
    #[serde(flatten)]
    pub trace: Trace,
}

/// Whether a run left what it must.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// True if nothing is wrong.
    pub right: bool,
    /// What was compared.
    pub checks: Vec<Check>,
    /// What is wrong, in words.
    pub faults: Vec<String>,
}

/// A number that must be another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Check {
    pub what: &'static str,
    pub expected: u64,
    pub found: u64,
}

impl Verdict {
    /// Right if each number is as it must be.
    pub fn of(checks: impl IntoIterator<Item = Check>) -> Self {
        let checks: Vec<Check> = checks.into_iter().collect();
        let faults: Vec<String> = checks
            .iter()
            .filter(|check| check.found != check.expected)
            .map(|Check { what, expected, found }| format!("{what}: `{found}`, but it must be `{expected}`"))
            .collect();
        // Nothing that was inspected shows nothing.
        Self { right: faults.is_empty() && !checks.is_empty(), checks, faults }
    }
}

/// The checks of a table's content.
pub fn of_content(expected: Content, found: Content) -> [Check; 3] {
    let check = |what, expected, found| Check { what, expected, found };
    [
        check("rows in the table", expected.rows, found.rows),
        check("different ids in the table", expected.ids, found.ids),
        check("checksum of the table", expected.checksum, found.checksum),
    ]
}

/// A median and the range around it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Half of the runs are at or below; of an even number of runs the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    /// `None` of no values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => (values[middle - 1] + values[middle]) / 2.0,
            _ => values[middle],
        };
        Some(Self { median, min, max })
    }
}

/// Medians and ranges of figures, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary(Vec<(Figure, Spread)>);

impl Summary {
    fn of<'a>(runs: impl Iterator<Item = &'a Run> + Clone) -> Self {
        let mut figures: Vec<Figure> = Vec::new();
        for figure in runs.clone().flat_map(|run| run.figures.figures()) {
            if !figures.iter().any(|known| known.key == figure.key) {
                figures.push(figure);
            }
        }
        let spread = |figure| Spread::of(runs.clone().filter_map(|run| run.figures.get(figure)));
        Self(figures.into_iter().filter_map(|figure| Some((figure, spread(figure)?))).collect())
    }

    /// A figure's median and range.
    pub fn get(&self, figure: Figure) -> Option<Spread> {
        self.0.iter().find(|(known, _)| known.key == figure.key).map(|(_, spread)| *spread)
    }

    /// All of them.
    pub fn rows(&self) -> &[(Figure, Spread)] {
        &self.0
    }
}

impl Serialize for Summary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (figure, spread) in &self.0 {
            map.serialize_entry(figure.key, spread)?;
        }
        map.end()
    }
}

impl Arm {
    /// How often it ran, and how many of the runs are valid if not all are.
    pub fn counts(&self) -> String {
        match self.runs_valid == self.runs {
            true => format!("runs: {}", self.runs),
            false => format!("valid runs: {} of {}", self.runs_valid, self.runs),
        }
    }
}

/// One way to do the work.
#[derive(Clone, Debug, Serialize)]
pub struct Arm {
    /// Its name.
    pub name: String,
    /// How often it ran.
    pub runs: usize,
    /// How many of them are valid, which the summary is of.
    pub runs_valid: usize,
    /// Its medians and ranges.
    pub summary: Summary,
}

/// What is to be reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Goal {
    /// In words.
    pub text: String,
    /// Whether it is; `None` if this measurement cannot tell.
    pub met: Option<bool>,
}

impl Report {
    /// The report of `runs`, the first arm first; `goals` judges by the arms' summaries.
    pub fn new(setting: Setting, runs: Vec<Run>, goals: impl FnOnce(&[Arm]) -> Vec<Goal>) -> Self {
        let mut names: Vec<&String> = Vec::new();
        for run in &runs {
            if !names.contains(&&run.arm) {
                names.push(&run.arm);
            }
        }
        let arms: Vec<Arm> = names
            .into_iter()
            .map(|name| {
                let of_arm = runs.iter().filter(|run| run.arm == *name);
                let valid = of_arm.clone().filter(|run| run.not_valid.is_none());
                Arm {
                    name: name.clone(),
                    runs: of_arm.count(),
                    runs_valid: valid.clone().count(),
                    summary: Summary::of(valid),
                }
            })
            .collect();
        let right = !runs.is_empty() && runs.iter().all(|run| run.verdict.right);
        let mut goals = goals(&arms);
        if setting.build != RELEASE {
            goals.iter_mut().for_each(|goal| goal.met = None);
        }
        let goals_met = goals.iter().map(|goal| goal.met).collect::<Option<Vec<bool>>>();
        let goals_met = goals_met.filter(|met| !met.is_empty()).map(|met| met.into_iter().all(|met| met));
        let summary = arms.first().map(|arm| arm.summary.clone()).unwrap_or_default();
        Self { setting, runs, summary, arms, grids: Vec::new(), right, goals, goals_met }
    }

    /// The same with tables, made of the arms' summaries.
    #[must_use]
    pub fn with_grids(self, grids: impl FnOnce(&[Arm]) -> Vec<Grid>) -> Self {
        Self { grids: grids(&self.arms), ..self }
    }
}

/// The word for builds that may be quoted.
pub const RELEASE: &str = "release";

/// The word for this build.
pub fn build() -> &'static str {
    if cfg!(debug_assertions) { "development" } else { RELEASE }
}

#[cfg(test)]
mod tests;
