//! Which Enums each step with state keeps values of, as its state says.
//!
//! Owns that no such Enum is left out. Does not own what a change of one means (`engine::change`).

use std::sync::Arc;
use std::time::Duration;

use dataflow::{Column, ColumnType, Operator, Schema};
use operators::window::{Aggregate, Function, Windows};
use operators::{
    Dedup, DedupConfig, Join, JoinColumn, JoinConfig, JoinKind, JoinSide, Late, TemporalConfig, TemporalJoin,
    Window, WindowConfig,
};

const HOUR: Duration = Duration::from_secs(3600);

fn level(names: &[(&str, i8)]) -> ColumnType {
    ColumnType::Enum8(names.iter().map(|(name, number)| (Arc::from(*name), *number)).collect())
}

/// A key, a plain column, and Enums at several depths.
fn schema() -> Schema {
    let low = level(&[("low", 1), ("high", 2)]);
    let nullable = ColumnType::Nullable(Box::new(low.clone()));
    let wide = ColumnType::Enum16([(Arc::from("x"), 300)].into());
    Schema::new(vec![
        Column::new("id", ColumnType::Int64),
        Column::new("level", ColumnType::LowCardinality(Box::new(nullable))),
        Column::new("wide", wide),
        Column::new("levels", ColumnType::Array(Box::new(low))),
    ])
}

fn kept(mut step: impl Operator) -> Vec<String> {
    let enums = step.state().expect("it has state").enums().into_iter();
    let words = |found: dataflow::KeptEnum| {
        let names: Vec<String> =
            found.names.iter().map(|(name, number)| format!("{name}={number}")).collect();
        format!("{}: {}", found.of, names.join(" "))
    };
    enums.map(words).collect()
}

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn dedup_keeps_those_of_its_key() {
    let dedup = |key: &[&str]| {
        let config = DedupConfig { key: names(key), window: None, late: Late::Keep };
        kept(Dedup::new(&schema(), config).expect("the settings are valid"))
    };
    assert_eq!(dedup(&["level", "id", "wide"]), ["level: low=1 high=2", "wide: x=300"]);
    assert_eq!(dedup(&["id"]), Vec::<String>::new());
}

#[test]
fn a_window_keeps_those_of_its_key_and_of_values_but_not_of_what_is_only_counted() {
    let arg_max =
        Aggregate { by: Some("level".into()), ..Aggregate::new("top", Function::ArgMax, Some("id")) };
    let aggregates = vec![
        Aggregate::new("n", Function::Count, Some("level")),
        Aggregate::new("most", Function::Max, Some("level")),
        arg_max,
        Aggregate::new("several", Function::CountDistinct, Some("wide")),
        Aggregate::new("sum", Function::Sum, Some("id")),
    ];
    let windows = Windows::Tumbling { size: HOUR };
    let config =
        WindowConfig { key: names(&["wide"]), windows, lateness: Duration::ZERO, aggregates, emit: None };
    let found = kept(Window::new(&schema(), &config).expect("the settings are valid"));
    assert_eq!(found, ["wide: x=300", "most: low=1 high=2", "top: low=1 high=2", "several: x=300"]);
    let aggregates = vec![Aggregate::new("n", Function::Count, None)];
    let by_array = WindowConfig { key: names(&["levels"]), aggregates, ..config };
    let found = kept(Window::new(&schema(), &by_array).expect("the settings are valid"));
    assert_eq!(found, ["levels: low=1 high=2"]);
}

#[test]
fn joins_keep_those_of_both_keys_and_of_the_columns_of_rows() {
    let column = |side, from: &str| JoinColumn {
        name: format!("{}_{from}", JoinSide::word(side)),
        side,
        from: from.into(),
        is_of_side_alone: false,
    };
    let columns =
        vec![column(JoinSide::Left, "id"), column(JoinSide::Left, "levels"), column(JoinSide::Right, "wide")];
    let on = vec![("level".to_owned(), "level".to_owned())];
    let expected = [
        "left.level: low=1 high=2",
        "left.levels: low=1 high=2",
        "right.level: low=1 high=2",
        "right.wide: x=300",
    ];
    let interval = JoinConfig {
        on: on.clone(),
        before: HOUR,
        after: HOUR,
        lateness: Duration::ZERO,
        kind: JoinKind::Inner,
        columns: columns.clone(),
        unmatched: Default::default(),
    };
    assert_eq!(kept(Join::new(&schema(), &schema(), &interval).expect("the settings are valid")), expected);
    let temporal = TemporalConfig {
        on,
        lateness: Duration::ZERO,
        is_outer: false,
        columns,
        deleted: None,
        unmatched: Vec::new(),
    };
    let step = TemporalJoin::new(&schema(), &schema(), &temporal).expect("the settings are valid");
    assert_eq!(kept(step), expected);
    let other = Schema::new(vec![
        Column::new("level", level(&[("low", 1), ("mid", 2)])),
        Column::new("wide", ColumnType::Int64),
    ]);
    let refused =
        Join::new(&schema(), &other, &interval).err().expect("keys are compared by number").to_string();
    assert!(refused.contains("Enums in which a name has two numbers, or a number two names"), "{refused}");
}
