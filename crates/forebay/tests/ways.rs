//! The ways out that commands print where no service is needed, taken.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder of its own, in which the program runs.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-ways-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the test's folder can be written");
        Self(path)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).expect("the test's folder can be written");
    }

    /// Runs `forebay LINE`, with the file `input` as its input: its exit code and all that it says.
    fn run(&self, line: &str, input: Option<&str>) -> (i32, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(line.split(' ')).current_dir(&self.0).env_remove("FOREBAY_LOG").env("NO_COLOR", "1");
        if let Some(input) = input {
            command.stdin(std::fs::File::open(self.0.join(input)).expect("it was written"));
        }
        let Output { status, stdout, stderr } = command.output().expect("the program starts");
        let said = String::from_utf8(stdout).expect("UTF-8") + &String::from_utf8(stderr).expect("UTF-8");
        (status.code().expect("it ends by itself"), said)
    }

    #[track_caller]
    fn refuses(&self, line: &str, words: &str) {
        let (code, said) = self.run(line, None);
        assert!(code != 0 && said.contains(words), "`forebay {line}`: {code} {said}");
    }

    #[track_caller]
    fn takes(&self, line: &str) -> String {
        let (code, said) = self.run(line, None);
        assert_eq!(code, 0, "`forebay {line}`: {said}");
        said
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const FILE: &str = "\
pipeline: events
store: ./data
source: { file: { paths: [\"events.jsonl\"] } }
sink: { clickhouse: { url: \"http://127.0.0.1:9\", table: events } }
http: { listen: none }
";

#[test]
fn every_way_out_of_a_command_about_a_log_is_one() {
    let folder = Folder::new("log");
    folder.write("lines", "{\"id\":1}\n{\"id\":2}\n");
    folder.refuses("log cat ./log", "there is no log at `./log`; `forebay log append` creates one");
    assert_eq!(folder.run("log append memory:/// ", Some("lines")).0, 2, "a stray argument");
    let (code, said) = folder.run("log append memory:///", Some("lines"));
    assert!(
        code == 1 && said.contains("a log in memory ends with the command; name a folder or a bucket"),
        "{said}"
    );
    let (code, said) = folder.run("log append ./log --producer 0", Some("lines"));
    assert!(code == 2 && said.contains("give 1 to 32 hexadecimal digits, not all of them 0"), "{said}");
    assert_eq!(folder.run("log append ./log --producer 6f1c2a", Some("lines")).0, 0);
    assert!(folder.takes("log cat ./log").contains("{\"id\":1}"));
}

#[test]
fn every_way_out_of_a_command_line_is_one() {
    let folder = Folder::new("line");
    folder.write("events.yaml", FILE);
    folder.write("events.jsonl", "{\"id\":1}\n");
    for command in ["list", "store check"] {
        folder.refuses(command, "Usage: forebay");
        for named in ["events.yaml", "--store ./data"] {
            let (code, said) = folder.run(&format!("{command} {named}"), None);
            assert!(!said.contains("Usage"), "`{command} {named}`: {code} {said}");
        }
    }
    folder.refuses("reset events.yaml --to events=1", "is no position; write `topic/partition=offset`");
    folder.refuses("reset events.yaml --to latest --partition events", "write it as `topic/number`");
    folder.refuses("forget events.yaml --partition events", "write it as `topic/number`");
    for line in [
        "reset events.yaml --to orders/0=1",
        "reset events.yaml --to latest --partition orders/0",
        "forget events.yaml --partition orders/0",
    ] {
        let (_, said) = folder.run(line, None);
        assert!(!said.contains("write "), "`forebay {line}` is understood: {said}");
    }
    let plan = |rate: &str| format!("plan events.yaml --rate {rate}");
    folder.refuses(&plan("many"), "write a number above 0 such as `1000`, `250k` or `1.5M`");
    for rate in ["1000", "250k", "1.5M"] {
        folder.takes(&plan(rate));
    }
}
