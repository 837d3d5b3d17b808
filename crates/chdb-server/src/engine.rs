//! The engine in this process: one data folder, one lock on it, and a connection for every request.
//!
//! Owns the folder's lock, the engine's start and end, and the statements of one request on a connection. Does not own libchdb's calls
//! (`ffi`), its file (`locate`) or what statements may reach (`gate`, `wall`).
//!
//! A connection costs about 0.1 ms to open and starts with the engine's defaults, so each request gets a new one with
//! its own settings and nothing leaks from one to the next. Requests with a `session_id` share one instead (`session`).

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::ffi::{Answer, Api, Connection, FfiError};
use crate::gate;
use crate::insert::Script;
use crate::locate;
use crate::request::Asked;
use crate::response::{Failure, STD_EXCEPTION};
use crate::settings::{self, Known};
use crate::wall::Wall;

/// The file whose lock says that the folder is in use. A killed process loses its lock with its life.
const LOCK_FILE: &str = "chdb-server.lock";
/// The engine's configuration. It is always named, since the engine takes a `config.xml` of the working directory otherwise.
const CONFIG_FILE: &str = "chdb-server.config.xml";
/// What the engine's one user may do.
const USERS_FILE: &str = "chdb-server.users.xml";

/// Why the engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The library is not there or not the right one.
    #[error("{0}; {help}", help = locate::HELP)]
    Library(FfiError),
    /// No library that may be loaded.
    #[error("{0}; {help}", help = locate::HELP)]
    Locate(#[from] locate::LocateError),
    /// The data folder cannot be made or locked.
    #[error("cannot use the data folder `{}`: {reason}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The operating system's words.
        reason: io::Error,
    },
    /// Another process has the folder.
    #[error("the data folder `{}` is in use by another process; stop that one, or name another folder with --path", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The engine came up and then failed.
    #[error("the engine does not start on `{}`: {reason}", path.display())]
    Engine {
        /// The folder.
        path: PathBuf,
        /// The engine's words.
        reason: String,
    },
}

/// Writes a file of our own anew. What stands in its place is removed, so that nothing is written through a link.
fn put(path: &Path, text: &str) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::options().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
}

/// The engine in this process, with its data folder locked.
pub struct Engine {
    api: Arc<Api>,
    path: PathBuf,
    /// Whether statements may reach files and the network.
    open: bool,
    /// The engine's users and profiles; none of its own if it is open.
    users: Option<PathBuf>,
    known: Known,
    timezone: String,
    version: String,
    /// Keeps the engine up between requests; `None` once it is closed.
    anchor: Mutex<Option<Connection>>,
    _lock: File,
}

impl Engine {
    /// Starts the engine on `path`, which is made if it does not exist. Blocks for as long as the tables take to load.
    /// `open` lets statements reach files and the network; then `users` may be a file of the engine's users and profiles.
    pub fn start(path: &Path, open: bool, users: Option<&Path>) -> Result<Engine, StartError> {
        let folder = |reason| StartError::Folder { path: path.to_owned(), reason };
        fs::create_dir_all(path).map_err(folder)?;
        let path = path.canonicalize().map_err(folder)?;
        locate::own_folder(&path).map_err(folder)?;
        let mut options = File::options();
        options.create(true).append(true).custom_flags(libc::O_NOFOLLOW);
        let lock = options.open(path.join(LOCK_FILE)).map_err(folder)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StartError::InUse { path }),
            Err(TryLockError::Error(reason)) => return Err(folder(reason)),
        }
        put(&path.join(CONFIG_FILE), "<clickhouse></clickhouse>\n").map_err(folder)?;
        put(&path.join(USERS_FILE), &gate::users_config()).map_err(folder)?;
        let users = if open { users.map(Path::to_owned) } else { Some(path.join(USERS_FILE)) };
        let library = locate::library()?;
        let wall = if open { None } else { wall_around(&path, &library) };
        let api = Api::load(&library, wall).map_err(StartError::Library)?;
        let failed = |reason: String| StartError::Engine { path: path.clone(), reason };
        let mut anchor = api
            .connect(&connection_arguments(&path, users.as_deref(), &[]))
            .map_err(|error| failed(error.to_string()))?;
        let mut lines = |sql: &str| {
            let answer = anchor.run(sql.as_bytes(), "TabSeparatedRaw", &[]).map_err(failed)?;
            Ok::<_, StartError>(String::from_utf8_lossy(&answer.body).trim_end().to_owned())
        };
        let known = Known::from_lines(&lines("SELECT name FROM system.settings")?);
        let timezone = lines("SELECT timezone()")?;
        let version = lines("SELECT version()")?;
        tracing::info!(version, settings = known.len(), path = %path.display(), "the engine is up");
        Ok(Engine {
            api,
            path,
            open,
            users,
            known,
            timezone,
            version,
            anchor: Mutex::new(Some(anchor)),
            _lock: lock,
        })
    }

    /// Whether statements may reach files and the network.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// The settings that exist.
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// The time zone of the answers.
    pub fn timezone(&self) -> &str {
        &self.timezone
    }

    /// ClickHouse's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// A new connection with `settings`.
    pub fn connect(&self, settings: &[(String, String)]) -> Result<Connection, Failure> {
        if self.open && self.users.is_some() && !settings.is_empty() {
            // The arguments of a connection pass by the constraints of a profile; a statement does not.
            let mut connection = self.connect(&[])?;
            let statement = settings::set_statement(settings);
            connection.run(statement.as_bytes(), "Null", &[]).map_err(Failure::from_engine)?;
            return Ok(connection);
        }
        match self.api.connect(&connection_arguments(&self.path, self.users.as_deref(), settings)) {
            Ok(connection) => Ok(connection),
            Err(error) => Err(self.why_refused(settings, &error)),
        }
    }

    /// The engine refuses a connection without a word; the same settings as statements tell which one is wrong.
    fn why_refused(&self, settings: &[(String, String)], error: &FfiError) -> Failure {
        let unclear = || Failure::new(STD_EXCEPTION, &error.to_string());
        let Ok(mut plain) = self.api.connect(&connection_arguments(&self.path, self.users.as_deref(), &[]))
        else {
            return unclear();
        };
        settings
            .iter()
            .find_map(|setting| {
                plain
                    .run(settings::set_statement(std::slice::from_ref(setting)).as_bytes(), "Null", &[])
                    .err()
            })
            .map_or_else(unclear, Failure::from_engine)
    }

    /// Runs `sql` on a connection of its own.
    pub fn run(&self, asked: &Asked, sql: &[u8], format: &str) -> Result<Answer, Failure> {
        self.run_script(asked, &Script { main: sql.to_vec(), ..Script::default() }, format)
    }

    /// Runs the statements of `script` on a connection of their own.
    pub fn run_script(&self, asked: &Asked, script: &Script, format: &str) -> Result<Answer, Failure> {
        let mut connection = self.connect(&asked.settings)?;
        choose_database(&mut connection, asked)?;
        run_all(&mut connection, asked, script, format)
    }

    /// Closes the database and ends the engine's threads. Every other connection must be closed before; says
    /// whether that was so.
    pub fn close(&self) -> bool {
        let anchor = self.anchor.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(anchor);
        self.api.shutdown()
    }
}

/// The wall, where the system has one. Without it the gate stands alone, and whoever runs the server should know.
fn wall_around(path: &Path, library: &Path) -> Option<Wall> {
    // Without a name of its own, the program's functions are nameless in the engine's stack traces, and that is all.
    let program = std::env::current_exe().unwrap_or_default();
    match Wall::around(path, &[library, &program]) {
        Ok(wall) => Some(wall),
        Err(error) => {
            tracing::warn!(
                %error,
                "this system has no Landlock to keep the engine from files and the network; only the check of each statement does"
            );
            None
        }
    }
}

/// Runs the statements of `script`; the last ones even if one before them fails.
pub fn run_all(
    connection: &mut Connection,
    asked: &Asked,
    script: &Script,
    format: &str,
) -> Result<Answer, Failure> {
    let before = script.before.iter().try_for_each(|sql| {
        connection.run(sql, "Null", &asked.parameters).map(drop).map_err(Failure::from_engine)
    });
    let result = before
        .and_then(|()| connection.run(&script.main, format, &asked.parameters).map_err(Failure::from_engine));
    for sql in &script.after {
        let undone = connection.run(sql, "Null", &[]).map(drop).map_err(Failure::from_engine);
        // The first error is the one that says why.
        if result.is_ok() {
            undone?;
        }
    }
    result
}

/// Makes the asked database the current one.
pub fn choose_database(connection: &mut Connection, asked: &Asked) -> Result<(), Failure> {
    let Some(database) = &asked.database else { return Ok(()) };
    let statement = format!("USE {}", settings::identifier(database));
    connection.run(statement.as_bytes(), "Null", &[]).map(drop).map_err(Failure::from_engine)
}

/// The arguments of every connection. `implicit_select` is the command line's habit of reading `1 + 1` as a query,
/// which a server does not have.
fn connection_arguments(path: &Path, users: Option<&Path>, settings: &[(String, String)]) -> Vec<String> {
    let mut arguments = vec![
        "clickhouse".to_owned(),
        format!("--path={}", path.display()),
        format!("--config-file={}", path.join(CONFIG_FILE).display()),
        "--implicit_select=0".to_owned(),
        "--session_timezone=UTC".to_owned(),
    ];
    if let Some(users) = users {
        arguments.push(format!("--users_config={}", users.display()));
    }
    arguments.extend(settings::arguments(settings));
    arguments
}

#[cfg(test)]
mod tests;
