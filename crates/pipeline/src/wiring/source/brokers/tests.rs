//! Which schemas of topics are refused, and with which way out.

use super::*;

#[test]
fn a_topic_is_refused_by_what_is_read_from_it_and_its_schema() {
    use SchemaKind as K;

    let text = Reads::Text("JSON");
    let all = [K::None, K::Avro, K::Json, K::Protobuf, K::ProtobufNative, K::KeyValue, K::Other(1)];
    let taken =
        |reads| all.into_iter().filter(|kind| refusal("t", *kind, reads).is_none()).collect::<Vec<_>>();
    assert_eq!(taken(Reads::Avro), [K::None, K::Avro]);
    assert_eq!(taken(Reads::Protobuf), [K::None, K::ProtobufNative]);
    assert_eq!(taken(text), [K::None, K::Json, K::KeyValue, K::Other(1)]);
    let file = "write `format: { protobuf: { schema_file: ";
    for (kind, reads, begins, way_out) in [
        (
            K::Avro,
            text,
            "topic `t` has a schema of Avro, and the pipeline reads JSON: ",
            "write `format: avro`",
        ),
        (
            K::ProtobufNative,
            text,
            "topic `t` has a schema of Protobuf, and the pipeline reads JSON: ",
            "write `format: protobuf`",
        ),
        (K::Protobuf, text, "topic `t` has a schema of Protobuf, and the pipeline reads JSON: ", file),
        (
            K::Json,
            Reads::Avro,
            "topic `t` has a schema of JSON, and the pipeline reads Avro: ",
            "write `format: json`",
        ),
        (K::Protobuf, Reads::Avro, "topic `t` has a schema of Protobuf, and the pipeline reads Avro: ", file),
        (
            K::Avro,
            Reads::Protobuf,
            "topic `t` has a schema of Avro, and the pipeline reads Protobuf: ",
            "write `format: avro`",
        ),
        (
            K::Protobuf,
            Reads::Protobuf,
            "topic `t`: a schema of the type PROTOBUF describes Protobuf as if ",
            file,
        ),
        (
            K::KeyValue,
            Reads::Protobuf,
            "topic `t` has a schema of KeyValue, and the pipeline reads Protobuf: ",
            "one schema of Protobuf",
        ),
    ] {
        let said = refusal("t", kind, reads).expect("it is refused");
        assert!(said.starts_with(begins) && said.contains(way_out), "{said}");
    }
}
