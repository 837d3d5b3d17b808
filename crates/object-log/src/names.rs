//! What the objects of a partition are called.
//!
//! Owns the names. Does not own when they come and go.
//!
//! ```text
//! <log>/p/<partition>/root                                       register: what the partition holds
//! <log>/p/<partition>/acks/<consumer>                            register: how far a consumer has come
//! <log>/p/<partition>/note                                       register: what the owner notes beside its appends
//! <log>/p/<partition>/data/<queue>/<epoch>-<run>/<number>         data object
//! <log>/p/<partition>/segments/<queue>/<epoch>-<run>/<number>     manifest segment
//! ```
//!
//! `queue` is drawn when the partition is created, `run` when it is claimed, so that no name is ever used twice: not by a log that was deleted and
//! created again, nor by one that was restored from a backup.

use std::fmt;

use store::{Key, KeyError, Prefix};

/// Partitions that a log may have.
pub const PARTITIONS_MAX: u32 = 4_096;

/// Bytes of a consumer's name.
pub const CONSUMER_BYTES_MAX: usize = 64;

/// Drawn when a partition is created; distinguishes it from a later one of the same name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u128);

impl fmt::Display for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// One object or segment that an owner has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Written {
    /// The owner's epoch.
    pub epoch: u64,
    /// The owner's random number.
    pub run: u64,
    /// Its number among those of this owner, from 0.
    pub number: u64,
}

/// The keys of the objects of one partition.
#[derive(Clone, Debug)]
pub struct Names {
    base: Prefix,
}

impl Names {
    /// The names of partition `partition` of the log at `log`.
    ///
    /// # Errors
    /// When `log` is too long.
    pub fn new(log: &Prefix, partition: u32) -> Result<Self, KeyError> {
        let base = Prefix::from(log.join(&format!("p/{partition}"))?);
        let names = Self { base };
        // The longest of all, so that no other can fail.
        names.base.join(&format!(
            "segments/{}/{}/{:020}",
            QueueId(u128::MAX),
            folder(u64::MAX, u64::MAX),
            u64::MAX
        ))?;
        names.base.join(&format!("acks/{}", "x".repeat(CONSUMER_BYTES_MAX)))?;
        Ok(names)
    }

    /// The folder of all of it.
    pub fn base(&self) -> &Prefix {
        &self.base
    }

    /// The key of the root.
    pub fn root(&self) -> Key {
        self.key("root")
    }

    /// The key of what the owner notes beside its appends.
    pub fn note(&self) -> Key {
        self.key("note")
    }

    /// The key of a consumer's acknowledgement; the name has been checked by [`is_consumer`].
    pub fn ack(&self, consumer: &str) -> Key {
        self.key(&format!("acks/{consumer}"))
    }

    /// The folder of all data objects.
    pub fn data(&self) -> Prefix {
        self.key("data").into()
    }

    /// The folder of all manifest segments.
    pub fn segments(&self) -> Prefix {
        self.key("segments").into()
    }

    /// The key of a data object.
    pub fn object(&self, queue: QueueId, written: Written) -> Key {
        self.written("data", queue, written)
    }

    /// The key of a manifest segment.
    pub fn segment(&self, queue: QueueId, written: Written) -> Key {
        self.written("segments", queue, written)
    }

    /// What a key below [`data`](Self::data) or [`segments`](Self::segments) names; `None` for a foreign one.
    pub fn parse(&self, key: &Key) -> Option<(QueueId, Written)> {
        let rest = key.as_str().strip_prefix(self.base.as_str())?.strip_prefix('/')?;
        let mut parts = rest.split('/').skip(1);
        let queue = u128::from_str_radix(exact(parts.next()?, 32)?, 16).ok()?;
        let (epoch, run) = parts.next()?.split_once('-')?;
        let written = Written {
            epoch: exact(epoch, 20)?.parse().ok()?,
            run: u64::from_str_radix(exact(run, 16)?, 16).ok()?,
            number: exact(parts.next()?, 20)?.parse().ok()?,
        };
        parts.next().is_none().then_some((QueueId(queue), written))
    }

    fn written(&self, kind: &str, queue: QueueId, Written { epoch, run, number }: Written) -> Key {
        self.key(&format!("{kind}/{queue}/{}/{number:020}", folder(epoch, run)))
    }

    fn key(&self, rest: &str) -> Key {
        self.base.join(rest).expect("the longest name was tried in `new`")
    }
}

fn folder(epoch: u64, run: u64) -> String {
    format!("{epoch:020}-{run:016x}")
}

fn exact(text: &str, length: usize) -> Option<&str> {
    (text.len() == length).then_some(text)
}

/// Whether a text can name a consumer: what a pipeline may be called.
pub fn is_consumer(name: &str) -> bool {
    name.len() <= CONSUMER_BYTES_MAX && !name.contains('/') && Key::new(name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back_and_a_foreign_one_is_not() {
        let names = Names::new(&Prefix::new("logs/orders").unwrap(), 3).unwrap();
        let (queue, written) = (QueueId(7), Written { epoch: 2, run: u64::MAX, number: 41 });
        for key in [names.object(queue, written), names.segment(queue, written)] {
            assert_eq!(names.parse(&key), Some((queue, written)), "{key}");
        }
        let key = names.object(queue, written).to_string();
        assert_eq!(
            key,
            "logs/orders/p/3/data/00000000000000000000000000000007/00000000000000000002-ffffffffffffffff/00000000000000000041"
        );
        for foreign in [
            key.replace("p/3", "p/4"),
            key.replace("0041", "041"),
            format!("{key}/x"),
            key.replace("-f", "-g"),
        ] {
            assert_eq!(names.parse(&Key::new(foreign.clone()).unwrap()), None, "{foreign}");
        }
        let root = Names::new(&Prefix::root(), 0).unwrap();
        assert_eq!(root.root().as_str(), "p/0/root");
    }

    #[test]
    fn a_consumer_has_the_name_of_a_pipeline() {
        assert!(is_consumer("user-events") && is_consumer(&"x".repeat(64)));
        for bad in ["", "a/b", ".a", "ä", &"x".repeat(65)] {
            assert!(!is_consumer(bad), "{bad}");
        }
    }
}
