//! Rules of `tombstones` of an input.
//!
//! Owns which sources and formats have records without a body, and what must come from their keys. Does not own what such a row holds
//! (`formats::tombstones`).

use dataflow::Metadata;

use super::Rules;
use crate::config::model::Input;
use crate::config::model::source::{KeyFormat, Tombstones};

impl Rules<'_> {
    /// Everything about the tombstones of an input.
    pub(super) fn tombstones(&mut self, input: &Input<'_>) {
        let source = input.source;
        let Some(tombstones) = &source.tombstones else { return };
        let path = format!("{}.tombstones", input.path);
        if source.kafka.is_none() && source.pulsar.is_none() {
            let message =
                "only records of Kafka and Pulsar have keys, and may have no body; leave `tombstones` out";
            return self.fault(&path, message);
        }
        if source.format.otlp().is_some() {
            let message = "a request of OTLP has no key that its rows share; leave `tombstones` out";
            return self.fault(&path, message);
        }
        if tombstones.format == KeyFormat::Text && tombstones.key.len() > 1 {
            let message =
                "a key that is text has one field; name one, or write `format: json` or `format: avro`";
            self.fault(&format!("{path}.key"), message);
        }
        let has_registry = source.format.avro().is_some_and(|avro| avro.registry.is_some());
        if tombstones.format == KeyFormat::Avro && !has_registry {
            let message = "keys in Avro name their schema by the number in a registry: write `format: { avro: { registry: … } }` for the input, \
                           or `format: json` or `format: text` here";
            self.fault(&format!("{path}.format"), message);
        }
        for (at, field) in tombstones.timestamp.iter().enumerate() {
            if tombstones.key.contains(field) {
                let message =
                    format!("`{field}` is a field of the key; it cannot have the record's timestamp too");
                self.fault(&format!("{path}.timestamp[{at}]"), message);
            }
        }
        self.time_of_tombstones(input, tombstones, &path);
        if !self.file.contains(Metadata::Tombstone.name()) {
            let message = "nothing reads `_tombstone`, so a deletion is a row like any other: fill the column that `upsert: deleted` names by \
                           `columns: { deleted: _tombstone }`, or write `deleted: _tombstone` in the join";
            self.hint(&path, message);
        }
    }

    /// Without one a row would be of 1970: late, or a version before all others.
    fn time_of_tombstones(&mut self, input: &Input<'_>, tombstones: &Tombstones, path: &str) {
        let of_steps = self.pipeline.steps.iter().filter_map(|step| {
            let of_dedup = step.dedup.as_ref().and_then(|dedup| dedup.time.as_ref());
            of_dedup.or_else(|| step.window.as_ref().and_then(|window| window.time.as_ref()))
        });
        let time = input.source.time.as_ref().or_else(|| of_steps.into_iter().next());
        let Some(time) = time.filter(|time| Metadata::named(time.as_str()).is_none()) else { return };
        let mut named = tombstones.key.iter().chain(&tombstones.timestamp);
        if !named.any(|field| field.as_str() == time.as_str()) {
            let message = format!(
                "`{time}` is the event time, and a record without a body has none: write `timestamp: [{time}]`, which gives it the record's \
                 timestamp"
            );
            self.fault(path, message);
        }
    }
}
