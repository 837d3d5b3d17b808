//! Random schemas and values, written by an encoder that knows nothing of the decoder.

use proptest::prelude::*;

use super::written::{long, sized};
use super::{decoder, one};

/// A value of a type: the type's JSON, a column that takes it, its bytes, and the entry that it becomes.
#[derive(Clone, Debug)]
struct Case {
    schema: String,
    column: String,
    bytes: Vec<u8>,
    shown: String,
}

fn case(schema: &str, column: &str, bytes: Vec<u8>, shown: String) -> Case {
    Case { schema: schema.into(), column: column.into(), bytes, shown }
}

fn number(value: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    long(value, &mut bytes);
    bytes
}

fn text(value: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    sized(value.as_bytes(), &mut bytes);
    bytes
}

/// Values of types that hold no others. Names are `@`, and become different ones later.
fn leaf() -> impl Strategy<Value = Case> {
    prop_oneof![
        any::<bool>().prop_map(|v| case(r#""boolean""#, "Bool", vec![v.into()], v.to_string())),
        any::<i32>().prop_map(|v| case(r#""int""#, "Int32", number(v.into()), v.to_string())),
        (any::<i64>(), 0u32..64).prop_map(|(v, shift)| {
            let v = v >> shift;
            case(r#""long""#, "Int64", number(v), v.to_string())
        }),
        any::<u16>().prop_map(|v| case(r#""long""#, "UInt16", number(v.into()), v.to_string())),
        any::<f32>().prop_map(|v| case(r#""float""#, "Float32", v.to_le_bytes().into(), format!("{v:?}"))),
        any::<f64>().prop_map(|v| case(r#""double""#, "Float64", v.to_le_bytes().into(), format!("{v:?}"))),
        "\\PC{0,12}".prop_map(|v| case(r#""string""#, "String", text(&v), format!("{v:?}"))),
        any::<[u8; 3]>().prop_map(|v| {
            let shown = v.map(|byte| format!("{byte:02x}")).concat();
            case(r#"{"type": "fixed", "name": "@", "size": 3}"#, "FixedString(3)", v.into(), shown)
        }),
        (0usize..3).prop_map(|n| {
            let schema = r#"{"type": "enum", "name": "@", "symbols": ["A", "B", "C"]}"#;
            case(schema, "Enum8('A' = -4, 'B' = 0, 'C' = 9)", number(n as i64), ["-4", "0", "9"][n].into())
        }),
        (any::<i64>(), 1usize..4).prop_map(|(v, more)| {
            let schema = r#"{"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}"#;
            // Bytes that only repeat the sign.
            let mut bytes = vec![if v < 0 { 0xff } else { 0 }; more * 5];
            bytes.extend(v.to_be_bytes());
            case(
                schema,
                "Decimal(30, 3)",
                {
                    let mut out = Vec::new();
                    sized(&bytes, &mut out);
                    out
                },
                v.to_string(),
            )
        }),
        (-2_000_000_000_000i64..9_000_000_000_000).prop_map(|v| {
            let schema = r#"{"type": "long", "logicalType": "timestamp-millis"}"#;
            case(schema, "DateTime64(3)", number(v), v.to_string())
        }),
    ]
}

/// The same within arrays, maps and unions.
fn any_case() -> impl Strategy<Value = Case> {
    leaf().prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            (inner.clone(), any::<bool>()).prop_map(|(v, counted)| array(&v, 2, counted)),
            inner.clone().prop_map(|v| map(&v)),
            (inner, any::<bool>(), any::<bool>()).prop_map(|(v, first, null)| nullable(v, first, null)),
        ]
    })
}

/// An array of the same value, in blocks of one; with their bytes if `counted`.
fn array(item: &Case, count: usize, counted: bool) -> Case {
    let mut bytes = Vec::new();
    for _ in 0..count {
        long(if counted { -1 } else { 1 }, &mut bytes);
        if counted {
            long(item.bytes.len() as i64, &mut bytes);
        }
        bytes.extend(&item.bytes);
    }
    bytes.push(0);
    let shown = format!("[{}]", vec![item.shown.clone(); count].join(", "));
    let schema = format!(r#"{{"type": "array", "items": {}}}"#, item.schema);
    case(&schema, &format!("Array({})", item.column), bytes, shown)
}

fn map(value: &Case) -> Case {
    let mut bytes = number(1);
    sized(b"key", &mut bytes);
    bytes.extend(&value.bytes);
    bytes.push(0);
    let schema = format!(r#"{{"type": "map", "values": {}}}"#, value.schema);
    case(&schema, &format!("Map(String, {})", value.column), bytes, format!("{{\"key\": {}}}", value.shown))
}

/// A union with null, which is the first or second branch, and the value.
fn nullable(value: Case, null_first: bool, is_null: bool) -> Case {
    let holds_null = ["Array", "Map", "Nullable"].iter().all(|head| !value.column.starts_with(head));
    if !holds_null {
        return value;
    }
    let (schema, null) = match null_first {
        true => (format!(r#"["null", {}]"#, value.schema), 0),
        false => (format!(r#"[{}, "null"]"#, value.schema), 1),
    };
    let column = format!("Nullable({})", value.column);
    match is_null {
        true => case(&schema, &column, number(null), "NULL".into()),
        false => {
            let mut bytes = number(1 - null);
            bytes.extend(&value.bytes);
            case(&schema, &column, bytes, value.shown)
        }
    }
}

/// Every `@` as another name.
fn named(fields: &str) -> String {
    let mut parts = fields.split('@');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for (n, part) in parts.enumerate() {
        out += &format!("n{n}{part}");
    }
    out
}

proptest! {
    #[test]
    fn what_is_written_is_read_and_what_is_not_asked_for_is_skipped(
        values in prop::collection::vec((any_case(), any::<bool>()), 1..7),
        wanted in any_case(),
    ) {
        let values: Vec<_> = std::iter::once((wanted, true)).chain(values).collect();
        let fields = values.iter().enumerate().map(|(n, (v, _))| format!(r#"{{"name": "f{n}", "type": {}}}"#, v.schema));
        let fields = named(&fields.collect::<Vec<_>>().join(", "));
        let asked = values.iter().enumerate().filter(|(_, (_, asked))| *asked);
        let (columns, shown): (Vec<_>, Vec<_>) =
            asked.map(|(n, (v, _))| (format!("f{n} {}", v.column), v.shown.clone())).unzip();
        let columns: Vec<_> = columns.iter().map(String::as_str).collect();
        let bytes: Vec<u8> = values.iter().flat_map(|(v, _)| v.bytes.clone()).collect();
        let decoder = decoder(&fields, &columns).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(one(&decoder, &bytes), Ok(shown), "{}", fields);
        // A byte less or more is none of its records.
        let mut longer = bytes.clone();
        longer.push(0);
        prop_assert!(one(&decoder, &longer).is_err());
        prop_assert!(one(&decoder, &bytes[..bytes.len() - 1]).is_err());
    }
}
