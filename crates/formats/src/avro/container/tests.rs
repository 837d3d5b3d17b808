use testkit::Fuzz;

use super::*;
use crate::avro::tests::written::{long, sized};

const SCHEMA: &str = r#"{"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}"#;
const SYNC: &[u8; 16] = b"the sync of this";

/// A file with this metadata and these blocks, each with the records that it says it has.
fn file(metadata: &[(&str, &str)], blocks: &[(i64, &[u8])]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    long(metadata.len() as i64, &mut bytes);
    for (name, value) in metadata {
        sized(name.as_bytes(), &mut bytes);
        sized(value.as_bytes(), &mut bytes);
    }
    bytes.push(0);
    bytes.extend(SYNC);
    for (records, content) in blocks {
        long(*records, &mut bytes);
        sized(content, &mut bytes);
        bytes.extend(SYNC);
    }
    bytes
}

/// The codec of a file, and its blocks.
type Read = (Codec, Vec<(u64, Vec<u8>)>);

/// What is in a file, unless something is wrong with it.
fn read(bytes: &[u8]) -> Result<Read, ContainerError> {
    let mut file = Container::open(bytes)?;
    let mut blocks = Vec::new();
    while let Some(block) = file.next_block()? {
        blocks.push((block.records, block.bytes.to_vec()));
    }
    Ok((file.codec(), blocks))
}

#[test]
fn a_file_is_its_schema_its_codec_and_its_blocks() {
    let bytes = file(
        &[("avro.schema", SCHEMA), ("avro.codec", "deflate"), ("by", "a test")],
        &[(2, b"ab"), (0, b"")],
    );
    assert!(is_container(&bytes));
    assert_eq!(Container::open(&bytes).unwrap().schema(), SCHEMA);
    assert_eq!(read(&bytes), Ok((Codec::Deflate, vec![(2, b"ab".to_vec()), (0, Vec::new())])));
    let plain = file(&[("avro.schema", SCHEMA)], &[]);
    assert_eq!(read(&plain), Ok((Codec::Null, Vec::new())));
    for (word, codec) in [("null", Codec::Null), ("snappy", Codec::Snappy), ("zstandard", Codec::Zstandard)] {
        assert_eq!(
            read(&file(&[("avro.codec", word), ("avro.schema", SCHEMA)], &[])),
            Ok((codec, Vec::new()))
        );
    }
    let refused = read(&file(&[("avro.codec", "xz"), ("avro.schema", SCHEMA)], &[])).unwrap_err();
    assert!(refused.to_string().starts_with("the codec `xz` is not read"), "{refused}");
}

#[test]
fn a_file_that_breaks_off_or_lies_is_refused_wherever_that_is() {
    let good = file(&[("avro.schema", SCHEMA)], &[(2, b"ab"), (1, b"c")]);
    let blocks = [good.len() - 16 - 3, good.len() - 2 * (16 + 3) - 1];
    for end in 0..good.len() {
        // Between blocks nothing shows that more was meant.
        let is_whole = blocks.contains(&end);
        assert_eq!(read(&good[..end]).is_ok(), is_whole, "{end} of {}", good.len());
    }
    let message = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert_eq!(message(b"{\"a\":1}"), "byte `0`: an object container file begins with `Obj` and a byte 1");
    assert!(message(&file(&[("schema", SCHEMA)], &[])).contains("no `avro.schema`"));
    assert!(message(&file(&[("avro.schema", SCHEMA)], &[(-1, b"a")])).contains("cannot have `-1` records"));
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert!(message(&damaged).contains("does not end with the sync of the head"), "{}", message(&damaged));
    let mut long_block = good[..good.len() - 18].to_vec();
    long(1 << 40, &mut long_block);
    assert!(message(&long_block).contains("does not fit"), "{}", message(&long_block));
}

/// Whatever comes: no panic, no memory but that of the file's own bytes, and no more blocks than it has room for.
#[test]
fn fuzz_avro_container() {
    let good = file(&[("avro.schema", SCHEMA), ("avro.codec", "null")], &[(2, b"ab"), (1, b"c")]);
    Fuzz::new("avro container")
        .example(&good)
        .words([&b"avro.schema"[..], b"avro.codec", SYNC, &MAGIC])
        .memory_max(64 << 10, 8)
        .run(6_000, |bytes| {
            if let Ok((_, blocks)) = read(bytes) {
                assert!(blocks.len() * 18 <= bytes.len());
                assert!(blocks.iter().map(|(_, content)| content.len()).sum::<usize>() <= bytes.len());
            }
        });
}
