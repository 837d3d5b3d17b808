//! An event of a flow, as intrusion detectors write them: JSON of 650 bytes.
//!
//! Owns its text. What it says agrees with no other column but in its numbers' kind: it is weight, as in the experiment. Does not own the
//! other columns of a row (`workloads::clients`).

use std::fmt::Write;

use super::Facts;
use crate::random::{below, nth};

/// Bytes of a message.
pub(super) const MESSAGE_BYTES: usize = 650;

/// What fills a message up to its length.
const NOTE: &str = "flow closed by the sensor after the last segment was seen in either direction; no rule of the \
                    current set matched the session and nothing was extracted from its payload by any parser";

/// Appends the message of a row: [`MESSAGE_BYTES`] bytes, ASCII.
pub(super) fn write(facts: &Facts, out: &mut String) {
    let start = out.len();
    let n = |place: u64, bound: u64| below(nth(facts.bits(Facts::SENT), place), bound);
    let written = write!(
        out,
        "{{\"flow_id\":{flow},\"event_type\":\"flow\",\"src_ip\":\"10.{a}.{b}.{c}\",\"src_port\":{from},\
         \"dest_ip\":\"10.{d}.{e}.{f}\",\"dest_port\":{to},\"proto\":\"TCP\",\"app_proto\":\"tls\",\
         \"flow\":{{\"pkts_toserver\":{p},\"pkts_toclient\":{q},\"bytes_toserver\":{r},\"bytes_toclient\":{s},\
         \"start_ms\":{start_ms},\"age\":{age},\"state\":\"closed\",\"reason\":\"timeout\",\"alerted\":false}},\
         \"tcp\":{{\"tcp_flags\":\"1b\",\"syn\":true,\"fin\":true,\"psh\":true,\"ack\":true,\"state\":\"closed\"}},\
         \"note\":\"",
        flow = 1_000_000_000_000_000 + n(0, 1 << 50),
        a = n(1, 256),
        b = n(2, 256),
        c = n(3, 256),
        d = n(4, 256),
        e = n(5, 256),
        f = n(6, 256),
        from = facts.source_port(),
        to = facts.target_port(),
        p = n(7, 10_000),
        q = n(8, 10_000),
        r = n(9, 1 << 24),
        s = n(10, 1 << 24),
        start_ms = facts.start_ms(),
        age = facts.duration_ms() / 1_000,
    );
    written.expect("a String takes all that is written");
    const END: &str = "\"}";
    let room = MESSAGE_BYTES - (out.len() - start) - END.len();
    out.extend(NOTE.chars().cycle().take(room));
    out.push_str(END);
}
