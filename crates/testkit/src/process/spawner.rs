//! One thread starts every child and lives as long as the test process.
//!
//! Owns the birth of children, one at a time. Does not own their logs, signals and end (`process`).
//!
//! The kernel sends the parent-death signal when the *thread* that spawned a child ends. Tests run on threads that end with
//! the test, and a broker shared by several tests would die with the first of them; so children come from a thread that stays.

use super::*;

/// Held while a child is being born, and by [`without_forks`].
static BIRTH: Mutex<()> = Mutex::new(());

/// Runs `action` while no child is between fork and exec. Such a child holds a copy of every open socket, so a port
/// that is closed at that moment stays taken until the child's exec.
pub(crate) fn without_forks<T>(action: impl FnOnce() -> T) -> T {
    let _guard = BIRTH.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    action()
}

type Request = (Command, Sender<io::Result<i32>>);

/// Starts `command` from the thread that stays; gives its process id. The caller reaps it.
pub(super) fn spawn(command: Command) -> io::Result<i32> {
    static SPAWNER: OnceLock<Mutex<Sender<Request>>> = OnceLock::new();
    let requests = SPAWNER.get_or_init(|| {
        let (send, receive) = channel::<Request>();
        std::thread::spawn(move || {
            for (command, answer) in receive {
                // The asker waits for this answer and does nothing else, so it is there.
                let _ = answer.send(spawn_here(command));
            }
        });
        Mutex::new(send)
    });
    let (answer, outcome) = channel();
    let sent = requests.lock().unwrap_or_else(std::sync::PoisonError::into_inner).send((command, answer));
    sent.map_err(|_| io::Error::other("the spawning thread has ended"))?;
    outcome.recv().map_err(|_| io::Error::other("the spawning thread has ended"))?
}

fn spawn_here(mut command: Command) -> io::Result<i32> {
    let parent = std::process::id();
    // SAFETY: between fork and exec only async-signal-safe calls are made: prctl, getppid, _exit.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have died before the signal was asked for.
            if libc::getppid() as u32 != parent {
                libc::_exit(127);
            }
            Ok(())
        });
    }
    // The handle is dropped: it would reap the child without its usage.
    let child = without_forks(|| command.spawn())?; // It returns after the exec.
    Ok(child.id() as i32)
}
