//! Rules of Protocol Buffers.
//!
//! Owns which of its options go together, and from which sources it is read. Does not own the types, which are read when the decoder is made
//! (`wiring::source::protobuf`), nor how a registry is logged in to (`config::rules::inputs`).

use super::Rules;
use super::inputs::TWO_PLACES;
use crate::config::model::Input;

impl Rules<'_> {
    /// Everything about an input that reads Protocol Buffers.
    pub(super) fn protobuf(&mut self, input: &Input<'_>) {
        let source = input.source;
        let Some(protobuf) = source.format.protobuf() else { return };
        let path = format!("{}.format", input.path);
        if !source.delimits_records() {
            let message = match source.generator {
                Some(_) => "a generator makes JSON; leave `format` out",
                None => {
                    "Protobuf is read from Kafka, Pulsar or a log, which delimit its records; lines of a file cannot"
                }
            };
            self.fault(&path, message);
            return;
        }
        if source.pulsar.is_none() && source.format.is_of_the_source() {
            let message = "Protobuf needs the types that its records were written with: write \
                           `format: { protobuf: { schema_file: orders.proto, message: shop.Order } }`; the file may also be a descriptor set of `protoc`. \
                           For records that name theirs write `format: { protobuf: { registry: { url: \"http://registry:8081\" } } }`";
            self.fault(&path, message);
            return;
        }
        let path = format!("{path}.protobuf");
        if let Some(registry) = &protobuf.registry {
            self.registry(registry, &format!("{path}.registry"));
        }
        let Some(file) = &protobuf.schema_file else {
            if !protobuf.import_paths.is_empty() {
                let message = "a registry and brokers have what a schema imports; take `import_paths` out";
                self.fault(&format!("{path}.import_paths"), message);
            }
            return;
        };
        if protobuf.registry.is_some() {
            self.fault(&path, TWO_PLACES);
        }
        if protobuf.message.as_deref().unwrap_or_default().is_empty() {
            let message = "`message` is missing: name the message that a record is, with its package, as in `message: shop.Order`";
            self.fault(&path, message);
        }
        if !protobuf.import_paths.is_empty() && !file.ends_with(".proto") {
            let message = "a descriptor set has its imports in itself; take `import_paths` out, or name a `.proto` file";
            self.fault(&format!("{path}.import_paths"), message);
        }
    }
}
