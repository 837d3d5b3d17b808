//! The seam to libchdb. `unsafe` stands in this module and in `wall`.
//!
//! Owns the library's function table, connections and results. Does not own where the library file is
//! (`locate`) or what is asked of it (`engine`). The library ships without a header, so the functions are looked
//! up by name and a missing one is an error that names it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use libloading::Library;

use crate::wall::Wall;

/// What `chdb_connect` returns: the address of a cell that holds the connection, or null.
type ConnectionCell = *mut RawConnection;
type RawConnection = *mut c_void;
type RawResult = *mut c_void;
type CountOf = unsafe extern "C" fn(RawResult) -> u64;

/// A failure to load or to use the library itself, as opposed to an error that the engine answers.
#[derive(Debug, thiserror::Error)]
pub enum FfiError {
    /// The loader refused the file.
    #[error("cannot load libchdb from `{path}`: {reason}")]
    Load {
        /// The file, or the bare name given to the loader.
        path: String,
        /// The loader's words.
        reason: String,
    },
    /// The library lacks a function that this crate calls.
    #[error("libchdb at `{path}` has no function `{name}`; this crate needs chdb 26.7")]
    Missing {
        /// The library file.
        path: String,
        /// The function.
        name: &'static str,
    },
    /// An argument holds a zero byte, which C strings cannot carry.
    #[error("an argument of the connection holds a zero byte")]
    ZeroByte,
    /// The engine gave no connection. It says why only on its standard error.
    #[error("the engine refused a connection")]
    Refused,
    /// This thread cannot be put behind the wall.
    #[error("this thread cannot be kept from files and the network: {0}")]
    Wall(#[from] std::io::Error),
}

/// The functions of libchdb that this crate calls.
pub struct Api {
    connect: unsafe extern "C" fn(c_int, *mut *mut c_char) -> ConnectionCell,
    close: unsafe extern "C" fn(ConnectionCell),
    query: QueryFn,
    destroy: unsafe extern "C" fn(RawResult),
    buffer: unsafe extern "C" fn(RawResult) -> *const c_char,
    length: unsafe extern "C" fn(RawResult) -> usize,
    elapsed: unsafe extern "C" fn(RawResult) -> f64,
    error: unsafe extern "C" fn(RawResult) -> *const c_char,
    result_rows: CountOf,
    result_bytes: CountOf,
    read_rows: CountOf,
    read_bytes: CountOf,
    written_rows: CountOf,
    written_bytes: CountOf,
    shutdown: unsafe extern "C" fn() -> c_int,
    /// Behind it goes every thread before it opens a connection or runs a statement.
    wall: Option<Wall>,
    /// Keeps the code mapped. Never unloaded: the engine leaves thread-local destructors and exit handlers behind, and
    /// a process that ends without their code dies of a segmentation fault.
    _library: ManuallyDrop<Library>,
}

type QueryFn = unsafe extern "C" fn(
    RawConnection,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *const *const c_char,
    *const usize,
    *const *const c_char,
    *const usize,
    usize,
) -> RawResult;

/// Counters and bytes of one statement's answer.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The result in the asked format; empty for statements without one.
    pub body: Vec<u8>,
    /// Seconds that the engine worked.
    pub elapsed_s: f64,
    /// Rows of the result.
    pub result_rows: u64,
    /// Bytes of the result in the engine's memory form.
    pub result_bytes: u64,
    /// Rows read from tables.
    pub read_rows: u64,
    /// Bytes read from tables.
    pub read_bytes: u64,
    /// Rows written, those of materialized views included.
    pub written_rows: u64,
    /// Bytes written, those of materialized views included.
    pub written_bytes: u64,
}

impl Api {
    /// Loads the library at `path` (a file, or a bare name for the loader's own search) and turns its signal
    /// handlers off, so that SIGTERM stays with the process.
    /// With a `wall`, statements run behind it.
    pub fn load(path: &Path, wall: Option<Wall>) -> Result<Arc<Api>, FfiError> {
        let shown = path.display().to_string();
        // SAFETY: loading runs the library's initialisers. libchdb's are made for being loaded into a foreign process.
        let library = unsafe { Library::new(path) }.map_err(|error| {
            // The loader's own words are the cause; the outer text only says that it failed.
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            FfiError::Load { path: shown.clone(), reason: cause.unwrap_or_else(|| error.to_string()) }
        })?;

        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the type that the field asks for is the function's signature in chdb 26.7, and
                // the pointer does not outlive `library`, which is stored beside it.
                match unsafe { library.get($name) } {
                    Ok(symbol) => *symbol,
                    Err(_) => return Err(FfiError::Missing { path: shown, name: text_of($name) }),
                }
            };
        }

        let set_signal_handlers: unsafe extern "C" fn(c_int) =
            function!(b"chdb_set_signal_handlers_enabled\0");
        let api = Api {
            connect: function!(b"chdb_connect\0"),
            close: function!(b"chdb_close_conn\0"),
            query: function!(b"chdb_query_with_params_n\0"),
            destroy: function!(b"chdb_destroy_query_result\0"),
            buffer: function!(b"chdb_result_buffer\0"),
            length: function!(b"chdb_result_length\0"),
            elapsed: function!(b"chdb_result_elapsed\0"),
            error: function!(b"chdb_result_error\0"),
            result_rows: function!(b"chdb_result_rows_read\0"),
            result_bytes: function!(b"chdb_result_bytes_read\0"),
            read_rows: function!(b"chdb_result_storage_rows_read\0"),
            read_bytes: function!(b"chdb_result_storage_bytes_read\0"),
            written_rows: function!(b"chdb_result_rows_written\0"),
            written_bytes: function!(b"chdb_result_bytes_written\0"),
            shutdown: function!(b"chdb_shutdown\0"),
            wall,
            _library: ManuallyDrop::new(library),
        };
        // SAFETY: takes an int and touches only the library's own flag; no connection exists yet.
        unsafe { set_signal_handlers(0) };
        Ok(Arc::new(api))
    }

    /// Opens a connection with `arguments`, the first of which plays the part of a program's name. The first
    /// connection of the process starts the engine.
    pub fn connect(self: &Arc<Api>, arguments: &[String]) -> Result<Connection, FfiError> {
        self.enter_wall()?;
        let owned: Vec<CString> = arguments
            .iter()
            .map(|argument| CString::new(argument.as_str()).map_err(|_| FfiError::ZeroByte))
            .collect::<Result<_, _>>()?;
        let mut pointers: Vec<*mut c_char> = owned.iter().map(|text| text.as_ptr().cast_mut()).collect();
        let count = c_int::try_from(pointers.len()).map_err(|_| FfiError::Refused)?;
        // SAFETY: `pointers` holds `count` zero-terminated strings that live until after the call; the engine
        // copies its arguments and does not write to them.
        let cell = unsafe { (self.connect)(count, pointers.as_mut_ptr()) };
        if cell.is_null() {
            return Err(FfiError::Refused);
        }
        // SAFETY: a non-null answer points to a cell with the connection's handle.
        if unsafe { *cell }.is_null() {
            return Err(FfiError::Refused);
        }
        Ok(Connection { api: Arc::clone(self), cell })
    }

    fn enter_wall(&self) -> std::io::Result<()> {
        self.wall.as_ref().map_or(Ok(()), Wall::enter)
    }

    /// Ends the engine's threads once every connection is closed; says whether that was done.
    pub fn shutdown(&self) -> bool {
        // SAFETY: takes nothing and refuses by itself while connections are open.
        unsafe { (self.shutdown)() == 0 }
    }
}

/// The name of a function, without the terminator.
const fn text_of(name: &'static [u8]) -> &'static str {
    match CStr::from_bytes_with_nul(name) {
        Ok(name) => match name.to_str() {
            Ok(name) => name,
            Err(_) => "?",
        },
        Err(_) => "?",
    }
}

/// One session with the engine; runs one statement at a time.
pub struct Connection {
    api: Arc<Api>,
    cell: ConnectionCell,
}

// SAFETY: the engine binds a connection to no thread. `&mut self` on `run` and the absence of `Sync` keep two threads
// from using one at a time.
unsafe impl Send for Connection {}

impl Connection {
    /// Runs `sql` with its named parameters. `Err` is the engine's text, `Code: N. DB::Exception: …`.
    pub fn run(
        &mut self,
        sql: &[u8],
        format: &str,
        parameters: &[(String, String)],
    ) -> Result<Answer, String> {
        // The thread may be another than the one that opened the connection.
        self.api.enter_wall().map_err(|error| {
            format!("Code: 1001. DB::Exception: {} (STD_EXCEPTION)", FfiError::from(error))
        })?;
        let names: Vec<*const c_char> = parameters.iter().map(|(name, _)| name.as_ptr().cast()).collect();
        let name_lengths: Vec<usize> = parameters.iter().map(|(name, _)| name.len()).collect();
        let values: Vec<*const c_char> = parameters.iter().map(|(_, value)| value.as_ptr().cast()).collect();
        let value_lengths: Vec<usize> = parameters.iter().map(|(_, value)| value.len()).collect();
        // SAFETY: the cell is valid until `drop`; every pointer goes with its length and outlives the call; the
        // four arrays have `parameters.len()` entries each.
        let raw = unsafe {
            (self.api.query)(
                *self.cell,
                sql.as_ptr().cast(),
                sql.len(),
                format.as_ptr().cast(),
                format.len(),
                names.as_ptr(),
                name_lengths.as_ptr(),
                values.as_ptr(),
                value_lengths.as_ptr(),
                parameters.len(),
            )
        };
        if raw.is_null() {
            return Err("Code: 1001. DB::Exception: the engine gave no result (STD_EXCEPTION)".to_owned());
        }
        QueryResult { api: &self.api, raw }.read()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: `cell` came from `connect`, and this is the only place that closes it.
        unsafe { (self.api.close)(self.cell) };
        self.cell = ptr::null_mut();
    }
}

/// Frees the engine's result, whichever way it is read.
struct QueryResult<'a> {
    api: &'a Api,
    raw: RawResult,
}

impl QueryResult<'_> {
    fn read(&self) -> Result<Answer, String> {
        let (api, raw) = (self.api, self.raw);
        // SAFETY: `raw` is a live result. An error is null or a zero-terminated text that lives as long as it.
        let error = unsafe { (api.error)(raw) };
        if !error.is_null() {
            // SAFETY: as above.
            return Err(unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned());
        }
        // SAFETY: the buffer is null or holds `length` bytes, and lives as long as `raw`.
        let body = unsafe {
            let (buffer, length) = ((api.buffer)(raw), (api.length)(raw));
            if buffer.is_null() {
                Vec::new()
            } else {
                std::slice::from_raw_parts(buffer.cast::<u8>(), length).to_vec()
            }
        };
        // SAFETY: each takes a live result and returns a number.
        Ok(unsafe {
            Answer {
                body,
                elapsed_s: (api.elapsed)(raw),
                result_rows: (api.result_rows)(raw),
                result_bytes: (api.result_bytes)(raw),
                read_rows: (api.read_rows)(raw),
                read_bytes: (api.read_bytes)(raw),
                written_rows: (api.written_rows)(raw),
                written_bytes: (api.written_bytes)(raw),
            }
        })
    }
}

impl Drop for QueryResult<'_> {
    fn drop(&mut self) {
        // SAFETY: `raw` is destroyed here and nowhere else.
        unsafe { (self.api.destroy)(self.raw) };
    }
}

/// An anonymous file in memory that the engine can open by path.
pub struct MemoryFile {
    file: std::fs::File,
}

impl MemoryFile {
    /// Creates an empty one.
    pub fn create() -> std::io::Result<MemoryFile> {
        use std::os::fd::FromRawFd;
        // SAFETY: the name is a zero-terminated constant; the call returns a new descriptor or -1.
        let descriptor = unsafe { libc::memfd_create(c"insert".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the descriptor is open and nobody else owns it.
        Ok(MemoryFile { file: unsafe { std::fs::File::from_raw_fd(descriptor) } })
    }

    /// The path under which this process (and so the engine in it) opens the file from its beginning.
    pub fn path(&self) -> String {
        use std::os::fd::AsRawFd;
        format!("/proc/self/fd/{}", self.file.as_raw_fd())
    }
}

impl std::io::Write for MemoryFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}
