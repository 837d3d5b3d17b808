//! Cuts chunks of bytes into lines. Pure: knows no file.
//!
//! Owns where a line begins and ends, and what of it is a record. Does not own records of several lines (`file::quoted`), nor the file's
//! bytes (`file::inflate`).
//!
//! A byte order mark at position 0 is no part of the first line. A last line without a newline is a record if it is whole:
//! if it ends with the `}` that closes its first `{`. A writer stops anywhere, so any other rest may be half of a record; a line of CSV
//! always may.

use std::sync::Arc;

use dataflow::BlockBuilder;
use dataflow::block::TIME_UNKNOWN_MS;

use super::quoted::{Csv, Joined};

/// What some programs put in front of UTF-8.
pub(super) const MARK: &[u8] = b"\xef\xbb\xbf";

/// Where a file's lines stand, and the piece of a line that the last chunk ended with.
#[derive(Debug)]
pub(super) struct Lines {
    /// Offset of the first byte not yet given to [`feed`](Self::feed).
    offset: u64,
    /// Offset of the piece, or of the next line if there is none.
    line_start: u64,
    /// The beginning of the piece: `line_bytes_max` bytes, and room for its `\r`, a byte that shows its excess and a mark.
    piece: Vec<u8>,
    /// Bytes of the piece as it stands in the file, and the last of them.
    piece_bytes: u64,
    last: u8,
    line_bytes_max: usize,
    /// For CSV, whose records may be several lines.
    joined: Option<Box<Joined>>,
}

impl Lines {
    /// Lines from `position` on, where one starts.
    pub(super) fn new(position: u64, line_bytes_max: usize) -> Self {
        Self {
            offset: position,
            line_start: position,
            piece: Vec::new(),
            piece_bytes: 0,
            last: 0,
            line_bytes_max,
            joined: None,
        }
    }

    /// Records of CSV from `position` on, where one starts.
    pub(super) fn of_csv(csv: Csv, position: u64, line_bytes_max: usize) -> Self {
        let joined = Joined::new(csv, position, line_bytes_max);
        Self { joined: Some(Box::new(joined)), ..Self::new(position, line_bytes_max) }
    }

    /// The position after the last complete record. Blank lines in front of a CSV file's head are none: whoever began behind them would take the head for
    /// a record.
    pub(super) fn next(&self) -> u64 {
        if !self.is_past_head() {
            return 0;
        }
        let open = self.joined.as_ref().and_then(|joined| joined.open_at());
        open.unwrap_or(self.line_start)
    }

    /// The first record of a CSV file, if it names the fields and was met.
    pub(super) fn head(&self) -> Option<&Arc<[u8]>> {
        self.joined.as_ref()?.head()
    }

    /// Whether that was met, or is none.
    pub(super) fn is_past_head(&self) -> bool {
        self.joined.as_ref().is_none_or(|joined| joined.is_past_head())
    }

    /// Bytes seen so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Pushes lines of `chunk` into `block` until one of them ends; returns the bytes used.
    pub(super) fn feed(&mut self, chunk: &[u8], block: &mut BlockBuilder) -> usize {
        let mut used = 0;
        if let Some(joined) = &mut self.joined {
            // What the block before had no room for.
            joined.advance(block, false);
            block.skip_to(self.next().into());
        }
        while used < chunk.len() && !block.is_full() {
            let rest = &chunk[used..];
            let Some(length) = memchr::memchr(b'\n', rest) else {
                self.keep(rest);
                self.offset += rest.len() as u64;
                return chunk.len();
            };
            self.offset += length as u64 + 1;
            used += length + 1;
            if self.piece.is_empty() {
                self.push(block, &rest[..length], length as u64);
            } else {
                self.keep(&rest[..length]);
                self.push_piece(block);
            }
            self.line_start = self.offset;
            block.skip_to(self.next().into());
        }
        used
    }

    /// The file has ended. What is left is a line too if it is whole, or if nothing can follow it (`is_final`); returns how
    /// many bytes are left for later otherwise.
    pub(super) fn finish(&mut self, block: &mut BlockBuilder, is_final: bool) -> u64 {
        if self.joined.is_some() {
            return self.finish_joined(block, is_final);
        }
        if !self.piece.is_empty() {
            let is_all_here = self.piece_bytes == self.piece.len() as u64;
            if !(is_final || is_all_here && is_whole(&self.piece)) {
                return self.piece_bytes;
            }
            self.push_piece(block);
        }
        self.line_start = self.offset;
        block.skip_to(self.offset.into());
        0
    }

    /// The same for CSV: no line without its end is known to be whole, nor is one that ends within quotes.
    fn finish_joined(&mut self, block: &mut BlockBuilder, is_final: bool) -> u64 {
        if is_final && !self.piece.is_empty() {
            self.push_piece(block);
            self.line_start = self.offset;
        }
        if let Some(joined) = &mut self.joined {
            joined.advance(block, is_final);
        }
        let next = self.next();
        block.skip_to(next.into());
        self.offset - next
    }

    /// True if what is left for later is nothing but blanks.
    pub(super) fn is_blank(&self) -> bool {
        let is_open = self.joined.as_ref().is_some_and(|joined| joined.open_at().is_some());
        !is_open && self.piece.iter().all(u8::is_ascii_whitespace)
    }

    /// Keeps a piece within the bound: one byte more than it, and room for what is no part of it, tell that the line is too
    /// long.
    fn keep(&mut self, bytes: &[u8]) {
        self.piece_bytes += bytes.len() as u64;
        self.last = bytes.last().copied().unwrap_or(self.last);
        let room = (self.line_bytes_max + 2 + MARK.len()).saturating_sub(self.piece.len());
        self.piece.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn push_piece(&mut self, block: &mut BlockBuilder) {
        let mut piece = std::mem::take(&mut self.piece);
        let ends_with_return = self.last == b'\r' && self.piece_bytes > piece.len() as u64;
        let whole = std::mem::take(&mut self.piece_bytes) - u64::from(ends_with_return);
        self.push(block, &piece, whole);
        piece.clear();
        // One long line must not hold its memory for ever.
        piece.shrink_to(1 << 20);
        self.piece = piece;
    }

    /// Pushes a line of which the file has `whole` bytes; what is above the bound is cut off, and its length told.
    fn push(&mut self, block: &mut BlockBuilder, line: &[u8], whole: u64) {
        if let Some(joined) = &mut self.joined {
            return joined.line(
                self.line_start,
                &line[..line.len().min(self.line_bytes_max + 1)],
                whole,
                block,
            );
        }
        let is_whole = line.len() as u64 == whole;
        let (line, whole) = match line.strip_prefix(MARK) {
            Some(line) if self.line_start == 0 => (line, whole - MARK.len() as u64),
            Some(_) | None => (line, whole),
        };
        let (line, whole) = match line.strip_suffix(b"\r") {
            Some(line) if is_whole => (line, whole - 1),
            Some(_) | None => (line, whole),
        };
        if !line.is_empty() {
            let line = &line[..line.len().min(self.line_bytes_max + 1)];
            block.push(self.line_start, TIME_UNKNOWN_MS, Some(line));
            if whole > line.len() as u64 {
                block.cut(whole);
            }
        }
    }
}

/// True if the line ends with the brace that closes its first one.
fn is_whole(line: &[u8]) -> bool {
    let (mut depth, mut in_text, mut is_escaped) = (0_i64, false, false);
    for byte in line {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => depth += 1,
            b'}' | b']' if !in_text => depth -= 1,
            _ => {}
        }
    }
    !in_text && depth <= 0 && line.trim_ascii_end().ends_with(b"}")
}
