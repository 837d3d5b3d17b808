//! The built program from outside: help, exit codes, outputs, secrets.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use protocol::Record;
use protocol::record::{Body, Claim};

fn forebay(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    // What the caller's environment says about logs and colour must not decide a test.
    command.args(arguments).env_remove("FOREBAY_LOG").env_remove("NO_COLOR");
    command
}

fn run(arguments: &[&str]) -> Output {
    forebay(arguments).output().expect("the program starts")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("the program ends by itself")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// A file of this test, below the folder that cargo keeps for tests.
fn file(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
    std::fs::write(&path, text).expect("the test's folder can be written");
    path
}

const GOOD: &str = "\
pipeline: events
source:
  generator: { workload: glassflow }
sink:
  clickhouse: { url: \"http://localhost:8123\", table: events, password: \"${FOREBAY_TEST_PASSWORD}\" }
";

#[test]
fn every_command_has_help_with_an_example() {
    let top = out(&run(&["--help"]));
    assert!(top.contains("Exit codes:"), "{top}");
    let commands: Vec<&str> = top
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|command| *command != "help")
        .collect();
    assert!(commands.len() >= 6, "{commands:?}");
    for command in commands {
        let help = run(&[command, "--help"]);
        assert_eq!(code(&help), 0);
        assert!(out(&help).contains("Examples:\n  "), "`{command} --help` shows no example");
    }
}

#[test]
fn a_good_file_ends_with_0() {
    let path = file("good.yaml", GOOD);
    let output =
        forebay(&["check", path.to_str().unwrap()]).env("FOREBAY_TEST_PASSWORD", "x").output().unwrap();
    assert_eq!((code(&output), err(&output)), (0, String::new()));
    assert_eq!(out(&output), format!("{}: ok\n", path.display()));
}

#[test]
fn a_check_that_cannot_read_the_steps_says_so_beside_its_ok() {
    let steps = GOOD.replace("sink:", "steps:\n  - filter: \"name > \"\nsink:");
    let path = file("open.yaml", &steps);
    let check = |more: &[&str]| {
        let arguments = [&["check", path.to_str().expect("UTF-8")][..], more].concat();
        out(&forebay(&arguments).env("FOREBAY_TEST_PASSWORD", "x").output().expect("it starts"))
    };
    let said = check(&[]);
    assert!(said.contains("not checked: the expressions of the steps") && said.ends_with(": ok\n"), "{said}");
    let report: serde_json::Value = serde_json::from_str(&check(&["--json"])).expect("JSON");
    let note = report["files"][0]["notes"][0].as_str().expect("a note");
    assert!(note.contains("`forebay check FILE --connect`"), "{note}");
}

#[test]
fn faults_go_to_stderr_and_end_with_2() {
    let path = file("fault.yaml", &GOOD.replace("table:", "tabel:"));
    let output =
        forebay(&["check", path.to_str().unwrap()]).env("FOREBAY_TEST_PASSWORD", "x").output().unwrap();
    assert_eq!((code(&output), out(&output)), (2, String::new()));
    let expected = format!("{}:5:47: unknown key `tabel`, did you mean `table`?", path.display());
    assert!(err(&output).contains(&expected), "{}", err(&output));
}

#[test]
fn findings_come_as_json_too() {
    let good = file("json-good.yaml", GOOD);
    let bad = file("json-bad.yaml", "pipeline: A\n");
    let output =
        forebay(&["check", "--json", good.to_str().unwrap(), bad.to_str().unwrap(), "/nowhere.yaml"])
            .env("FOREBAY_TEST_PASSWORD", "x")
            .output()
            .unwrap();
    assert_eq!(code(&output), 2);
    let report: serde_json::Value = serde_json::from_str(&out(&output)).expect("JSON");
    assert_eq!(report["ok"], false);
    assert_eq!(report["files"][0]["ok"], true);
    assert_eq!(report["files"][0]["pipeline"], "events");
    assert_eq!(report["files"][1]["faults"], 3);
    let first = &report["files"][1]["findings"][0];
    assert_eq!((&first["line"], &first["severity"]), (&1.into(), &"fault".into()));
    assert!(report["files"][2]["error"].as_str().unwrap().contains("cannot open"));
}

#[test]
fn no_password_in_any_output() {
    const PASSWORD: &str = "n0b0dy-kn0ws-this";
    let good = file("secret.yaml", GOOD);
    let bad = file(
        "secret-bad.yaml",
        "pipeline: ${FOREBAY_TEST_PASSWORD}\nsource: ${FOREBAY_TEST_PASSWORD}\nsteps: [\"${FOREBAY_TEST_PASSWORD}\"]\n\
         sink:\n  clickhouse: { url: \"http://x:${FOREBAY_TEST_PASSWORD}@h\", table: t, timeout: \"${FOREBAY_TEST_PASSWORD}\", \
         user: \"${FOREBAY_TEST_PASSWORD}\" }\n  in_flight: ${FOREBAY_TEST_PASSWORD}\nmemory: ${FOREBAY_TEST_PASSWORD}\n\
         http: { listen: \"${FOREBAY_TEST_PASSWORD}\", allow_remote: \"${FOREBAY_TEST_PASSWORD}\" }\n",
    );
    for path in [&good, &bad] {
        for extra in [&[][..], &["--json"], &["--log-level", "trace"]] {
            let mut arguments = vec!["check", path.to_str().unwrap()];
            arguments.extend(extra);
            let output = forebay(&arguments).env("FOREBAY_TEST_PASSWORD", PASSWORD).output().unwrap();
            let shown = out(&output) + &err(&output);
            assert!(!shown.contains(PASSWORD), "{arguments:?}: {shown}");
            assert_eq!(code(&output), if path == &bad { 2 } else { 0 }, "{shown}");
        }
    }
}

#[test]
fn usage_faults_end_with_2() {
    for arguments in
        [&["chekc"][..], &["check"], &["generate", "nothing", "--to", "-"], &["check", "--frob", "x"]]
    {
        assert_eq!(code(&run(arguments)), 2, "{arguments:?}");
    }
}

#[test]
fn a_log_level_that_is_none_ends_with_2() {
    for wrong in ["forebay=loud", "wran"] {
        let output = run(&["check", "--log-level", wrong, "x"]);
        assert_eq!(code(&output), 2, "{wrong}");
        assert!(err(&output).contains("neither a log level nor a filter"), "{}", err(&output));
    }
}

#[test]
fn a_file_that_cannot_be_read_ends_every_command_with_2() {
    for arguments in [
        &["run"][..],
        &["gateway"],
        &["plan"],
        &["status"],
        &["verify"],
        &["list"],
        &["reset"],
        &["delete"],
        &["store", "check"],
        &["dead-letters", "list"],
        &["dead-letters", "show"],
        &["dead-letters", "replay"],
        &["dead-letters", "purge", "--all"],
        &["forget", "--topic", "t"],
        &["answer", "--all", "--absent"],
    ] {
        let output = run(&[arguments, &["no-such-file.yaml"]].concat());
        assert_eq!(code(&output), 2, "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains("cannot open `no-such-file.yaml`"), "{arguments:?}: {}", err(&output));
    }
    let output = run(&["rename", "no-such-file.yaml", "other"]);
    assert_eq!(code(&output), 2, "{}", err(&output));
}

#[test]
fn why_nothing_was_done_is_said_though_nothing_is_logged() {
    let (path, _) = without_server("unlogged", "");
    let path = path.to_str().expect("UTF-8");
    for arguments in [
        &["forget", path, "--stream", "s", "--yes"][..],
        &["reset", path, "--to", "earliest"],
        &["rename", path, "other"],
    ] {
        let output = forebay(arguments).env("FOREBAY_LOG", "off").output().expect("it starts");
        assert_eq!(code(&output), 2, "{arguments:?}: {}", err(&output));
        assert!(err(&output).starts_with("forebay: "), "{arguments:?}: {}", err(&output));
    }
}

#[test]
fn why_a_run_or_a_gateway_did_not_begin_is_said_though_nothing_is_logged() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it is bound").to_string();
    let store = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-unlogged-store", std::process::id()));
    let beside = format!("store: {}\nhttp: {{ listen: none }}\n", store.display());
    let run_file = format!(
        "pipeline: unlogged\nlisten: {{ address: \"{address}\" }}\nsource: {{ listen: {{}} }}\nsink:\n  clickhouse: {{ url: \
         \"http://127.0.0.1:1\", table: events }}\n{beside}"
    );
    let gateway_file = format!("gateway: unlogged\nlisten: '{address}'\nstreams:\n  orders: {{}}\n{beside}");
    for (command, text) in [("run", run_file), ("gateway", gateway_file)] {
        let path = file(&format!("unlogged-{command}.yaml"), &text);
        let arguments = [command, path.to_str().expect("UTF-8")];
        for (level, lines) in [("off", 1), ("engine=debug", 1), ("error", 0)] {
            let output = forebay(&arguments).env("FOREBAY_LOG", level).output().expect("it starts");
            let said = err(&output);
            assert_eq!(code(&output), 1, "{command} {level}: {said}");
            assert!(said.contains(&address), "{command} {level}: {said}");
            let beside_the_log = said.lines().filter(|line| line.starts_with("forebay: ")).count();
            assert_eq!(beside_the_log, lines, "{command} {level}: {said}");
        }
    }
}

#[test]
fn a_store_that_is_not_there_is_a_mistake_and_an_empty_one_is_not() {
    let (path, _) = without_server("unmade", "");
    let path = path.to_str().expect("UTF-8");
    let empty = beside("listed").join("empty");
    std::fs::create_dir_all(&empty).expect("the test's folder can be written");
    for command in [&["list"][..], &["store", "check"]] {
        let of = |arguments: &[&str]| run(&[command, arguments].concat());
        for absent in ["file:///no-such-folder/store", "no-such-folder/store"] {
            let output = of(&["--store", absent]);
            assert_eq!(code(&output), 2, "{command:?}: {}{}", out(&output), err(&output));
            assert!(err(&output).contains("there is no store at"), "{command:?}: {}", err(&output));
        }
        let output = of(&["--store", &format!("file://{}", empty.display())]);
        assert_eq!(code(&output), 0, "{command:?}: {}", err(&output));
        // A pipeline that has not run yet has none.
        let output = of(&[path]);
        assert_eq!(code(&output), 0, "{command:?}: {}", err(&output));
    }
}

#[test]
fn files_of_plan_are_found_from_where_the_program_was_started() {
    let folder = beside("prices");
    let prices = r#"{"core_hour": 1, "gigabyte_month": 1, "thousand_puts": 1, "thousand_gets": 1}"#;
    std::fs::write(folder.join("prices.json"), prices).expect("it can be written");
    let plan = |name: &str| {
        let arguments = ["plan", "conf/p.yaml", "--rate", "1k/s", "--prices", name];
        forebay(&arguments).current_dir(&folder).output().expect("it starts")
    };
    let found = plan("prices.json");
    assert_eq!(code(&found), 0, "{}", err(&found));
    for wrong in ["no-such-prices.json", "conf/p.yaml"] {
        let refused = plan(wrong);
        assert_eq!(code(&refused), 2, "{}", err(&refused));
        assert!(err(&refused).contains(&format!("`{wrong}`")), "{}", err(&refused));
    }
}

#[cfg(feature = "development")]
#[test]
fn a_file_that_is_there_is_not_written_over() {
    let path = file("exists.jsonl", "keep me\n");
    let output = run(&["generate", "glassflow", "--uniques", "10", "--to", path.to_str().unwrap()]);
    assert_eq!(code(&output), 1);
    assert!(err(&output).contains("pass --force"), "{}", err(&output));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "keep me\n");
    let output = run(&["generate", "glassflow", "--uniques", "11", "--to", "-"]);
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("no multiple"), "{}", err(&output));
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&["completions", shell]);
        assert_eq!(code(&output), 0);
        assert!(out(&output).contains("dead-letters"), "{shell}");
    }
}

#[cfg(feature = "development")]
#[test]
fn generated_records_are_the_same_at_every_run() {
    let make = |seed: &str| {
        out(&run(&[
            "generate",
            "glassflow",
            "--uniques",
            "1000",
            "--seed",
            seed,
            "--far-duplicates",
            "50",
            "--to",
            "-",
        ]))
    };
    let first = make("7");
    assert_eq!(first, make("7"));
    assert_ne!(first, make("8"));
    let mut lines: Vec<&str> = first.lines().collect();
    assert_eq!(lines.len(), 1_150, "1000 uniques, 100 near and 50 far duplicates");
    for line in &lines {
        serde_json::from_str::<serde_json::Value>(line).expect("a line is a JSON object");
    }
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 1_000);
}

/// What is generated from the program's types is committed, for readers and editors; this keeps it from going stale.
#[test]
fn committed_reference_and_schema_are_what_the_program_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (command, committed) in [
        ("reference", "docs/reference/pipeline-file.md"),
        ("reference --gateway", "docs/reference/gateway-file.md"),
        ("schema", "docs/schema/pipeline.schema.json"),
        ("schema --gateway", "docs/schema/gateway.schema.json"),
    ] {
        let printed = out(&run(&command.split(' ').collect::<Vec<_>>()));
        let found = std::fs::read_to_string(root.join(committed)).unwrap_or_default();
        assert!(printed == found, "`{committed}` is stale; refresh it by `forebay {command} > {committed}`");
    }
}

#[test]
fn every_example_passes_check() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
    let mut checked = 0;
    for entry in std::fs::read_dir(&folder).expect("there are examples") {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let mut command = forebay(&["check", path.to_str().unwrap()]);
            for name in ["CLICKHOUSE_PASSWORD", "KAFKA_USER", "KAFKA_PASSWORD", "SHOP_PASSWORD"] {
                command.env(name, "x");
            }
            let output = command.output().unwrap();
            assert_eq!((code(&output), err(&output)), (0, String::new()), "{}", path.display());
            checked += 1;
        }
    }
    assert!(checked >= 3, "only {checked} examples");
}

/// The pipeline files that the pages show pass `check` as well: each fenced `yaml` block that begins with `pipeline:`.
#[test]
fn pipeline_files_shown_in_pages_pass_check() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut checked = 0;
    for page in ["docs/getting-started.md", "docs/pipeline-files.md", "docs/stores.md", "README.md"] {
        let text = std::fs::read_to_string(root.join(page)).unwrap_or_default();
        for block in text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            if !block.trim_start().starts_with("pipeline:") {
                continue;
            }
            let path = file(&format!("page-{checked}.yaml"), block);
            let output =
                forebay(&["check", path.to_str().unwrap()]).env("CLICKHOUSE_PASSWORD", "x").output().unwrap();
            assert_eq!(code(&output), 0, "{page}: {}", err(&output));
            checked += 1;
        }
    }
    assert!(checked >= 1, "no page shows a pipeline file");
}

/// A folder with a pipeline file in `conf`, whose store and password have relative paths.
fn beside(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
    std::fs::create_dir_all(folder.join("conf")).expect("the test's folder can be written");
    let text = GOOD.replace("${FOREBAY_TEST_PASSWORD}", "file:password.txt");
    std::fs::write(folder.join("conf/p.yaml"), format!("store: ./data\n{text}")).expect("it can be written");
    std::fs::write(folder.join("conf/password.txt"), "secret\n").expect("it can be written");
    folder
}

#[test]
fn relative_paths_begin_at_the_folder_of_the_pipeline_file() {
    let folder = beside("relative");
    for (here, file) in [
        (folder.clone(), "conf/p.yaml"),
        (folder.join("conf"), "p.yaml"),
        (folder.join("conf"), "../conf/p.yaml"),
    ] {
        let checked = forebay(&["check", file, file]).current_dir(&here).output().expect("it starts");
        assert_eq!(code(&checked), 0, "{file}: {}", err(&checked));
    }
    // A file on standard input has no folder.
    let text = std::fs::File::open(folder.join("conf/p.yaml")).expect("just written");
    let checked = forebay(&["check", "-"]).current_dir(&folder).stdin(text).output().expect("it starts");
    assert!(code(&checked) == 2 && err(&checked).contains("password"), "{}", err(&checked));
}

#[test]
fn a_store_in_the_working_directory_is_not_left_behind() {
    let folder = beside("elsewhere");
    std::fs::create_dir_all(folder.join("data/events/lane-0")).expect("it can be written");
    let status = || forebay(&["status", "conf/p.yaml"]).current_dir(&folder).output().expect("it starts");
    let refused = status();
    assert_eq!(code(&refused), 2, "{}", err(&refused));
    // The way out is one that works.
    let words = err(&refused);
    let way_out = words.split('`').find(|part| part.starts_with("mkdir -p")).expect("a command");
    assert!(Command::new("sh").args(["-c", way_out]).status().expect("a shell").success(), "{way_out}");
    assert!(folder.join("conf/data/events/lane-0").is_dir());
    assert_ne!(code(&status()), 2, "{}", err(&status()));
}

#[test]
fn a_check_refuses_a_store_that_would_be_left_behind_as_a_run_does() {
    let folder = beside("elsewhere-checked");
    std::fs::create_dir_all(folder.join("data/events/lane-0")).expect("it can be written");
    let check = |more: &[&str]| {
        forebay(&[&["check", "conf/p.yaml"][..], more].concat())
            .current_dir(&folder)
            .output()
            .expect("it starts")
    };
    for more in [&[][..], &["--connect"]] {
        let refused = check(more);
        assert_eq!(code(&refused), 2, "{}", err(&refused));
        assert!(
            err(&refused).starts_with("conf/p.yaml:1:1: `store: ./data`")
                && err(&refused).contains("mkdir -p"),
            "{}",
            err(&refused)
        );
    }
    let json: serde_json::Value = serde_json::from_str(&out(&check(&["--json"]))).expect("JSON");
    assert_eq!((json["ok"].as_bool(), json["exit"].as_u64()), (Some(false), Some(2)), "{json}");
    std::fs::create_dir_all(folder.join("conf/data/events")).expect("it can be written");
    assert_eq!(code(&check(&[])), 0);
}

#[test]
fn a_file_of_the_other_kind_is_told_with_the_command_that_takes_it() {
    let gateway = file("other-gateway.yaml", "{\"gateway\": \"edge\", \"streams\": {\"orders\": {}}}\n");
    let pipeline = file("other-pipeline.yaml", GOOD);
    for (command, of, right) in
        [("run", &gateway, "gateway"), ("status", &gateway, "gateway"), ("gateway", &pipeline, "run")]
    {
        let path = of.to_str().expect("UTF-8");
        let output = run(&[command, path]);
        assert_eq!(code(&output), 2, "{command}: {}", err(&output));
        assert!(
            err(&output).contains(&format!("`forebay {right} {path}` runs it")),
            "{command}: {}",
            err(&output)
        );
        assert_eq!(err(&output).lines().count(), 1, "{command}: {}", err(&output));
    }
    let checked = run(&["check", gateway.to_str().expect("UTF-8")]);
    assert_eq!(code(&checked), 0, "{}", err(&checked));
}

#[test]
fn hints_that_cannot_be_written_keep_no_command_from_its_work() {
    let (path, _) = without_server("hinted", "");
    let text = std::fs::read_to_string(&path).expect("it was written");
    std::fs::write(&path, text.replace("table: events", "table: events, password: open"))
        .expect("it can be written");
    let arguments = ["list", path.to_str().expect("UTF-8")];
    assert!(err(&run(&arguments)).contains("hint: "), "the file has one");
    // A device on which no byte finds room.
    let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let output = forebay(&arguments).stderr(full).output().expect("it starts");
    assert_eq!((code(&output), out(&output)), (0, "no pipeline in this store\n".to_owned()));
}

/// A pipeline from a file into a server that nobody runs.
fn without_server(name: &str, more: &str) -> (PathBuf, PathBuf) {
    let records = file(&format!("{name}.jsonl"), "{\"id\": 1}\n");
    let store = records.with_extension("store");
    let text = format!(
        "pipeline: {name}\nstore: {}\nsource: {{ file: {{ paths: {} }} }}\nsink:\n  clickhouse: {{ url: \"http://127.0.0.1:1\", \
         table: events }}\nhttp: {{ listen: none }}\n{more}",
        store.display(),
        records.display()
    );
    (file(&format!("{name}.yaml"), &text), store)
}

#[test]
fn a_check_that_connects_says_every_fault_with_its_line_and_writes_nothing() {
    let (path, store) = without_server("away", "");
    let output = run(&["check", path.to_str().unwrap(), "--connect", "--sample", "5"]);
    // `run` waits for a server that does not answer, and so ends with nothing that a person must change.
    assert_eq!(code(&output), 1, "{}", err(&output));
    let text = err(&output);
    assert!(text.contains(&format!("{}:5:17: ", path.display())), "the line of `url`: {text}");
    assert!(out(&output).contains("the store has nothing of this pipeline"), "{}", out(&output));
    assert!(!out(&output).contains(": ok"));
    assert!(!store.exists(), "nothing was made");

    let (path, store) = without_server("full", "");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace(&store.display().to_string(), "/proc/forebay")).unwrap();
    let output = run(&["check", path.to_str().unwrap(), "--connect"]);
    let found = format!("{}:2:1: ", path.display());
    let of_store = err(&output).lines().find(|line| line.starts_with(&found)).map(str::to_owned);
    assert!(of_store.is_some_and(|line| line.contains("cannot put `/proc/forebay`")), "{}", err(&output));

    let (path, _) = without_server("gone", "");
    std::fs::remove_file(path.with_extension("jsonl")).unwrap();
    let output = run(&["check", path.to_str().unwrap(), "--connect", "--json"]);
    assert_eq!(code(&output), 4, "the source comes back by a person only: {}", err(&output));
    let report: serde_json::Value = serde_json::from_str(&out(&output)).expect("JSON");
    let file = &report["files"][0];
    let lines: Vec<u64> =
        file["findings"].as_array().unwrap().iter().filter_map(|found| found["line"].as_u64()).collect();
    assert_eq!(lines, [3, 5], "the source's line and the server's: {file:#}");
    assert_eq!((&report["exit"], &file["ok"]), (&4.into(), &false.into()));
    assert_eq!(file["problems"].as_array().unwrap().len(), 2);
}

#[test]
fn a_file_whose_name_has_a_line_break_is_named_on_one_line() {
    let (path, _) = without_server("break", "");
    let records = path.with_extension("jsonl");
    let id = std::process::id();
    std::fs::rename(&records, records.with_file_name(format!("{id}-\nbreak.jsonl"))).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let pattern = records.with_file_name(format!("{id}-*break.jsonl"));
    let pattern = format!("\"{}\"", pattern.display());
    std::fs::write(&path, text.replace(&records.display().to_string(), &pattern)).unwrap();
    let output = run(&["check", path.to_str().unwrap(), "--connect"]);
    assert!(out(&output).contains(&format!(r"{id}-\nbreak.jsonl/0` is read from 0 to ")), "{}", out(&output));
}

#[test]
fn a_time_of_another_type_is_a_fault_of_the_step_that_names_it() {
    for (step, line) in [
        ("window: { time: k, size: 1m, aggregates: { n: count() } }", 6),
        (
            "sql: |\n      SELECT window_start, count(*) AS n FROM TUMBLE(input, k, INTERVAL '1 minute')\n      GROUP BY window_start, window_end",
            6,
        ),
        ("dedup: { key: [k], window: 1h, time: k }", 6),
    ] {
        let text = format!(
            "pipeline: times\nsource:\n  file: {{ paths: \"none.jsonl\" }}\n  fields: {{ k: String }}\nsteps:\n  - {step}\nsink:\n  clickhouse:\n    url: \"http://localhost:1\"\n    \
             table: times\n    create: {{ columns: {{ k: String, window_start: DateTime64(3), n: UInt64 }}, order_by: [n] }}\n"
        );
        let path = file("times.yaml", &text);
        let output = run(&["check", path.to_str().unwrap()]);
        assert_eq!(code(&output), 2, "{step}: {}", out(&output));
        let said = err(&output);
        assert!(said.contains(&format!("times.yaml:{line}:")), "{said}");
        assert!(said.contains("the column `k` is of type String; use a Date, DateTime,"), "{said}");
    }
}

#[test]
fn a_sample_needs_a_connection() {
    let (path, _) = without_server("sample", "");
    assert_eq!(code(&run(&["check", path.to_str().unwrap(), "--sample", "5"])), 2);
}

#[test]
fn the_share_of_dead_letters_and_its_exit_code_are_in_the_help() {
    assert!(out(&run(&["--help"])).contains("  5    all was done"));
    assert!(out(&run(&["run", "--help"])).contains("dead_letters.fail_above"));
    let (path, _) = without_server("share", "dead_letters: { fail_above: 5 }\n");
    let output = run(&["check", path.to_str().unwrap()]);
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("has no `%`, and a fraction is less than 1"), "{}", err(&output));
}

#[test]
fn a_reset_says_why_the_journal_cannot_be_read() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-damaged", std::process::id()));
    let journal = folder.join("events/lane-0/journal");
    std::fs::create_dir_all(&journal).expect("the test's folder can be written");
    std::fs::write(journal.join(format!("{:020}", 0)), "no record").expect("as above");
    let text = format!("{GOOD}store: {}\nhttp: {{ listen: none }}\n", folder.display());
    let path = file("damaged.yaml", &text);
    let output =
        forebay(&["reset", path.to_str().unwrap()]).env("FOREBAY_TEST_PASSWORD", "x").output().unwrap();
    assert_eq!(code(&output), 4, "{}", err(&output));
    let words = out(&output);
    assert!(words.contains("the journal cannot be read (") && words.contains("record 0"), "{words}");
    std::fs::remove_dir_all(&folder).expect("the test's own folder");
}

#[test]
fn commands_that_meet_a_damaged_journal_end_as_a_run_does() {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-damaged-journal", std::process::id()));
    let journal = folder.join("events/lane-0/journal");
    std::fs::create_dir_all(&journal).expect("the test's folder can be written");
    std::fs::write(journal.join(format!("{:020}", 0)), "no record").expect("as above");
    let text = format!("{GOOD}store: file://{}\nhttp: {{ listen: none }}\n", folder.display());
    let file = file("damaged-journal.yaml", &text);
    let file = file.to_str().expect("UTF-8");
    for command in [
        &["forget", file, "--stream", "s", "--yes"][..],
        &["reset", file, "--to", "earliest"],
        &["rename", file, "other"],
        &["answer", file, "--all", "--absent"],
    ] {
        let said = forebay(command).env("FOREBAY_TEST_PASSWORD", "x").output().expect("the program starts");
        assert_eq!(code(&said), 4, "{command:?}: {}{}", out(&said), err(&said));
        assert!(err(&said).contains("record 0"), "{}", err(&said));
    }
    let listed =
        forebay(&["list", file]).env("FOREBAY_TEST_PASSWORD", "x").output().expect("the program starts");
    assert!(out(&listed).starts_with("events: its journal cannot be read: "), "{}", out(&listed));
    assert!(!out(&listed).contains("null"), "{}", out(&listed));
    std::fs::remove_dir_all(&folder).expect("the test's own folder");
}

#[test]
fn a_pipeline_that_has_the_new_name_already_says_so_in_json_too() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-named", std::process::id()));
    let journal = folder.join("events/lane-0/journal");
    std::fs::create_dir_all(&journal).expect("the test's folder can be written");
    let body = Some(Body::Claim(Claim { owner: "test".into(), ..Claim::default() }));
    let record = Record { seq: 0, epoch: 1, nonce: vec![1; 16], written_at_ms: 0, body };
    std::fs::write(journal.join(format!("{:020}", 0)), record.to_bytes()).expect("as above");
    let text = format!("{GOOD}store: file://{}\nhttp: {{ listen: none }}\n", folder.display());
    let file = file("named.yaml", &text);
    let command = ["rename", file.to_str().expect("UTF-8"), "events", "--json"];
    let said = forebay(&command).env("FOREBAY_TEST_PASSWORD", "x").output().expect("the program starts");
    assert_eq!(code(&said), 0, "{}", err(&said));
    let value: serde_json::Value = serde_json::from_str(&out(&said)).expect("JSON");
    assert_eq!((&value["to"], &value["done"]), (&"events".into(), &true.into()), "{value:#}");
    std::fs::remove_dir_all(&folder).expect("the test's own folder");
}

/// GlassFlow's behaviour 12.
#[test]
fn behaviour_12_a_filter_is_validated_and_its_fault_has_a_place() {
    let text = |filter: &str| {
        format!(
            "pipeline: p\nsource: {{ generator: {{ workload: glassflow }}, fields: {{ cents: UInt32 }} }}\nsteps:\n  - filter: {filter}\nsink:\n  \
             clickhouse:\n    url: http://localhost:8123\n    table: t\n    create: {{ columns: {{ event_id: UUID }}, order_by: event_id }}\n"
        )
    };
    let checked = |filter: &str| {
        let path = file("behaviour-12.yaml", &text(filter));
        forebay(&["check", path.to_str().unwrap()]).output().unwrap()
    };
    assert_eq!(code(&checked("cents > 3 AND cents <> 7")), 0);
    for (filter, place) in
        [("cents > > 3", ":4:21: "), ("cents + 1", ":4:13: "), ("cents > 3 AND cent < 9", ":4:27: ")]
    {
        let refused = checked(filter);
        assert_eq!(code(&refused), 2, "{filter}: {}", err(&refused));
        assert!(err(&refused).contains(place), "{filter}: {}", err(&refused));
    }
}

#[test]
fn a_fault_inside_an_expression_has_its_line_and_column() {
    let text = "pipeline: p\nsource: { generator: { workload: glassflow }, fields: { cents: UInt32 } }\nsteps:\n  - filter: cents > 3\n  \
                - select:\n      id: event_id\n      amount: lower(name) || centz\nsink:\n  clickhouse:\n    url: http://localhost:8123\n    \
                table: t\n    create: { columns: { id: UUID, amount: String }, order_by: id }\n";
    let path = file("expression.yaml", text);
    let output = forebay(&["check", path.to_str().unwrap()]).output().unwrap();
    assert_eq!(code(&output), 2, "{}", err(&output));
    let shown = err(&output);
    // `name` is a field that no column has untouched.
    assert!(shown.contains("expression.yaml:7:21: "), "{shown}");
    assert!(shown.contains("`fields: { name: String }`"), "{shown}");
    let fixed = text.replace("cents: UInt32", "cents: UInt32, name: String");
    std::fs::write(&path, fixed).unwrap();
    let shown = err(&forebay(&["check", path.to_str().unwrap()]).output().unwrap());
    assert!(shown.contains("expression.yaml:7:30: ") && shown.contains("did you mean `cents`"), "{shown}");
}

/// The commands of docs/log.md, one after the other.
#[test]
fn a_log_takes_lines_shows_them_and_lets_go_of_them() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("log-{}", std::process::id()));
    let log = folder.to_str().expect("UTF-8");
    let absent = run(&["log", "cat", log]);
    assert_eq!((code(&absent), err(&absent).contains("forebay log append")), (1, true), "{}", err(&absent));
    assert!(!folder.exists(), "looking makes nothing");

    let lines = "{\"id\":1}\n{\"id\":2}\n\n{\"id\":4}\n";
    let first = piped(&["log", "append", log, "--producer", "6f1c2a", "--json"], lines);
    assert_eq!(code(&first), 0, "{}", err(&first));
    assert!(out(&first).contains("\"records\": 4") && out(&first).contains("\"next\": 4"), "{}", out(&first));
    let again = piped(&["log", "append", log, "--producer", "6f1c2a"], lines);
    assert_eq!(
        out(&again),
        "appended 0 records, 4 were there already; the log ends at 4\n",
        "{}",
        err(&again)
    );
    let more = piped(&["log", "append", log], "last, without a line end");
    assert_eq!(out(&more), "appended 1 records; the log ends at 5\n", "{}", err(&more));

    assert_eq!(out(&run(&["log", "cat", log])), format!("{lines}last, without a line end\n"));
    assert_eq!(out(&run(&["log", "cat", log, "--from", "1", "--limit", "1"])), "{\"id\":2}\n");
    let json = out(&run(&["log", "cat", log, "--from", "3", "--limit", "1", "--json"]));
    let record: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (record["position"].as_u64(), record["body"].as_str()),
        (Some(3), Some("{\"id\":4}")),
        "{json}"
    );
    let beyond = run(&["log", "cat", log, "--from", "6"]);
    assert!(code(&beyond) == 1 && err(&beyond).contains("ends at 5"), "{}", err(&beyond));

    let listed = out(&run(&["log", "ls", log]));
    assert!(listed.contains("records    0 to 5 (5)"), "{listed}");
    let listed: serde_json::Value =
        serde_json::from_str(&out(&run(&["log", "ls", log, "--json"]))).expect("JSON");
    assert_eq!(listed["partitions"][0]["next"].as_u64(), Some(5), "{listed}");
    let checked = run(&["log", "check", log]);
    assert_eq!(code(&checked), 0, "{}", out(&checked));
    assert!(out(&checked).contains("5 records in 2 objects"), "{}", out(&checked));

    assert_eq!(out(&run(&["log", "truncate", log, "--before", "2"])), "the log holds records 2 to 5\n");
    let gone = run(&["log", "cat", log, "--from", "1"]);
    assert!(code(&gone) == 1 && err(&gone).contains("begins at 2"), "{}", err(&gone));
    assert_eq!(out(&run(&["log", "cat", log])), "\n{\"id\":4}\nlast, without a line end\n");
    let bad = run(&["log", "truncate", log, "--forget-consumer", "nobody"]);
    assert!(code(&bad) == 1 && err(&bad).contains("no consumer `nobody`; it has: none"), "{}", err(&bad));
    for args in [
        &["log", "cat", log, "--partition", "3"][..],
        &["log", "truncate", log, "--partition", "3", "--before", "1"],
    ] {
        let bad = run(args);
        let told = "the log has no partition 3: it has 1 partition, numbered from 0 to 0";
        assert!(code(&bad) == 1 && err(&bad).contains(told), "{}", err(&bad));
    }

    // One object cut short.
    let data = walk(&folder.join("p/0/data"));
    std::fs::write(&data[0], "damaged").expect("writes");
    let checked = run(&["log", "check", log]);
    assert_eq!(code(&checked), 4, "{}", out(&checked));
    assert!(
        out(&checked).contains("data/") && out(&checked).contains("something is damaged"),
        "{}",
        out(&checked)
    );
    // The root damaged, and then without its value.
    let root = walk(&folder.join("p/0/.root"));
    let is_value =
        |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("v."));
    let value = root.iter().find(is_value).expect("a value");
    std::fs::write(value, "damaged").expect("writes");
    let damaged = run(&["log", "check", log]);
    std::fs::remove_file(value).expect("removes");
    let missing = run(&["log", "check", log]);
    for (checked, why) in [(damaged, "p/0/root"), (missing, "names a value that is not there")] {
        assert_eq!(code(&checked), 4, "{}{}", out(&checked), err(&checked));
        assert!(out(&checked).contains("partition 0: its root is damaged"), "{}", out(&checked));
        assert!(out(&checked).contains(why), "{}", out(&checked));
    }
    std::fs::remove_dir_all(&folder).expect("removes");
}

/// The program with this on standard input.
fn piped(arguments: &[&str], input: &str) -> Output {
    use std::io::Write;
    use std::process::Stdio;
    let mut command = forebay(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

#[test]
fn an_input_that_has_grown_is_appended_from_the_first_line_that_the_log_has_not() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("grown-{}", std::process::id()));
    let log = folder.to_str().expect("UTF-8");
    let append = |input: &str| piped(&["log", "append", log, "--producer", "6f1c2a"], input);
    let held = || out(&run(&["log", "cat", log]));

    // What wrote it died within the second line.
    let broken = append("{\"id\":1}\n{\"id\":2");
    assert_eq!(code(&broken), 1, "{}", out(&broken));
    assert!(
        err(&broken).contains("ends within line 2") && err(&broken).contains("line break"),
        "{}",
        err(&broken)
    );
    assert_eq!(held(), "{\"id\":1}\n");
    let grown = "{\"id\":1}\n{\"id\":22}\n{\"id\":3}\n";
    assert_eq!(out(&append(grown)), "appended 2 records, 1 were there already; the log ends at 3\n");
    assert_eq!(held(), grown);

    // Over the bounds of several appends, from the middle of one.
    let long: String =
        grown.to_owned() + &(4..=3_500).map(|id| format!("{{\"id\":{id}}}\n")).collect::<String>();
    assert_eq!(out(&append(&long)), "appended 3497 records, 3 were there already; the log ends at 3500\n");
    let longer = long.clone() + "{\"id\":3501}\n";
    assert_eq!(out(&append(&longer)), "appended 1 records, 3500 were there already; the log ends at 3501\n");
    assert_eq!(out(&append(grown)), "appended 0 records, 3 were there already; the log ends at 3501\n");
    assert_eq!(held(), longer);

    let other = append(&longer.replace("\"id\":7}", "\"id\":8}"));
    assert!(code(&other) == 1 && err(&other).contains("not those that the log has"), "{}", err(&other));
    // The same bytes in other lines.
    let split = append(&longer.replacen("\"id\":1}", "\"id\"\n1}", 1));
    assert!(code(&split) == 1 && err(&split).contains("nothing was appended"), "{}", err(&split));
    assert_eq!(held(), longer);
    std::fs::remove_dir_all(&folder).expect("removes");
}

/// Files below a folder.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn what_works_record_by_record_refuses_a_pipeline_with_a_join_before_it_asks_anybody() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/paid-joined.yaml");
    let refused = run(&["verify", example]);
    assert_ne!(code(&refused), 0);
    assert!(err(&refused).contains("`join`"), "{}", err(&refused));
}

#[test]
fn what_works_record_by_record_refuses_requests_of_many_rows() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/kafka-otlp-logs.yaml");
    let refused = run(&["verify", example]);
    assert_ne!(code(&refused), 0);
    assert!(err(&refused).contains("OTLP"), "{}", err(&refused));
}

#[test]
fn a_file_that_two_inputs_match_is_a_fault_of_their_patterns() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-shared-files", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("orders-1.jsonl"), "{\"id\": 1}\n").expect("written");
    let table = "sink:\n  clickhouse:\n    url: http://localhost:8123\n    table: t\n    create: { columns: { id: UInt64 }, order_by: id }\n";
    let text = |more: &str| {
        format!(
            "pipeline: shared\ninputs:\n  orders: {{ file: {{ paths: \"orders-*.jsonl\" }} }}\n  all: {{ file: {{ paths: {more} }} }}\n{table}"
        )
    };
    let file = folder.join("shared.yaml");
    std::fs::write(&file, text("\"*.jsonl\"")).expect("written");
    let output = run(&["check", file.to_str().expect("UTF-8")]);
    assert_eq!(code(&output), 2, "{}", err(&output));
    assert!(err(&output).contains("`orders-1.jsonl` is read by input `all` already"), "{}", err(&output));
    assert!(err(&output).contains("shared.yaml:3:"), "with its line: {}", err(&output));
    // The way out.
    std::fs::write(&file, text("\"other-*.jsonl\"")).expect("written");
    let output = run(&["check", file.to_str().expect("UTF-8")]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn a_gateways_schema_that_cannot_be_read_is_a_fault_of_its_file() {
    let schema = file("gateway.avsc", "\"int\"");
    let gateway = |schema: &str| {
        format!(
            "gateway: g\nlisten: '127.0.0.1:0'\nstreams:\n  readings: {{ format: avro, schema_file: '{schema}' }}\n"
        )
    };
    let of_another = file("gateway-int.yaml", &gateway(&schema.display().to_string()));
    let missing = file("gateway-missing.yaml", &gateway("is-not-there.avsc"));
    for (file, words) in [(of_another, "a pipeline reads records"), (missing, "is-not-there.avsc")] {
        for command in ["check", "gateway"] {
            let output = run(&[command, &file.display().to_string()]);
            let told = out(&output) + &err(&output);
            assert_eq!(code(&output), 2, "{command}: {told}");
            assert!(
                told.contains("stream `readings`: schema_file") && told.contains(words),
                "{command}: {told}"
            );
        }
    }
}

#[test]
fn try_and_explain_end_with_2_for_a_mistake_and_name_its_place() {
    let text = "\
pipeline: events
source: { file: { paths: none.jsonl }, fields: { a: String } }
steps:
  - filter: lower(a) > 1 + missing
sink:
  clickhouse: { url: \"http://127.0.0.1:9\", table: events, create: { columns: { a: String }, order_by: a } }
http: { listen: none }
";
    let (bad, good) = (file("planned.yaml", text), file("plans.yaml", &text.replace("1 + missing", "'b'")));
    let (bad, good) = (bad.to_str().expect("UTF-8"), good.to_str().expect("UTF-8"));
    let checked = run(&["check", bad]);
    assert_eq!((code(&checked), err(&checked).contains(":4:28: ")), (2, true), "{}", err(&checked));
    for command in ["try", "explain"] {
        let refused = run(&[command, bad]);
        assert_eq!((code(&refused), err(&refused)), (2, err(&checked)), "{command}");
        let missing = run(&[command, "no-such-file.yaml"]);
        assert_eq!(code(&missing), 2, "{command}: {}", err(&missing));
    }
    assert_eq!(code(&run(&["explain", good])), 0);
    let nowhere = run(&["try", good]);
    assert_eq!((code(&nowhere), out(&nowhere)), (2, String::new()), "{}", err(&nowhere));
    assert!(err(&nowhere).contains("file `none.jsonl` does not exist"), "{}", err(&nowhere));
    for arguments in [["--records", "no-such-records"], ["--input", "nope"]] {
        let refused = run(&[&["try", good], &arguments[..]].concat());
        assert_eq!(code(&refused), 2, "{}", err(&refused));
    }
}

#[test]
fn steps_are_checked_whatever_stands_behind_a_type_of_a_table_to_create() {
    for (nth, kind) in ["bool", "DateTime32", "Int8 DEFAULT 5", "Int8 CODEC(ZSTD)"].into_iter().enumerate() {
        let text = format!(
            "pipeline: created\nsource: {{ file: {{ paths: none.jsonl }}, fields: {{ s: String }} }}\nsteps:\n  - filter: \"uper(s) = 'x' AND nope = 1\"\n\
             sink: {{ clickhouse: {{ url: \"http://127.0.0.1:1\", table: t, create: {{ columns: {{ k: UInt32, x: \"{kind}\" }}, order_by: k }} }} }}\n"
        );
        let path = file(&format!("created-{nth}.yaml"), &text);
        let name = path.display().to_string();
        for command in ["check", "explain"] {
            let output = run(&[command, &name]);
            assert_eq!(code(&output), 2, "{command} {kind}: {}", err(&output));
            assert!(err(&output).contains(":4:14: "), "{command} {kind}: {}", err(&output));
            assert!(
                err(&output).contains("there is no function `uper`"),
                "{command} {kind}: {}",
                err(&output)
            );
        }
    }
    let text = "pipeline: created\nsource: { file: { paths: none.jsonl } }\nsink: { clickhouse: { url: \"http://127.0.0.1:1\", table: t, create: \
                { columns: { k: UInt32, x: Int128 }, order_by: k } } }\n";
    let path = file("created-unwritten.yaml", text);
    for command in ["check", "plan", "run", "explain"] {
        let output = run(&[command, &path.display().to_string()]);
        assert_eq!(code(&output), 2, "{command}: {}", err(&output));
        assert!(
            err(&output).contains("no pipeline writes a column of the type `Int128`"),
            "{}",
            err(&output)
        );
    }
}

#[test]
fn a_file_and_its_records_do_not_both_come_by_standard_input() {
    let text = "pipeline: piped\nstore: memory://\ndelivery: at_least_once\nsource: { file: { paths: \"-\" } }\n\
                sink: { clickhouse: { url: \"http://127.0.0.1:1\", table: t } }\nhttp: { listen: none }\n";
    let text = std::fs::File::open(file("piped.yaml", text)).expect("just written");
    let output = forebay(&["run", "-"]).stdin(text).output().expect("it starts");
    assert_eq!(code(&output), 2, "{}", err(&output));
    assert!(err(&output).contains("give the file by its name"), "{}", err(&output));
}

/// Whoever has the address may take connections and never answer.
#[test]
fn a_signal_ends_a_run_that_waits_for_an_answer_at_its_address() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address");
    let (path, store) = without_server("silent", "");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("listen: none", &format!("listen: \"{address}\""))).unwrap();
    let mut child = forebay(&["run", path.to_str().unwrap()]).spawn().expect("it starts");
    // It is asked who runs there, and by then signals are heard.
    let asked = taken.accept().expect("a connection");
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("`kill` runs");
    assert!(killed.success());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert!(!store.exists(), "nothing was started");
    drop(asked);
}

/// The status that a path is answered with.
#[cfg(feature = "s3")]
fn status_of(address: &str, path: &str) -> Option<u16> {
    use std::io::{Read, Write};

    let mut stream = std::net::TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

/// Whoever asks whether the process lives would otherwise restart it as long as the store is away.
#[cfg(feature = "s3")]
#[test]
fn a_gateway_that_waits_for_its_store_at_the_start_is_healthy_and_not_ready() {
    use std::io::{BufRead, BufReader};

    let text = "gateway: waits\nlisten: '127.0.0.1:0'\nstore: s3://bucket/logs\nobject_storage: { endpoint: 'http://127.0.0.1:1', \
                region: us-east-1, access_key: a, secret_key: b }\nstreams: { orders: {} }\nhttp: { listen: '127.0.0.1:0' }\n";
    let path = file("gateway-waits.yaml", text);
    let mut command = forebay(&["--log-format", "json", "--log-level", "info", "gateway"]);
    let mut child = command.arg(&path).stderr(std::process::Stdio::piped()).spawn().expect("it starts");
    let said = BufReader::new(child.stderr.take().expect("it is piped"));
    let is_address = |line: &String| line.contains("metrics, health and status over HTTP");
    let line = said.lines().map_while(Result::ok).find(is_address).unwrap_or_default();
    let (_, address) = line.split_once("\"address\":\"").unwrap_or_default();
    let address = address.split('"').next().unwrap_or_default();
    let statuses = ["/healthz", "/readyz"].map(|path| status_of(address, path));
    // First, so that it does not outlive the test.
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert_eq!(statuses, [Some(200), Some(503)], "{line}");
}
