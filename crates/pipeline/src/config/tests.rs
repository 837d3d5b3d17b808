use std::fmt::Write as _;
use std::path::Path;

use super::faults::{Faults, Position, Severity};
use super::model::source::Mechanism;
use super::model::step::Late;
use super::model::{Create, Delivery, Pipeline};
use super::values::reference::Surroundings;
use super::values::{Start, Window};
use super::{Checked, check, schema};

mod ways;

const SECRET: &str = "v3ry-h1dd3n";

fn env(name: &str) -> Result<Option<String>, String> {
    Ok(match name {
        "TEST_NAME" => Some("from-env".into()),
        "TEST_SECRET" => Some(SECRET.into()),
        "TEST_NUMBER" => Some("7".into()),
        "TEST_SECRET_OF_ECHO" => Some(format!("{SECRET}\n")),
        "TEST_TEXT_OF_ECHO" => Some("b = 1\n".into()),
        "TEST_PEM" => Some(format!("-----BEGIN KEY-----\n{SECRET}\n-----END KEY-----\n")),
        _ => None,
    })
}

fn file(path: &Path) -> Result<String, String> {
    match path.to_str() {
        Some("/run/secrets/password") => Ok(format!("{SECRET}\n")),
        Some("/run/secrets/empty") => Ok("\n".into()),
        _ => Err(format!("names the file `{}`, which cannot be read: not in this test", path.display())),
    }
}

fn check_here(text: &str) -> Checked {
    check(text, &Surroundings { env: &env, file: &file })
}

fn case(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn good(text: &str) -> Pipeline {
    let checked = check_here(text);
    checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")))
}

/// Every file in `tests/config` gives the lines of its sibling `.faults`, no more and no less. A file that begins with
/// `good_` has none at all. `FOREBAY_TEST_WRITE=1` writes the siblings anew; then read the difference.
#[test]
fn each_file_has_the_faults_that_stand_beside_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config");
    let write = std::env::var_os("FOREBAY_TEST_WRITE").is_some();
    let mut wrong = String::new();
    let mut files = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        files += 1;
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let found = check_here(&case(&name)).faults.render(&name);
        let is_good = name.starts_with("good_");
        let beside = path.with_extension("faults");
        if write && !is_good {
            std::fs::write(&beside, &found).unwrap();
        }
        let expected =
            if is_good { String::new() } else { std::fs::read_to_string(&beside).unwrap_or_default() };
        if found != expected || found.is_empty() != is_good {
            writeln!(wrong, "== {name}\nexpected\n{expected}\nfound\n{found}").unwrap();
        }
    }
    assert!(files >= 12, "only {files} files");
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn no_secret_reaches_a_fault_or_debug() {
    for name in ["secrets_are_never_shown.yaml", "every_fault_at_once.yaml"] {
        let checked = check_here(&case(name));
        let shown = format!("{}{:?}", checked.faults.render("x"), checked.faults);
        for secret in [SECRET, "s3cr3t", "hunter2"] {
            assert!(!shown.contains(secret), "{name} shows `{secret}`: {shown}");
        }
    }
    let pipeline = good(&case("good_everything.yaml"));
    let shown = format!("{pipeline:?}{}", serde_json::to_string(&pipeline).unwrap());
    assert!(!shown.contains(SECRET), "{shown}");
    let password = pipeline.sink.clickhouse.password.unwrap();
    assert_eq!(password.reveal(), SECRET);
}

#[test]
fn all_settings_arrive() {
    let pipeline = good(&case("good_everything.yaml"));
    let kafka = pipeline.source.as_ref().unwrap().kafka.as_ref().unwrap();
    assert_eq!(pipeline.pipeline.as_str(), "user-events");
    assert_eq!(kafka.brokers.as_slice().len(), 2);
    assert_eq!(kafka.start, Start::At { ms: 1_769_842_800_000 });
    assert_eq!(kafka.security.sasl.as_ref().unwrap().mechanism, Mechanism::ScramSha512);
    assert_eq!(kafka.properties.iter().next().unwrap().1.reveal(), "rack-1");
    assert_eq!(pipeline.source.as_ref().unwrap().format.json().record_bytes_max.bytes, 1 << 20);
    let dedup = pipeline.steps.last().unwrap().dedup.as_ref().unwrap();
    assert!(matches!(dedup.window, Window::Within(period) if period.ms == 36 * 3_600_000));
    assert_eq!(dedup.late, Late::DeadLetter);
    let Some(Create::Table(create)) = &pipeline.sink.clickhouse.create else { panic!("no table") };
    let columns: Vec<&str> = create.columns.0.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        columns,
        ["event_id", "tenant", "created_at"],
        "the order of the file is the order of the table"
    );
    assert_eq!(pipeline.letters_place(), ("prod".into(), "user_events_bad".into()));
    assert_eq!(pipeline.shutdown.timeout.ms, 90_000);
}

#[test]
fn defaults_are_those_of_the_reference() {
    let pipeline = good(&case("good_minimal.yaml"));
    assert_eq!(pipeline.store.as_str(), "./forebay-data");
    assert_eq!(pipeline.delivery, Delivery::ExactlyOnce);
    assert_eq!(pipeline.sink.batch.rows, 500_000);
    assert_eq!(pipeline.sink.batch.bytes.bytes, 64 << 20);
    assert_eq!(pipeline.sink.batch.age.ms, 1_000);
    assert_eq!(pipeline.spool.bytes.bytes, 4 << 30);
    assert_eq!(pipeline.http.listen.to_string(), "127.0.0.1:9464");
    assert!(pipeline.dead_letters.create);
    let place = pipeline.letters_place();
    assert_eq!(place, ("default".into(), "events_rejected".into()));
}

#[test]
fn what_was_read_can_be_written_and_read_again() {
    for name in ["good_minimal.yaml", "good_everything.yaml", "good_sinks.yaml", "good_pulsar.yaml"] {
        let first = serde_json::to_string(&good(&case(name))).unwrap();
        // JSON is YAML, so the written form goes through the whole reader once more.
        let second = serde_json::to_string(&good(&first)).unwrap();
        assert_eq!(first, second);
    }
}

#[test]
fn a_secret_in_clear_is_a_hint_and_no_fault() {
    let text = case("good_minimal.yaml").replace("table: events", "table: events, password: open");
    let checked = check_here(&text);
    assert!(checked.pipeline.is_some());
    let faults = checked.faults.sorted();
    assert_eq!(faults.len(), 1);
    assert_eq!(faults[0].severity, Severity::Hint);
    assert_eq!(faults[0].path, "sink.clickhouse.password");
}

#[test]
fn a_dot_in_the_name_of_a_table_is_a_hint() {
    let rest = "pipeline: p\nsource: { kafka: { brokers: b, topic: t } }\n";
    let shown = |sink: &str| {
        let checked = check_here(&format!("{rest}{sink}"));
        assert!(checked.pipeline.is_some(), "{sink}");
        checked.faults.render("test")
    };
    let url = "url: \"http://localhost:8123\"";
    let told = shown(&format!("sink: {{ clickhouse: {{ {url}, table: shop.orders }} }}"));
    assert!(
        told.starts_with("test:3:") && told.contains("hint: the dot is part of the table's name"),
        "{told}"
    );
    let told = shown(&format!(
        "sink: {{ clickhouse: {{ {url} }} }}\nsinks: [{{ clickhouse: {{ table: a }} }}, {{ clickhouse: {{ table: shop.b }} }}]"
    ));
    assert!(told.starts_with("test:4:") && told.lines().count() == 1, "{told}");
    assert_eq!(shown(&format!("sink: {{ clickhouse: {{ {url}, database: shop, table: orders }} }}")), "");
    // A value stands in place of the column.
    let by = "by: { column: user.shop, values: [a, b] }";
    let told = shown(&format!(
        "sink: {{ clickhouse: {{ {url} }} }}\nsinks: [{{ clickhouse: {{ table: \"t_{{user.shop}}\" }}, {by} }}]"
    ));
    assert_eq!(told, "");
}

#[test]
fn a_store_in_a_folder_named_like_the_home_folder_is_a_hint() {
    let shown = |store: &str| {
        let rest = "source: { kafka: { brokers: b, topic: t } }\nsink: { clickhouse: { url: \"http://localhost:8123\", table: t } }";
        let checked = check_here(&format!("pipeline: p\n{rest}\nstore: {store}\n"));
        assert!(checked.pipeline.is_some(), "{store}");
        checked.faults.render("test")
    };
    let told = shown("~/forebay");
    assert!(
        told.starts_with("test:4:") && told.contains("hint: `~` is a folder of that name here"),
        "{told}"
    );
    assert_eq!(shown("./~/forebay"), "");
}

#[test]
fn a_secret_comes_from_a_file_without_its_last_line_feed() {
    let with = |reference: &str| {
        case("good_minimal.yaml")
            .replace("table: events", &format!("table: events, password: \"{reference}\""))
    };
    for reference in ["file:/run/secrets/password", "file:///run/secrets/password"] {
        assert_eq!(good(&with(reference)).sink.clickhouse.password.unwrap().reveal(), SECRET);
    }
    for reference in ["file:/run/secrets/empty", "file:relative", "file:/run/secrets/missing"] {
        assert!(check_here(&with(reference)).faults.is_fatal(), "{reference}");
    }
}

#[test]
fn a_line_break_at_the_end_of_a_secret_is_a_hint() {
    let with = |password: &str| {
        let text = case("good_minimal.yaml")
            .replace("table: events", &format!("table: events, password: \"{password}\""));
        let checked = check_here(&text);
        assert!(checked.pipeline.is_some(), "{password}");
        checked.faults.render("test")
    };
    let told = with("${TEST_SECRET_OF_ECHO}");
    assert!(
        told.contains("hint: `sink.clickhouse.password` ends with a line break") && told.lines().count() == 1,
        "{told}"
    );
    assert!(!told.contains(SECRET), "{told}");
    for password in ["${TEST_SECRET}", "${TEST_PEM}", "file:/run/secrets/password"] {
        assert_eq!(with(password), "", "{password}");
    }
    // A text that is no secret, and one whose line break stands in the file.
    let with = |step: &str| {
        let checked = check_here(&format!("{}\nsteps:\n  - filter: {step}\n", case("good_minimal.yaml")));
        assert!(checked.pipeline.is_some(), "{}", checked.faults.render("test"));
        checked.faults.render("test")
    };
    let told = with("a = '${TEST_NAME}' OR ${TEST_TEXT_OF_ECHO}");
    assert!(told.contains("hint: `steps[0].filter` ends with a line break"), "{told}");
    assert_eq!(with("|\n      a = '${TEST_NAME}'"), "");
}

#[test]
fn too_large_and_too_deep_files_are_refused() {
    let large = format!("pipeline: events\n# {}", "x".repeat(2 << 20));
    assert!(check_here(&large).faults.render("f").contains("has at most 1048576"));
    let deep = format!("pipeline: {}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(check_here(&deep).faults.is_fatal());
    let deep = format!("pipeline: {}", "[".repeat(40));
    assert!(check_here(&deep).faults.render("f").contains("levels of nesting"));
}

#[test]
fn a_file_full_of_faults_shows_a_bounded_number_and_counts_the_rest() {
    let mut text = String::new();
    for key in 0..1_000 {
        writeln!(text, "zzz{key}: 1").unwrap();
    }
    let faults = check_here(&text).faults;
    assert_eq!(faults.sorted().len(), super::faults::FAULTS_MAX);
    assert_eq!(faults.count(), 1_003, "a thousand keys and three that are missing");
    assert!(faults.render("f").ends_with("and 903 more\n"));
}

/// Whatever is cut out of, doubled in or put into a good file, the reader answers and never panics.
#[test]
fn a_damaged_file_is_answered_with_faults() {
    let text = case("good_everything.yaml");
    let marks = ["{", "]", ": ", "- ", "\"", "&a ", "*a", "${", "\t", "\u{0}", "|", "%", "\u{feff}"];
    for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
        let (head, tail) = text.split_at(at);
        check_here(head);
        let mark = marks[at % marks.len()];
        let checked = check_here(&format!("{head}{mark}{tail}"));
        assert_eq!(checked.pipeline.is_none(), checked.faults.is_fatal());
        assert!(
            !checked.faults.render("f").contains("not the program"),
            "at {at}: {}",
            checked.faults.render("f")
        );
    }
}

/// The walk reads the schema's words by hand, so a word that it does not know would be ignored in silence.
#[test]
fn the_schema_uses_no_word_that_the_walk_ignores() {
    const KNOWN: [&str; 32] = [
        "$schema",
        "$defs",
        "$ref",
        "title",
        "description",
        "type",
        "properties",
        "required",
        "items",
        "additionalProperties",
        "default",
        "enum",
        "const",
        "oneOf",
        "anyOf",
        "minimum",
        "maximum",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "uniqueItems",
        "x-kind",
        "x-least",
        "x-most",
        "x-why",
        "x-why-most",
        "x-later",
        "x-both",
        "x-never",
        "",
        "",
    ];
    fn visit(value: &serde_json::Value, names_are_keys: bool) {
        match value {
            serde_json::Value::Object(map) => {
                for (name, inner) in map {
                    assert!(
                        names_are_keys || KNOWN.contains(&name.as_str()),
                        "`{name}` is unknown to the walk"
                    );
                    let data = matches!(name.as_str(), "default" | "const" | "enum" | "required" | "x-never")
                        && !names_are_keys;
                    if !data {
                        visit(inner, !names_are_keys && matches!(name.as_str(), "properties" | "$defs"));
                    }
                }
            }
            serde_json::Value::Array(items) => items.iter().for_each(|item| visit(item, false)),
            _ => {}
        }
    }
    visit(&schema::pipeline_schema(), false);
}

/// Defaults obey the bounds that files must obey.
#[test]
fn every_default_passes_its_own_bounds() {
    let text = serde_json::to_string(&good(&case("good_minimal.yaml"))).unwrap();
    assert!(text.contains("4GiB"), "defaults are written out: {text}");
    good(&text);
}

#[test]
fn every_setting_is_described() {
    let schema = schema::pipeline_schema();
    let mut bare = Vec::new();
    let of_definitions =
        schema["$defs"].as_object().unwrap().iter().map(|(name, value)| (name.as_str(), value));
    for (name, definition) in of_definitions.chain([("the file", &schema)]) {
        for (key, property) in definition["properties"].as_object().into_iter().flatten() {
            if property.get("description").is_none() {
                bare.push(format!("{name}.{key}"));
            }
        }
    }
    assert!(bare.is_empty(), "without description: {bare:?}");
}

#[test]
fn the_name_of_a_file_moves_no_cursor() {
    let shown = check_here("\"key\\x1b[2J\": 1\n").faults.render("ev\u{1b}[31mil\n.yaml");
    assert!(shown.starts_with("ev\\u{1b}[31mil\\n.yaml:1:"), "{shown:?}");
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
}

#[test]
fn what_a_server_says_in_a_fault_moves_no_cursor() {
    let mut faults = Faults::default();
    faults.fault(Position::START, "sink.clickhouse.url", "code 60: a\u{1b}[2Jb\u{9b}1m\u{202e}\n  - c");
    assert_eq!(faults.render("f.yaml"), "f.yaml:1:1: code 60: a\\u{1b}[2Jb\\u{9b}1m\\u{202e}\n  - c\n");
}

#[test]
fn fuzz_pipeline_file() {
    let examples =
        ["good_everything.yaml", "good_minimal.yaml", "every_fault_at_once.yaml", "yaml_has_limits.yaml"]
            .map(case);
    let words = [
        "${TEST_SECRET}",
        "${",
        "$${",
        "${TEST_NAME:-x}",
        "file:/run/secrets/password",
        "\n  - ",
        ": ",
        "{",
        "}",
        "[",
        "]",
        "&a",
        "*a",
        "<<: ",
        "!!str ",
        "---\n",
        "\t",
        "\"",
        "'",
        "|\n",
        "? ",
        "-1",
        "1e400",
        "64MiB",
        "99999999999999999999GiB",
        "1h",
        "unbounded",
        "\u{feff}",
        "\u{0}",
        "\u{85}",
        "\r",
    ];
    testkit::Fuzz::new("pipeline file").examples(examples).words(words).run(1_500, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let checked = check_here(&text);
        let told = checked.faults.render("test");
        assert!(checked.pipeline.is_some() || !told.is_empty(), "neither a pipeline nor a fault");
        let written_in_clear = text.contains(SECRET);
        assert!(written_in_clear || !told.contains(SECRET), "a secret is shown: {told}");
    });
}

#[test]
fn no_password_of_an_address_is_shown() {
    let name = "passwords_in_urls_are_never_shown.yaml";
    let told = check_here(&case(name)).faults.render(name);
    assert!(!told.contains("s3cr3t"), "{told}");
    for line in ["2:8", "5:15", "7:29", "9:22"] {
        assert!(told.contains(&format!("{name}:{line}: ")), "{line} is not among the faults: {told}");
    }
}

#[test]
fn properties_that_undo_tls_or_load_code_are_refused_with_reason_and_line() {
    let name = "dangerous_kafka_properties.yaml";
    let checked = check_here(&case(name));
    assert!(checked.faults.is_fatal());
    let told = checked.faults.render(name);
    for line in 7..=15 {
        let refused =
            |told: &str| told.starts_with(&format!("{name}:{line}:")) && told.contains("is refused: ");
        assert!(told.lines().any(refused), "line {line}: {told}");
    }
    assert!(!told.contains(":16:"), "{told}");
}

#[test]
fn a_password_in_clear_to_another_machine_is_a_fault_unless_it_is_meant() {
    let text = case("passwords_in_clear.yaml");
    assert!(check_here(&text).faults.is_fatal());
    let meant = text
        .replace("PLAIN,", "PLAIN, allow_plaintext_password: true,")
        .replace("table: events,", "table: events, allow_plaintext_password: true,");
    good(&meant);
    // On this machine nobody has to say so.
    good(&text.replace(", broker:9092", ", \"[::1]:9092\"").replace("10.0.0.7", "127.0.0.1"));
    good(&text.replace("PLAIN,", "SCRAM-SHA-256,").replace("http://10", "https://10"));
}

/// Ways out that the rules of a pipeline file print, taken: a file with the fault, words of its message, and the file after the advice.
#[test]
fn every_way_out_of_a_fault_of_the_file_makes_it_good() {
    const BASE: &str = "\
pipeline: p
SOURCE
sink: { clickhouse: { url: \"http://localhost:8123\", table: t } }
";
    const KAFKA: &str = "source: { kafka: { brokers: \"b:9092\", topic: t } }";
    const FILE: &str = "source: { file: { paths: /tmp/x.jsonl } }";
    let with = |source: &str, more: &str| format!("{}{more}\n", BASE.replace("SOURCE", source));
    let dedup = |what: &str| format!("steps: [ {{ dedup: {{ key: [id], {what} }} }}]");
    let created = |create: &str| with(KAFKA, "").replace("table: t", &format!("table: t, create: {create}"));
    let cases: Vec<(&str, String, Vec<String>)> = vec![
        (
            "write `delivery: at_least_once`",
            with(KAFKA, "store: memory://"),
            vec![with(KAFKA, "store: memory://\ndelivery: at_least_once"), with(KAFKA, "store: /tmp/s")],
        ),
        (
            "write `delivery: at_least_once`",
            with("source: { file: { paths: \"-\" } }", ""),
            vec![with("source: { file: { paths: \"-\" } }", "delivery: at_least_once"), with(FILE, "")],
        ),
        (
            "needs `time: column`; or write `window: unbounded`",
            with(FILE, &dedup("window: 1h")),
            vec![with(FILE, &dedup("window: 1h, time: at")), with(FILE, &dedup("window: unbounded"))],
        ),
        (
            "describe the table: `create: { columns: { name: type }, order_by: name }`",
            created("true"),
            vec![created("{ columns: { name: String }, order_by: name }")],
        ),
        (
            "write `allow_remote: true`",
            with(KAFKA, "http: { listen: \"0.0.0.0:9464\" }"),
            vec![
                with(KAFKA, "http: { listen: \"0.0.0.0:9464\", allow_remote: true }"),
                with(KAFKA, "http: { listen: \"127.0.0.1:9464\" }"),
            ],
        ),
        (
            "must be at least",
            with(KAFKA, &format!("{}\nmemory: 128MiB", dedup("window: 1h"))),
            vec![with(KAFKA, &format!("{}\nmemory: 256MiB", dedup("window: 1h, memory: 16MiB")))],
        ),
        (
            "write a percentage like `1%` or `0.5%`, or a fraction of 1 like `0.01`",
            with(KAFKA, "dead_letters: { fail_above: 1 }"),
            ["1%", "0.5%", "0.01"]
                .map(|share| with(KAFKA, &format!("dead_letters: {{ fail_above: {share} }}")))
                .to_vec(),
        ),
    ];
    for (words, bad, good) in cases {
        let found = check_here(&bad).faults.render("p");
        assert!(found.contains(words), "`{words}` in {found}");
        for good in good {
            let checked = check_here(&good);
            assert!(checked.pipeline.is_some(), "{words}: {good}{}", checked.faults.render("p"));
        }
    }
}

#[test]
fn a_byte_of_a_text_has_a_place_in_the_file() {
    let place = |step: &str, path: &str, at: usize| {
        let text = format!(
            "pipeline: p\nsource: {{ generator: {{ workload: glassflow }} }}\nsteps:\n{step}\nsink: {{ clickhouse: {{ url: \"http://h:1\", \
             table: t }} }}\n"
        );
        let at = check(&text, &Surroundings::of_process()).place_in(path, Some(at));
        (at.line, at.column)
    };
    assert_eq!(place("  - filter: größe > 3", "steps[0].filter", "größe > ".len()), (4, 21));
    assert_eq!(place("  - filter: \"a > 'b'\"", "steps[0].filter", 4), (4, 18));
    assert_eq!(place("  - { select: { a: \"x\", b: \"y + z\" } }", "steps[0].select.b", 4), (4, 33));
    let block = "  - sql: |\n      SELECT a\n        , b\n      FROM input";
    assert_eq!(place(block, "steps[0].sql", "SELECT a\n  , ".len()), (6, 11));
    assert_eq!(place(block, "steps[0].sql", 0), (5, 7));
    // Lines that YAML joins, quotes within quotes, and the end of a text.
    let folded = "  - sql: >-  # a comment\n      SELECT a,\n        größe\n\n      FROM input";
    assert_eq!(place(folded, "steps[0].sql", 0), (5, 7));
    assert_eq!(place(folded, "steps[0].sql", "SELECT a,\n  größe\n\n".len()), (8, 7));
    assert_eq!(place("  - filter: a >\n      b +\n      c", "steps[0].filter", "a > b + ".len()), (6, 7));
    assert_eq!(place("  - filter: \"a >\n      b\"", "steps[0].filter", "a > ".len()), (5, 7));
    assert_eq!(place("  - filter: 'a = ''x'' + 3'", "steps[0].filter", "a = 'x' + ".len()), (4, 26));
    assert_eq!(place("  - filter: \"a = \\\"x\\\" + 3\"", "steps[0].filter", "a = \"x\" + ".len()), (4, 26));
    assert_eq!(place("  - filter: a = b  ", "steps[0].filter", "a = b".len()), (4, 18));
    // Not as it stands in the file: where the key stands.
    assert_eq!(place("  - filter: \"a\\tb\"", "steps[0].filter", 2), (4, 5));
    assert_eq!(place("  - filter: \"a\\x41b\"", "steps[0].filter", 2), (4, 5));
}

#[test]
fn a_dedup_may_go_by_what_the_source_says_though_the_file_describes_the_table() {
    let of = |key: &str| {
        check_here(&format!(
            "pipeline: p\nsource: {{ kafka: {{ brokers: b, topic: t }} }}\nsteps: [{{ dedup: {{ key: [{key}], window: 8h, time: _timestamp }} }}]\n\
             sink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t, create: {{ columns: {{ id: UUID }}, order_by: id }} }} }}"
        ))
    };
    for key in ["_key", "id", "_partition, _position"] {
        let checked = of(key);
        assert!(checked.pipeline.is_some(), "{key}: {}", checked.faults.render("test"));
    }
    assert!(of("idd").pipeline.is_none(), "no record gives it without a type");
}

#[test]
fn the_last_record_of_a_key_is_kept_by_no_other_column_of_its_name() {
    let of = |columns: &str| {
        check_here(&format!(
            "pipeline: p\nsource: {{ kafka: {{ brokers: b, topic: t }} }}\nsteps: [{{ dedup: {{ key: [id], window: unbounded, keep: last }} }}]\n\
             sink: {{ clickhouse: {{ url: \"http://localhost:8123\" }} }}\nsinks: [{{ clickhouse: {{ table: t }}, columns: {{ {columns} }} }}]"
        ))
    };
    let faults = of("id: user_id").faults.render("p");
    assert!(faults.contains("is filled by another one here"), "{faults}");
    for columns in ["id: user_id, event: id", "event: id", "name: user"] {
        let checked = of(columns);
        assert!(checked.pipeline.is_some(), "{columns}: {}", checked.faults.render("p"));
    }
}

#[test]
fn a_table_is_not_created_with_partitions_that_keep_rows_of_a_key_apart() {
    let of = |partition: &str| {
        check_here(&format!(
            "pipeline: p\nsource: {{ kafka: {{ brokers: b, topic: t }} }}\nsink:\n  clickhouse:\n    url: http://localhost:8123\n    table: t\n    create:\n      \
             columns: {{ id: UInt64, at: DateTime, part: \"UInt8 MATERIALIZED id % 8\" }}\n      order_by: id\n      partition_by: \"{partition}\"\n  \
             upsert: {{ key: [id] }}"
        ))
    };
    let faults = of("toYYYYMM(at)").faults.render("p");
    assert!(faults.starts_with("p:10:7: `at` is not in `sink.upsert.key`"), "{faults}");
    for partition in ["intDiv(id, 1000)", "part", "if(id > 3, 'at', 'b')"] {
        let checked = of(partition);
        assert!(checked.pipeline.is_some(), "{partition}: {}", checked.faults.render("p"));
    }
}

#[test]
fn a_table_that_takes_rows_back_gets_every_row_and_none_of_a_window() {
    let of = |steps: &str, upsert: &str, sinks: &str| {
        let upsert = format!("upsert: {{ key: [id], {upsert} }}");
        let (one, table) = match sinks {
            "" => (format!(", {upsert}"), ", table: t"),
            _ => (String::new(), ""),
        };
        check_here(&format!(
            "pipeline: p\nsource: {{ kafka: {{ brokers: b, topic: t }}, fields: {{ id: UInt64, at: DateTime }} }}\nsteps: [{steps}]\n\
             sink: {{ clickhouse: {{ url: \"http://localhost:8123\"{table} }}{one} }}\n{}",
            sinks.replace("UPSERT", &upsert)
        ))
    };
    let taken = |steps: &str, upsert: &str, sinks: &str| {
        let checked = of(steps, upsert, sinks);
        assert!(checked.pipeline.is_some(), "{steps} {upsert} {sinks}: {}", checked.faults.render("p"));
    };
    taken("", "sign: sign, deleted: gone, version: at, memory: 1MiB", "");
    taken("{ dedup: { key: [id], window: 8h } }", "sign: sign", "");
    taken("", "sign: sign", "sinks: [{ clickhouse: { table: t }, UPSERT }]");
    let window = "{ window: { key: [id], time: at, size: 1m, aggregates: { n: count() } } }";
    for (steps, upsert, sinks, words) in [
        ("", "sign: id", "", "`id` has another role already"),
        ("", "memory: 1MiB", "", "without `sign` the table keeps the rows, and Forebay none"),
        (window, "sign: sign", "", "`emit: { sign: … }`, which knows what was written"),
        (
            "",
            "sign: sign",
            "sinks: [{ clickhouse: { table: t }, where: id > 3, UPSERT }]",
            "every row goes to one table",
        ),
        (
            "",
            "sign: sign",
            "sinks: [{ clickhouse: { table: t }, UPSERT }, { clickhouse: { table: u } }]",
            "every row goes to one table",
        ),
    ] {
        let faults = of(steps, upsert, sinks).faults.render("p");
        assert!(faults.contains(words), "{steps} {upsert} {sinks}: {faults}");
    }
}

#[test]
fn a_key_of_partitions_by_which_rows_cannot_be_cut_is_a_fault_at_its_place() {
    let of = |columns: &str, partition: &str| {
        check_here(&format!(
            "pipeline: p\nsource: {{ kafka: {{ brokers: b, topic: t }} }}\nsink:\n  clickhouse:\n    url: http://localhost:8123\n    table: t\n    create:\n      \
             columns: {{ id: UInt64{columns} }}\n      order_by: id\n      partition_by: \"{partition}\""
        ))
        .faults
        .render("p")
    };
    assert!(!of("", "intDiv(id, 1000)").contains("partition key"));
    let faults = of("", "cityHash64(id) % 8");
    assert!(
        faults.starts_with("p:10:7: the partition key `cityHash64(id) % 8` cannot be cut by"),
        "{faults}"
    );
    // What is wrong with a column stands at the column.
    let faults = of(", x: Int128", "id");
    assert!(faults.starts_with("p:8:"), "{faults}");
}

#[test]
fn a_key_that_is_a_field_and_a_column_of_another_one_is_a_hint() {
    let of = |fields: &str, columns: &str| {
        let checked = check_here(&format!(
            "pipeline: p\nsource: {{ kafka: {{ brokers: b, topic: t }}, fields: {{ {fields} }} }}\nsteps:\n  - dedup: {{ key: [id], window: unbounded }}\n\
             columns: {{ {columns} }}\nsink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t }} }}"
        ));
        assert!(checked.pipeline.is_some(), "{}", checked.faults.render("p"));
        checked.faults.render("p")
    };
    let told = of("id: UUID", "id: event_id");
    assert!(told.starts_with("p:4:") && told.contains("hint: `id` is a field, and also a column"), "{told}");
    assert!(told.contains("filled by `event_id`"), "{told}");
    for (fields, columns) in [("event_id: UUID", "id: event_id"), ("id: UUID", "name: user")] {
        assert!(!of(fields, columns).contains("also a column"), "{fields} {columns}");
    }
}

#[test]
fn a_stream_without_a_name_is_not_called_as_the_topic_of_another_input() {
    let of = |kafka: &str, listen: &str| {
        let text = format!(
            "pipeline: web\ninputs:\n  {kafka}: {{ kafka: {{ brokers: b, topic: web }} }}\n  m: {{ listen: {{ {listen} }} }}\n\
             sink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t }} }}"
        );
        check_here(&text)
    };
    for kafka in ["a", "z"] {
        let faults = of(kafka, "").faults.render("p");
        let expected = format!("p:4:8: its stream is called as what input `{kafka}` reads");
        assert!(faults.contains(&expected), "{faults}");
        let checked = of(kafka, "stream: sent");
        assert!(checked.pipeline.is_some(), "{}", checked.faults.render("p"));
    }
}

#[test]
fn a_window_over_files_needs_a_time_that_moves_the_watermark() {
    let of = |first: &str, window: &str| {
        check_here(&format!(
            "pipeline: p\nsource: {{ file: {{ paths: /tmp/x.jsonl }}, fields: {{ id: UUID, at: DateTime64(3) }} }}\nsteps:\n  \
             - dedup: {{ key: [id], window: unbounded{first} }}\n  - dedup: {{ key: [id], window: 1h, time: at }}\n  \
             - window: {{ {window}size: 1m, aggregates: {{ n: count() }} }}\n\
             sink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t }} }}"
        ))
    };
    let faults = of("", "").faults.render("p");
    assert!(faults.contains("so a window needs `time: column`"), "{faults}");
    for (first, window) in [("", "time: at, "), (", time: at", "")] {
        let checked = of(first, window);
        assert!(checked.pipeline.is_some(), "{}", checked.faults.render("p"));
    }
}

#[test]
fn a_password_that_begins_as_the_name_of_a_file_is_not_shown() {
    let env = |_: &str| Ok(Some(format!("file:{SECRET}")));
    let of = |password: &str| {
        let text = format!(
            "pipeline: p\nsource: {{ kafka: {{ brokers: b, topic: t }} }}\n\
             sink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t, password: \"{password}\" }} }}"
        );
        check(&text, &Surroundings { env: &env, file: &file }).faults.render("p")
    };
    let faults = of("${TEST_SECRET}");
    assert!(faults.contains("begins with `file:`") && !faults.contains(SECRET), "{faults}");
    assert!(of("file:/nowhere/else").contains("`/nowhere/else`"));
}
