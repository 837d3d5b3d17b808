//! Readings of the Flink workload: eight fields, each with a column.
//!
//! Owns their values and columns. Does not own how a format writes them, nor the records that CI counts instructions over (`guards::readings`).

use dataflow::{Column, ColumnType};

/// What a device says.
pub struct Reading {
    pub sensor: u64,
    pub kind: u64,
    /// Temperature, humidity, pressure and the battery's level.
    pub measured: [f64; 4],
    pub status: u64,
    pub time_ms: u64,
}

/// The reading number `n`, by a generator whose state is `random`.
pub fn reading(n: u64, random: &mut u64) -> Reading {
    let mut uniform = |from: f64, to: f64| {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        from + (to - from) * (*random >> 11) as f64 / (1u64 << 53) as f64
    };
    Reading {
        sensor: uniform(0.0, 100_000.0) as u64,
        kind: uniform(1.0, 9.0) as u64,
        measured: [(10.0, 40.0), (20.0, 80.0), (980.0, 1030.0), (20.0, 100.0)]
            .map(|(from, to)| uniform(from, to)),
        status: if uniform(0.0, 1.0) < 0.85 { 1 } else { uniform(2.0, 5.0) as u64 },
        time_ms: 1_764_000_000_000 + n / 1_000,
    }
}

/// A column for each field.
pub fn columns() -> Vec<Column> {
    use ColumnType::{DateTime64, Float64, Int32, UInt8};
    vec![
        Column::new("sensorId", Int32),
        Column::new("sensorType", UInt8),
        Column::new("temperature", Float64),
        Column::new("humidity", Float64),
        Column::new("pressure", Float64),
        Column::new("batteryLevel", Float64),
        Column::new("status", UInt8),
        Column::new("timestamp", DateTime64 { precision: 3, timezone: Some("UTC".into()) }),
    ]
}
