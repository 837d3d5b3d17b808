use std::sync::Arc;

use arrow_array::{RecordBatch, UInt64Array};

use super::*;

struct Dealt(Vec<(usize, Vec<usize>)>);

impl Router for Dealt {
    fn route(&self, rows: &Selected) -> Vec<(usize, Selected)> {
        let part = |(place, own): &(usize, Vec<usize>)| (*place, rows.only(|row| own.contains(&row)));
        self.0.iter().map(part).collect()
    }
}

fn rows(n: u64) -> Selected {
    let ids = Arc::new(UInt64Array::from_iter_values(0..n));
    Selected::all(RecordBatch::try_from_iter([("id", ids as _)]).expect("one column"))
}

/// Rows for each table that gets any, those for none, and those beyond the first of each.
type Counted = (Vec<(usize, usize)>, u64, u64);

fn counts(routed: Result<Routed, EngineError>) -> Option<Counted> {
    let Routed { tables, dropped, more } = routed.ok()?;
    Some((tables.into_iter().map(|(place, rows)| (place, rows.len())).collect(), dropped, more))
}

#[test]
fn without_a_router_every_table_gets_every_row() {
    assert_eq!(counts(route(None, 1, rows(5))), Some((vec![(0, 5)], 0, 0)));
    assert_eq!(counts(route(None, 3, rows(5))), Some((vec![(1, 5), (2, 5), (0, 5)], 0, 10)));
}

#[test]
fn a_row_for_several_tables_is_one_and_more_and_one_for_none_is_dropped() {
    let router = Dealt(vec![(0, vec![0, 1]), (2, vec![1, 2]), (1, vec![])]);
    assert_eq!(counts(route(Some(&router), 3, rows(5))), Some((vec![(0, 2), (2, 2)], 2, 1)));
}

#[test]
fn a_router_that_breaks_its_contract_is_no_ones_loss() {
    assert!(route(Some(&Dealt(vec![(3, vec![0])])), 3, rows(5)).is_err(), "no such table");
    assert!(route(Some(&Dealt(vec![(0, vec![0]), (0, vec![1])])), 3, rows(5)).is_err(), "a table twice");
}
