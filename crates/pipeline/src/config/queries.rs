//! `sql` steps that are windows or joins, as the `window` and `join` steps that they stand for.
//!
//! Owns the way from the table functions to the settings of a window, from `FROM a JOIN b ON …` to those of joins, and from queries within queries to steps behind
//! one another. Does not own their grammar ([`sql::layers`], [`sql::windowed`], [`sql::joined`]), nor what an aggregate means, nor what stands behind a join (the planner asks
//! [`sql::behind_join`]).
//!
//! | the time of a window of SQL          | is                                                                  |
//! |--------------------------------------|---------------------------------------------------------------------|
//! | of records                           | the column that it names                                            |
//! | behind a window, `window_time`       | that of the results                                                 |
//! | behind a join of SQL                 | that of the joined rows, if it names the column of an input that always is |

use super::faults::Faults;
use super::model::Pipeline;
#[cfg(feature = "sql")]
use super::model::join::{JoinKind, JoinQuery, JoinStep, QueryColumn};
#[cfg(feature = "sql")]
use super::model::step::{AtEnd, Step, WindowStep};
#[cfg(feature = "sql")]
use super::model::written::Written;
#[cfg(feature = "sql")]
use super::rules;
use super::spans::Node;
#[cfg(feature = "sql")]
use super::values::{Identifier, Pairs, Period, column_of};

/// Steps of a pipeline at the most: those of the file, and those that a query stands for.
#[cfg(feature = "sql")]
const STEPS_MAX: usize = 16;

/// Replaces every `sql` step that reads `FROM TUMBLE(…)`, `HOP`, `CUMULATE` or `SESSION`, from several inputs, or from another query. One that cannot be steps
/// stays, with a fault. `file` is the text of the file.
#[cfg(feature = "sql")]
pub(super) fn lowered(pipeline: &mut Pipeline, tree: &Node, file: &str, faults: &mut Faults) {
    let time = |input: &super::model::Input<'_>| {
        let time =
            input.source.time.as_ref().map_or(dataflow::Metadata::Timestamp.name(), |time| time.as_str());
        (input.name.to_owned(), time.to_owned())
    };
    let times: Vec<(String, String)> = pipeline.inputs().iter().map(time).collect();
    let (mut steps, mut timed) = (Vec::new(), Timed::Records);
    let written = std::mem::take(&mut pipeline.steps);
    let count = written.len();
    for (at, step) in written.into_iter().enumerate() {
        let path = format!("steps[{at}].sql");
        let lowered = match &step.sql {
            Some(text) => lowered_step((at, &step, text), &times, &timed),
            None => Ok((vec![own(at, step.clone())], timed.behind(&step))),
        };
        match lowered {
            Ok((lowered, behind)) => {
                steps.extend(lowered);
                timed = behind;
            }
            Err((message, place)) => {
                faults.fault(rules::place_in(tree, file, &path, place), path, message);
                steps.push(own(at, step));
            }
        }
    }
    if steps.len() > STEPS_MAX && count <= STEPS_MAX {
        let message = format!(
            "its queries stand for `{}` steps, and at most {STEPS_MAX} are allowed; make two pipelines",
            steps.len()
        );
        faults.fault(rules::place(tree, "steps"), "steps", message);
    }
    // Most files need no numbers of their own.
    if steps.len() == count {
        steps.iter_mut().for_each(|step| step.written = None);
    }
    pipeline.steps = steps;
}

/// Without SQL there are none: the planner says so of the step.
#[cfg(not(feature = "sql"))]
pub(super) fn lowered(_: &mut Pipeline, _: &Node, _: &str, _: &mut Faults) {}

/// A step as the file has it.
#[cfg(feature = "sql")]
fn own(at: usize, step: Step) -> Step {
    Step { written: Some(Written { at, pieces: None }), ..step }
}

/// What the time of rows is.
#[cfg(feature = "sql")]
#[derive(Clone)]
enum Timed {
    /// A column, or what the source says.
    Records,
    /// That of a window's results.
    Results,
    /// That of joined rows, which these columns have.
    Joined(Vec<String>),
}

#[cfg(feature = "sql")]
impl Timed {
    /// Behind a step.
    fn behind(&self, step: &Step) -> Self {
        match (self, step) {
            (_, Step { window: Some(_), .. }) => Self::Results,
            (_, Step { join: Some(_), .. }) => Self::Joined(Vec::new()),
            (Self::Joined(columns), Step { select: Some(items), .. }) => {
                let has_all = items.0.iter().any(|(name, _)| name.as_str() == "*");
                let is_kept =
                    |column: &&String| match items.0.iter().find(|(name, _)| name.as_str() == **column) {
                        Some((_, text)) => column_of(text).as_deref() == Some(column.as_str()),
                        None => has_all,
                    };
                Self::Joined(columns.iter().filter(is_kept).cloned().collect())
            }
            // What it makes of a column is not known here.
            (Self::Joined(_), Step { sql: Some(_), .. }) => Self::Joined(Vec::new()),
            _ => self.clone(),
        }
    }

    /// The column of the time of a window of SQL; `None` where the rows have a time that the step is not told.
    fn of_window(&self, named: String) -> Result<Option<String>, String> {
        match self {
            Self::Records => Ok(Some(named)),
            Self::Results if named == sql::WINDOW_TIME => Ok(None),
            Self::Results => Err(format!(
                "a result of a window has a time of its own, the last millisecond of its window; write `{}` in place of `{named}`",
                sql::WINDOW_TIME
            )),
            Self::Joined(columns) if columns.contains(&named) => Ok(None),
            Self::Joined(columns) if columns.is_empty() => Err(
                "a window of SQL names the column of its time, and a joined row has a time of its own; write a `window` step without `time` in its place".to_owned(),
            ),
            Self::Joined(columns) => Err(format!(
                "a joined row has the later of its inputs' times, which `{named}` need not be; write `{}`",
                columns.join("` or `")
            )),
        }
    }
}

/// A message, and the byte of the text that it is about.
#[cfg(feature = "sql")]
type Wrong = (String, Option<usize>);

/// The steps of a text, and what the time of their rows is.
#[cfg(feature = "sql")]
fn lowered_step(
    (at, step, text): (usize, &Step, &str),
    times: &[(String, String)],
    timed: &Timed,
) -> Result<(Vec<Step>, Timed), Wrong> {
    let wrong = |fault: sql::Fault| (fault.message, fault.at.map(|at| at.start));
    let mut layers = sql::layers(text, is_aggregate).map_err(wrong)?;
    // One of which nothing was left out.
    if let [only] = &mut layers[..]
        && only.pieces.len() == 2
    {
        // As it is written, with blanks and all.
        *only = sql::Layer {
            text: text.to_owned(),
            pieces: vec![(0, 0), (text.len(), text.len())],
            ..only.clone()
        };
    }
    let (mut steps, mut timed) = (Vec::new(), timed.clone());
    let last = layers.iter().rposition(|layer| layer.role == sql::Role::Query);
    for (nth, layer) in layers.into_iter().enumerate() {
        let in_whole = |(message, place): Wrong| (message, place.map(|place| layer.place(place)));
        let (made, behind) =
            lowered_layer(&layer.text, times, &timed, Some(nth) == last).map_err(in_whole)?;
        // A condition takes nothing from the rows.
        if layer.role != sql::Role::Before {
            timed = behind;
        }
        // What stands before has rows for it until then.
        if made.iter().any(|step| step.window.as_ref().is_some_and(|window| window.at_end == AtEnd::Close)) {
            steps.iter_mut().for_each(close_at_end);
        }
        let written = Written { at, pieces: Some(layer.pieces) };
        steps.extend(made.into_iter().map(|made| Step {
            from: step.from.clone(),
            written: Some(written.clone()),
            ..made
        }));
    }
    Ok((steps, timed))
}

#[cfg(feature = "sql")]
fn is_aggregate(function: &str) -> bool {
    super::windows::is_aggregate(function)
}

/// The step closes when every input has ended.
#[cfg(feature = "sql")]
fn close_at_end(step: &mut Step) {
    step.window.iter_mut().for_each(|window| window.at_end = AtEnd::Close);
    step.join.iter_mut().for_each(|join| join.at_end = AtEnd::Close);
}

/// The steps of one query.
#[cfg(feature = "sql")]
fn lowered_layer(
    text: &str,
    times: &[(String, String)],
    timed: &Timed,
    is_last: bool,
) -> Result<(Vec<Step>, Timed), Wrong> {
    let wrong = |fault: sql::Fault| (fault.message, fault.at.map(|at| at.start));
    if let Some(mut found) = sql::windowed(text).map_err(wrong)? {
        if let Some(at) = found.selects_time.take().filter(|_| is_last) {
            let message = "`window_time` is no column, but the time that a window behind this one may name; the table has `window_end`, which is a millisecond later";
            return Err((message.to_owned(), Some(at.start)));
        }
        let time = timed.of_window(std::mem::take(&mut found.time)).map_err(|message| (message, None))?;
        let window = window(found, time).map_err(|message| (message, None))?;
        return Ok((vec![Step { window: Some(window), ..Step::default() }], Timed::Results));
    }
    if let Some(found) = sql::joined(text, times).map_err(wrong)? {
        let timed = Timed::Joined(found.row_times.clone());
        let joins = joins(found, text, times)?.into_iter();
        return Ok((joins.map(|join| Step { join: Some(join), ..Step::default() }).collect(), timed));
    }
    let step = Step { sql: Some(text.to_owned()), ..Step::default() };
    let timed = timed.behind(&step);
    Ok((vec![step], timed))
}

/// The joins of a query, one behind the other.
#[cfg(feature = "sql")]
fn joins(found: sql::Joined, text: &str, times: &[(String, String)]) -> Result<Vec<JoinStep>, Wrong> {
    let sql::Joined { tables, joins, .. } = &found;
    let mut made = Vec::<JoinStep>::new();
    for (nth, join) in joins.iter().enumerate() {
        let left = match made.last_mut() {
            None => input(&tables[0])?,
            Some(before) => {
                // No input has such a name by chance, and messages show it.
                let names: Vec<&str> = tables[..=nth].iter().map(|table| table.name.as_str()).collect();
                let name: Identifier = names.join(" JOIN ").parse().map_err(|error: String| {
                    (
                        format!("the names of these inputs are too long to join them in one query: {error}"),
                        None,
                    )
                })?;
                before.name = Some(name.clone());
                name
            }
        };
        made.push(of_join((&found, nth, join), left, (text, times))?);
    }
    Ok(made)
}

/// The name of an input.
#[cfg(feature = "sql")]
fn input(table: &sql::Table) -> Result<Identifier, Wrong> {
    let at = table.at.as_ref().map(|at| at.start);
    table.name.parse::<Identifier>().map_err(|error| (format!("the name `{}` {error}", table.name), at))
}

/// What a column is called in the rows of the joins before.
#[cfg(feature = "sql")]
fn qualified(tables: &[sql::Table], table: usize, column: &str) -> String {
    format!("{}.{column}", tables[table].qualifier)
}

/// The columns that are read under the name of their table from the rows of join number `nth` on, as they are on the two sides of it.
#[cfg(feature = "sql")]
fn columns_of(found: &sql::Joined, nth: usize) -> Vec<QueryColumn> {
    let of_keys = found.joins.iter().skip(nth + 1).flat_map(|join| &join.on);
    let of_keys = of_keys.filter_map(|pair| {
        let (table, column) = (pair.table?, pair.left.clone());
        let name = qualified(&found.tables, table, &column);
        Some(sql::Qualified { table, column, name, at: pair.at.clone() })
    });
    let mut columns = Vec::<QueryColumn>::new();
    for one in found.columns.iter().cloned().chain(of_keys).filter(|one| one.table <= nth + 1) {
        if columns.iter().any(|known| known.name == one.name) {
            continue;
        }
        let side = usize::from(one.table == nth + 1);
        let column = if side == 0 && nth > 0 { one.name.clone() } else { one.column };
        columns.push(QueryColumn { side, column, name: one.name, at: one.at });
    }
    columns
}

#[cfg(feature = "sql")]
fn of_join(
    (found, nth, join): (&sql::Joined, usize, &sql::Join),
    left: Identifier,
    (text, times): (&str, &[(String, String)]),
) -> Result<JoinStep, Wrong> {
    let sql::Joined { tables, names, is_all, row_times, .. } = found;
    let right = &tables[nth + 1];
    let columns = columns_of(found, nth);
    let before = nth.checked_sub(1).map_or_else(Vec::new, |before| columns_of(found, before));
    let is_shown = |name: &String| columns.iter().any(|column| column.name == *name);
    let hidden = before.into_iter().map(|column| column.name).filter(|name| !is_shown(name)).collect();
    let mut query = JoinQuery {
        text: text.to_owned(),
        times: times.to_vec(),
        sides: tables.iter().map(|table| table.qualifier.clone()).collect(),
        is_behind: nth > 0,
        hidden,
        columns,
        names: names.clone(),
        merged: join.merged.clone(),
        is_all: *is_all,
        row_times: row_times.clone(),
        places: vec![("left".into(), tables[0].at.clone()), ("right".into(), right.at.clone())],
        ..JoinQuery::default()
    };
    let mut pairs = Vec::new();
    for (number, pair) in join.on.iter().enumerate() {
        let own = match pair.table {
            Some(table) if nth > 0 => qualified(tables, table, &pair.left),
            _ => pair.left.clone(),
        };
        if [&own, &pair.right].iter().any(|name| name.contains('=')) {
            let message = "a column with `=` in its name cannot be compared here; give it another name in a `select` step before this one";
            return Err((message.to_owned(), pair.at.as_ref().map(|at| at.start)));
        }
        pairs.push(if own == pair.right { own } else { format!("{own} = {}", pair.right) });
        query.places.push((format!("on[{number}]"), pair.at.clone()));
    }
    let mut step = JoinStep::of(left, input(right)?, pairs);
    step.kind = match join.kind {
        sql::JoinKind::Inner => JoinKind::Inner,
        sql::JoinKind::Left => JoinKind::Left,
        sql::JoinKind::Right => JoinKind::Right,
        sql::JoinKind::Full => JoinKind::Full,
    };
    match &join.matching {
        sql::Matching::Near { before, after, times, at } => {
            (step.before, step.after) = (Some(Period { ms: *before }), Some(Period { ms: *after }));
            query.time_of = times.clone();
            query.places.extend(["time[0]", "time[1]"].map(str::to_owned).into_iter().zip(at.clone()));
        }
        sql::Matching::AsOf { time, at } => {
            step.as_of = Some(step.left.clone());
            query.time_of = [time.clone(), None];
            query.places.push(("time[0]".into(), at.clone()));
        }
    }
    step.query = Some(query);
    Ok(step)
}

#[cfg(feature = "sql")]
fn window(found: sql::Windowed, time: Option<String>) -> Result<WindowStep, String> {
    let sql::Windowed { kind, lateness, max, closes_at_end, key, aggregates, .. } = found;
    let name =
        |name: String| name.parse::<Identifier>().map_err(|error| format!("the name `{name}` {error}"));
    let aggregates = aggregates.into_iter().map(|(one, text)| Ok((name(one)?, text)));
    let aggregates = Pairs(aggregates.collect::<Result<_, String>>()?);
    let key = key.into_iter().map(name).collect::<Result<_, _>>()?;
    let time = time.map(name).transpose()?;
    let mut window = WindowStep { key, time, aggregates, ..WindowStep::default() };
    window.lateness = lateness.map_or(window.lateness, |ms| Period { ms });
    window.max = max.map(|ms| Period { ms });
    window.at_end = if closes_at_end { AtEnd::Close } else { AtEnd::Wait };
    let length = |ms: u64| match ms {
        1_000.. => Ok(Some(Period { ms })),
        _ => Err(format!("`{ms}` ms is too short for a window; write a second or more")),
    };
    Ok(match kind {
        sql::WindowKind::Tumble { size } => WindowStep { size: length(size)?, ..window },
        sql::WindowKind::Hop { slide, size } => {
            WindowStep { size: length(size)?, slide: length(slide)?, ..window }
        }
        sql::WindowKind::Cumulate { step, size } => {
            WindowStep { size: length(size)?, step: length(step)?, ..window }
        }
        sql::WindowKind::Session { gap } => WindowStep { gap: length(gap)?, ..window },
    })
}

#[cfg(all(test, feature = "sql"))]
mod tests;
