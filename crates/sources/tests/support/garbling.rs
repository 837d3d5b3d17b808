//! A proxy in front of a broker that garbles entries on order, as a broker under load has been seen to do.
//!
//! Owns the copying of bytes and the order. A garbled entry has one byte changed behind its checksum. A broker's answers name its own address;
//! the proxy puts its own in place of that, so that clients come to it for everything. Does not own the broker, nor the proxy of HTTP that
//! `testkit` has.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What stands before an entry's checksum.
const CHECKSUM_MAGIC: [u8; 2] = [0x0e, 0x01];

/// The proxy. Its threads end with their connections.
pub struct Garbling {
    /// Where clients connect: `host:port`.
    authority: String,
    /// Entries that are still to be garbled.
    left: Arc<AtomicU32>,
}

impl Garbling {
    /// In front of the broker at `broker`: `host:port`, with a port of five digits, as its own.
    pub fn start(broker: &str) -> Self {
        let listener = std::iter::repeat_with(|| TcpListener::bind("127.0.0.1:0").expect("a free port"))
            .find(|listener| listener.local_addr().is_ok_and(|address| address.port() >= 10_000))
            .expect("the iterator has no end");
        let authority = listener.local_addr().expect("it listens").to_string();
        assert_eq!(authority.len(), broker.len(), "`{authority}` cannot stand in the place of `{broker}`");
        let left = Arc::new(AtomicU32::new(0));
        let (shared, own, broker) = (left.clone(), authority.clone(), broker.to_owned());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A broker that is not there: the client comes again.
                let Ok(socket) = TcpStream::connect(&broker) else { continue };
                let (up, down) =
                    (client.try_clone().expect("a socket"), socket.try_clone().expect("a socket"));
                std::thread::spawn(move || copy(up, socket, |_| ()));
                let (left, own, broker) = (shared.clone(), own.clone(), broker.clone());
                std::thread::spawn(move || {
                    copy(down, client, |bytes| {
                        rename(bytes, broker.as_bytes(), own.as_bytes());
                        garble(bytes, &left);
                    });
                });
            }
        });
        Self { authority, left }
    }

    /// Where clients connect: `host:port`.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Garbles so many of the next entries that go to clients.
    pub fn garble(&self, entries: u32) {
        self.left.store(entries, Ordering::SeqCst);
    }

    /// How many of them are left.
    pub fn left(&self) -> u32 {
        self.left.load(Ordering::SeqCst)
    }
}

/// Puts one name in the place of another of the same length.
fn rename(bytes: &mut [u8], from: &[u8], to: &[u8]) {
    let places: Vec<usize> =
        bytes.windows(from.len()).enumerate().filter(|(_, part)| *part == from).map(|(at, _)| at).collect();
    for at in places {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
}

fn garble(bytes: &mut [u8], left: &AtomicU32) {
    if let Some(at) = bytes.windows(2).position(|two| two == CHECKSUM_MAGIC)
        && at + 8 < bytes.len()
        && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    {
        bytes[at + 8] ^= 0x20;
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, change: impl Fn(&mut [u8])) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let bytes = &mut buffer[..count];
        change(bytes);
        if to.write_all(bytes).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
