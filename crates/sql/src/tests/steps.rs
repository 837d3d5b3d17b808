//! What a step says about itself.

use dataflow::{ColumnType, Transform};

use super::types;

const COLUMNS: &str = "id UUID, host LowCardinality(String), n Int64, tags Array(String)";

fn item(name: &str, text: &str) -> (String, String) {
    (name.to_owned(), text.to_owned())
}

#[test]
fn a_filter_reads_only_the_columns_of_its_condition_and_passes_all() {
    let input = types::schema(COLUMNS);
    let step = crate::filter(&input, "lower(host) = 'x' OR n > 1", "filter").expect("a step");
    assert_eq!(step.reads(), ["host", "n"]);
    assert_eq!(step.passes().map(|(_, from)| from).collect::<Vec<_>>(), ["id", "host", "n", "tags"]);
    assert_eq!(step.schema().columns(), input.columns());
    assert!(!step.multiplies());
}

#[test]
fn a_column_that_passes_is_not_read_and_keeps_its_type() {
    let input = types::schema(COLUMNS);
    let items = [item("key", "id"), item("n", "n + 1"), item("h", "host")];
    let step = crate::select(&input, &items, true, "select").expect("a step");
    assert_eq!(step.reads(), ["n"]);
    let names: Vec<_> = step.schema().columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["id", "host", "n", "tags", "key", "h"], "a new value takes its column's place");
    assert_eq!(step.schema().columns()[4].column_type, ColumnType::Uuid);
    assert!(step.passes().any(|(to, from)| (to, from) == ("h", "host")));
    assert!(!step.passes().any(|(to, _)| to == "n"));
}

#[test]
fn a_step_reads_what_is_written_also_if_no_value_depends_on_it() {
    let input = types::schema(COLUMNS);
    let reads = |text: &str| crate::filter(&input, text, "filter").expect("a step").reads().to_vec();
    assert_eq!(reads("n > 1 OR true"), ["n"]);
    assert_eq!(reads("host = host AND id IS NOT NULL"), ["id", "host"]);
    assert_eq!(reads("any_match(tags, n -> n = 'x')"), ["tags"], "the name of an item is no column");

    let items = [item("x", "coalesce(host, '-')"), item("y", "(n)"), item("z", "host")];
    let step = crate::select(&input, &items, false, "select").expect("a step");
    assert_eq!(step.reads(), ["host", "n"]);
    assert_eq!(step.passes().collect::<Vec<_>>(), [("z", "host")]);

    let step = crate::query(
        &input,
        "SELECT * EXCEPT (n), CASE WHEN true THEN id ELSE NULL END AS a FROM input",
        "sql",
    );
    let step = step.expect("a step");
    assert_eq!(step.reads(), ["id", "n"]);
    let expected = [("id", "id"), ("host", "host"), ("tags", "tags")];
    assert_eq!(step.passes().collect::<Vec<_>>(), expected);
}

#[test]
fn unnest_multiplies() {
    let input = types::schema(COLUMNS);
    let step =
        crate::query(&input, "SELECT id, UNNEST(tags) AS tag FROM input WHERE n > 0", "sql").expect("a step");
    assert!(step.multiplies());
    assert_eq!(step.reads(), ["n", "tags"]);
    assert_eq!(step.schema().columns()[1].column_type, ColumnType::String);
}
