//! The operating system's wall around the engine's threads: no file outside of the data folder, no socket, no program.
//!
//! `gate` reads statements, and a reader of text can be deceived. This wall cannot: the kernel asks at each call what the thread
//! may do. Landlock closes the file system, and a seccomp filter closes sockets and programs. Both hold for a thread and
//! for every thread that it starts, so each thread goes behind the wall before it calls into libchdb, and the engine's own threads are
//! born there. The threads that accept connections stay outside.
//!
//! Owns the list of what stays open. Does not own what a statement may say (`crate::gate`), nor the threads that go behind it
//! (`crate::engine`). Files in memory (an insert's data) have no place in any file system, and Landlock does not see them.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const TRUNCATE: u64 = 1 << 14;
/// To make and remove folders, files, pipes and links, and to move them from one folder to another. No devices, no
/// sockets, no execution.
const CHANGE_DIR: u64 = 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 12 | 1 << 13;

/// The first version of Landlock with which a file can be moved between folders, as the engine does with parts.
const LANDLOCK_MIN: libc::c_long = 2;
/// The first version that asks before a file is cut.
const LANDLOCK_TRUNCATE: libc::c_long = 3;

/// What the engine reads of the system: its processors, its memory's bounds, time zones, its counters.
const READABLE: [&str; 25] = [
    // A dictionary over a table of this server looks up the address of `localhost`.
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/dev/random",
    "/dev/urandom",
    "/proc/cpuinfo",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/self/cgroup",
    "/proc/self/io",
    "/proc/self/limits",
    "/proc/self/maps",
    "/proc/self/mountinfo",
    "/proc/self/mounts",
    "/proc/self/stat",
    "/proc/self/statm",
    "/proc/self/status",
    "/proc/sys/kernel/random/uuid",
    "/proc/sys/vm",
];

thread_local! {
    static BEHIND: Cell<bool> = const { Cell::new(false) };
}

/// The rules, ready for any number of threads.
pub struct Wall {
    ruleset: File,
}

#[repr(C)]
struct RulesetAttribute {
    handled_access_fs: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent_fd: i32,
}

impl Wall {
    /// A wall around `folder`, in which everything may be done. `readable` names files beside it that may be read: the
    /// program and the library, from which the engine reads the names of its functions.
    ///
    /// # Errors
    /// The kernel has no Landlock, or too old a one, or refuses a rule.
    pub fn around(folder: &Path, readable: &[&Path]) -> io::Result<Wall> {
        let version = landlock_version()?;
        if version < LANDLOCK_MIN || ARCHITECTURE.is_none() {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        let known = if version < LANDLOCK_TRUNCATE { (1 << 14) - 1 } else { (1 << 15) - 1 };
        let wall = Wall { ruleset: ruleset(known)? };
        wall.allow(folder, (WRITE_FILE | READ_FILE | READ_DIR | TRUNCATE | CHANGE_DIR) & known)?;
        wall.allow(Path::new("/dev/null"), (WRITE_FILE | READ_FILE | TRUNCATE) & known)?;
        for path in READABLE.iter().map(Path::new).chain(readable.iter().copied()) {
            match wall.allow(path, READ_FILE | READ_DIR) {
                // Not every system has all of them, and what is not there needs no rule.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => result?,
            }
        }
        Ok(wall)
    }

    fn allow(&self, path: &Path, access: u64) -> io::Result<()> {
        let opened = File::options().read(true).custom_flags(libc::O_PATH | libc::O_CLOEXEC).open(path)?;
        let on_files = WRITE_FILE | READ_FILE | TRUNCATE;
        let allowed_access = if opened.metadata()?.is_dir() { access } else { access & on_files };
        let rule = PathBeneath { allowed_access, parent_fd: opened.as_raw_fd() };
        const LANDLOCK_RULE_PATH_BENEATH: libc::c_int = 1;
        // SAFETY: both descriptors are open during the call, and `rule` has the layout that the kernel reads.
        let done = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.ruleset.as_raw_fd(),
                LANDLOCK_RULE_PATH_BENEATH,
                &raw const rule,
                0,
            )
        };
        checked(done).map(drop)
    }

    /// Puts this thread behind the wall, for the rest of its life. Once is enough; more are nothing.
    ///
    /// # Errors
    /// The kernel refuses. Then the engine must not be called from this thread.
    pub fn enter(&self) -> io::Result<()> {
        if BEHIND.get() {
            return Ok(());
        }
        const ON: libc::c_ulong = 1;
        const OFF: libc::c_ulong = 0;
        // SAFETY: sets a flag of this thread: it gains no rights by starting a program. The kernel asks for it before the rest.
        checked(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, ON, OFF, OFF, OFF) }.into())?;
        // SAFETY: the descriptor is an open ruleset.
        checked(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.ruleset.as_raw_fd(), 0) })?;
        close_sockets_and_programs()?;
        BEHIND.set(true);
        Ok(())
    }
}

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn landlock_version() -> io::Result<libc::c_long> {
    const LANDLOCK_CREATE_RULESET_VERSION: libc::c_int = 1;
    let none = std::ptr::null::<RulesetAttribute>();
    // SAFETY: with this flag the kernel reads nothing and returns a number.
    checked(unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, none, 0_usize, LANDLOCK_CREATE_RULESET_VERSION)
    })
}

fn ruleset(handled_access_fs: u64) -> io::Result<File> {
    let attribute = RulesetAttribute { handled_access_fs };
    // SAFETY: the kernel reads `attribute`, whose size is given.
    let made = checked(unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const attribute,
            size_of::<RulesetAttribute>(),
            0,
        )
    })?;
    let descriptor = i32::try_from(made).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made the descriptor, and nobody else owns it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// The kernel's name for the machine's kind of system calls.
const ARCHITECTURE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xC000_003E)
} else if cfg!(target_arch = "aarch64") {
    Some(0xC000_00B7)
} else {
    None
};

/// Where the kernel puts a call's number, architecture and first argument.
const AT_NUMBER: u32 = 0;
const AT_ARCHITECTURE: u32 = 4;
const AT_FIRST_ARGUMENT: u32 = 16;
/// Numbers from here on are the calls of another kind of program on the same machine.
const NUMBER_END: u32 = 0x4000_0000;

/// Answers "no permission" to sockets and programs. A netlink socket stays open: with it the engine reads the counters of its own
/// threads. `io_uring` could open a socket without the call.
fn close_sockets_and_programs() -> io::Result<()> {
    let Some(architecture) = ARCHITECTURE else { return Err(io::ErrorKind::Unsupported.into()) };
    let number = |call: libc::c_long| u32::try_from(call).map_err(io::Error::other);
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let at_least = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    let answer = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code: u16, k: u32, jt: u8, jf: u8| libc::sock_filter { code, jt, jf, k };
    let denied = libc::SECCOMP_RET_ERRNO | libc::EACCES as u32;
    let program = [
        step(load, AT_ARCHITECTURE, 0, 0),
        step(equal, architecture, 0, 8),
        step(load, AT_NUMBER, 0, 0),
        step(at_least, NUMBER_END, 6, 0),
        step(equal, number(libc::SYS_execve)?, 5, 0),
        step(equal, number(libc::SYS_execveat)?, 4, 0),
        step(equal, number(libc::SYS_io_uring_setup)?, 3, 0),
        step(equal, number(libc::SYS_socket)?, 0, 3),
        step(load, AT_FIRST_ARGUMENT, 0, 0),
        step(equal, libc::AF_NETLINK as u32, 1, 0),
        step(answer, denied, 0, 0),
        step(answer, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    // SAFETY: the kernel copies the program, which it does not write to and which outlives the call.
    let done =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
    checked(done).map(drop)
}

#[cfg(test)]
mod tests;
