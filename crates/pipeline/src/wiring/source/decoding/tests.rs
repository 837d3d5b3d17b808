use formats::json::EpochUnit;
use serde_json::json;

use super::times_of;
use crate::config::model::source::Format;

/// Keys of tombstones are read with them, whatever format they have themselves.
#[test]
fn the_zone_and_the_unit_are_those_of_whichever_format_the_bodies_have() {
    let of = |format| times_of(&serde_json::from_value::<Format>(format).expect("a format"));
    let options = json!({"timezone": "Europe/Berlin", "epoch_unit": "ms"});
    for format in ["json", "csv", "avro", "protobuf"] {
        let found = of(json!({format: options}));
        assert_eq!(found, ("Europe/Berlin".to_owned(), EpochUnit::Milliseconds), "{format}");
    }
    for format in ["json", "avro", "protobuf", "otlp_logs"] {
        assert_eq!(of(json!(format)), ("UTC".to_owned(), EpochUnit::ByMagnitude), "{format}");
    }
}
