//! `sql` steps that are windows or joins, as the `window` and `join` steps that they stand for.
//!
//! Owns the way from the table functions to the settings of a window, and from `FROM a JOIN b ON …` to those of a join. Does not own their grammar
//! ([`sql::windowed`], [`sql::joined`]), nor what an aggregate means, nor what stands behind a join (the planner asks [`sql::behind_join`]).

use super::faults::Faults;
use super::model::Pipeline;
use super::rules;
use super::spans::Node;

/// Replaces every `sql` step that reads `FROM TUMBLE(…)`, `HOP`, `CUMULATE` or `SESSION`, or from two inputs. One that cannot be a window or a join
/// stays, with a fault. `file` is the text of the file.
#[cfg(feature = "sql")]
pub(super) fn lowered(pipeline: &mut Pipeline, tree: &Node, file: &str, faults: &mut Faults) {
    let time = |input: &super::model::Input<'_>| {
        let time =
            input.source.time.as_ref().map_or(dataflow::Metadata::Timestamp.name(), |time| time.as_str());
        (input.name.to_owned(), time.to_owned())
    };
    let times: Vec<(String, String)> = pipeline.inputs().iter().map(time).collect();
    let mut timed = None;
    for (index, step) in pipeline.steps.iter_mut().enumerate() {
        timed = timed.or_else(|| rows_with_a_time(step));
        let Some(text) = &step.sql else { continue };
        let path = format!("steps[{index}].sql");
        match lowered_step(text, &times) {
            Ok(None) => {}
            Ok(Some((Some(_), _))) if timed.is_some() => {
                let message = format!(
                    "a window of SQL names the column of its time, and {} has a time of its own; write a `window` step without `time` in its place",
                    timed.unwrap_or_default()
                );
                faults.fault(rules::place_in(tree, file, &path, None), path, message);
            }
            Ok(Some(lowered)) => {
                step.sql = None;
                (step.window, step.join) = lowered;
                timed = timed.or_else(|| rows_with_a_time(step));
            }
            Err((message, at)) => faults.fault(rules::place_in(tree, file, &path, at), path, message),
        }
    }
}

/// The rows that a step makes, if they have a time that is no column.
#[cfg(feature = "sql")]
fn rows_with_a_time(step: &super::model::step::Step) -> Option<&'static str> {
    match (&step.window, &step.join) {
        (Some(_), _) => Some("a result of a window"),
        (_, Some(_)) => Some("a joined row"),
        (None, None) => None,
    }
}

/// Without SQL there are none: the planner says so of the step.
#[cfg(not(feature = "sql"))]
pub(super) fn lowered(_: &mut Pipeline, _: &Node, _: &str, _: &mut Faults) {}

/// A window or a join.
#[cfg(feature = "sql")]
type Lowered = (Option<super::model::step::WindowStep>, Option<super::model::join::JoinStep>);

/// A message, and the byte of the text that it is about.
#[cfg(feature = "sql")]
type Wrong = (String, Option<usize>);

#[cfg(feature = "sql")]
fn lowered_step(text: &str, times: &[(String, String)]) -> Result<Option<Lowered>, Wrong> {
    let wrong = |fault: sql::Fault| (fault.message, fault.at.map(|at| at.start));
    if let Some(found) = sql::windowed(text).map_err(wrong)? {
        let window = window(found).map_err(|message| (message, None))?;
        return Ok(Some((Some(window), None)));
    }
    let Some(found) = sql::joined(text, times).map_err(wrong)? else { return Ok(None) };
    Ok(Some((None, Some(join(found, text, times)?))))
}

#[cfg(feature = "sql")]
fn join(
    found: sql::Joined,
    text: &str,
    times: &[(String, String)],
) -> Result<super::model::join::JoinStep, Wrong> {
    use super::model::join::{JoinKind, JoinQuery, JoinStep, QueryColumn};
    use super::values::{Identifier, Period};

    let sql::Joined { tables: [left, right], kind, on, matching, columns, names, merged, is_all } = found;
    let name = |table: &sql::Table| {
        let at = table.at.as_ref().map(|at| at.start);
        table.name.parse::<Identifier>().map_err(|error| (format!("the name `{}` {error}", table.name), at))
    };
    let mut query = JoinQuery {
        text: text.to_owned(),
        times: times.to_vec(),
        sides: [left.qualifier.clone(), right.qualifier.clone()],
        names,
        merged,
        is_all,
        places: vec![("left".into(), left.at.clone()), ("right".into(), right.at.clone())],
        ..JoinQuery::default()
    };
    let mut pairs = Vec::new();
    for (nth, sql::Pair { left, right, at }) in on.into_iter().enumerate() {
        if [&left, &right].iter().any(|name| name.contains('=')) {
            let message = "a column with `=` in its name cannot be compared here; give it another name in a `select` step before this one";
            return Err((message.to_owned(), at.map(|at| at.start)));
        }
        pairs.push(if left == right { left } else { format!("{left} = {right}") });
        query.places.push((format!("on[{nth}]"), at));
    }
    let column = |sql::Qualified { table: side, column, name, at }| QueryColumn { side, column, name, at };
    query.columns = columns.into_iter().map(column).collect();
    let mut join = JoinStep::of(name(&left)?, name(&right)?, pairs);
    join.kind = match kind {
        sql::JoinKind::Inner => JoinKind::Inner,
        sql::JoinKind::Left => JoinKind::Left,
        sql::JoinKind::Right => JoinKind::Right,
        sql::JoinKind::Full => JoinKind::Full,
    };
    match matching {
        sql::Matching::Near { before, after, times, at } => {
            (join.before, join.after) = (Some(Period { ms: before }), Some(Period { ms: after }));
            query.time_of = times.map(Some);
            query.places.extend(["time[0]", "time[1]"].map(str::to_owned).into_iter().zip(at));
        }
        sql::Matching::AsOf { time, at } => {
            join.as_of = Some(join.left.clone());
            query.time_of = [Some(time), None];
            query.places.push(("time[0]".into(), at));
        }
    }
    join.query = Some(query);
    Ok(join)
}

#[cfg(feature = "sql")]
fn window(found: sql::Windowed) -> Result<super::model::step::WindowStep, String> {
    use super::model::step::WindowStep;
    use super::values::{Identifier, Pairs, Period};

    let sql::Windowed { kind, time, lateness, max, key, aggregates } = found;
    let name =
        |name: String| name.parse::<Identifier>().map_err(|error| format!("the name `{name}` {error}"));
    let aggregates = aggregates.into_iter().map(|(one, text)| Ok((name(one)?, text)));
    let aggregates = Pairs(aggregates.collect::<Result<_, String>>()?);
    let key = key.into_iter().map(name).collect::<Result<_, _>>()?;
    let mut window = WindowStep { key, time: Some(name(time)?), aggregates, ..WindowStep::default() };
    window.lateness = lateness.map_or(window.lateness, |ms| Period { ms });
    window.max = max.map(|ms| Period { ms });
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
