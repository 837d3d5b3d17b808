//! Copies of files: whether one has the same bytes as another one, whether its name is that of a copy, and whether it is compressed.
//!
//! Owns the comparison, so many bytes a call, the beginnings of packed files, and what a copy is called. Does not own which files are
//! compared, and what follows: those who read files do.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are compared at once, and at one call: the rest waits for the next look.
const PIECE_BYTES: usize = 256 << 10;
const CALL_BYTES: u64 = 256 << 20;

/// How a file compares with an older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alike {
    /// All of it is the other one's beginning, as far as was compared.
    SoFar,
    /// It has other bytes, or more.
    Other,
}

/// Compares all of `file` with the beginning of `original`, from `compared` on, and moves that.
///
/// # Errors
/// When one of them cannot be read.
pub fn compare(file: &File, original: &File, compared: &mut u64) -> io::Result<Alike> {
    let (mut own, mut other) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
    let until = compared.saturating_add(CALL_BYTES);
    while *compared < until {
        let read = read_at(file, &mut own, *compared)?;
        if read == 0 {
            break;
        }
        let of_original = read_at(original, &mut other[..read], *compared)?;
        if own[..read] != other[..of_original] {
            return Ok(Alike::Other);
        }
        *compared += read as u64;
    }
    Ok(Alike::SoFar)
}

/// Whether it begins as files do that gzip, zstd, bzip2, xz, lz4, zip or compress have made. No text begins so, nor one whose first word is `BZh`.
pub fn is_compressed(file: &File) -> bool {
    let mut head = [0; 6];
    let head = match read_at(file, &mut head, 0) {
        Ok(read) => &head[..read],
        Err(_) => return false,
    };
    matches!(
        head,
        [0x1f, 0x8b | 0x9d, ..]
            | [0x28, 0xb5, 0x2f, 0xfd, ..]
            // A frame that `zstd` skips: `pzstd` begins its files with one.
            | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]
            | [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41]
            | [0xfd, b'7', b'z', b'X', b'Z', 0]
            | [0x04, 0x22, 0x4d, 0x18, ..]
            | [b'P', b'K', 3, 4, ..]
    )
}

/// Whether `path` may be called so because it is a copy of `original`: a longer name that begins alike, as `app.log.1` and `app-2026.log` do with `app.log`.
pub fn is_name_of_copy(original: &str, path: &str) -> bool {
    let (original, path) = (Path::new(original), Path::new(path));
    let (Some(name), Some(other), Some(stem)) = (
        original.file_name().and_then(|name| name.to_str()),
        path.file_name().and_then(|name| name.to_str()),
        original.file_stem().and_then(|stem| stem.to_str()),
    ) else {
        return false;
    };
    other.len() > name.len() && other.starts_with(stem)
}

fn read_at(file: &File, out: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < out.len() {
        match file.read_at(&mut out[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests;
