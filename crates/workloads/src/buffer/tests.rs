use super::*;

fn workload(record_bytes: usize) -> Workload {
    let spec = Spec { requests: 3, records_per_request: 512, record_bytes, ..Spec::default() };
    Workload::new(spec).expect("valid")
}

/// The fields of a message: numbers and, of those with a length, their bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (first, rest) = bytes.split_first().expect("a whole number");
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let len = match key & 7 {
            0 => {
                varint(&mut bytes);
                0
            }
            1 => 8,
            2 => varint(&mut bytes) as usize,
            other => panic!("wire type {other}"),
        };
        found.push((key >> 3, &bytes[..len]));
        bytes = &bytes[len..];
    }
    found
}

#[test]
fn a_request_holds_as_many_records_as_it_says() {
    let workload = workload(300);
    let mut bytes = Vec::new();
    workload.write(1, workload.start_ns(1), &mut bytes);
    let resources = fields(&bytes);
    assert_eq!(resources.len(), RESOURCES_PER_REQUEST as usize);
    let mut records = 0;
    for (_, resource) in resources {
        let scopes: Vec<_> = fields(resource).into_iter().filter(|(field, _)| *field == 2).collect();
        assert_eq!(scopes.len(), 1);
        records += fields(scopes[0].1).iter().filter(|(field, _)| *field == 2).count();
    }
    assert_eq!(records, 512);
}

#[test]
fn the_same_request_is_the_same_bytes_and_another_is_not() {
    let workload = workload(300);
    let of = |n| {
        let mut bytes = Vec::new();
        workload.write(n, workload.start_ns(n), &mut bytes);
        bytes
    };
    assert_eq!(of(2), of(2));
    assert_ne!(of(1), of(2));
}

#[test]
fn records_have_the_size_that_was_asked_for_and_compress_as_published() {
    for (record_bytes, compressed) in [(2_700, 746..827), (300, 60..140)] {
        let workload = workload(record_bytes);
        let mut bytes = Vec::new();
        workload.write(0, workload.start_ns(0), &mut bytes);
        let each = bytes.len() / 512;
        assert!(each.abs_diff(record_bytes) * 20 < record_bytes, "{each} bytes instead of {record_bytes}");
        let packed = zstd::bulk::compress(&bytes, 1).expect("compresses").len() / 512;
        assert!(compressed.contains(&packed), "{record_bytes} bytes become {packed}");
    }
}

#[test]
fn what_is_expected_of_two_requests_is_what_is_expected_of_each() {
    let workload = workload(300);
    assert_eq!(workload.expected(2).rows, 1_024);
    assert_ne!(workload.expected(1).checksum, workload.expected(2).checksum);
}

#[test]
fn sizes_beyond_their_bounds_are_refused() {
    let of = |change: fn(&mut Spec)| {
        let mut spec = Spec::default();
        change(&mut spec);
        Workload::new(spec).err()
    };
    assert_eq!(of(|spec| spec.requests = 0), Some(SpecError::NoRequests));
    assert_eq!(of(|spec| spec.records_per_request = 6), Some(SpecError::Records(6)));
    assert_eq!(of(|spec| spec.record_bytes = 299), Some(SpecError::Bytes(299)));
}
