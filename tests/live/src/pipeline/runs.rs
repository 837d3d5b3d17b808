//! Runs of the program with a pipeline file.
//!
//! Owns the arguments, the environment and the wait for an end. Does not own what a run says while it goes on ([`super::said`]).

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use testkit::{Exit, Output, Process, Spawn};

use super::Pipeline;
use super::said::STATUS_MAX;
use crate::case::binary;

/// A drain of a test's few records takes a second; a busy machine and a slow server get this much.
pub(super) const END_MAX: Duration = crate::PATIENCE;

impl Pipeline {
    /// Starts `forebay run`.
    pub fn run(&self) -> Process {
        self.start(&["run"], &[])
    }

    /// Starts `forebay run` with the store on a disk of its own, of so many MiB: a file system in memory, which only that process and [`Pipeline::on_its_disk`]
    /// see, and which ends with it. Nobody must be root for it; `None` where the system lets no user make one, which was said aloud then.
    ///
    /// # Panics
    /// When the program does not start.
    pub fn run_on_a_disk_of(&self, mebibytes: u32) -> Option<Process> {
        let (file, store) = (self.write(), self.store());
        std::fs::create_dir_all(&store).expect("the folder of the store");
        let mount = |rest: &str| format!("mount -t tmpfs -o size={mebibytes}m,mode=0700 tmpfs \"$0\"{rest}");
        let namespace = ["--user", "--map-root-user", "--mount", "sh", "-c"];
        let tried = Command::new("unshare").args(namespace).arg(mount("")).arg(&store).output();
        if !tried.is_ok_and(|tried| tried.status.success()) {
            eprintln!(
                "SKIPPED: this system lets no user mount a file system in a namespace of their own (`unshare --user --mount`)"
            );
            return None;
        }
        let name = format!("{}-{}", self.name, self.port);
        let child = Spawn::new(&name, "unshare").args(namespace).arg(mount(" && exec \"$@\"")).arg(&store);
        let child = child.arg(binary().expect("the program")).arg("run").arg(file);
        Some(self.with_env(child).start(&self.dir).expect("the program must start"))
    }

    /// A path in the store of a process that [`Pipeline::run_on_a_disk_of`] has started, as it can be reached from here.
    pub fn on_its_disk(&self, process: &Process, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{}", process.pid(), self.store().display())).join(path)
    }

    /// Runs `forebay run --drain` to its end, which must be a good one.
    #[track_caller]
    pub fn drain(&self) -> Exit {
        ended_well(self.start(&["run"], &["--drain"]))
    }

    /// Starts `forebay check --connect`.
    pub fn start_check(&self) -> Process {
        self.start(&["check"], &["--connect"])
    }

    pub(super) fn start(&self, before: &[&str], after: &[&str]) -> Process {
        let file = self.write();
        // Logs of their own, for some run side by side.
        let name = format!("{}-{}", self.name, self.port);
        self.with_env(Spawn::new(&name, binary().expect("the program")))
            .args(before)
            .arg(file)
            .args(after)
            .start(&self.dir)
            .expect("the program must start")
    }

    pub(super) fn with_env(&self, child: Spawn) -> Spawn {
        let child = child.env("NO_COLOR", "1").env_remove("FOREBAY_LOG").cwd(&self.dir);
        self.env.iter().fold(child, |child, (key, value)| child.env(key, value))
    }

    /// Runs `forebay check FILE ARGS`, which must find nothing.
    ///
    /// # Panics
    /// When it finds something.
    pub fn check(&self, args: &[&str]) {
        let file = self.write();
        self.with_env(Spawn::new(&format!("{}-check", self.name), binary().expect("the program")))
            .arg("check")
            .arg(file)
            .args(args)
            .run(&self.dir, STATUS_MAX)
            .and_then(testkit::Output::success)
            .expect("`check` must find nothing");
    }

    /// Runs `forebay dead-letters ACTION FILE …` to its end, whatever its code.
    ///
    /// # Panics
    /// When it does not start or does not end.
    pub fn dead_letters(&self, action: &str, args: &[&str]) -> Output {
        let mut spawn = self.dead_letters_spawn(action, args);
        if action == "replay" && !args.contains(&"--timeout") {
            // A busy machine may need longer than a person would wait.
            spawn = spawn.args(["--timeout", "15m"]);
        }
        let ran = spawn.run(&self.dir, END_MAX);
        ran.expect("`dead-letters` must end")
    }

    /// Starts `forebay dead-letters ACTION FILE …`.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_dead_letters(&self, action: &str, args: &[&str]) -> Process {
        self.dead_letters_spawn(action, args).start(&self.dir).expect("the program must start")
    }

    fn dead_letters_spawn(&self, action: &str, args: &[&str]) -> Spawn {
        self.with_env(Spawn::new(&format!("{}-{action}", self.name), binary().expect("the program")))
            .args(["dead-letters", action])
            .arg(self.write())
            .args(args)
    }

    /// Runs a command with the file, which must end with `code`; what it prints, as JSON.
    ///
    /// # Panics
    /// When it ends with another code.
    #[track_caller]
    pub fn tool(&self, before: &[&str], after: &[&str], code: i32) -> Value {
        let output = self.run_tool(before, after);
        assert_eq!(output.exit.status.code(), Some(code), "{}\n{}", output.stdout, output.stderr);
        serde_json::from_str(&output.stdout).expect("JSON was asked for")
    }

    /// The same for a command that says on stderr why it fails.
    ///
    /// # Panics
    /// When it ends with another code, or says something else.
    #[track_caller]
    pub fn tool_fails(&self, before: &[&str], after: &[&str], code: i32, why: &str) {
        let output = self.run_tool(before, after);
        assert_eq!(output.exit.status.code(), Some(code), "{}\n{}", output.stdout, output.stderr);
        assert!(output.stderr.contains(why), "{}", output.stderr);
    }

    /// Runs a command with the file to its end, whatever its code.
    ///
    /// # Panics
    /// When it does not start or does not end.
    pub fn run_tool(&self, before: &[&str], after: &[&str]) -> Output {
        let file = self.write();
        let name = format!("{}-{}", self.name, before.join("-"));
        self.with_env(Spawn::new(&name, binary().expect("the program")))
            .args(before)
            .arg(file)
            .args(after)
            .run(&self.dir, END_MAX)
            .expect("the command must start")
    }
}

/// SIGTERM, and the wait for an end that must be a good one.
#[track_caller]
pub fn term(mut process: Process) -> Exit {
    process.term().expect("SIGTERM");
    ended_well(process)
}

/// SIGINT; returns at once.
///
/// # Panics
/// When there is no such process.
pub fn interrupt(process: &Process) {
    let kill = Command::new("kill").args(["-INT", &process.pid().to_string()]).status();
    assert!(kill.expect("`kill` must be there").success(), "the process is gone");
}

/// Waits for an end, which must be a good one.
#[track_caller]
pub fn ended_well(process: Process) -> Exit {
    let (exit, log) = ended(process);
    assert!(exit.status.success(), "{}\n{log}", exit.status);
    exit
}

/// Waits for an end; gives it with what was logged.
#[track_caller]
pub fn ended(mut process: Process) -> (Exit, String) {
    let exit = process.wait_timeout(END_MAX).expect("the program can be waited for");
    let log = process.stderr().expect("its log") + &process.stdout().expect("its output");
    let Some(exit) = exit else { panic!("the program did not end within {} s\n{log}", END_MAX.as_secs()) };
    (exit, log)
}
