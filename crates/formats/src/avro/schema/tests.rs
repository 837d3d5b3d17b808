use super::*;

fn found(text: &str) -> String {
    match Types::read(text) {
        Ok(types) => show(&types, types.root(), 0),
        Err(error) => error.to_string(),
    }
}

fn show(types: &Types, id: TypeId, depth: usize) -> String {
    if depth > 3 {
        return "…".into();
    }
    match types.get(id) {
        Type::Record(fields) => {
            let fields = fields.iter().map(|(name, id)| format!("{name}: {}", show(types, *id, depth + 1)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        Type::Array(items) => format!("[{}]", show(types, *items, depth + 1)),
        Type::Map(values) => format!("<{}>", show(types, *values, depth + 1)),
        Type::Union(branches) => {
            branches.iter().map(|branch| show(types, *branch, depth + 1)).collect::<Vec<_>>().join("|")
        }
        _ => types.name(id),
    }
}

#[test]
fn every_type_is_read() {
    for (text, expected) in [
        (r#""null""#, "null"),
        (r#"{"type": "string"}"#, "string"),
        (r#"{"type": {"type": "string", "avro.java.string": "String"}}"#, "string"),
        (r#"["null", "int"]"#, "null|int"),
        (r#"{"type": "array", "items": ["null", {"type": "map", "values": "long"}]}"#, "[null|<long>]"),
        (r#"{"type": "enum", "name": "e", "symbols": ["A"]}"#, "enum"),
        (r#"{"type": "fixed", "name": "f", "size": 0}"#, "fixed(0)"),
        (r#"{"type": "record", "name": "r", "fields": []}"#, "{}"),
        (r#"{"type": "int", "logicalType": "date"}"#, "date"),
        (r#"{"type": "long", "logicalType": "timestamp-nanos"}"#, "timestamp-nanos"),
        (r#"{"type": "long", "logicalType": "local-timestamp-micros"}"#, "local-timestamp-micros"),
        (r#"{"type": "bytes", "logicalType": "decimal", "precision": 4}"#, "decimal"),
        (r#"{"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}"#, "uuid"),
    ] {
        assert_eq!(found(text), expected, "{text}");
    }
}

#[test]
fn a_logical_type_that_does_not_belong_is_as_if_it_were_not_there() {
    for (text, expected) in [
        (r#"{"type": "long", "logicalType": "date"}"#, "long"),
        (r#"{"type": "string", "logicalType": "timestamp-millis"}"#, "string"),
        (r#"{"type": "bytes", "logicalType": "decimal"}"#, "bytes"),
        (r#"{"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}"#, "bytes"),
        (r#"{"type": "fixed", "name": "u", "size": 15, "logicalType": "uuid"}"#, "fixed(15)"),
        (r#"{"type": "int", "logicalType": "of-tomorrow"}"#, "int"),
    ] {
        assert_eq!(found(text), expected, "{text}");
    }
}

#[test]
fn names_are_found_in_their_namespace() {
    let inner = r#"{"type": "fixed", "name": "f", "size": 2}"#;
    for (namespace, used, works) in [
        (r#""namespace": "a.b","#, "f", true),
        (r#""namespace": "a.b","#, "a.b.f", true),
        (r#""namespace": "a.b","#, "b.f", false),
        ("", "f", true),
        ("", "a.f", false),
    ] {
        let text = format!(
            r#"{{"type": "record", "name": "r", {namespace} "fields": [{{"name": "x", "type": {inner}}}, {{"name": "y", "type": "{used}"}}]}}"#
        );
        let expected = match works {
            true => "{x: fixed(2), y: fixed(2)}".to_owned(),
            false => format!(
                "the schema is not a valid Avro schema: field `y`: the type `{used}` is not defined before its use"
            ),
        };
        assert_eq!(found(&text), expected, "{text}");
    }
}

#[test]
fn a_record_may_hold_itself() {
    let text =
        r#"{"type": "record", "name": "list", "fields": [{"name": "next", "type": ["null", "list"]}]}"#;
    assert_eq!(found(text), "{next: null|{next: …|…}}");
    // One that cannot end has no bytes.
    let text = r#"{"type": "record", "name": "r", "fields": [{"name": "r", "type": "r"}, {"name": "n", "type": "null"}]}"#;
    let types = Types::read(text).expect("a schema");
    assert!(types.empty()[types.root()]);
}

#[test]
fn a_type_has_a_value_unless_a_record_holds_itself_without_an_end() {
    let record = |field: &str| {
        format!(
            r#"{{"type": "record", "name": "r", "fields": [{{"name": "n", "type": "int"}}, {{"name": "x", "type": {field}}}, {{"name": "y", "type": {field}}}]}}"#
        )
    };
    for (field, has_value) in [
        ("\"null\"", true),
        ("\"r\"", false),
        (r#"["null", "r"]"#, true),
        (r#"["r", "null"]"#, true),
        (r#"["r"]"#, false),
        (r#"{"type": "array", "items": "r"}"#, true),
        (r#"{"type": "map", "values": "r"}"#, true),
    ] {
        let types = Types::read(&record(field)).expect("a schema");
        assert_eq!(types.has_value()[types.root()], has_value, "{field}");
    }
    // Records that hold each other, and one beside them that nothing keeps from ending.
    let text = r#"{"type": "record", "name": "a", "fields": [
        {"name": "b", "type": {"type": "record", "name": "b", "fields": [{"name": "a", "type": "a"}]}},
        {"name": "c", "type": {"type": "record", "name": "c", "fields": []}}]}"#;
    let types = Types::read(text).expect("a schema");
    let of_root = types.has_value()[types.root()];
    assert_eq!((of_root, types.has_value().iter().filter(|has_value| **has_value).count()), (false, 1));
}

#[test]
fn what_is_no_schema_is_refused_with_its_place() {
    let record = |fields: &str| format!(r#"{{"type": "record", "name": "r", "fields": {fields}}}"#);
    for (text, expected) in [
        ("7".into(), "a type is a name, an object or an array"),
        (r#""text""#.into(), "the type `text` is not defined before its use"),
        ("{}".into(), "a type has no `type`"),
        ("[]".into(), "a union has at least one branch"),
        (r#"[["null"]]"#.into(), "a union does not hold a union"),
        (r#"{"type": "array"}"#.into(), "an array has `items`"),
        (r#"{"type": "map"}"#.into(), "a map has `values`"),
        (r#"{"type": "fixed", "name": "f", "size": -1}"#.into(), "a fixed has a `size` in bytes"),
        (r#"{"type": "enum", "name": "e", "symbols": [1]}"#.into(), "the `symbols` of an enum are names"),
        (r#"{"type": "record", "fields": []}"#.into(), "a record, enum or fixed has a `name`"),
        (record("{}"), "`fields` is missing, or no array"),
        (record(r#"[{"type": "int"}]"#), "a field of a record has a `name`"),
        (record(r#"[{"name": "x"}]"#), "field `x`: it has no `type`"),
        (
            record(r#"[{"name": "x", "type": "int"}, {"name": "x", "type": "int"}]"#),
            "field `x`: the record has it twice",
        ),
        (
            record(
                r#"[{"name": "x", "type": {"type": "record", "name": "s", "fields": [{"name": "y", "type": "z"}]}}]"#,
            ),
            "field `x.y`: the type `z` is not defined before its use",
        ),
        (
            record(r#"[{"name": "x", "type": {"type": "fixed", "name": "r", "size": 1}}]"#),
            "field `x`: the type `r` is defined twice",
        ),
    ] {
        assert_eq!(found(&text), format!("the schema is not a valid Avro schema: {expected}"), "{text}");
    }
    assert!(found("{").starts_with("the schema is not a valid Avro schema: EOF"));
    let deep = format!("{}\"int\"{}", r#"{"type": "array", "items": "#.repeat(65), "}".repeat(65));
    assert!(found(&deep).ends_with("types may nest `64` deep at the most"));
}

#[test]
fn types_without_bytes_are_known() {
    let text = r#"{"type": "record", "name": "r", "fields": [
        {"name": "n", "type": "null"}, {"name": "f", "type": {"type": "fixed", "name": "f", "size": 0}},
        {"name": "d", "type": {"type": "fixed", "name": "d", "size": 0, "logicalType": "decimal", "precision": 1}},
        {"name": "r", "type": {"type": "record", "name": "s", "fields": [{"name": "n", "type": "null"}]}}]}"#;
    let types = Types::read(text).expect("a schema");
    assert_eq!(types.empty(), vec![true; types.len()]);
    let types = Types::read(r#"["null"]"#).expect("a schema");
    assert!(!types.empty()[types.root()], "a union has its branch number");
}
