//! What the workload `buffer` measures, by name; and the table with a row for each rate.
//!
//! Owns the figures of a run. Does not own what requests cost (`buffer::costs`), what is to be reached (`buffer::goals`), nor latencies and
//! their sampling (`buffer::moments`).

use super::costs;
use super::send::Sent;
use super::{Bench, Plan, Ran};
use crate::child::Usage;
use crate::counts;
use crate::figure::{self, Figure, Figures, Shown};
use crate::grid::Grid;
use crate::report::Arm;

const GATEWAY_CPU_S: Figure = Figure::new("gateway_cpu_s", "  of the gateway, s", Shown::Decimals(2));
const COLLECTOR_CPU_S: Figure = Figure::new("collector_cpu_s", "CPU of the collector, s", Shown::Decimals(2));
const COLLECTOR_PER_CPU_S: Figure =
    Figure::new("collector_records_per_cpu_s", "records per CPU-second of the collector", Shown::Whole);
const COLLECTOR_RSS_BYTES_MAX: Figure =
    Figure::new("collector_rss_bytes_max", "collector memory at the most, MB", Shown::Megabytes);
const PIPELINE_CPU_S: Figure = Figure::new("pipeline_cpu_s", "  of the pipeline, s", Shown::Decimals(2));
const BOTH_CPU_S: Figure = Figure::new("both_cpu_s", "CPU of gateway and pipeline, s", Shown::Decimals(2));
/// Memory of the gateway, of the one that had the most if it was started several times.
pub const GATEWAY_RSS_BYTES_MAX: Figure =
    Figure::new("gateway_rss_bytes_max", "gateway memory at the most, MB", Shown::Megabytes);
const ACCEPTED_PER_S: Figure =
    Figure::new("accepted_records_per_s", "records per second, answered as durable", Shown::Whole);
const ANSWER_P50_S: Figure = Figure::new("answer_p50_s", "sent to answered, p50, s", Shown::Decimals(3));
const ANSWER_P99_S: Figure = Figure::new("answer_p99_s", "sent to answered, p99, s", Shown::Decimals(3));
const BUSY: Figure =
    Figure::new("requests_again", "requests sent again, turned away or broken off", Shown::Whole);
/// Bytes of a record as sent.
pub const WIRE_BYTES: Figure =
    Figure::new("sent_bytes_per_record", "bytes a record, as sent", Shown::Decimals(1));
const PUTS: Figure = Figure::new("store_puts_per_million", "PUTs a million records", Shown::Decimals(1));
const GETS: Figure = Figure::new("store_gets_per_million", "GETs a million records", Shown::Decimals(1));
const STORED_BYTES: Figure =
    Figure::new("stored_bytes_per_record", "bytes a record, put into the store", Shown::Decimals(1));
/// Records a second that were to be sent.
pub const OFFERED: Figure = Figure::new("offered_records_per_s", "records per second, offered", Shown::Whole);
/// The strict latency.
pub const VISIBLE_P50: Figure =
    Figure::new("visible_p50_s", "sender's clock to visible, p50, s", Shown::Decimals(3));
/// The strict latency.
pub const VISIBLE_P99: Figure =
    Figure::new("visible_p99_s", "sender's clock to visible, p99, s", Shown::Decimals(3));
/// The strict latency.
pub const VISIBLE_MAX: Figure =
    Figure::new("visible_max_s", "sender's clock to visible, the most, s", Shown::Decimals(3));
/// The latency as the published system measures it.
pub const INSERTED_P50: Figure =
    Figure::new("received_to_insert_p50_s", "gateway's receipt to insert, p50, s", Shown::Decimals(3));
/// The latency as the published system measures it.
pub const INSERTED_P99: Figure =
    Figure::new("received_to_insert_p99_s", "gateway's receipt to insert, p99, s", Shown::Decimals(3));
/// How late a request was begun.
pub const SENDER_LATE: Figure =
    Figure::new("sender_late_s_max", "  of it the sender's lateness, at the most, s", Shown::Decimals(3));
/// The error of a strict latency.
pub const COUNT_GAP: Figure = Figure::new(
    "visible_error_s_max",
    "  of it the time between two counts, at the most, s",
    Shown::Decimals(3),
);
/// After an outage of ClickHouse.
pub const CAUGHT_UP: Figure =
    Figure::new("caught_up_s", "from the end of the outage to caught up, s", Shown::Decimals(1));
/// While it catches up: what waited and what comes meanwhile.
pub const CATCHING_UP_PER_S: Figure =
    Figure::new("catching_up_rows_per_s", "  rows per second meanwhile", Shown::Whole);

/// The columns of the table with a row for each rate.
const BY_RATE: [Figure; 11] = [
    OFFERED.labelled("offered"),
    ACCEPTED_PER_S.labelled("answered/s"),
    figure::RECORDS_PER_CPU_S.labelled("per CPU-s"),
    COLLECTOR_PER_CPU_S.labelled("per collector's"),
    ANSWER_P50_S.labelled("answer p50, s"),
    ANSWER_P99_S.labelled("p99, s"),
    VISIBLE_P50.labelled("visible p50, s"),
    VISIBLE_P99.labelled("p99, s"),
    INSERTED_P50.labelled("to insert p50, s"),
    INSERTED_P99.labelled("p99, s"),
    costs::MONTH.labelled("$ a month"),
];

impl Bench<'_> {
    /// What a run measured apart from latencies.
    pub(super) fn figures(&self, ran: &Ran, rate: Option<u64>, bytes_per_record: Option<f64>) -> Figures {
        let mut figures = Figures::default();
        let records = ran.sent.records as f64;
        let both_s = ran.gateway.map_or(0.0, |usage| usage.cpu_s()) + ran.pipeline.cpu_s();
        figures.put(figure::RECORDS_PER_CPU_S, records / both_s);
        figures.put_if(OFFERED, rate.map(|rate| rate as f64));
        figures.put(ACCEPTED_PER_S, records / ran.sent.took.as_secs_f64());
        figures.put(BOTH_CPU_S, both_s);
        figures.put_if(GATEWAY_CPU_S, ran.gateway.map(|usage| usage.cpu_s()));
        figures.put(PIPELINE_CPU_S, ran.pipeline.cpu_s());
        figures.put_if(COLLECTOR_CPU_S, ran.collector.map(|usage| usage.cpu_s()));
        figures.put_if(COLLECTOR_PER_CPU_S, ran.collector.map(|usage| records / usage.cpu_s()));
        figures.put_if(COLLECTOR_RSS_BYTES_MAX, ran.collector.map(|usage| usage.rss_bytes_max as f64));
        figures.put_if(GATEWAY_RSS_BYTES_MAX, ran.gateway.map(|usage| usage.rss_bytes_max as f64));
        figures.put(figure::ENGINE_RSS_BYTES_MAX, ran.pipeline.rss_bytes_max as f64);
        figures.put_if(figure::CLICKHOUSE_CPU_S, ran.clickhouse.map(|usage| usage.cpu_s()));
        figures.put_if(ANSWER_P50_S, counts::at_share(&ran.sent.answers_s, 0.5));
        figures.put_if(ANSWER_P99_S, counts::at_share(&ran.sent.answers_s, 0.99));
        figures.put(BUSY, ran.sent.again as f64);
        let sent_bytes = bytes_per_record.unwrap_or(ran.sent.bytes as f64 / records);
        figures.put(WIRE_BYTES, sent_bytes);
        if let Some(counted) = ran.traffic.counted() {
            figures.put(PUTS, counted.puts as f64 / records * 1e6);
            figures.put(GETS, counted.gets as f64 / records * 1e6);
            figures.put(STORED_BYTES, counted.put_bytes as f64 / records);
            let row_bytes = self.plan.workload.spec().record_bytes as f64;
            let flow = costs::Flow::of(counted, records, (sent_bytes, row_bytes), ran.sent.took);
            costs::put(&flow, &mut figures);
        }
        figures
    }
}

/// What a run measured of a collector that inserts into ClickHouse itself.
pub fn of_collector(
    sent: &Sent,
    used: Usage,
    clickhouse: Option<Usage>,
    rate: Option<u64>,
    bytes_per_record: Option<f64>,
) -> Figures {
    let mut figures = Figures::default();
    let records = sent.records as f64;
    figures.put_if(OFFERED, rate.map(|rate| rate as f64));
    figures.put(ACCEPTED_PER_S, records / sent.took.as_secs_f64());
    figures.put(COLLECTOR_CPU_S, used.cpu_s());
    figures.put(COLLECTOR_PER_CPU_S, records / used.cpu_s());
    figures.put(COLLECTOR_RSS_BYTES_MAX, used.rss_bytes_max as f64);
    figures.put_if(figure::CLICKHOUSE_CPU_S, clickhouse.map(|usage| usage.cpu_s()));
    figures.put_if(ANSWER_P50_S, counts::at_share(&sent.answers_s, 0.5));
    figures.put_if(ANSWER_P99_S, counts::at_share(&sent.answers_s, 0.99));
    figures.put(BUSY, sent.again as f64);
    figures.put(WIRE_BYTES, bytes_per_record.unwrap_or(sent.bytes as f64 / records));
    figures.put_if(SENDER_LATE, rate.map(|_| sent.late_max.as_secs_f64()));
    figures
}

/// Whether senders sent to the gateway itself: goals and costs are those of such arms.
pub fn is_ours(arm: &Arm) -> bool {
    arm.summary.get(COLLECTOR_CPU_S).is_none()
}

/// One row for each rate, of dashes where no run was valid; nothing where there is one row, or no rate.
pub fn by_rate(arms: &[Arm], plan: &Plan) -> Option<Grid> {
    if plan.rates.is_empty() || arms.len() < 2 {
        return None;
    }
    // What no arm has, such as a cost without S3, is no column.
    let is_known = |column: &Figure| arms.iter().any(|arm| arm.summary.get(*column).is_some());
    let columns: Vec<Figure> = BY_RATE.into_iter().filter(is_known).collect();
    let mut grid = Grid::new("by rate, medians", &columns);
    for arm in arms {
        grid.push(&arm.name, |column| Some(arm.summary.get(column)?.median));
    }
    Some(grid)
}
