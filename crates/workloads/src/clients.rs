//! Wide rows of a security log, to be sent to ClickHouse column by column.
//!
//! Owns the columns, their values and what the table must hold. Does not own batches and their form: whoever measures a
//! client makes its own columns of these values, before the clock starts.
//!
//! 32 columns: 15 texts of fixed lengths (793 bytes), 7 Int32, 10 Int64. In ClickHouse's Native format each text has its length
//! before it, of one byte and of two for the long one, so a row takes 793 + 16 + 28 + 80 = 917 bytes, as the experiment was
//! published. `ceventmsg` is an event of a flow as JSON. The table may have 657 more columns, which no row fills.
//!
//! | content   | rows                                                                                      |
//! |-----------|-------------------------------------------------------------------------------------------|
//! | identical | every row is row 0: what the experiment was published with                                |
//! | varied    | each row by itself: addresses, ports, times and counts change, names are a few words each |

mod message;
pub mod oracle;

use std::fmt::Write as _;

use crate::random::{below, nth};

/// Columns that a row fills.
pub const COLUMNS: [Column; 32] = [
    Column { name: "ccollectorip", kind: Kind::Text(13) },
    Column { name: "cdevip", kind: Kind::Text(13) },
    Column { name: "cdevtype", kind: Kind::Text(9) },
    Column { name: "cdstip", kind: Kind::Text(12) },
    Column { name: "ceventmsg", kind: Kind::Text(650) },
    Column { name: "ceventname", kind: Kind::Text(16) },
    Column { name: "ceventtype", kind: Kind::Text(12) },
    Column { name: "cflowdir", kind: Kind::Text(1) },
    Column { name: "cobject", kind: Kind::Text(12) },
    Column { name: "coperation", kind: Kind::Text(7) },
    Column { name: "csrcip", kind: Kind::Text(11) },
    Column { name: "csrclogtype", kind: Kind::Text(18) },
    Column { name: "logtype_tag", kind: Kind::Text(3) },
    Column { name: "manufacturer", kind: Kind::Text(9) },
    Column { name: "reason", kind: Kind::Text(7) },
    Column { name: "iappprotocol", kind: Kind::Int32 },
    Column { name: "icollecttype", kind: Kind::Int32 },
    Column { name: "idstport", kind: Kind::Int32 },
    Column { name: "ieventlevel", kind: Kind::Int32 },
    Column { name: "imergecount", kind: Kind::Int32 },
    Column { name: "iprotocol", kind: Kind::Int32 },
    Column { name: "isrcport", kind: Kind::Int32 },
    Column { name: "lduration", kind: Kind::Int64 },
    Column { name: "lrecivepack", kind: Kind::Int64 },
    Column { name: "lsendpack", kind: Kind::Int64 },
    Column { name: "request_body_len", kind: Kind::Int64 },
    Column { name: "response_body_len", kind: Kind::Int64 },
    Column { name: "lendtime", kind: Kind::Int64 },
    Column { name: "lid", kind: Kind::Int64 },
    Column { name: "loccurtime", kind: Kind::Int64 },
    Column { name: "lrecepttime", kind: Kind::Int64 },
    Column { name: "lstartime", kind: Kind::Int64 },
];

/// Columns that the wide table has beside those, each with a default.
pub const ABSENT_COLUMNS: usize = 657;

/// Bytes of a row in the Native format.
pub const ROW_BYTES: u64 = 793 + 16 + 7 * 4 + 10 * 8;

/// A column of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `String`, every value of so many bytes.
    Text(usize),
    /// `Int32`.
    Int32,
    /// `Int64`.
    Int64,
}

/// Which rows are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Row 0, again and again.
    Identical,
    /// Each by itself.
    Varied,
}

/// A stream of rows. Costs nothing to make or clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Everything random comes from it.
    pub seed: u64,
    /// Which rows.
    pub rows: Rows,
}

/// 2025-01-01 00:00:00 UTC, in milliseconds.
const START_TIME_MS: i64 = 1_735_689_600_000;
const EVENTS: [&str; 4] = ["flow_established", "flow_closed_tcp_", "flow_timeout_udp", "flow_closed_icmp"];
const OPERATIONS: [&str; 4] = ["ALLOWED", "BLOCKED", "REJECTS", "MONITOR"];
const REASONS: [&str; 4] = ["timeout", "forced_", "closed_", "unknown"];

impl Workload {
    /// The value of a text column in a row, appended to `out`; nothing for a column of numbers.
    pub fn text(&self, column: usize, row: u64, out: &mut String) {
        let facts = self.facts(row);
        let word = |words: &[&'static str; 4], n| words[below(facts.bits(n), 4) as usize];
        // 11, 12 and 13 bytes long: two or three digits in each of the last numbers.
        let mut address = |n, widths: [u32; 3]| {
            out.push_str("10");
            for (place, width) in widths.into_iter().enumerate() {
                let bits = nth(facts.bits(n), place as u64);
                let number = if width == 3 { 100 + below(bits, 155) } else { 10 + below(bits, 90) };
                let _ = write!(out, ".{number}");
            }
        };
        match COLUMNS[column].name {
            "ccollectorip" => address(Facts::COLLECTOR, [3, 3, 2]),
            "cdevip" => address(Facts::DEVICE, [3, 3, 2]),
            "cdstip" => address(Facts::TARGET, [3, 2, 2]),
            "csrcip" => address(Facts::SOURCE, [2, 2, 2]),
            "cdevtype" => out.push_str("ids_probe"),
            "ceventmsg" => message::write(&facts, out),
            "ceventname" => out.push_str(word(&EVENTS, Facts::EVENT)),
            "ceventtype" => out.push_str("network_flow"),
            "cflowdir" => out.push_str(if facts.bits(Facts::EVENT) & 1 == 0 { "1" } else { "0" }),
            "cobject" => {
                let _ = write!(out, "host-{:07}", below(facts.bits(Facts::TARGET), 10_000_000));
            }
            "coperation" => out.push_str(word(&OPERATIONS, Facts::OPERATION)),
            "csrclogtype" => out.push_str("suricata_eve_flows"),
            "logtype_tag" => out.push_str("ids"),
            "manufacturer" => out.push_str("sensor-co"),
            "reason" => out.push_str(word(&REASONS, Facts::REASON)),
            _ => {}
        }
    }

    /// The value of a column of numbers in a row; 0 for a text column.
    pub fn number(&self, column: usize, row: u64) -> i64 {
        let facts = self.facts(row);
        // Below the bound, so it fits.
        let up_to = |n, bound| below(facts.bits(n), bound) as i64;
        match COLUMNS[column].name {
            "iappprotocol" => up_to(Facts::PROTOCOL, 40),
            "icollecttype" => 3,
            "idstport" => facts.target_port(),
            "ieventlevel" => up_to(Facts::EVENT, 5),
            "imergecount" => 1,
            "iprotocol" => [6, 17, 1, 58][below(facts.bits(Facts::PROTOCOL), 4) as usize],
            "isrcport" => facts.source_port(),
            "lduration" => facts.duration_ms(),
            "lrecivepack" => up_to(Facts::RECEIVED, 10_000),
            "lsendpack" => up_to(Facts::SENT, 10_000),
            "request_body_len" => up_to(Facts::SENT, 1 << 20),
            "response_body_len" => up_to(Facts::RECEIVED, 1 << 24),
            "lendtime" => facts.start_ms() + facts.duration_ms(),
            // What names a row.
            "lid" => facts.row as i64,
            "loccurtime" | "lstartime" => facts.start_ms(),
            "lrecepttime" => facts.start_ms() + facts.duration_ms() + 100 + up_to(Facts::COLLECTOR, 400),
            _ => 0,
        }
    }

    fn facts(&self, row: u64) -> Facts {
        let row = match self.rows {
            Rows::Identical => 0,
            Rows::Varied => row,
        };
        Facts { series: nth(self.seed, row), row }
    }
}

/// What several columns of a row share.
struct Facts {
    series: u64,
    row: u64,
}

impl Facts {
    const COLLECTOR: u64 = 0;
    const DEVICE: u64 = 1;
    const SOURCE: u64 = 2;
    const TARGET: u64 = 3;
    const PROTOCOL: u64 = 4;
    const EVENT: u64 = 5;
    const OPERATION: u64 = 6;
    const REASON: u64 = 7;
    const SENT: u64 = 8;
    const RECEIVED: u64 = 9;
    const DURATION: u64 = 10;
    const PORTS: u64 = 11;

    fn bits(&self, n: u64) -> u64 {
        nth(self.series, n)
    }

    fn source_port(&self) -> i64 {
        1_024 + below(self.bits(Self::PORTS), 64_000) as i64
    }

    fn target_port(&self) -> i64 {
        [443, 80, 53, 22, 3_306, 8_080, 9_092, 123][below(nth(self.bits(Self::PORTS), 1), 8) as usize]
    }

    fn duration_ms(&self) -> i64 {
        below(self.bits(Self::DURATION), 600_000) as i64
    }

    fn start_ms(&self) -> i64 {
        START_TIME_MS + (self.row / 10) as i64
    }
}

#[cfg(test)]
mod tests;
