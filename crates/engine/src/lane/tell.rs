//! What the lane looks at and tells once a second: idleness, skew, lag, state.

use metrics::gauge;

use super::LaneTask;

impl LaneTask {
    pub(super) async fn tick(&mut self) {
        if let Some(skew_ms) = self.context.settings.skew_ms_max {
            for (n, reading) in self.readings.iter_mut().enumerate() {
                // Half the distance before it may run again, so that it does not stop and go with every block.
                if reading.paused && !self.watermarks.is_ahead(n, skew_ms / 2) {
                    reading.paused = false;
                    self.reader.iter_mut().for_each(|reader| reader.resume(&reading.partition));
                }
            }
        }
        let now = self.context.runtime.elapsed();
        if self.ends_asked.is_none_or(|at| now.saturating_sub(at) >= self.context.settings.lag_every) {
            self.ends_asked = Some(now);
            self.ask_for_lag();
        }
        self.tell();
    }

    /// Lag is asked for beside the lane: a source that does not answer must not hold records up.
    pub(super) fn ask_for_lag(&self) {
        let (context, source) = (self.context.clone(), self.source.clone());
        let task = async move {
            let bound = context.settings.lag_every;
            if let Some(Ok(ends)) = context.runtime.timeout(bound, source.ends()).await {
                context.status.update(|s| {
                    for (partition, end) in ends {
                        s.partitions.entry(partition.to_string()).or_default().end = Some(end);
                    }
                });
            }
        };
        self.context.runtime.spawn("lag", Box::pin(task)).detach();
    }

    pub(super) fn tell(&mut self) {
        let (mut keys, mut closed, mut bytes, mut file_bytes) = (0, 0, 0, 0);
        for step in &mut self.steps {
            let name = step.name().to_owned();
            if let Some(state) = step.state() {
                keys += state.keys();
                bytes += state.memory_bytes();
                let in_files: u64 = state.files().iter().map(|file| file.len).sum();
                closed += state.closed_keys();
                file_bytes += in_files;
                gauge!("forebay_state_keys_closed", "step" => name.clone()).set(state.closed_keys() as f64);
                gauge!("forebay_state_file_bytes", "step" => name.clone()).set(in_files as f64);
                gauge!("forebay_state_keys", "step" => name.clone()).set(state.keys() as f64);
                gauge!("forebay_state_bytes", "step" => name).set(state.memory_bytes() as f64);
            }
        }
        let unsealed = self.builder.counts();
        let readings: Vec<(String, u64)> = self
            .readings
            .iter()
            .filter(|r| !r.forgotten)
            .map(|r| (r.partition.to_string(), r.next))
            .collect();
        self.context.status.update(|s| {
            s.state_keys = keys;
            s.state_keys_closed = closed;
            s.state_bytes = bytes;
            s.state_file_bytes = file_bytes;
            s.unsealed = unsealed;
            for (name, next) in readings {
                let partition = s.partitions.entry(name.clone()).or_default();
                partition.next = next;
                if let Some(end) = partition.end {
                    gauge!("forebay_partition_lag_records", "partition" => name)
                        .set(end.saturating_sub(next) as f64);
                }
            }
        });
    }
}
