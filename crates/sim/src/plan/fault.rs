//! The faults, as a plan names them.
//!
//! Owns their kinds, and what each says of when it strikes and for how long. Does not own which a seed has ([`super::drawn`] and others beside it),
//! nor what one does (`drive::strikes`, and the part of the world it hits).

use std::fmt;

/// When a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At a simulated time, microseconds.
    At(u64),
    /// Right after so many polls of the engine's tasks: any await point is as likely as any other.
    Poll(u64),
}

/// What becomes of one put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutFault {
    /// Not done, and the writer knows.
    Refused,
    /// Done, the answer is lost.
    LostAfter,
    /// Not done, the answer is lost.
    LostBefore,
    /// Done much later, the answer is lost at once.
    LostLate(u64),
    /// Seen by readers but not durable, the answer is lost. As a lost answer on object storage.
    Unhardened,
    /// Done, after so many milliseconds.
    Slow(u64),
    /// Its process dies in the middle of the bytes, and is started again so many milliseconds later.
    Torn(u64),
    /// A proxy sends it twice: the first is done, and the answer that arrives is that of the second, which finds the object there.
    Twice,
}

/// What becomes of one insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertFault {
    /// The server has too many parts: not done, and the client knows.
    Refused,
    /// Done, the answer is lost.
    LostAfter,
    /// Not done, the answer is lost.
    LostBefore,
    /// A copy stays in the network for so many milliseconds; the client's connection is reset at once.
    LateCopy(u64),
    /// The server takes so many milliseconds; the client gives up before, or not.
    Slow(u64),
    /// The server dies before it has done anything, for so many milliseconds.
    CrashBefore(u64),
    /// The server dies between the token's line and the rows.
    CrashAtToken(u64),
    /// The server dies after the rows, before its answer.
    CrashAfter(u64),
    /// The rows are in the table, and the view fails: the client is told so.
    ViewFails,
    /// The rows are in the table; the server dies before the view has them.
    CrashBeforeView(u64),
    /// The same, between the token's line of the view's target and its rows.
    CrashAtViewToken(u64),
    /// Its bytes travel for so many milliseconds, and before the last of them others insert, one by one or as one block.
    OnTheWay {
        /// Milliseconds.
        ms: u64,
        /// Inserts.
        others: u64,
        /// As one block.
        at_once: bool,
    },
    /// A proxy sends the request twice: the second is turned down while the first runs, and its answer is the one that arrives.
    Twice,
}

/// What a person does to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// TRUNCATE, while the pipeline runs: rows and tokens are gone.
    Truncated,
    /// DROP and CREATE, while the pipeline runs: another table of that name, empty.
    Recreated,
    /// Another table with the same rows takes its place while the pipeline stands still and no insert is on its way.
    Exchanged,
}

/// One thing that goes wrong. Times in `_us` are simulated microseconds since the begin, those in `_ms` last as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are when, how long, and which operation by its number")]
pub enum Fault {
    /// The newest process dies, and is started again.
    Kill { when: When, down_ms: u64 },
    /// The newest process is stopped as by SIGSTOP, another takes over, and it wakes.
    Freeze { when: When, for_ms: u64, successor_ms: u64 },
    /// A second process is started beside the first.
    SecondOwner { when: When },
    /// The newest process is asked to stop, and started again.
    Stop { when: When, down_ms: u64 },
    /// Every process dies, and what was not durable may be gone.
    PowerLoss { when: When, down_ms: u64 },
    /// The store is replaced by an older copy of itself.
    Rollback { backup_us: u64, at_us: u64 },
    /// The store answers nothing.
    StoreAway { at_us: u64, for_ms: u64 },
    /// The store takes nothing.
    DiskFull { at_us: u64, for_ms: u64 },
    /// The server dies and comes back.
    ServerCrash { when: When, down_ms: u64 },
    /// The server cannot be reached.
    ServerAway { at_us: u64, for_ms: u64 },
    /// One table takes nothing and says nothing, while the others do.
    TableAway { at_us: u64, place: usize, for_ms: u64 },
    /// Others insert into the same table, one by one or as one block: asynchronous inserts that the server writes together.
    OtherWriters { at_us: u64, inserts: u64, at_once: bool },
    /// Somebody makes the memory for tokens of a table and its view's target smaller, and large again at once.
    Narrowed { at_us: u64 },
    /// A replica falls behind what is in the table.
    ReplicaLags { at_us: u64, node: u64, for_ms: u64 },
    /// From then on fsync fails, until the process has stopped and the disk is another.
    SyncFails { at_us: u64 },
    /// The wall clock of the newest process jumps.
    ClockJump { at_us: u64, by_ms: i64 },
    /// The server's wall clock jumps.
    ServerClockJump { at_us: u64, by_ms: i64 },
    /// The broker answers nothing.
    SourceAway { at_us: u64, for_ms: u64 },
    /// A partition has no leader for a while.
    PartitionLost { at_us: u64, partition: u32, for_ms: u64 },
    /// A partition gets a leader that lacks the newest so many records: later ones take their positions.
    Election { at_us: u64, partition: u32, records: u64 },
    /// A person changes the table.
    Table { at_us: u64, change: Change, down_ms: u64 },
    /// The oldest records of a partition that are still to be read are gone at the broker.
    Expiry { at_us: u64, partition: u32 },
    /// What arrives next in a partition has a flipped bit, until somebody copies it anew.
    Damage { at_us: u64, partition: u32 },
    /// The newest so many records of a partition are gone, and nobody writes to it any more: a file that is cut.
    Cut { at_us: u64, partition: u32, records: u64 },
    /// The newest process dies, and one is started that is to end when it has read what is there.
    Drain { when: When },
    /// One put to the store.
    Put { nth: u64, how: PutFault },
    /// One read, listing or delete fails, or is slow by so many milliseconds.
    Read { nth: u64, slow_ms: Option<u64> },
    /// One insert.
    Insert { nth: u64, how: InsertFault },
    /// One question to the server fails.
    Ask { nth: u64 },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
