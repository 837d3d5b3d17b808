use dataflow::{ColumnType, Streams, block::NO_LEADER_EPOCH};
use engine::TokioRuntime;

use super::*;
use crate::config;
use crate::config::values::reference::Surroundings;

fn pipeline(text: &str) -> Pipeline {
    let around = Surroundings { env: &|_| Ok(Some("s3cr3t".into())), file: &|_| Err("no".into()) };
    let checked = config::check(text, &around);
    checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")))
}

fn with(source: &str, rest: &str) -> Pipeline {
    pipeline(&format!(
        "pipeline: p\nsource: {source}\nsink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t }} }}\n{rest}"
    ))
}

fn schema() -> Schema {
    Schema::new(vec![
        Column::new("id", ColumnType::Uuid),
        Column::new("at", ColumnType::DateTime { timezone: None }),
        Column::new("name", ColumnType::String),
    ])
}

const GENERATOR: &str = "{ generator: { workload: glassflow, uniques: 10 } }";

#[test]
fn columns_are_filled_by_the_fields_that_the_file_names() {
    let pipeline = with(GENERATOR, "columns: { name: user.name }");
    let fields: Vec<String> = with_fields(&schema(), &pipeline.targets()[0])
        .unwrap()
        .columns()
        .iter()
        .map(|c| c.field.clone())
        .collect();
    assert_eq!(fields, ["id", "at", "user.name"]);
    let pipeline = with(GENERATOR, "columns: { nmae: user.name }");
    let error = with_fields(&schema(), &pipeline.targets()[0]).unwrap_err().to_string();
    assert_eq!(error, "`columns`: the table has no column `nmae`, did you mean `name`?");
}

#[test]
fn the_first_time_column_is_read_before_the_lane_and_a_later_one_in_it() {
    let names = |steps: &str| {
        let pipeline = with(GENERATOR, &format!("steps: [{steps}]"));
        let chain = steps::chain(&pipeline, &[schema()], 2).unwrap();
        let names: Vec<String> = chain.steps.iter().map(|step| step.name().to_owned()).collect();
        (chain.inputs[0].intake.is_timed(), names.join(" "))
    };
    let (timed, untimed) =
        ("{ dedup: { key: [id], window: 8h, time: at } }", "{ dedup: { key: [id], window: 8h } }");
    assert_eq!(names(timed), (true, "dedup".into()));
    assert_eq!(names(untimed), (false, "dedup".into()));
    assert_eq!(names(&format!("{timed}, {timed}")), (true, "dedup event_time dedup".into()));
    let pipeline = with(GENERATOR, "steps: [{ dedup: { key: [idd], window: unbounded } }]");
    let error = steps::chain(&pipeline, &[schema()], 2).err().unwrap().to_string();
    assert!(error.starts_with("`steps[0].dedup`: ") && error.contains("did you mean `id`?"), "{error}");
}

/// The example that `docs/formats.md` shows, on a record that another encoder (fastavro) wrote.
#[test]
fn the_example_of_avro_decodes_records_of_its_schema() {
    use dataflow::{BlockBuilder, Partition};

    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let text = std::fs::read_to_string(folder.join("kafka-avro.yaml")).unwrap();
    // The program enters the folder of the file; a test stays where it is.
    let schema_file = folder.join("readings.avsc");
    let pipeline = pipeline(&text.replace("readings.avsc", schema_file.to_str().unwrap()));
    let text = || ColumnType::String;
    let schema = Schema::new(vec![
        Column::new("sensor_id", ColumnType::UInt32),
        Column::new("city", ColumnType::LowCardinality(Box::new(text()))),
        Column::new("floor", ColumnType::Nullable(Box::new(ColumnType::Int16))),
        Column::new("temperature", ColumnType::Float32),
        Column::new("status", ColumnType::Enum8([("OK".into(), 0), ("LOW_BATTERY".into(), 1)].into())),
        Column::new("labels", ColumnType::Map(Box::new(text()), Box::new(text()))),
        Column::new("measured_at", ColumnType::DateTime64 { precision: 3, timezone: Some("UTC".into()) }),
    ]);
    let columns = with_fields(&schema, &pipeline.targets()[0]).unwrap();
    let decoder = source::decoder(&pipeline.inputs()[0], columns).unwrap().decoder;
    let mut block = BlockBuilder::new(Partition::new("readings", 0), 0);
    let record = b"\xe2\xc5\x08\x0eGen\xc3\xa8ve\x02\x03\x00\x00\x00\x00\x00\x805@\x02\x02\x08line\x02a\x00\xdc\xbc\xcc\xca\xeff";
    block.push(0, 0, Some(record));
    block.push(1, 0, Some(&record[..20]));
    let decoded = decoder.decode(&block.take());
    assert_eq!((decoded.batch.positions, decoded.rejects.len()), (vec![0], 1));
    assert!(decoded.rejects[0].message.starts_with("byte `"), "{}", decoded.rejects[0].message);

    let refused = |column: &str, column_type| {
        let schema = Schema::new(vec![Column::new(column, column_type)]);
        source::decoder(&pipeline.inputs()[0], schema)
            .err()
            .expect("a column that cannot be filled")
            .to_string()
    };
    let shown = refused("temperature", ColumnType::Uuid);
    assert!(shown.starts_with("`source.format.avro`: schema_file `"), "{shown}");
    let why =
        "field `temperature`, column `temperature`: the schema has double, and UUID does not take a float";
    assert!(shown.ends_with(why), "{shown}");
    assert!(refused("site", text()).ends_with("name a field in it, as in `site.name`"));
}

/// The example that `docs/formats.md` shows, on a record that another encoder (Python's protobuf) wrote; its types as a text and as a descriptor set.
#[test]
fn the_example_of_protobuf_decodes_records_of_its_schema() {
    use dataflow::{BlockBuilder, Partition};

    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let text = std::fs::read_to_string(folder.join("kafka-protobuf.yaml")).unwrap();
    let schema_file = folder.join("readings.proto");
    let pipeline = pipeline(&text.replace("readings.proto", schema_file.to_str().unwrap()));
    let text = || ColumnType::String;
    let schema = Schema::new(vec![
        Column::new("sensor_id", ColumnType::UInt32),
        Column::new("city", ColumnType::LowCardinality(Box::new(text()))),
        Column::new("floor", ColumnType::Nullable(Box::new(ColumnType::Int16))),
        Column::new("temperature", ColumnType::Float32),
        Column::new("status", ColumnType::Enum8([("OK".into(), 0), ("LOW_BATTERY".into(), 1)].into())),
        Column::new("labels", ColumnType::Map(Box::new(text()), Box::new(text()))),
        Column::new("measured_at", ColumnType::DateTime64 { precision: 3, timezone: Some("UTC".into()) }),
        Column::new("samples", ColumnType::Array(Box::new(ColumnType::Float32))),
    ]);
    let columns = with_fields(&schema, &pipeline.targets()[0]).unwrap();
    let decoder = source::decoder(&pipeline.inputs()[0], columns).unwrap().decoder;
    let mut block = BlockBuilder::new(Partition::new("readings", 0), 0);
    let record = b"\x08\xf1\xa2\x04\x12\x0b\n\x07Gen\xc3\xa8ve\x10\x03\x19\x00\x00\x00\x00\x00\x805@ \x01*\t\n\x04line\x12\x01a2\x0b\x08\xee\xae\xc8\xb1\x06\x10\x95\x9a\xef::\x08\x00\x00\x00?\x00\x00\x80\xbf";
    block.push(0, 0, Some(record));
    block.push(1, 0, Some(&record[..20]));
    let decoded = decoder.decode(&block.take());
    assert_eq!((decoded.batch.positions, decoded.rejects.len()), (vec![0], 1));
    assert!(decoded.rejects[0].message.starts_with("byte `"), "{}", decoded.rejects[0].message);

    let refused = |column: &str, column_type| {
        let schema = Schema::new(vec![Column::new(column, column_type)]);
        source::decoder(&pipeline.inputs()[0], schema)
            .err()
            .expect("a column that cannot be filled")
            .to_string()
    };
    let shown = refused("temperature", ColumnType::Uuid);
    assert!(shown.starts_with("`source.format.protobuf`: schema_file `"), "{shown}");
    let why =
        "field `temperature`, column `temperature`: the schema has double, and UUID does not take a float";
    assert!(shown.ends_with(why), "{shown}");
    assert!(refused("site", text()).ends_with("name a field in it, as in `site.name`"));
}

#[test]
fn types_are_looked_for_beside_the_file_and_in_the_folders_of_imports() {
    let dir = testkit::TestDir::new("protobuf").unwrap();
    let folder = |name: &str| dir.path().join(name);
    std::fs::create_dir_all(folder("more/geo")).unwrap();
    let root =
        r#"syntax = "proto3"; package shop; import "geo/place.proto"; message Order { geo.Place at = 1; }"#;
    std::fs::write(folder("order.proto"), root).unwrap();
    let place = r#"syntax = "proto3"; package geo; message Place { string city = 1; }"#;
    std::fs::write(folder("more/geo/place.proto"), place).unwrap();
    let made = |options: &str, message: &str| {
        let file = folder("order.proto");
        let format =
            format!("{{ protobuf: {{ schema_file: {}, message: {message}{options} }} }}", file.display());
        let source = format!("{{ kafka: {{ brokers: \"b:9092\", topic: t }}, format: {format} }}");
        let mut column = Column::new("city", ColumnType::String);
        column.field = "at.city".into();
        source::decoder(&with(&source, "").inputs()[0], Schema::new(vec![column]))
            .err()
            .map(|error| error.to_string())
    };
    let paths = format!(", import_paths: [{}]", folder("more").display());
    assert_eq!(made(&paths, "shop.Order"), None);
    let error = made("", "shop.Order").unwrap();
    assert!(
        error.starts_with("`source.format.protobuf`: schema_file `") && error.contains("geo/place.proto"),
        "{error}"
    );
    let error = made(&paths, "shop.Ordr").unwrap();
    assert!(error.ends_with("no message `shop.Ordr`; there are `geo.Place`, `shop.Order`"), "{error}");
}

#[test]
fn a_schema_file_that_cannot_be_read_is_named() {
    let source =
        "{ kafka: { brokers: \"b:9092\", topic: t }, format: { avro: { schema_file: nowhere.avsc } } }";
    let error = source::decoder(&with(source, "").inputs()[0], schema()).err().unwrap().to_string();
    assert!(error.starts_with("`source.format.avro`: schema_file `nowhere.avsc`: "), "{error}");
}

#[test]
fn security_becomes_the_properties_of_the_kafka_client() {
    let pipeline = with(
        "{ kafka: { brokers: b, topic: t, security: { \
           tls: { ca: /ca, cert: /c, key: /k, key_password: \"${X}\", verify_host: false }, \
           sasl: { mechanism: SCRAM-SHA-256, username: me, password: \"${X}\" } } } }",
        "",
    );
    let properties = source::security(&pipeline.source.as_ref().unwrap().kafka.as_ref().unwrap().security);
    let pairs: Vec<(&str, &str)> =
        properties.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(
        pairs,
        [
            ("sasl.mechanism", "SCRAM-SHA-256"),
            ("sasl.password", "s3cr3t"),
            ("sasl.username", "me"),
            ("security.protocol", "SASL_SSL"),
            ("ssl.ca.location", "/ca"),
            ("ssl.certificate.location", "/c"),
            ("ssl.endpoint.identification.algorithm", "none"),
            ("ssl.key.location", "/k"),
            ("ssl.key.password", "s3cr3t"),
        ]
    );
}

#[tokio::test]
async fn kafka_takes_every_security_that_the_file_can_say() {
    let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
    for security in [
        "{}",
        "{ tls: {} }",
        "{ tls: { verify_host: false } }",
        "{ sasl: { mechanism: PLAIN, username: a, password: \"${X}\" } }",
        "{ tls: {}, sasl: { mechanism: SCRAM-SHA-512, username: a, password: \"${X}\" } }",
        "{ tls: {}, sasl: { mechanism: OAUTHBEARER, oauth: { token_file: /t } } }",
        "{ tls: {}, sasl: { mechanism: OAUTHBEARER, oauth: { token_command: [echo, a] } } }",
    ] {
        let text = format!("{{ kafka: {{ brokers: \"127.0.0.1:1\", topic: t, security: {security} }} }}");
        let pipeline = with(&text, "");
        let source = source::source(&pipeline, &pipeline.inputs()[0], &runtime);
        assert_eq!(
            source.map(|source| source.streams()).map_err(|e| e.to_string()),
            Ok(Streams::Topics),
            "{security}"
        );
    }
}

#[tokio::test]
async fn an_unknown_kafka_property_is_a_fault_without_its_value() {
    let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
    let text = "{ kafka: { brokers: b, topic: t, properties: { fetch.frob.bytes: \"${X}\" } } }";
    let pipeline = with(text, "");
    let error = source::source(&pipeline, &pipeline.inputs()[0], &runtime).err().unwrap().to_string();
    assert!(error.contains("fetch.frob.bytes") && !error.contains("s3cr3t"), "{error}");
}

#[tokio::test]
async fn a_generator_has_a_partition_for_each_publisher() {
    let runtime: Arc<dyn Runtime> = TokioRuntime::new(1);
    let text = "{ generator: { workload: glassflow, uniques: 30, publishers: 3, rate: 10 } }";
    let pipeline = with(text, "");
    let source = source::source(&pipeline, &pipeline.inputs()[0], &runtime).unwrap();
    let partitions = source.partitions().await.unwrap();
    assert_eq!(partitions.len(), 3);
    assert!(partitions.iter().all(|partition| partition.leader_epoch == NO_LEADER_EPOCH));
    let ends = source.ends().await.unwrap();
    assert_eq!(ends[0].1, 11, "ten uniques and one near duplicate");
}

#[test]
fn the_clamp_of_the_future_follows_the_window() {
    let of = |steps: &str| {
        let text = format!(
            "pipeline: p\nsource: {{ generator: {{ workload: glassflow }} }}\nsteps: [{steps}]\n\
             sink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t }} }}"
        );
        bounds::settings(&pipeline(&text), false).future_ms_max
    };
    assert_eq!(of("{ dedup: { key: [id], window: 1m } }"), 15_000);
    assert_eq!(of("{ dedup: { key: [id], window: 8h } }"), 3_600_000);
    assert_eq!(of("{ dedup: { key: [id], window: unbounded } }"), 3_600_000);
    assert_eq!(of("{ dedup: { key: [id], window: 1h } }, { dedup: { key: [id], window: 1m } }"), 15_000);
    assert_eq!(of("{ dedup: { key: [id], window: 1h, future_max: 10s } }"), 10_000);
}

#[test]
fn bounds_come_from_the_file() {
    let pipeline = pipeline(
        "pipeline: p\nsource: { generator: { workload: glassflow } }\n\
         steps: [{ dedup: { key: [id], window: 8h } }, { dedup: { key: [id], window: unbounded } }]\n\
         sink:\n  clickhouse: { url: \"http://localhost:8123\", table: t }\n  batch: { rows: 7, bytes: 1MiB, age: 3s }\n\
         \x20 in_flight: 5\nspool: { bytes: 1GiB, age: 1h }\nmemory: 2GiB\nshutdown: { timeout: 9s }",
    );
    let settings = bounds::settings(&pipeline, false);
    assert_eq!((settings.batch_rows_max, settings.batch_bytes_max), (7, 1 << 20));
    assert_eq!(settings.batch_age_max.as_secs(), 3);
    assert_eq!(settings.in_flight_max, 5);
    assert_eq!((settings.spool_bytes_max, settings.spool_age_max.as_secs()), (1 << 30, 3_600));
    assert_eq!(settings.body_cache_bytes_max, 256 << 20);
    assert_eq!(settings.drain_time_max.as_secs(), 9);
    assert_eq!(settings.skew_ms_max, Some(8 * 3_600_000));
    assert_eq!(settings.future_ms_max, 3_600_000, "an hour is less than a quarter of the window");
    assert_eq!(bounds::ahead_bytes(&pipeline), 32 << 20);
    assert_eq!(
        bounds::settings(&pipeline, true).in_flight_max,
        1,
        "the order of inserts shows in such a table"
    );
}

#[test]
fn an_input_may_say_how_its_clocks_go() {
    let text = "pipeline: p
inputs:
  a: { kafka: { brokers: 'k:9092', topic: a }, fields: { at: DateTime64(3) }, future_max: 2m }
  b: { kafka: { brokers: 'k:9092', topic: b }, fields: { at: DateTime64(3) }, idle_after: 5m }
  c: { kafka: { brokers: 'k:9092', topic: c }, fields: { at: DateTime64(3) } }
steps: [{ window: { time: at, size: 1m, aggregates: { n: count() } } }]
sink: { clickhouse: { url: 'http://localhost:8123', table: t } }
";
    let settings = bounds::settings(&pipeline(text), false);
    let pace = |input| {
        let pace = settings.pace(input);
        (pace.future_ms_max, pace.idle_after.as_secs())
    };
    assert_eq!([pace("a"), pace("b"), pace("c")], [(120_000, 30), (15_000, 300), (15_000, 30)]);
}

/// A file that says nothing gets what the engine takes by default: the two must not drift apart.
#[test]
fn defaults_of_the_file_are_those_of_the_engine() {
    let ours = bounds::settings(&with(GENERATOR, ""), false);
    assert_eq!(format!("{ours:?}"), format!("{:?}", engine::Settings::default()));
}

#[test]
fn tables_come_from_the_file() {
    let pipeline = pipeline(
        "pipeline: p\nsource: { generator: { workload: glassflow } }\n\
         sink: { clickhouse: { url: \"http://localhost:8123\", database: d, table: t, sort: true, compression: none, \
         unique_key: [a], create: { columns: { b: UInt8, a: UUID }, order_by: [b, a], partition_by: b } } }\n\
         dead_letters: { create: false }",
    );
    let table = sink::targets(&pipeline).unwrap().remove(0);
    assert_eq!((table.name().as_str(), table.sort), ("d.t", true));
    let create = table.create.unwrap();
    assert_eq!(create.columns, [("b".to_owned(), "UInt8".to_owned()), ("a".to_owned(), "UUID".to_owned())]);
    assert_eq!((create.order_by.as_str(), create.partition_by.as_str()), ("b, a", "b"));
    let letters = sink::dead_letters(&pipeline);
    assert_eq!((letters.name().as_str(), letters.create.is_none()), ("d.t_rejected", true));
    assert!(sink::dead_letters(&with(GENERATOR, "")).create.is_some());
}

#[test]
fn a_fault_of_the_target_is_told_before_one_of_the_dead_letters() {
    use futures::FutureExt;
    use futures::channel::oneshot;

    // The dead letters answer first, and the target is waited for.
    let (answer, target) = oneshot::channel::<Result<(), &str>>();
    let mut opened = pin!(both(async { target.await.expect("answered") }, async { Err::<(), _>("letters") }));
    assert_eq!(opened.as_mut().now_or_never(), None);
    answer.send(Err("target")).expect("waited for");
    assert_eq!(opened.now_or_never(), Some(Err("target")));

    // A target that is refused does not wait for dead letters that do not answer.
    let opened = both(async { Err::<(), _>("target") }, std::future::pending::<Result<(), _>>());
    assert_eq!(opened.now_or_never(), Some(Err("target")));

    // That of the dead letters is kept for later: faults of the file that only the target shows come before it.
    let opened = both(async { Ok(()) }, async { Err::<(), _>("letters") });
    assert_eq!(opened.now_or_never(), Some(Ok(((), Err("letters")))));
}

#[test]
fn a_field_that_another_input_declares_need_not_be_in_the_schema_of_avro() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/readings.avsc");
    let text = format!(
        "pipeline: p\ninputs:\n  readings: {{ kafka: {{ brokers: b, topic: r }}, format: {{ avro: {{ schema_file: {} }} }} }}\n  \
         lines: {{ kafka: {{ brokers: b, topic: l }}, fields: {{ level: Nullable(Int64) }} }}\n\
         steps: [{{ filter: \"level IS NULL OR level > 3\" }}]\nsink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t }} }}\n",
        folder.display()
    );
    let pipeline = pipeline(&text);
    let table = Schema::new(vec![Column::new("temperature", ColumnType::Float32)]);
    let chain = steps::chain(&pipeline, &[table], 1).unwrap_or_else(|error| panic!("{error}"));
    let columns = chain.inputs[0].intake.schema().columns();
    assert_eq!(
        (chain.inputs[0].name.as_str(), columns.len()),
        ("lines", chain.inputs[1].intake.schema().columns().len())
    );
}

#[test]
fn a_column_that_the_table_has_otherwise_than_the_file_says_is_named() {
    let text = "pipeline: p\nsource: { file: { paths: a.jsonl } }\nsink: { clickhouse: { url: \"http://localhost:8123\", table: t, create: \
                { columns: { id: UUID, at: DateTime, name: UInt8, more: String }, order_by: id } } }\n";
    let pipeline = pipeline(text);
    let faults = sink::unlike_described(&pipeline, &[schema()]);
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "`sink.clickhouse.create.columns.name`: table `t` exists, and its column `name` is of type String, not UInt8: `create` is for a table \
          that does not exist, and changes none"
        ]
    );
    assert!(
        sink::unlike_described(&pipeline, &sink::all_described(&pipeline).expect("it is described"))
            .is_empty()
    );
}
