//! From the bytes of a connection to messages (RFC 6587). Pure.
//!
//! Owns both framings, which may change from message to message, and the bound on one message. Does not own what a message says
//! (`syslog::parse`), nor datagrams, of which each is one message (`syslog::udp`).
//!
//! | a message begins with        | ends                                                      |
//! |------------------------------|-----------------------------------------------------------|
//! | a number, a blank, `<` and a digit | after so many bytes from the `<` on                 |
//! | anything else                | at a line break or a zero byte (which Python's handler sends) |
//!
//! What is longer than the bound is cut there, and the rest of it is stepped over without being kept.

use memchr::memchr2;

/// Digits of a length; more are text.
const DIGITS_MAX: usize = 9;

/// Bytes that came, and what of them was taken.
#[derive(Debug)]
pub(super) struct Frames {
    /// What came and was not taken is behind `begin`.
    pub(super) buffer: Vec<u8>,
    begin: usize,
    /// Up to where no end of a line was found.
    searched: usize,
    skip: Skip,
    message_bytes_max: usize,
}

/// The rest of a message that was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skip {
    Nothing,
    Bytes(u64),
    Line,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame<'b> {
    pub(super) bytes: &'b [u8],
    /// More of it was sent.
    pub(super) is_cut: bool,
}

/// How a message begins.
enum Begin {
    /// Not known before more has come.
    Unknown,
    /// Behind so many bytes of a length.
    Counted {
        head: usize,
        length: u64,
    },
    Line,
}

impl Frames {
    pub(super) fn new(message_bytes_max: usize) -> Self {
        Self { buffer: Vec::new(), begin: 0, searched: 0, skip: Skip::Nothing, message_bytes_max }
    }

    /// The next whole message; `None` before more has come.
    pub(super) fn next(&mut self) -> Option<Frame<'_>> {
        self.step_over()?;
        let rest = &self.buffer[self.begin..];
        let blanks = rest.iter().take_while(|byte| b" \r\n\0".contains(byte)).count();
        self.begin += blanks;
        let (begin, max) = (self.begin, self.message_bytes_max);
        let rest = &self.buffer[begin..];
        match begins(rest) {
            Begin::Unknown => None,
            Begin::Counted { head, length } => {
                let kept = usize::try_from(length).unwrap_or(usize::MAX).min(max);
                let bytes = rest.get(head..head + kept)?;
                self.begin += head + kept;
                self.skip = Skip::Bytes(length - kept as u64);
                Some(Frame { bytes, is_cut: length > kept as u64 })
            }
            Begin::Line => {
                let from = self.searched.saturating_sub(begin).min(rest.len());
                let end = memchr2(b'\n', 0, &rest[from..]).map(|at| from + at);
                match end {
                    Some(end) => {
                        self.begin += end + 1;
                        self.searched = self.begin;
                        Some(Frame { bytes: &rest[..end.min(max)], is_cut: end > max })
                    }
                    None if rest.len() > max => {
                        self.begin += max;
                        self.skip = Skip::Line;
                        Some(Frame { bytes: &rest[..max], is_cut: true })
                    }
                    None => {
                        self.searched = self.buffer.len();
                        None
                    }
                }
            }
        }
    }

    /// What is here of a message that will not go on; `None` if there is nothing. `is_whole` if a line without an end counts as one.
    pub(super) fn last(&mut self, is_whole: bool) -> Option<Frame<'_>> {
        self.step_over()?;
        let rest = &self.buffer[self.begin..];
        self.begin = self.buffer.len();
        let (head, is_counted) = match begins(rest) {
            Begin::Counted { head, .. } => (head, true),
            Begin::Unknown | Begin::Line => (0, false),
        };
        let bytes = &rest[head..];
        (!bytes.trim_ascii().is_empty()).then_some(Frame { bytes, is_cut: is_counted || !is_whole })
    }

    /// Whether a message has begun and not ended.
    pub(super) fn is_within(&self) -> bool {
        self.begin < self.buffer.len() || self.skip != Skip::Nothing
    }

    /// Gives back the room of what was taken.
    pub(super) fn compact(&mut self) {
        self.buffer.drain(..self.begin);
        self.searched = self.searched.saturating_sub(self.begin);
        self.begin = 0;
    }

    /// Steps over the rest of a message that was cut; `None` while it goes on.
    fn step_over(&mut self) -> Option<()> {
        let rest = &self.buffer[self.begin..];
        match self.skip {
            Skip::Nothing => return Some(()),
            Skip::Bytes(left) => {
                let here = (rest.len() as u64).min(left);
                self.begin += here as usize;
                self.skip = if here == left { Skip::Nothing } else { Skip::Bytes(left - here) };
            }
            Skip::Line => match memchr2(b'\n', 0, rest) {
                Some(end) => {
                    self.begin += end + 1;
                    self.skip = Skip::Nothing;
                }
                None => self.begin = self.buffer.len(),
            },
        }
        self.searched = self.begin;
        (self.skip == Skip::Nothing).then_some(())
    }
}

fn begins(rest: &[u8]) -> Begin {
    if !matches!(rest.first(), Some(b'1'..=b'9')) {
        return if rest.is_empty() { Begin::Unknown } else { Begin::Line };
    }
    let digits = rest.iter().take(DIGITS_MAX + 1).take_while(|byte| byte.is_ascii_digit()).count();
    match (digits, &rest[digits..]) {
        (0..=DIGITS_MAX, [] | [b' '] | [b' ', b'<']) => Begin::Unknown,
        // Of a priority: `404 <html>` is a line.
        (0..=DIGITS_MAX, [b' ', b'<', b'0'..=b'9', ..]) => {
            let length = rest[..digits].iter().fold(0, |length, digit| length * 10 + u64::from(digit - b'0'));
            Begin::Counted { head: digits + 1, length }
        }
        _ => Begin::Line,
    }
}

#[cfg(test)]
mod tests;
