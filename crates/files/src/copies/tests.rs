use super::*;

fn file(bytes: &[u8]) -> File {
    let path = std::env::temp_dir().join(format!("forebay-packed-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("written");
    let file = File::open(&path).expect("it opens");
    std::fs::remove_file(&path).expect("removed");
    file
}

#[test]
fn what_was_compressed_is_told_from_text_that_begins_nearly_so() {
    let packed: [&[u8]; 8] = [
        b"\x1f\x8b\x08\0\0\0\0\0",
        b"\x1f\x9d\x90abc",
        b"\x28\xb5\x2f\xfd\x24\0\x01\0",
        b"\x50\x2a\x4d\x18\x04\0\0\0\x07\0\0\0\x28\xb5\x2f\xfd",
        b"BZh91AY&SY\0\0",
        b"\xfd7zXZ\0\0\x04",
        b"\x04\x22\x4d\x18\x64\x40",
        b"PK\x03\x04\x14\0",
    ];
    for bytes in packed {
        assert!(is_compressed(&file(bytes)), "{bytes:x?}");
    }
    for text in
        ["", "B", "BZh", "BZhost,count\n", "BZh9,count\n", "P*M,count\n", "PK,count\n", "(5/2)\n", "{}\n"]
    {
        assert!(!is_compressed(&file(text.as_bytes())), "{text}");
    }
}
