//! Names are quoted, types that do not serve are named with the way out, all at once.

use super::*;

fn table() -> Rows {
    Rows::Table { schema: Some("my shop".into()), table: "a\"b".into() }
}

fn schema(columns: &[(&str, ColumnType)]) -> Schema {
    Schema::new(columns.iter().map(|(name, of)| Column::new(*name, of.clone())).collect())
}

fn array(of: ColumnType) -> ColumnType {
    ColumnType::Array(Box::new(of))
}

#[test]
fn names_are_quoted_and_each_value_has_its_exact_form() {
    let columns = schema(&[
        ("i\"d", ColumnType::Int64),
        ("doc", ColumnType::String),
        ("tags", array(ColumnType::String)),
    ]);
    let found = [("i\"d", &Type::INT8), ("doc", &Type::JSONB), ("tags", &Type::TEXT_ARRAY)];
    assert_eq!(super::columns(&table(), &columns), r#"SELECT "i""d", "doc", "tags" FROM "my shop"."a""b""#);
    assert_eq!(
        question(&table(), &columns, &found, None).expect("they fit"),
        r#"SELECT row_to_json("row")::text FROM (SELECT "i""d" AS "i""d", "doc"::text AS "doc", "tags"::text[] AS "tags" FROM "my shop"."a""b") AS "row""#
    );
    let query = Rows::Query("SELECT 1 AS id; -- all\n;\n".into());
    let asked = super::columns(&query, &schema(&[("id", ColumnType::Int32)]));
    assert_eq!(asked, "SELECT \"id\" FROM (\nSELECT 1 AS id; -- all\n\n) AS \"side\"");
}

#[test]
fn a_type_that_does_not_serve_is_named_with_the_way_out() {
    let columns = schema(&[
        ("id", ColumnType::Int32),
        ("net", ColumnType::String),
        ("at", ColumnType::Int64),
        ("flags", array(ColumnType::String)),
    ]);
    let found =
        [("id", &Type::INT4), ("net", &Type::INET), ("at", &Type::TIMESTAMPTZ), ("flags", &Type::BOOL_ARRAY)];
    let why = question(&table(), &columns, &found, None).expect_err("three do not fit");
    assert_eq!(
        why,
        "`net` is of type `inet` there, which is not read; cast it to one that is: `query: 'SELECT \"id\", \"net\"::text AS \"net\", \"at\", \"flags\" FROM …'`; \
         `at` is of type `timestamptz` there, and its type under `fields` does not take that; write `at: DateTime64(6, 'UTC')`; \
         `flags` is of type `_bool` there, and its type under `fields` does not take that; write `flags: Array(Bool)`"
    );
}

#[test]
fn what_is_suggested_for_a_type_takes_it() {
    let read = [
        Type::BOOL,
        Type::INT2,
        Type::INT4,
        Type::INT8,
        Type::FLOAT4,
        Type::FLOAT8,
        Type::NUMERIC,
        Type::TEXT,
        Type::VARCHAR,
        Type::BPCHAR,
        Type::NAME,
        Type::UUID,
        Type::DATE,
        Type::TIMESTAMP,
        Type::TIMESTAMPTZ,
        Type::JSON,
        Type::JSONB,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::NUMERIC_ARRAY,
        Type::JSONB_ARRAY,
    ];
    for of in read {
        let shape = Shape::of(&of).unwrap_or_else(|| panic!("{of} is read"));
        assert!(!shape.ours().is_empty());
        let ours = match &shape {
            Shape::Array(item) => array(suggested(item)),
            one => suggested(one),
        };
        assert!(shape.fits(&ours), "{of}");
        assert!(!shape.fits(&ColumnType::Ipv4) || shape == Shape::Text, "{of}");
    }
    for of in
        [Type::INET, Type::BYTEA, Type::MONEY, Type::INTERVAL, Type::TIME, Type::POINT, Type::INT4_RANGE]
    {
        assert_eq!(Shape::of(&of), None, "{of}");
    }
}

fn suggested(shape: &Shape) -> ColumnType {
    match shape {
        Shape::Bool => ColumnType::Bool,
        Shape::Integer(_) => ColumnType::Int64,
        Shape::Float(_) => ColumnType::Float64,
        Shape::Numeric => ColumnType::Decimal { precision: 38, scale: 9 },
        Shape::Text | Shape::Json => ColumnType::String,
        Shape::Uuid => ColumnType::Uuid,
        Shape::Date => ColumnType::Date32,
        Shape::Timestamp | Shape::TimestampTz => ColumnType::DateTime64 { precision: 6, timezone: None },
        Shape::Array(item) => array(suggested(item)),
    }
}
