//! The workload `buffer`: log records of OpenTelemetry in requests, as a collector sends them.
//!
//! Owns the records and their bytes. Does not own compression, the protocol around a request, nor when it is sent.
//!
//! A record is what a service writes: a semi-templated line, ids, addresses and attributes of which some repeat and some never do. Its size
//! is a parameter, for two published loads: 2.7 KB a record (786 B once compressed), and 300 B.
//!
//! ```text
//! request ─ 4 resources (of 64) ─ one scope each ─ records_per_request / 4 records
//!              9 attributes                            6 attributes, body, trace and span id
//! ```
//! A record's number is its attribute `n`. What a request holds follows from the seed and the request's number alone.

use crate::random::{below, nth};

pub mod oracle;
mod wire;

/// Resources of all requests.
const RESOURCES: u64 = 64;
/// Resources of one request.
const RESOURCES_PER_REQUEST: u32 = 4;
/// Between two records of one request, in nanoseconds: a request covers what a collector gathers in some milliseconds.
const STEP_NS: u64 = 1_000;
/// What a record holds apart from its body's words, about: ids, attributes, times.
const BYTES_BESIDE_WORDS: usize = 255;

/// The size and shape of the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The same seed gives the same bytes.
    pub seed: u64,
    /// Requests.
    pub requests: u64,
    /// Records of each; a multiple of 4, at most 65,536.
    pub records_per_request: u32,
    /// Bytes of a record in its request, about; at least 300 and at most 65,536.
    pub record_bytes: usize,
    /// The time of the first record, nanoseconds since 1970 UTC.
    pub start_ns: u64,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            seed: 1,
            requests: 100,
            records_per_request: 1_024,
            record_bytes: 2_700,
            start_ns: 1_767_225_600_000_000_000,
        }
    }
}

/// A checked [`Spec`].
#[derive(Clone, Debug)]
pub struct Workload {
    spec: Spec,
    words: Vec<String>,
}

/// Why there is no such workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the texts say it")]
pub enum SpecError {
    #[error("there are no requests")]
    NoRequests,
    #[error("a request has `{0}` records; a multiple of 4 up to 65,536 is possible")]
    Records(u32),
    #[error("a record has `{0}` bytes; 300 to 65,536 are possible")]
    Bytes(usize),
}

impl Workload {
    /// Checks the spec.
    ///
    /// # Errors
    /// When the sizes are beyond their bounds.
    pub fn new(spec: Spec) -> Result<Self, SpecError> {
        if spec.requests == 0 {
            return Err(SpecError::NoRequests);
        }
        let records = spec.records_per_request;
        if records == 0 || !records.is_multiple_of(RESOURCES_PER_REQUEST) || records > 65_536 {
            return Err(SpecError::Records(records));
        }
        if !(300..=65_536).contains(&spec.record_bytes) {
            return Err(SpecError::Bytes(spec.record_bytes));
        }
        let words = vocabulary(spec.seed);
        Ok(Self { spec, words })
    }

    /// What it was made of.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Records of all requests.
    pub fn records_total(&self) -> u64 {
        self.spec.requests * u64::from(self.spec.records_per_request)
    }

    /// Appends request `n` as an `ExportLogsServiceRequest`, its first record at `start_ns`.
    pub fn write(&self, n: u64, start_ns: u64, to: &mut Vec<u8>) {
        let mut record = Record::default();
        let mut scope_logs = Vec::new();
        let each = self.spec.records_per_request / RESOURCES_PER_REQUEST;
        for part in 0..RESOURCES_PER_REQUEST {
            let resource = self.resource_of(n, part);
            scope_logs.clear();
            for k in part * each..(part + 1) * each {
                self.record(n, k, start_ns, &mut record);
                wire::log_record(&record, &mut scope_logs);
            }
            wire::resource_logs(resource, &scope_logs, to);
        }
    }

    /// The time of the first record of request `n` where nobody else says.
    pub fn start_ns(&self, n: u64) -> u64 {
        self.spec.start_ns + n * u64::from(self.spec.records_per_request) * STEP_NS
    }

    /// Which resource a part of a request is of.
    fn resource_of(&self, n: u64, part: u32) -> u64 {
        below(nth(self.spec.seed ^ 0x51, n * u64::from(RESOURCES_PER_REQUEST) + u64::from(part)), RESOURCES)
    }

    /// Record `k` of request `n`, in place of the one that is there.
    fn record(&self, n: u64, k: u32, start_ns: u64, record: &mut Record) {
        let number = n * u64::from(self.spec.records_per_request) + u64::from(k);
        let series = nth(self.spec.seed, number);
        let draw = |place: u64| nth(series, place);
        record.number = number;
        record.time_ns = start_ns + u64::from(k) * STEP_NS;
        // One in eight is a warning or worse.
        record.severity =
            [9, 9, 9, 9, 9, 5, 9, 13][below(draw(0), 8) as usize] + below(draw(1), 64) as u32 / 63 * 4;
        record.trace_id = [draw(2).to_be_bytes(), draw(3).to_be_bytes()];
        record.span_id = draw(4).to_be_bytes();
        record.status = [200, 200, 200, 200, 201, 204, 301, 404, 500, 503][below(draw(5), 10) as usize];
        record.duration_us = below(draw(6), 1 << below(draw(7), 20));
        record.user = below(draw(8), 1_000_000);
        record.route = below(draw(9), 512);
        record.peer = draw(10) as u32;
        self.body(series, record);
    }

    /// `handled GET /api/v1/alpha/beta for user=123 in 4567us: word word …`
    fn body(&self, series: u64, record: &mut Record) {
        let word = |n: u64| self.words[n as usize % self.words.len()].as_str();
        record.path.clear();
        record.path.push_str("/api/v1/");
        record.path.push_str(word(record.route));
        record.path.push('/');
        record.path.push_str(word(record.route * 7 + 3));
        let body = &mut record.body;
        body.clear();
        let verb = ["handled", "rejected", "retried", "forwarded"][(record.route % 4) as usize];
        body.push_str(&format!(
            "{verb} {} for user={} in {}us:",
            record.path, record.user, record.duration_us
        ));
        let words_until = self.spec.record_bytes.saturating_sub(BYTES_BESIDE_WORDS);
        let mut bits = 0;
        let mut place = 100;
        while body.len() < words_until {
            if place % 4 == 0 {
                bits = nth(series, place);
            }
            body.push(' ');
            // The cube of an even draw: early words are frequent, as in any language.
            let draw = below((bits & 0xffff) << 48, 1 << 10);
            body.push_str(word((((draw * draw) >> 10) * draw) >> 10));
            bits >>= 16;
            place += 1;
        }
    }
}

/// What one record says.
#[derive(Clone, Debug, Default)]
struct Record {
    number: u64,
    time_ns: u64,
    severity: u32,
    trace_id: [[u8; 8]; 2],
    span_id: [u8; 8],
    status: u16,
    duration_us: u64,
    user: u64,
    route: u64,
    peer: u32,
    path: String,
    body: String,
}

impl Record {
    fn severity_text(&self) -> &'static str {
        match self.severity {
            5 => "DEBUG",
            9 => "INFO",
            13 => "WARN",
            _ => "ERROR",
        }
    }
}

/// Words of two to four syllables.
fn vocabulary(seed: u64) -> Vec<String> {
    const SYLLABLES: [&str; 32] = [
        "ba", "con", "di", "fer", "ga", "hol", "in", "jo", "ka", "lum", "me", "nor", "o", "pre", "qui", "ra",
        "sen", "tor", "u", "ver", "wi", "xa", "yel", "zo", "tion", "ment", "al", "er", "ly", "ous", "ing",
        "ed",
    ];
    (0..2_048)
        .map(|n| {
            let bits = nth(seed ^ 0x77, n);
            (0..2 + below(bits, 3)).map(|k| SYLLABLES[(bits >> (8 * k) & 31) as usize]).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests;
