//! Readings of sensors in Avro, to be aggregated by sensor and window of event time.
//!
//! Owns the records, their order, and what the table of results must hold in the end. Does not own topics and rates: the stream is a
//! sequence of positions from 0, and [`Workload::partition`] says which of the topic's partitions each belongs to.
//!
//! A record is the Avro body of [`SCHEMA`], 41 to 43 bytes, without a header; its key is the sensor's number in decimal digits.
//!
//! | field          | value                                                            |
//! |----------------|------------------------------------------------------------------|
//! | `sensorId`     | of `0..sensors`, each as often as any other                      |
//! | `sensorType`   | 1 to 8                                                           |
//! | `temperature`  | from 10 to 40                                                    |
//! | `humidity`     | from 20 to 80                                                    |
//! | `pressure`     | from 980 to 1030                                                 |
//! | `batteryLevel` | from 20 to 100                                                   |
//! | `status`       | 1 in 85 % of the records; 2, 3 and 4 in 5 % each                 |
//! | `timestamp`    | the event time in Unix milliseconds                              |
//!
//! **Time.** Time passes evenly with positions: a window has `sensors * readings` of them. A record's event time is up to `disorder_ms` before
//! that of its position, so records of two windows are mixed around each boundary, and none is late for a window that waits as long. Behind
//! the last window that is counted, a quarter of one more follows, so that all of those close. The experiment was published with 100,000 sensors,
//! windows of a minute and 600 readings each: 60 million records a window.
//!
//! **Sums.** Every metric is a whole multiple of 2^-20, so sums of floats are exact, whatever their order: a table is either right to the last
//! bit or wrong.

pub mod oracle;

use crate::random::{below, mix, nth};

/// The writer's schema of the records.
pub const SCHEMA: &str = r#"{"type": "record", "name": "SensorData", "namespace": "sensors", "fields": [
  {"name": "sensorId", "type": "int"}, {"name": "sensorType", "type": "int"},
  {"name": "temperature", "type": "double"}, {"name": "humidity", "type": "double"},
  {"name": "pressure", "type": "double"}, {"name": "batteryLevel", "type": "double"},
  {"name": "status", "type": "int"}, {"name": "timestamp", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}
"#;

/// Names of the four metrics, in the order of the schema.
pub const METRICS: [&str; 4] = ["temperature", "humidity", "pressure", "batteryLevel"];
/// Bytes of a record, but for a few.
pub const RECORD_BYTES_MEAN: usize = 43;
/// Bytes of the longest record: reserve so many per record and [`Workload::write`] never allocates. Five for the sensor, one each for type
/// and status, 32 for the metrics, ten for the time.
pub const RECORD_BYTES_MAX: usize = 49;
/// Bytes of the longest key.
pub const KEY_BYTES_MAX: usize = 8;
/// Sensors at the most: the oracle keeps 104 bytes for each of them and window that is open.
pub const SENSORS_MAX: u32 = 10_000_000;
/// Records at the most.
pub const RECORDS_MAX: u64 = 1 << 40;
/// Readings of a sensor in a window at the most, in the mean: sums of so many are exact by a factor of a thousand.
pub const READINGS_MAX: u32 = 10_000;
/// Milliseconds of a window at the most: a day.
pub const WINDOW_MS_MAX: u32 = 86_400_000;
/// The last event time that the time column holds: the end of the year 2200.
const TIME_MS_MAX: i64 = 7_289_654_400_000;

/// Steps of a metric in one: sums of whole numbers of them are exact up to 2^53.
const STEPS: u64 = 1 << 20;
/// The least value of each metric and how far above it values go.
const RANGES: [(u64, u64); 4] = [(10, 30), (20, 60), (980, 50), (20, 80)];

/// The size and shape of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Everything random comes from it.
    pub seed: u64,
    /// Sensors; 1 to [`SENSORS_MAX`].
    pub sensors: u32,
    /// Milliseconds of a window; 1 to [`WINDOW_MS_MAX`].
    pub window_ms: u32,
    /// Windows that close; at least 1.
    pub windows: u32,
    /// Readings of each sensor in a window, in the mean; 1 to [`READINGS_MAX`].
    pub readings: u32,
    /// How far a record's event time is before that of its position at the most; at most a tenth of a window, so that the quarter behind the
    /// last window closes it.
    pub disorder_ms: u32,
    /// Where the first window begins, Unix milliseconds; a whole multiple of `window_ms`.
    pub start_time_ms: i64,
}

impl Default for Spec {
    /// A small run with the published ratio: 2,000 sensors, ten windows of 6 s, 600 readings each: 12.3 million records.
    fn default() -> Self {
        Self {
            seed: 1,
            sensors: 2_000,
            window_ms: 6_000,
            windows: 10,
            readings: 600,
            disorder_ms: 100,
            start_time_ms: 1_735_689_600_000,
        }
    }
}

/// Why a [`Spec`] makes no workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No or too many sensors.
    #[error("`{0}` sensors; give 1 to {SENSORS_MAX}")]
    Sensors(u32),
    /// A window without a length, or one that is too long.
    #[error("windows of `{0}` ms; give 1 to {WINDOW_MS_MAX}")]
    Window(u32),
    /// No windows.
    #[error("`0` windows; give at least 1")]
    NoWindows,
    /// No or too many readings.
    #[error("`{0}` readings of a sensor in a window; give 1 to {READINGS_MAX}")]
    Readings(u32),
    /// More disorder than the stream can make up for.
    #[error("records up to `{0}` ms out of order, but a tenth of a window is `{1}` ms; give less")]
    Disorder(u32, u32),
    /// A start between two boundaries.
    #[error(
        "the start `{0}` ms is no whole multiple of the window's `{1}` ms, or outside of the years 1970 to 2200"
    )]
    Start(i64, u32),
    /// Too many records, or times that do not fit.
    #[error("the run has more than {RECORDS_MAX} records or ends after the year 2200; give fewer windows")]
    TooLong,
}

/// One reading of a sensor, before it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Its sensor.
    pub sensor: u32,
    /// 1 to 8.
    pub sensor_type: u8,
    /// The metrics of [`METRICS`], in units of 2^-20.
    pub metrics: [u64; 4],
    /// 1 to 4.
    pub status: u8,
    /// The event time, Unix milliseconds.
    pub time_ms: i64,
}

/// A checked [`Spec`] that gives its records. Costs nothing to make or clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    spec: Spec,
    series: u64,
}

impl Workload {
    /// Checks the spec.
    ///
    /// # Errors
    /// When a number is out of its bounds.
    pub fn new(spec: Spec) -> Result<Self, SpecError> {
        if spec.sensors == 0 || spec.sensors > SENSORS_MAX {
            return Err(SpecError::Sensors(spec.sensors));
        }
        if spec.window_ms == 0 || spec.window_ms > WINDOW_MS_MAX {
            return Err(SpecError::Window(spec.window_ms));
        }
        if spec.windows == 0 {
            return Err(SpecError::NoWindows);
        }
        if spec.readings == 0 || spec.readings > READINGS_MAX {
            return Err(SpecError::Readings(spec.readings));
        }
        if spec.disorder_ms > spec.window_ms / 10 {
            return Err(SpecError::Disorder(spec.disorder_ms, spec.window_ms / 10));
        }
        let starts = 0..TIME_MS_MAX;
        if !starts.contains(&spec.start_time_ms) || spec.start_time_ms % i64::from(spec.window_ms) != 0 {
            return Err(SpecError::Start(spec.start_time_ms, spec.window_ms));
        }
        let workload = Self { series: nth(spec.seed, 0), spec };
        let length_ms = (i64::from(workload.spec.windows) + 1) * i64::from(workload.spec.window_ms);
        let records = u128::from(workload.per_window()) * (u128::from(workload.spec.windows) + 1);
        if records > u128::from(RECORDS_MAX) || workload.spec.start_time_ms + length_ms > TIME_MS_MAX {
            return Err(SpecError::TooLong);
        }
        Ok(workload)
    }

    /// The spec it was made from.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Positions of the stream, from 0: those of all windows, and a quarter of one more, at least one.
    pub fn records_total(&self) -> u64 {
        u64::from(self.spec.windows) * self.per_window() + self.per_window().div_ceil(4)
    }

    /// When the last window that closes ends, Unix milliseconds.
    pub fn end_time_ms(&self) -> i64 {
        self.spec.start_time_ms + i64::from(self.spec.windows) * i64::from(self.spec.window_ms)
    }

    /// Positions of a window.
    pub fn per_window(&self) -> u64 {
        u64::from(self.spec.sensors) * u64::from(self.spec.readings)
    }

    /// The time of a position, Unix milliseconds: its record is at most `disorder_ms` older.
    pub fn time_ms(&self, position: u64) -> i64 {
        let (window, within) = (position / self.per_window(), position % self.per_window());
        // Both factors have 40 bits at the most, and the quotient is below the window's length.
        let within_ms = u128::from(within) * u128::from(self.spec.window_ms) / u128::from(self.per_window());
        self.spec.start_time_ms + window as i64 * i64::from(self.spec.window_ms) + within_ms as i64
    }

    /// The reading at a position; `None` behind the end.
    pub fn reading(&self, position: u64) -> Option<Reading> {
        if position >= self.records_total() {
            return None;
        }
        let first = nth(self.series, position);
        // Numbers of 32 bits each: plenty for what they choose among.
        let [who, warm, air] = [mix(first ^ 1), mix(first ^ 2), mix(first ^ 3)];
        let high = |bits: u64, bound: u64| below(bits & 0xffff_ffff_0000_0000, bound);
        let low = |bits: u64, bound: u64| below(bits << 32, bound);
        let metric = |n: usize, chosen: u64| RANGES[n].0 * STEPS + chosen;
        let late_ms = low(who, u64::from(self.spec.disorder_ms) + 1) as i64;
        let status = match low(first, 100) {
            0..85 => 1,
            85..90 => 2,
            90..95 => 3,
            _ => 4,
        };
        Some(Reading {
            // Fits, because it is below a number of 32 bits.
            sensor: high(who, u64::from(self.spec.sensors)) as u32,
            sensor_type: 1 + high(first, 8) as u8,
            metrics: [
                metric(0, high(warm, RANGES[0].1 * STEPS)),
                metric(1, low(warm, RANGES[1].1 * STEPS)),
                metric(2, high(air, RANGES[2].1 * STEPS)),
                metric(3, low(air, RANGES[3].1 * STEPS)),
            ],
            status,
            // No record is before the first window.
            time_ms: (self.time_ms(position) - late_ms).max(self.spec.start_time_ms),
        })
    }

    /// Appends the record at a position to `out`, and says which sensor's it is. Behind the end it appends nothing and answers `None`.
    pub fn write(&self, position: u64, out: &mut Vec<u8>) -> Option<u32> {
        let reading = self.reading(position)?;
        reading.write(out);
        Some(reading.sensor)
    }

    /// The partition of a topic with `partitions` of them that a sensor's records go to: always the same one, as with every producer that
    /// chooses by the key.
    pub fn partition(&self, sensor: u32, partitions: u32) -> u32 {
        // Fits, because it is below a number of 32 bits.
        below(nth(self.series ^ 1, u64::from(sensor)), u64::from(partitions.max(1))) as u32
    }
}

impl Reading {
    /// Appends it in Avro's binary encoding, as [`SCHEMA`] says.
    fn write(&self, out: &mut Vec<u8>) {
        put_long(out, i64::from(self.sensor));
        put_long(out, i64::from(self.sensor_type));
        for metric in self.metrics {
            out.extend_from_slice(&value(metric).to_le_bytes());
        }
        put_long(out, i64::from(self.status));
        put_long(out, self.time_ms);
    }
}

/// The number that stands for so many steps of 2^-20; exact up to 2^53 of them.
fn value(steps: u64) -> f64 {
    steps as f64 / STEPS as f64
}

/// Appends a number as Avro writes `int` and `long`: zigzag, seven bits a byte.
fn put_long(out: &mut Vec<u8>, value: i64) {
    let mut rest = (value << 1 ^ value >> 63) as u64;
    while rest > 0x7f {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// A sensor's number in decimal digits: the key of its records.
pub fn key(sensor: u32, text: &mut [u8; KEY_BYTES_MAX]) -> &[u8] {
    let (mut rest, mut at) = (sensor, KEY_BYTES_MAX);
    loop {
        at -= 1;
        text[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return &text[at..];
        }
    }
}

#[cfg(test)]
mod tests;
