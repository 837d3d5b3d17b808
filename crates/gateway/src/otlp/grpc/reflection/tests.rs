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

/// Whatever is asked: the answer repeats it, has one of the answers that there are, names only files that are known, each once, and takes no memory but
/// for those and the question.
#[test]
fn fuzz_reflection_questions() {
    let question = |field: u8, text: &str| {
        let mut question = Vec::new();
        put(&mut question, 1, b"localhost");
        put(&mut question, field, text.as_bytes());
        question
    };
    let logs = "opentelemetry/proto/collector/logs/v1/logs_service.proto";
    let described: usize = KNOWN.files.values().map(|file| file.bytes.len()).sum();
    testkit::Fuzz::new("gRPC reflection questions")
        .examples([
            question(3, logs),
            question(4, "opentelemetry.proto.trace.v1.Span.Event"),
            question(7, "*"),
        ])
        .examples([question(5, "\x0a\x01x\x10\x01"), question(6, "x")])
        .words([
            "grpc.reflection.v1.ServerReflection",
            "google/protobuf/descriptor.proto",
            "\x1a",
            "\x22",
            "\x3a\0",
        ])
        .memory_max((64 << 10) + 4 * described, 16)
        .run(6_000, |question| {
            let told = answer(question);
            assert!(told.len() <= 4 * question.len() + described + (4 << 10), "{}", told.len());
            let found = fields(&told);
            assert_eq!(
                found
                    .iter()
                    .filter(|(field, _)| *field == 2)
                    .map(|(_, bytes)| &bytes[..])
                    .collect::<Vec<_>>(),
                [question]
            );
            let answers: Vec<u32> =
                found.iter().map(|(field, _)| *field).filter(|field| *field > 2).collect();
            assert!(matches!(answers[..], [4 | 6 | 7]), "{answers:?}");
            let names = files(&told);
            assert!(names.iter().all(|name| KNOWN.files.contains_key(name)));
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "each once");
        });
}

/// A call of gRPC with these bytes as its body, in pieces of at most so many: the answers, and the code that it ends with.
fn call(runtime: &tokio::runtime::Runtime, bytes: &[u8], piece: usize) -> (Vec<Vec<u8>>, String) {
    use http_body_util::BodyExt;

    let pieces: Vec<_> = bytes
        .chunks(piece)
        .map(|piece| Ok::<_, std::convert::Infallible>(axum::body::Bytes::copy_from_slice(piece)))
        .collect();
    let body = axum::body::Body::from_stream(futures::stream::iter(pieces));
    let answers = super::super::stream::answers(body, answer, || false);
    let told = runtime.block_on(answers.into_body().collect()).expect("a body");
    let code = told.trailers().and_then(|trailers| trailers.get("grpc-status")).expect("a code");
    let code = code.to_str().expect("text").to_owned();
    let (bytes, mut answers) = (told.to_bytes(), Vec::new());
    let mut rest = &bytes[..];
    while let Some((&[0, a, b, c, d], behind)) = rest.split_first_chunk::<5>() {
        let (answer, behind) = behind.split_at(u32::from_be_bytes([a, b, c, d]) as usize);
        answers.push(answer.to_vec());
        rest = behind;
    }
    assert!(rest.is_empty(), "whole answers");
    (answers, code)
}

/// Each whole question in front is answered, in whatever pieces it comes, and the call ends well only where its last question does.
#[test]
fn fuzz_reflection_calls() {
    let framed = |question: &[u8]| [&[0][..], &(question.len() as u32).to_be_bytes(), question].concat();
    let mut question = Vec::new();
    put(&mut question, 3, b"other.proto");
    let two = [framed(&question), framed(b"")].concat();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    testkit::Fuzz::new("gRPC reflection calls")
        .examples([framed(&question), two])
        .words([[0; 5], [1, 0, 0, 0, 0], [0, 0xff, 0xff, 0xff, 0xff]])
        .run(1_500, |bytes| {
            // More than a question may have at a time is refused before it is divided; small pieces never are.
            let (answers, code) = call(&runtime, bytes, 7);
            let (mut rest, mut expected) = (bytes, Vec::new());
            let ends_well = loop {
                match rest.split_first_chunk::<5>() {
                    None => break rest.is_empty(),
                    Some((&[flag, a, b, c, d], behind)) => {
                        let said = u32::from_be_bytes([a, b, c, d]) as usize;
                        if flag != 0 || said > 4 << 10 || said > behind.len() {
                            break false;
                        }
                        expected.push(answer(&behind[..said]));
                        rest = &behind[said..];
                    }
                }
            };
            assert_eq!((answers.len(), code.as_str()), (expected.len(), if ends_well { "0" } else { "3" }));
            assert_eq!(answers, expected);
            let whole = call(&runtime, bytes, bytes.len().max(1));
            assert!(
                whole.0 == answers && whole.1 == code || (bytes.len() > (4 << 10) && whole.1 == "3"),
                "in one piece"
            );
        });
}
