//! A real PostgreSQL for tests: one server on a free port, with a directory of its own.
//!
//! Owns the process, its settings and data, and statements of the superuser, by a client of a few lines. Does not own the client under test.
//!
//! PostgreSQL does not run as root. Where tests do, it runs as `nobody`, who then also owns its data. The superuser `postgres` logs in without a password, everybody else with
//! one (SCRAM), over TCP on loopback alone.

mod client;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::dir::{TestDir, cached};
use crate::process::{Exit, Process, Spawn};
use crate::wait::{free_port, wait_until};

/// A start takes less than a second alone; tests run side by side.
const START_MAX: Duration = Duration::from_secs(120);
/// A fast shutdown ends sessions and writes a checkpoint.
const STOP_MAX: Duration = Duration::from_secs(60);
/// Starts that are tried one after another: a port may be lost between the search and the bind, and after a kill the processes of the former server take a moment to notice.
const STARTS_MAX: u32 = 40;
const START_PAUSE: Duration = Duration::from_millis(250);
/// The number of `nobody` and its group, everywhere.
const NOBODY: u32 = 65_534;

/// How to start a server.
#[derive(Debug, Clone, Default)]
pub struct PostgresOptions {
    tls: Option<(String, String)>,
    settings: Vec<(String, String)>,
}

impl PostgresOptions {
    /// Certificate and key, as PEM: the server encrypts, and lets nobody but the superuser in who does not.
    pub fn tls(mut self, certificate: &str, key: &str) -> PostgresOptions {
        self.tls = Some((certificate.to_owned(), key.to_owned()));
        self
    }

    /// A setting of `postgresql.conf`.
    pub fn setting(mut self, key: &str, value: &str) -> PostgresOptions {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }
}

/// A server. Dropped, it is killed and its data removed (kept when the test panics).
#[derive(Debug)]
pub struct Postgres {
    // The order matters: the process goes before its directory.
    process: Process,
    options: PostgresOptions,
    port: u16,
    dir: TestDir,
}

impl Postgres {
    /// Starts a server with an empty database `postgres`, and waits until it answers.
    pub fn start(options: PostgresOptions) -> Result<Postgres> {
        if let Some(missing) = missing() {
            bail!("postgres cannot be started: {missing}");
        }
        let dir = TestDir::new("postgres")?;
        fs::create_dir(dir.path().join("data"))?;
        hand_over(&dir.path().join("data"))?;
        unprivileged("initdb", "initdb")?
            .args(["-D", "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"])
            .cwd(dir.path())
            .run(dir.path(), START_MAX)?
            .success()
            .context("initdb")?;
        write_settings(&dir, &options)?;
        let mut port = free_port();
        let mut process = launch(&dir, port, &options)?;
        for _ in 0..STARTS_MAX {
            if is_ready(&mut process, port)? {
                return Ok(Postgres { process, options, port, dir });
            }
            port = free_port();
            process = launch(&dir, port, &options)?;
        }
        bail!("postgres ended at its start{}", process.tails())
    }

    /// Its port on 127.0.0.1, the same after every restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `postgresql://127.0.0.1:PORT/postgres`.
    pub fn url(&self) -> String {
        format!("postgresql://127.0.0.1:{}/postgres", self.port)
    }

    /// Runs statements as the superuser; gives the rows of the last one that has any, with the texts of their values, `None` for NULL.
    pub fn query(&self, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
        client::query(self.port, sql).with_context(|| format!("`{sql}`"))
    }

    /// A fast shutdown: sessions are ended, and their statements fail.
    pub fn stop(&mut self) -> Result<()> {
        self.process.interrupt()?;
        let ended = self.process.wait_timeout(STOP_MAX)?;
        ensure!(ended.is_some(), "postgres did not stop{}", self.process.tails());
        Ok(())
    }

    /// SIGKILL. What was written survives, for the kernel has it.
    pub fn kill9(&mut self) -> Result<Exit> {
        self.process.kill9()
    }

    /// Starts it again on the same port and data, and waits until it answers. One that still runs is stopped before.
    pub fn restart(&mut self) -> Result<()> {
        if self.process.is_running()? {
            self.stop()?;
        }
        for _ in 0..STARTS_MAX {
            self.process = launch(&self.dir, self.port, &self.options)?;
            if is_ready(&mut self.process, self.port)? {
                return Ok(());
            }
            std::thread::sleep(START_PAUSE);
        }
        bail!("postgres ended at its start{}", self.process.tails())
    }

    /// SIGSTOP: connections are taken and nothing answers.
    pub fn pause(&mut self) -> Result<()> {
        self.process.stop_signal()
    }

    /// SIGCONT, after [`Postgres::pause`].
    pub fn resume(&mut self) -> Result<()> {
        self.process.continue_signal()
    }

    /// The directory of its settings, data and logs.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// What PostgreSQL needs and this machine lacks.
pub(crate) fn missing() -> Option<String> {
    let stamp = cached("postgres").join(".stamp");
    (!stamp.is_file())
        .then(|| format!("`{}` is missing; run `scripts/setup test`", cached("postgres").display()))
}

fn is_root() -> bool {
    // SAFETY: geteuid() takes nothing, changes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Makes whoever runs the server the owner of `path`, and the only one who may read it.
fn hand_over(path: &Path) -> Result<()> {
    let mode = if path.is_dir() { 0o700 } else { 0o600 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    if is_root() {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY))?;
    }
    Ok(())
}

/// Where its programs are for whoever runs them. They look at themselves with the rights of the user alone, whatever capabilities they have, so one that
/// lies behind a folder that lets only root in is copied once to the folder for temporary files.
fn installation() -> Result<PathBuf> {
    let own = cached("postgres");
    let lets_in =
        |folder: &Path| fs::metadata(folder).is_ok_and(|found| found.permissions().mode() & 0o001 != 0);
    if !is_root() || own.ancestors().all(lets_in) {
        return Ok(own);
    }
    let stamp = fs::read_to_string(own.join(".stamp")).context("scripts/setup puts PostgreSQL in place")?;
    let version = stamp.trim().rsplit(':').next().unwrap_or_default().to_owned();
    let copy = std::env::temp_dir().join(format!("forebay-postgres-{version}"));
    // Tests of one process start servers side by side; one of them copies.
    static COPYING: Mutex<()> = Mutex::new(());
    let _alone = COPYING.lock().unwrap_or_else(PoisonError::into_inner);
    if !copy.exists() {
        let making = copy.with_extension(format!("{}.tmp", std::process::id()));
        // An earlier process of this id may have been killed meanwhile: into what it has left the copy would go one level too deep.
        drop(fs::remove_dir_all(&making));
        let copied = Command::new("cp").arg("-r").arg(&own).arg(&making).status()?;
        if !copied.success() {
            drop(fs::remove_dir_all(&making));
            bail!("cannot copy `{}` to `{}`; is there room?", own.display(), making.display());
        }
        fs::set_permissions(&making, fs::Permissions::from_mode(0o755))?;
        // Another process may have been faster.
        if fs::rename(&making, &copy).is_err() {
            fs::remove_dir_all(&making)?;
        }
    }
    ensure!(fs::metadata(&copy)?.uid() == 0, "`{}` is somebody else's: remove it", copy.display());
    Ok(copy)
}

/// One of its programs, by a user who is not root.
fn unprivileged(name: &str, program: &str) -> Result<Spawn> {
    let program = installation()?.join("bin").join(program);
    if !is_root() {
        return Ok(Spawn::new(name, program));
    }
    let nobody = NOBODY.to_string();
    Ok(Spawn::new(name, "setpriv")
        .args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups"])
        // Folders above may let nobody but root in.
        .args(["--inh-caps", "+dac_override", "--ambient-caps", "+dac_override"])
        // A change of user forgets that it dies with the test.
        .args(["--pdeathsig", "KILL"])
        .arg(program))
}

fn write_settings(dir: &TestDir, options: &PostgresOptions) -> Result<()> {
    let data = dir.path().join("data");
    let everybody = if options.tls.is_some() { "hostssl" } else { "host" };
    let logins =
        format!("host all postgres 127.0.0.1/32 trust\n{everybody} all all 127.0.0.1/32 scram-sha-256\n");
    fs::write(data.join("pg_hba.conf"), logins)?;
    if let Some((certificate, key)) = &options.tls {
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            fs::write(data.join(name), text)?;
            hand_over(&data.join(name))?;
        }
    }
    Ok(())
}

fn launch(dir: &TestDir, port: u16, options: &PostgresOptions) -> Result<Process> {
    let mut settings: Vec<(String, String)> = [
        ("listen_addresses", "127.0.0.1"),
        ("unix_socket_directories", ""),
        ("password_encryption", "scram-sha-256"),
        // Small, and no waiting for a disk: what a kill of the process leaves is in the kernel.
        ("shared_buffers", "16MB"),
        ("fsync", "off"),
        ("ssl", if options.tls.is_some() { "on" } else { "off" }),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    settings.extend(options.settings.iter().cloned());
    let settings = settings.into_iter().flat_map(|(key, value)| ["-c".to_owned(), format!("{key}={value}")]);
    unprivileged("postgres", "postgres")?
        .args(["-D", "data", "-p", &port.to_string()])
        .args(settings)
        .cwd(dir.path())
        .start(dir.path())
}

/// Waits until it answers; false if it has ended instead.
fn is_ready(process: &mut Process, port: u16) -> Result<bool> {
    wait_until(START_MAX, "postgres to answer", || {
        !process.is_running().unwrap_or(false) || client::query(port, "SELECT 1").is_ok()
    });
    process.is_running()
}

#[cfg(test)]
mod tests;
