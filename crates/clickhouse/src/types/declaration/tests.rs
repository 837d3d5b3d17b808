use super::*;

/// A declaration, and what `system.columns` shows of it on ClickHouse 26.7: type, kind and expression.
const CASES: &str = "
INT                                       -> Int32
INT(11)                                   -> Int32
Int32(11)                                 -> Int32
decimal(10,2)                             -> Decimal(10, 2)
Decimal                                   -> Decimal(10, 0)
numeric(5, 1)                             -> Decimal(5, 1)
double precision                          -> Float64
FLOAT(10,2)                               -> Float32
INT UNSIGNED                              -> UInt32
bigint(20) unsigned                       -> UInt64
TINYINT SIGNED                            -> Int8
VARCHAR(255)                              -> String
CHARACTER VARYING(7)                      -> String
NATIONAL CHARACTER LARGE OBJECT           -> String
BINARY(4)                                 -> FixedString(4)
String(5)                                 -> String
Enum('a', 'b')                            -> Enum8('a' = 1, 'b' = 2)
Enum8('a' = 5, 'b')                       -> Enum8('a' = 5, 'b' = 6)
ENUM('a' = 300)                           -> Enum16('a' = 300)
bool                                      -> Bool
DateTime32                                -> DateTime
DateTime32('UTC')                         -> DateTime('UTC')
timestamp(3)                              -> DateTime64(3)
DateTime64                                -> DateTime64(3)
datetime64(6, 'UTC')                      -> DateTime64(6, 'UTC')
date32                                    -> Date32
json                                      -> JSON
INET4                                     -> IPv4
Nullable(bool)                            -> Nullable(Bool)
Array(INT UNSIGNED)                       -> Array(UInt32)
Map(VARCHAR(3), DOUBLE PRECISION)         -> Map(String, Float64)
LowCardinality(VARCHAR(5))                -> LowCardinality(String)
Int8 NULL                                 -> Nullable(Int8)
Int8 NOT NULL                             -> Int8
Int8 NULL DEFAULT 5                       -> Nullable(Int8) DEFAULT 5
Int8 DEFAULT 5 NOT NULL                   -> Int8 DEFAULT 5
Int8 default 5                            -> Int8 DEFAULT 5
Int8 DEFAULT 5 COMMENT 'hi' CODEC(ZSTD(1)) -> Int8 DEFAULT 5
Int8 CODEC(Delta, ZSTD)                   -> Int8
String DEFAULT 'a COMMENT b'              -> String DEFAULT 'a COMMENT b'
String DEFAULT 'it\\'s'                   -> String DEFAULT 'it\\'s'
String DEFAULT comment                    -> String DEFAULT comment
Bool DEFAULT k IS NOT NULL                -> Bool DEFAULT k IS NOT NULL
Nullable(Int8) DEFAULT NULL               -> Nullable(Int8) DEFAULT NULL
DateTime DEFAULT now() TTL x + INTERVAL 1 DAY -> DateTime DEFAULT now()
Int8 STATISTICS(tdigest)                  -> Int8
Int8 MATERIALIZED k                       -> Int8 MATERIALIZED k
Int128 ALIAS toInt128(k)                  -> Int128 ALIAS toInt128(k)
Int8 EPHEMERAL                            -> Int8 EPHEMERAL
Int8 EPHEMERAL 3 CODEC(ZSTD)              -> Int8 EPHEMERAL 3
";

#[test]
fn a_declaration_is_what_the_server_makes_of_it() {
    let mut cases = 0;
    for line in CASES.lines().filter(|line| !line.is_empty()) {
        let (text, wanted) = line.split_once("-> ").expect("an arrow");
        let read = declaration("c", text).unwrap_or_else(|error| panic!("{error}"));
        let shown = format!("{} {} {}", read.shown(), read.default_kind, read.default_expression);
        assert_eq!(shown.trim_end(), wanted, "{text}");
        cases += 1;
    }
    assert_eq!(cases, 50, "a line of the table was not read");
}

#[test]
fn what_the_server_refuses_or_nobody_understands_is_refused() {
    for (text, reason) in [
        ("", "no type is named"),
        ("DEFAULT 5", "no type is named: write it before the rest, as in `UInt8 DEFAULT 5`"),
        ("Int8, y Int8", "`,` follows the type: give each column a line of its own"),
        ("Int8) ENGINE = Null", "`)` closes nothing"),
        ("Int8 DEFAULT", "`DEFAULT` needs an expression behind it"),
        ("Int8 DEFAULT (5", "a parenthesis is not closed"),
        ("Int8 DEFAULT 'a", "a quote is not closed"),
        ("Int8 DEFAULT 5 ALIAS 6", "`ALIAS` contradicts what stands before it"),
        ("Int8 NULL COLLATE utf8", "`COLLATE utf8` follows the type"),
    ] {
        let error = declaration("c", text).expect_err(text);
        assert!(error.reason.starts_with(reason), "{text}: {}", error.reason);
    }
    for (text, reason) in [
        ("int32", "`int32`: it is not supported"),
        ("Int8 COLLATE utf8", "`COLLATE utf8` follows the type"),
        ("Int32 UNSIGNED", "`UNSIGNED` follows the type"),
        ("Nullable(Array(Int8))", "`Nullable` cannot hold `Array(Int8)`"),
        ("FixedString(0)", "the number `0` is not between 1 and"),
        ("Array(Int8) NULL", "`Nullable` cannot hold `Array(Int8)`"),
    ] {
        let read = declaration("c", text).unwrap_or_else(|error| panic!("{error}"));
        let reason_found = read.column_type.expect_err(text).reason;
        assert!(reason_found.starts_with(reason), "{text}: {reason_found}");
    }
}
