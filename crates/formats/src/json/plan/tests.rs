use dataflow::{Column, ColumnType};

use super::*;

fn plan(fields: &[String]) -> Plan {
    let columns = fields.iter().map(|field| Column::new(field, ColumnType::Int8)).collect();
    Plan::new(&Schema::new(columns)).expect("the fields are good")
}

#[test]
fn every_key_is_found_and_nothing_else_however_many_there_are() {
    for count in [1, LINEAR_MAX, LINEAR_MAX + 1, 32, 689] {
        // Names that share their ends, so that the hash has to look at all it can.
        let fields: Vec<_> = (0..count).map(|n| format!("column_number_{n:06}_of_the_table")).collect();
        let plan = plan(&fields);
        let node = &plan.nodes[0];
        for (place, field) in fields.iter().enumerate() {
            assert_eq!(node.find(field.as_bytes()), Some(place), "{field} of {count}");
            assert_eq!(node.find(&field.as_bytes()[1..]), None);
            assert_eq!(node.find(format!("{field}x").as_bytes()), None);
        }
        assert_eq!(node.find(b""), None);
    }
}

#[test]
fn a_dotted_field_has_a_flat_and_a_nested_place() {
    let plan = plan(&["a.b.c".into(), "a.b.d".into(), "e".into(), ".f".into(), "g..h".into()]);
    assert_eq!(plan.nodes.len(), 3);
    let root = &plan.nodes[0];
    let places: Vec<_> = root.keys.iter().map(|key| (&key.name[..], key.fills.len(), key.child)).collect();
    assert_eq!(
        places,
        [
            (&b"a.b.c"[..], 1, None),
            (b"a", 0, Some(1)),
            (b"a.b.d", 1, None),
            (b"e", 1, None),
            (b".f", 1, None),
            (b"g..h", 1, None)
        ]
    );
    assert_eq!(plan.nodes[1].columns, [0, 1]);
    assert_eq!(plan.nodes[2].columns, [0, 1]);
    assert_eq!(plan.slots, 9);
}

#[test]
fn a_field_of_more_parts_than_a_record_may_nest_is_refused() {
    let field = vec!["a"; DEPTH_MAX as usize].join(".");
    let schema = Schema::new(vec![Column::new(field, ColumnType::Int8)]);
    assert!(Plan::new(&schema).unwrap_err().to_string().contains("its field has 64 parts"));
}
