//! What a benchmark measures: a name for programs, a name for users, and how the number is shown.
//!
//! Owns the figures that several workloads have, and the form of a number. Does not own a workload's own figures, which stand in its file,
//! nor medians and goals (`crate::report`).

use serde::ser::{Serialize, SerializeMap, Serializer};

/// One thing that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// In JSON; the unit stands last.
    pub key: &'static str,
    /// In tables and plots.
    pub label: &'static str,
    /// How it is shown.
    pub shown: Shown,
}

/// How a number is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Rounded, with commas between thousands.
    Whole,
    /// With as many decimals.
    Decimals(usize),
    /// Bytes, in millions of them.
    Megabytes,
    /// A share of 1, in per cent.
    Percent,
}

impl Figure {
    /// A figure with its name in JSON, its name in tables, and how it is shown.
    pub const fn new(key: &'static str, label: &'static str, shown: Shown) -> Self {
        Self { key, label, shown }
    }

    /// The same under another label, such as the short heading of a column.
    #[must_use]
    pub const fn labelled(self, label: &'static str) -> Self {
        Self { label, ..self }
    }
}

/// Records over the CPU-seconds of the process that is measured.
pub const RECORDS_PER_CPU_S: Figure =
    Figure::new("records_per_cpu_s", "records per engine CPU-second", Shown::Whole);
/// Records over the time from start to end.
pub const RECORDS_PER_S: Figure =
    Figure::new("records_per_s", "records per second, start to end", Shown::Whole);
/// From start to end.
pub const WALL_S: Figure = Figure::new("wall_s", "wall, s", Shown::Decimals(2));
/// User and system time of the engine's process.
pub const ENGINE_CPU_S: Figure = Figure::new("engine_cpu_s", "engine CPU, s", Shown::Decimals(2));
/// Its user time.
pub const ENGINE_USER_S: Figure = Figure::new("engine_user_s", "  in its own code, s", Shown::Decimals(2));
/// Its system time.
pub const ENGINE_SYSTEM_S: Figure = Figure::new("engine_system_s", "  in the kernel, s", Shown::Decimals(2));
/// The most memory it held.
pub const ENGINE_RSS_BYTES_MAX: Figure =
    Figure::new("engine_rss_bytes_max", "engine memory at the most, MB", Shown::Megabytes);
/// What the server used meanwhile.
pub const CLICKHOUSE_CPU_S: Figure =
    Figure::new("clickhouse_cpu_s", "ClickHouse CPU meanwhile, s", Shown::Decimals(2));
/// Keys in the state at the most.
pub const STATE_KEYS: Figure = Figure::new("state_keys", "keys in memory at the most", Shown::Whole);
/// Bytes of the state a key.
pub const STATE_BYTES_PER_KEY: Figure =
    Figure::new("state_bytes_per_key", "state, bytes a key", Shown::Decimals(1));

/// What the first touch of 100 MB took before a run, milliseconds of CPU.
pub const FIRST_TOUCH_MS: Figure = Figure::new(
    "first_touch_ms_per_100mb",
    "memory touched before the run, ms for 100 MB",
    Shown::Decimals(1),
);

impl Shown {
    /// The number as text.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Whole => whole(value),
            Self::Decimals(decimals) => format!("{value:.decimals$}"),
            Self::Megabytes => whole(value / 1e6),
            Self::Percent => format!("{:.1} %", value * 100.0),
        }
    }
}

/// Figures of one run, in the order in which they are shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures(Vec<(Figure, f64)>);

impl Figures {
    /// Adds a figure's value.
    pub fn put(&mut self, figure: Figure, value: f64) {
        self.0.push((figure, value));
    }

    /// Adds a figure's value, if it is known.
    pub fn put_if(&mut self, figure: Figure, value: Option<f64>) {
        self.0.extend(value.map(|value| (figure, value)));
    }

    /// A figure's value.
    pub fn get(&self, figure: Figure) -> Option<f64> {
        self.0.iter().find(|(known, _)| known.key == figure.key).map(|(_, value)| *value)
    }

    /// The figures, in order.
    pub fn figures(&self) -> impl Iterator<Item = Figure> {
        self.0.iter().map(|(figure, _)| *figure)
    }
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (figure, value) in &self.0 {
            map.serialize_entry(figure.key, value)?;
        }
        map.end()
    }
}

/// With commas between thousands.
pub fn whole(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    if value <= -0.5 {
        out.push('-');
    }
    for (left, digit) in (0..digits.len()).rev().zip(digits.chars()) {
        out.push(digit);
        if left > 0 && left.is_multiple_of(3) {
            out.push(',');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_parted_by_commas() {
        assert_eq!(whole(0.4), "0");
        assert_eq!(whole(999.0), "999");
        assert_eq!(whole(1_000.0), "1,000");
        assert_eq!(whole(-100.0), "-100");
        assert_eq!(whole(2_200_000.0), "2,200,000");
    }

    #[test]
    fn figures_are_one_object_in_their_order() {
        let mut figures = Figures::default();
        figures.put(WALL_S, 2.5);
        figures.put_if(STATE_KEYS, None);
        figures.put_if(RECORDS_PER_S, Some(4.0));
        let json = serde_json::to_string(&figures).expect("numbers can be written");
        assert_eq!(json, r#"{"wall_s":2.5,"records_per_s":4.0}"#);
        assert_eq!(figures.get(WALL_S), Some(2.5));
    }
}
