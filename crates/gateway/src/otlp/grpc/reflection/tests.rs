use super::*;

/// A question with one text.
fn ask(field: u8, text: &str) -> Vec<u8> {
    let mut question = Vec::new();
    put(&mut question, field, text.as_bytes());
    answer(&question)
}

/// The fields of an answer that are bytes.
fn fields(bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let (mut fields, mut found) = (Fields::of("an answer", bytes), Vec::new());
    while let Some((field, value)) = fields.next().expect("a message") {
        if let Value::Bytes(bytes) = value {
            found.push((field, bytes.to_vec()));
        }
    }
    found
}

fn field(bytes: &[u8], number: u32) -> Option<Vec<u8>> {
    fields(bytes).into_iter().find(|(field, _)| *field == number).map(|(_, bytes)| bytes)
}

/// The names of the files of an answer.
fn files(answer: &[u8]) -> Vec<String> {
    let files = fields(&field(answer, 4).unwrap_or_default());
    let name = |file: &Vec<u8>| String::from_utf8(field(file, 1).expect("a name")).expect("text");
    files.iter().map(|(_, file)| name(file)).collect()
}

#[test]
fn every_service_that_is_told_is_described_with_all_that_its_file_imports() {
    let services = fields(&field(&ask(7, "*"), 6).expect("services"));
    let names: Vec<String> = services
        .iter()
        .map(|(_, service)| String::from_utf8(field(service, 1).expect("a name")).expect("text"))
        .collect();
    assert_eq!(names.len(), 6, "{names:?}");
    for name in &names {
        let found = files(&ask(4, name));
        assert!(!found.is_empty(), "{name}");
        for file in &found {
            for import in &KNOWN.files[file].imports {
                assert!(found.contains(import), "{name}: {import} of {file}");
            }
        }
    }
}

#[test]
fn files_and_names_of_every_kind_are_found() {
    let logs = "opentelemetry/proto/collector/logs/v1/logs_service.proto";
    assert_eq!(files(&ask(3, logs))[0], logs);
    assert_eq!(files(&ask(3, logs)).len(), 4);
    for (name, file) in [
        ("opentelemetry.proto.collector.logs.v1.LogsService.Export", logs),
        ("opentelemetry.proto.logs.v1.LogRecord", "opentelemetry/proto/logs/v1/logs.proto"),
        ("opentelemetry.proto.logs.v1.SeverityNumber", "opentelemetry/proto/logs/v1/logs.proto"),
        ("opentelemetry.proto.trace.v1.Span.Event", "opentelemetry/proto/trace/v1/trace.proto"),
        ("opentelemetry.proto.trace.v1.Span.SpanKind", "opentelemetry/proto/trace/v1/trace.proto"),
        ("grpc.reflection.v1.ServerReflectionRequest", "grpc/reflection/v1/reflection.proto"),
    ] {
        assert_eq!(files(&ask(4, name)).first().map(String::as_str), Some(file), "{name}");
    }
}

#[test]
fn what_is_not_there_is_told_with_the_question() {
    for (question, field_of, words) in [
        (ask(3, "other.proto"), 3, "`other.proto`"),
        (ask(4, "opentelemetry.proto.logs.v1.Other"), 4, "`opentelemetry.proto.logs.v1.Other`"),
        (ask(5, ""), 5, "no extensions"),
        (ask(6, "x"), 6, "no extensions"),
    ] {
        let error = field(&question, 7).expect("an error");
        assert_eq!(error[..2], [0x08, 5]);
        assert!(String::from_utf8_lossy(&error).contains(words), "{}", String::from_utf8_lossy(&error));
        assert_eq!(field(&question, 2).expect("the question")[0] >> 3, field_of);
    }
    for bytes in [&b"\x1a\x7f"[..], b"\xff", b""] {
        let told = answer(bytes);
        assert_eq!(field(&told, 7).expect("an error")[..2], [0x08, 3], "{bytes:?}");
    }
}
