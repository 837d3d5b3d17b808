//! Two latencies of one record: ours, from the sender's clock to visible, and the published system's, from the gateway's receipt to the insert.
//!
//! Owns the four moments of a record and both latencies, each taken of the same sampled rows. Does not own the counting that says when an
//! insert was visible (`crate::counts`), nor the columns that hold two of the moments (`buffer::consumer`).
//!
//! | moment   | how it is known                                                                                      |
//! |----------|------------------------------------------------------------------------------------------------------|
//! | sent     | the time that the record bears: when its request was due                                             |
//! | received | the gateway's clock once it had the whole request, which the log keeps for each record; to a millisecond |
//! | inserted | the server's clock when it began with the record's insert, before the part was committed             |
//! | visible  | the answer of the first `SELECT count()` that includes the record's insert                           |
//!
//! Within one record these stand in order, so that the second latency is never more than the first: neither of a record, nor of any share of all. The
//! engine's own histogram does not serve here: it has a sample for a block of records, and buckets, and it ends with the answer of the insert,
//! which is behind visible.

use anyhow::ensure;

use super::consumer::{INSERTED, RECEIVED};
use super::figures::{INSERTED_P50, INSERTED_P99, VISIBLE_MAX, VISIBLE_P50, VISIBLE_P99};
use crate::counts::{self, CLOCKS_NS, Columns, Counts, Sampled, at_share};
use crate::figure::Figures;
use crate::server::Server;
use crate::trace::Percentile;

/// Nanoseconds since 1970, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Moments {
    sent: i128,
    received: i128,
    inserted: i128,
    visible: i128,
}

impl Moments {
    /// # Errors
    /// When they are out of order by more than clocks may differ.
    fn of([sent, received, inserted, visible]: [i128; 4]) -> anyhow::Result<Self> {
        let in_order = |before: i128, after: i128, what: &str| {
            let late_ms = (before - after) as f64 / 1e6;
            ensure!(after + CLOCKS_NS >= before, "a record was {what}, by {late_ms:.1} ms");
            Ok(())
        };
        in_order(sent, received, "received before it was sent")?;
        in_order(received, inserted, "inserted before it was received")?;
        in_order(inserted, visible, "visible before it was inserted")?;
        ensure!(visible >= sent, "a record was visible before it was sent");
        let received = received.clamp(sent, visible);
        Ok(Self { sent, received, inserted: inserted.clamp(received, visible), visible })
    }

    fn strict_s(self) -> f64 {
        (self.visible - self.sent) as f64 / 1e9
    }

    fn theirs_s(self) -> f64 {
        (self.inserted - self.received) as f64 / 1e9
    }
}

/// Both latencies of all sampled records, in order of size, in seconds.
#[derive(Debug, Default, PartialEq)]
pub struct Latencies {
    strict_s: Vec<f64>,
    theirs_s: Vec<f64>,
}

impl Latencies {
    /// Asks the table of a run that is over.
    ///
    /// # Errors
    /// When the server does not say, a count is no sum of whole inserts, or the moments of a record are out of order.
    pub async fn ask(server: &Server, table: &str, counts: &Counts) -> anyhow::Result<Self> {
        let received = format!("ifNull(toUnixTimestamp64Milli({RECEIVED}), 0) * 1000000");
        let inserted = format!("toUnixTimestamp64Nano({INSERTED})");
        let columns = Columns {
            sent: "toUnixTimestamp64Nano(Timestamp)",
            begun: &inserted,
            more: &[&received, &inserted],
        };
        let sampled = counts::sampled(server, table, columns, counts).await?;
        Self::of(&sampled)
    }

    fn of(sampled: &[Sampled]) -> anyhow::Result<Self> {
        let mut latencies = Self::default();
        for Sampled { sent_ns, more, visible_ns } in sampled {
            let [received, inserted] = more[..] else { anyhow::bail!("two moments were asked for") };
            let moments = Moments::of([*sent_ns, received, inserted, *visible_ns])?;
            latencies.strict_s.push(moments.strict_s());
            latencies.theirs_s.push(moments.theirs_s());
        }
        latencies.strict_s.sort_by(f64::total_cmp);
        latencies.theirs_s.sort_by(f64::total_cmp);
        Ok(latencies)
    }

    /// Adds the strict latency.
    pub fn put_strict(&self, figures: &mut Figures) {
        for (figure, share) in [(VISIBLE_P50, 0.5), (VISIBLE_P99, 0.99), (VISIBLE_MAX, 1.0)] {
            figures.put_if(figure, at_share(&self.strict_s, share));
        }
    }

    /// Adds the latency as the published system measures it.
    pub fn put_theirs(&self, figures: &mut Figures) {
        for (figure, share) in [(INSERTED_P50, 0.5), (INSERTED_P99, 0.99)] {
            figures.put_if(figure, at_share(&self.theirs_s, share));
        }
    }

    /// The strict latency by share.
    pub fn percentiles(&self) -> Vec<Percentile> {
        let shares = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0];
        let at = |share| Some(Percentile { share, latency_s: at_share(&self.strict_s, share)? });
        shares.into_iter().filter_map(at).collect()
    }
}

#[cfg(test)]
mod tests;
