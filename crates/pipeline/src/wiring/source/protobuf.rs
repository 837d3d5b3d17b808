//! The types of Protocol Buffers from files.
//!
//! Owns which file is what, and where imports are looked for. Does not own what a file says (`formats::protobuf`).

use std::io::{ErrorKind, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use formats::protobuf::{DESCRIPTORS_BYTES_MAX, Types};

/// The types of `file`: the text of a `.proto` file, whose imports are looked for in its folder and then in `import_paths`, or a descriptor set.
///
/// # Errors
/// Why they cannot be used, in words.
pub(super) fn types(file: &Path, import_paths: &[String]) -> Result<Types, String> {
    if file.extension().is_none_or(|extension| extension != "proto") {
        let bytes = bytes_of(file).map_err(|error| error.to_string())?;
        return Types::of_set(&bytes).map_err(|error| error.to_string());
    }
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let folders: Vec<PathBuf> =
        file.parent().map(Path::to_owned).into_iter().chain(import_paths.iter().map(PathBuf::from)).collect();
    let root = (name.clone(), file.to_owned());
    let open = move |wanted: &str| {
        if wanted == root.0 {
            return text_of(&root.1).map(Some);
        }
        // The name of an import stays below its folder, as `protoc` has it.
        if !Path::new(wanted).components().all(|part| matches!(part, Component::Normal(_))) {
            return Ok(None);
        }
        for folder in &folders {
            match text_of(&folder.join(wanted)) {
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                found => return found.map(Some),
            }
        }
        Ok(None)
    };
    Types::of_text(&name, Arc::new(open)).map_err(|error| error.to_string())
}

fn text_of(path: &Path) -> std::io::Result<String> {
    String::from_utf8(bytes_of(path)?).map_err(|_| std::io::Error::other("its text is not in UTF-8"))
}

/// What a file holds, which is not read beyond what types may have.
fn bytes_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(DESCRIPTORS_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
