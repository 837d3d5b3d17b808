//! Cuts chunks of bytes into lines. Pure: knows no file.

use dataflow::BlockBuilder;
use dataflow::block::TIME_UNKNOWN_MS;

/// Where a file's lines stand, and the piece of a line that the last chunk ended with.
#[derive(Debug)]
pub(super) struct Lines {
    /// Offset of the first byte not yet given to [`feed`](Self::feed).
    offset: u64,
    /// Offset of the piece, or of the next line if there is none.
    line_start: u64,
    /// At most `line_bytes_max + 1` bytes of the piece; two of them may be its `\r` and the byte that shows its excess.
    piece: Vec<u8>,
    /// Bytes of the piece as it stands in the file, and the last of them.
    piece_bytes: u64,
    last: u8,
    line_bytes_max: usize,
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
        }
    }

    /// The position after the last complete line.
    pub(super) fn next(&self) -> u64 {
        self.line_start
    }

    /// Pushes lines of `chunk` into `block` until one of them ends; returns the bytes used.
    pub(super) fn feed(&mut self, chunk: &[u8], block: &mut BlockBuilder) -> usize {
        let mut used = 0;
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
            block.skip_to(self.offset);
        }
        used
    }

    /// The file has ended: what is left is a line too.
    pub(super) fn finish(&mut self, block: &mut BlockBuilder) {
        if !self.piece.is_empty() {
            self.push_piece(block);
        }
        self.line_start = self.offset;
        block.skip_to(self.offset);
    }

    /// Keeps a piece within the bound: one byte more than it, and one for a `\r`, tell that the line is too long.
    fn keep(&mut self, bytes: &[u8]) {
        self.piece_bytes += bytes.len() as u64;
        self.last = bytes.last().copied().unwrap_or(self.last);
        let room = (self.line_bytes_max + 2).saturating_sub(self.piece.len());
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
    fn push(&self, block: &mut BlockBuilder, line: &[u8], whole: u64) {
        let is_whole = line.len() as u64 == whole;
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
