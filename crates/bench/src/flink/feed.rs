//! The records of the workload `flink`, as they are sent.
//!
//! Owns the way from a workload's position to a message: its key is the sensor, and so is its partition. Does not own the records
//! (`workloads::flink`), nor the sending (`crate::topic`).

use workloads::flink::{KEY_BYTES_MAX, RECORD_BYTES_MAX, Workload, key};

use crate::topic::{Records, Sending, Take};

impl Records for Workload {
    fn each(&self, partitions: u32, take: &mut Take<'_>) -> anyhow::Result<()> {
        let mut payload = Vec::with_capacity(RECORD_BYTES_MAX);
        let mut digits = [0; KEY_BYTES_MAX];
        for position in 0..self.records_total() {
            payload.clear();
            let Some(sensor) = self.write(position, &mut payload) else { break };
            let partition = self.partition(sensor, partitions);
            take(position, Sending { partition, key: Some(key(sensor, &mut digits)), payload: &payload })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use workloads::flink::Spec;

    use super::*;

    #[test]
    fn every_position_is_sent_once_in_order_with_its_sensor_as_the_key() {
        let spec = Spec { sensors: 30, windows: 1, readings: 10, ..Spec::default() };
        let workload = Workload::new(spec).expect("valid");
        let mut next = 0;
        let sent = workload.each(4, &mut |number, sending| {
            let reading = workload.reading(number).expect("within the stream");
            assert_eq!(number, next);
            assert_eq!(sending.key, Some(reading.sensor.to_string().as_bytes()));
            assert_eq!(sending.partition, workload.partition(reading.sensor, 4));
            next += 1;
            Ok(())
        });
        assert!(sent.is_ok());
        assert_eq!(next, workload.records_total());
    }
}
