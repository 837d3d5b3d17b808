use arrow_array::cast::AsArray;
use testkit::Fuzz;

use super::super::rows;
use crate::native::write_varint;

/// A block of one column, of states that the server made (`hex(maxState(x))` and so on).
fn block(type_name: &str, states: &[&str]) -> Vec<u8> {
    let mut block = Vec::new();
    write_varint(1, &mut block);
    write_varint(states.len() as u64, &mut block);
    for text in ["s", type_name] {
        write_varint(text.len() as u64, &mut block);
        block.extend_from_slice(text.as_bytes());
    }
    states.iter().for_each(|state| block.extend(bytes(state)));
    block
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

const OF_THE_SERVER: [(&str, &[&str]); 12] = [
    ("count", &["AC02", "00"]),
    ("count, Nullable(UInt64)", &["AC02"]),
    ("sum, UInt64", &["32AF000000000000", "0000000000000000"]),
    ("sum, Nullable(UInt64)", &["0132AF000000000000", "00"]),
    ("sum, Decimal(18, 2)", &["886F4400000000000000000000000000"]),
    ("avg, Float32", &["0000000040E6E540AC02"]),
    ("avg, Nullable(UInt64)", &["0132AF000000000000AC02", "00"]),
    ("min, UInt64", &["010000000000000000", "00"]),
    ("max, String", &["03000000393900", "FFFFFFFF", "0100000000"]),
    ("max, Nullable(String)", &["0103000000393900", "00"]),
    ("argMax, String, DateTime64(3, 'UTC')", &["040000003239390001F88F040000000000", "FFFFFFFF00"]),
    ("argMax, Nullable(String), UInt64", &["010400000032393900012B01000000000000", "00"]),
];

#[test]
fn states_of_the_server_come_back_one_by_one() {
    for (of, states) in OF_THE_SERVER {
        let rows = rows(&block(&format!("AggregateFunction({of})"), states), "").unwrap();
        let found: Vec<&[u8]> = rows.column(0).as_binary::<i32>().iter().flatten().collect();
        assert_eq!(found, states.iter().map(|state| bytes(state)).collect::<Vec<_>>(), "{of}");
    }
}

#[test]
fn fuzz_states() {
    let blocks = OF_THE_SERVER.map(|(of, states)| block(&format!("AggregateFunction({of})"), states));
    Fuzz::new("states of aggregates").examples(blocks).memory_max(256 << 10, 1 << 10).run(10_000, |bytes| {
        let _ = rows(bytes, "");
    });
}
