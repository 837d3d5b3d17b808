use dataflow::{Layout, LayoutColumn};
use protocol::lane::{InputState, PartitionState, TableState};
use protocol::record::{self, StepShape};

use super::*;

fn part(kind: &str, name: &str, text: &str) -> Part {
    Part { kind: kind.into(), name: name.into(), text: text.into() }
}

fn lane(parts: Vec<Part>) -> Lane {
    let inputs = vec![InputState { name: "source".into(), ..InputState::default() }];
    Lane { pipeline: "p".into(), inputs, parts, ..Lane::new() }
}

fn lines(items: &[Item]) -> Vec<String> {
    items
        .iter()
        .map(|item| {
            format!("{} {} {:?} {}", item.about.word(), item.name, item.becomes, item.words)
                .trim_end()
                .to_owned()
        })
        .collect()
}

#[test]
fn steps_are_compared_in_their_order() {
    let step = |name: &str, text: &str| part("step", name, text);
    let before =
        lane(vec![step("filter", "a > 1"), step("dedup", "id"), step("filter", "b"), step("sql", "old")]);
    let now = [step("select", "x"), step("dedup", "id"), step("filter", "c"), step("filter", "d")];
    assert_eq!(
        lines(&compare(&before, &now, None, &[], &[])),
        [
            "step 1 select New x",
            "step filter Gone a > 1",
            "step 2 dedup Same",
            "step 3 filter Changed was: b; is: c",
            "step 4 filter New d",
            "step sql Gone old",
        ]
    );
}

#[test]
fn tables_and_inputs_are_compared_by_name() {
    let before = lane(vec![
        part("input", "source", "json"),
        part("table", "d.a", "every row"),
        part("table", "d.b", "x"),
    ]);
    let now = [part("input", "source", "avro"), part("table", "d.a", "every row"), part("table", "d.c", "y")];
    assert_eq!(
        lines(&compare(&before, &now, None, &[], &[])),
        [
            "input source Changed was: json; is: avro",
            "table d.a Same",
            "table d.c New y",
            "table d.b Gone it gets no more rows; those that it has stay",
        ]
    );
}

#[test]
fn a_changed_state_is_not_decided_and_a_new_pipeline_has_none() {
    let made =
        |shape: &str| Composition { steps: vec![StepShape::new("dedup", shape)], ..Composition::default() };
    let before = Lane { steps: made("id 1h").steps, ..lane(Vec::new()) };
    assert_eq!(lines(&compare(&before, &[], Some(&made("id 1h")), &[], &[])), ["state dedup Same"]);
    let changed = compare(&before, &[], Some(&made("id 2h")), &[], &[]);
    assert_eq!(lines(&changed), ["state dedup Undecided was: id 1h; is: id 2h"]);
    assert_eq!(lines(&compare(&Lane::new(), &[], Some(&made("id 1h")), &[], &[])), ["state dedup New id 1h"]);
}

#[test]
fn columns_are_those_of_the_newest_insert_and_partitions_go_on() {
    let mut before = lane(Vec::new());
    before.partitions = vec![PartitionState {
        input: 0,
        stream: "e".into(),
        index: 0,
        identity: String::new(),
        next: 10,
        leader_epoch: -1,
        time_ms_max: 0,
        taken_over: None,
    }];
    let column = |name: &str| record::LayoutColumn {
        name: name.into(),
        type_name: "UInt8".into(),
        ..Default::default()
    };
    let layout = record::Layout { table: 0, number: 1, columns: vec![column("a"), column("b")] };
    before.tables = vec![TableState {
        name: "d.a".into(),
        layouts: vec![layout.into()],
        newest_layout: 1,
        ..TableState::default()
    }];
    let now = |name: &str| LayoutColumn {
        name: name.into(),
        type_name: "UInt8".into(),
        default: String::new(),
        is_required: false,
    };
    let table = TableNow { name: "d.a".into(), layout: Some(Layout { columns: vec![now("a"), now("c")] }) };
    let partition =
        |index, next, end| PartitionNow { input: "source".into(), stream: "e".into(), index, next, end };
    let found = compare(&before, &[], None, &[table], &[partition(0, 10, Some(25)), partition(1, 0, None)]);
    assert_eq!(
        lines(&found),
        [
            "partition e/0 Same read from 10 to 25: 15 positions",
            "partition e/1 New read from 0 to its end, which is not known",
            "columns d.a Changed added `c` UInt8, dropped `b`",
        ]
    );
    let other = PartitionNow { input: "other".into(), ..partition(0, 3, None) };
    assert_eq!(
        lines(&compare(&before, &[], None, &[], &[partition(0, 10, Some(10)), other])),
        [
            "partition source:e/0 Same read from 10 to 10: 0 positions",
            "partition other:e/0 New read from 3 to its end, which is not known",
        ]
    );
}
