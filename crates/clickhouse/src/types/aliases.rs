//! Other names of types, as a statement that makes a table may have them.
//!
//! Owns the names that ClickHouse 26.7 lists in `system.data_type_families`, with the types that they stand for. Does not own the types themselves, nor what
//! follows a name (`grammar`). `system.columns` never shows one of these names: the server replaces them when it makes the table.

/// Words of the longest name: `NATIONAL CHARACTER LARGE OBJECT`.
const WORDS_MAX: usize = 4;

/// Types whose own names the server reads in any case.
const ANY_CASE: [&str; 14] = [
    "Bool",
    "Date",
    "Date32",
    "DateTime",
    "DateTime64",
    "Decimal",
    "Decimal32",
    "Decimal64",
    "Decimal128",
    "Decimal256",
    "Enum",
    "JSON",
    "Time",
    "Time64",
];

/// Names in capitals, which the server reads in any case, and the types.
const ALIASES: [(&str, &[&str]); 17] = [
    ("Bool", &["BOOL", "BOOLEAN"]),
    ("DateTime", &["DATETIME32", "TIMESTAMP"]),
    ("Decimal", &["DEC", "FIXED", "NUMERIC"]),
    ("FixedString", &["BINARY"]),
    ("Float32", &["FLOAT", "REAL", "SINGLE"]),
    ("Float64", &["DOUBLE", "DOUBLE PRECISION"]),
    ("IPv4", &["INET4"]),
    ("IPv6", &["INET6"]),
    ("Int8", &["BYTE", "INT1", "INT1 SIGNED", "TINYINT", "TINYINT SIGNED"]),
    ("Int16", &["SMALLINT", "SMALLINT SIGNED"]),
    ("Int32", &["INT", "INT SIGNED", "INTEGER", "INTEGER SIGNED", "MEDIUMINT", "MEDIUMINT SIGNED"]),
    ("Int64", &["BIGINT", "BIGINT SIGNED", "SIGNED"]),
    ("UInt8", &["INT1 UNSIGNED", "TINYINT UNSIGNED"]),
    ("UInt16", &["SMALLINT UNSIGNED", "YEAR"]),
    ("UInt32", &["INT UNSIGNED", "INTEGER UNSIGNED", "MEDIUMINT UNSIGNED"]),
    ("UInt64", &["BIGINT UNSIGNED", "BIT", "SET", "UNSIGNED"]),
    (
        "String",
        &[
            "BINARY LARGE OBJECT",
            "BINARY VARYING",
            "BLOB",
            "BYTEA",
            "CHAR",
            "CHAR LARGE OBJECT",
            "CHAR VARYING",
            "CHARACTER",
            "CHARACTER LARGE OBJECT",
            "CHARACTER VARYING",
            "CLOB",
            "LONGBLOB",
            "LONGTEXT",
            "MEDIUMBLOB",
            "MEDIUMTEXT",
            "NATIONAL CHAR",
            "NATIONAL CHAR VARYING",
            "NATIONAL CHARACTER",
            "NATIONAL CHARACTER LARGE OBJECT",
            "NATIONAL CHARACTER VARYING",
            "NCHAR",
            "NCHAR LARGE OBJECT",
            "NCHAR VARYING",
            "NVARCHAR",
            "TEXT",
            "TINYBLOB",
            "TINYTEXT",
            "VARBINARY",
            "VARCHAR",
            "VARCHAR2",
        ],
    ),
];

/// The type that the name at the beginning of `text` stands for, and the bytes of that name; `None` if it is no other name of a type.
pub(super) fn resolve(text: &str) -> Option<(&'static str, usize)> {
    let mut ends = Vec::with_capacity(WORDS_MAX);
    let (mut name, mut at) = (String::new(), 0);
    while ends.len() < WORDS_MAX {
        let rest = &text[at..];
        let start = at + (rest.len() - rest.trim_start().len());
        let rest = &text[start..];
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        if length == 0 {
            break;
        }
        at = start + length;
        if !name.is_empty() {
            name.push(' ');
        }
        name.push_str(&text[start..at].to_ascii_uppercase());
        ends.push((name.clone(), at));
    }
    // The longest name counts: `INT UNSIGNED` before `INT`.
    ends.into_iter().rev().find_map(|(name, end)| {
        let alias = ALIASES.iter().find(|(_, aliases)| aliases.contains(&name.as_str()));
        let own = ANY_CASE.iter().find(|own| own.eq_ignore_ascii_case(&name));
        alias.map(|(family, _)| *family).or(own.copied()).map(|family| (family, end))
    })
}
