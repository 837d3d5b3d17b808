use super::*;

fn sample(body: Body) -> Record {
    Record { seq: 3, epoch: 2, nonce: vec![7; 16], written_at_ms: 1_700_000_000_000, body: Some(body) }
}

fn frame() -> Frame {
    Frame {
        table: 1,
        ordinal: 5,
        id: vec![9; 16],
        table_partition: "202611".into(),
        offset: 10,
        len: 100,
        rows: 3,
        crc32c: 0xdead_beef,
        probe_len: 2,
        origins_len: 0,
        layout: 0,
        made: None,
    }
}

fn made() -> Made {
    Made { runs: vec![Run { partition: 2, from: 300, next: 301 }], watermark_ms: -1 }
}

fn server() -> Sighting {
    Sighting {
        table: 1,
        table_uuid: "t".into(),
        feeds_views: false,
        facts: ::bytes::Bytes::from_static(&[8, 9, 0, 255]),
    }
}

fn question() -> Question {
    Question {
        table: 1,
        ordinal: 5,
        piece: 0,
        reason: 2,
        table_uuid: "t".into(),
        epoch: 2,
        asked_at_ms: 1_700_000_000_001,
    }
}

/// A position whose high half is not 0.
const IN_AN_ERA: Position = (77 << 64) | 5;

/// One of every body, with every field set.
fn samples() -> Vec<(&'static str, Record)> {
    let frontier = Frontier { table: 1, frontier: 4, window: 64, sent_below: None };
    let delta = StateDelta { step: 0, offset: 110, len: 20, crc32c: 1 };
    let counts = Counts {
        read: 21,
        passed: 5,
        filtered: 4,
        duplicates: 3,
        late: 1,
        dead_letters: 2,
        absorbed: 6,
        late_kept: 2,
    };
    let taken = TakenOver { from: 3, seq: 40, time_ms_max: 9 };
    let derived = Derived { rows: 7, dropped: 8, dead_letters: 9, absorbed: 0 };
    let partition = PartitionGenesis {
        stream: "events".into(),
        index: 2,
        identity: "id".into(),
        next_low: 42,
        leader_epoch: -1,
        input: 1,
        next_era: 0,
        taken_over: None,
    };
    let image = LaneImage {
        pipeline: "p".into(),
        partitions: vec![partition.clone()],
        times_ms_max: vec![i64::MIN],
        tables: vec![TableImage {
            name: "d.t".into(),
            frontier: 4,
            window: 64,
            next_ordinal: 6,
            server: Some(server()),
            pending: vec![PieceImage {
                frame: Some(frame()),
                piece: 0,
                generation: 1,
                segment: "s".into(),
                server: Some(server()),
                dead: false,
                sealed_at_ms: 5,
                question: None,
                verdict: 0,
                settled: false,
                first_row: 0,
            }],
            accepted_uuid: String::new(),
            layouts: Vec::new(),
            newest_layout: 0,
            sent_below: Some(5),
            takes_dead_letters: true,
            rows: Some(Rows { sealed: 12, settled: 8, refused: 1, replaced: 0 }),
        }],
        steps: vec![StepShape::new("dedup", "key")],
        watermark_ms: 8,
        idle: vec![2],
        inputs: vec![InputImage { name: "orders".into(), was_opened: true, counts: Some(counts) }],
        deltas: vec![DeltaImage { seq: 2, segment: "s".into(), delta: Some(delta) }],
        snapshot_bytes: 9,
        fates: vec![],
        forgotten: vec![],
        former_names: vec![],
        derived: Some(derived),
        absorbed: None,
        parts: vec![],
        before: None,
        passes: Vec::new(),
        newest_ms: 0,
        rewound: vec![],
        handed_over: vec![],
        next_version: 0,
    };
    let part = Part { kind: "step".into(), name: "1".into(), text: "filter: a > 1".into() };
    let fates = vec![Fates { partition: 1, from: 7, codes: vec![1, 2, 3, 4, 5], unsettled: vec![] }];
    let unsettled = vec![Unsettled { from: 8, next: 12, table: 1, frontier: 6 }];
    let with_unsettled = Fates { unsettled, ..fates[0].clone() };
    let with_unsettled = LaneImage { fates: vec![with_unsettled], ..LaneImage::default() };
    let place = RecordPlace::new(2, 41);
    let refused = Refusal { table: 1, ordinal: 4, piece: 3, record: Some(place) };
    let forgotten =
        [(2, false), (5, true)].map(|(partition, from_start)| Forgotten { partition, from_start, at_ms: 0 });
    let forgotten = Vec::from(forgotten);
    let with_fates = LaneImage { fates: fates.clone(), ..LaneImage::default() };
    let with_views = Sighting { feeds_views: true, facts: ::bytes::Bytes::new(), ..server() };
    let told = PieceImage { question: Some(question()), verdict: 2, ..PieceImage::default() };
    let accepted = TableImage { pending: vec![told], accepted_uuid: "t2".into(), ..TableImage::default() };
    let column = |name: &str, type_name: &str, default: &str| LayoutColumn {
        name: name.into(),
        type_name: type_name.into(),
        default: default.into(),
        is_required: default.is_empty(),
    };
    let columns = vec![column("id", "UInt64", ""), column("v", "Int8", "7")];
    let layouts = vec![Layout { table: 1, number: 2, columns }];
    let of_layout = || Frame { layout: 2, ..frame() };
    let with_layouts = TableImage { layouts: layouts.clone(), newest_layout: 2, ..TableImage::default() };
    let with_layouts = LaneImage { tables: vec![with_layouts], ..LaneImage::default() };
    let with_verdict = LaneImage { tables: vec![accepted], ..LaneImage::default() };
    vec![
        (
            "claim",
            sample(Body::Claim(Claim { owner: "host:1".into(), version: "0.1.0".into(), answers: false })),
        ),
        (
            "genesis",
            sample(Body::Genesis(Genesis {
                partitions: vec![partition],
                tables: vec![TableGenesis::of_rows("d.t"), TableGenesis::of_dead_letters("d.dead")],
                pipeline: "p".into(),
                steps: vec![StepShape::new("dedup", "key")],
                inputs: vec!["orders".into(), "payments".into()],
                opened: vec![0, 1],
                parts: vec![],
            })),
        ),
        (
            "seal",
            sample(Body::Seal(Seal {
                ranges: vec![Range { leader_epoch: 4, time_ms_max: -1, ..Range::new(0, 1, 9) }],
                segment: "p/lane-0/segments/x".into(),
                segment_bytes: 130,
                frames: vec![frame()],
                states: vec![delta],
                watermark_ms: i64::MIN,
                idle: vec![1],
                settled: vec![frontier],
                servers: vec![server()],
                counts: vec![InputCounts::of(1, counts)],
                rows: vec![TableRows { table: 1, rows: 3, replaced: 0 }],
                derived: Some(derived),
                refusals: vec![Refusal { table: 1, ordinal: 4, piece: 3, record: None }],
                fates: vec![],
                layouts: vec![],
                absorbed: None,
                next_version: 0,
            })),
        ),
        (
            "settle",
            sample(Body::Settle(Settle {
                settled: vec![frontier],
                servers: vec![server()],
                ..Default::default()
            })),
        ),
        (
            "generation",
            sample(Body::Generation(Generation {
                table: 1,
                ordinal: 5,
                piece: 0,
                generation: 2,
                server: Some(server()),
            })),
        ),
        (
            "split",
            sample(Body::Split(Split {
                table: 1,
                ordinal: 5,
                piece: 0,
                segment: "s".into(),
                pieces: vec![frame()],
                layouts: vec![],
            })),
        ),
        (
            "checkpoint",
            sample(Body::Checkpoint(Checkpoint {
                lane: Some(image),
                states: vec![StateObject { step: 0, object: "o".into(), len: 9, crc32c: 8 }],
                state_seq: 2,
                files: vec![],
            })),
        ),
        (
            "checkpoint-with-files",
            sample(Body::Checkpoint(Checkpoint {
                files: vec![StateFile { step: 1, object: "r".into(), len: 7 }],
                ..Checkpoint::default()
            })),
        ),
        ("seal-with-fates", sample(Body::Seal(Seal { fates, ..Seal::default() }))),
        (
            "checkpoint-with-fates",
            sample(Body::Checkpoint(Checkpoint { lane: Some(with_fates), ..Checkpoint::default() })),
        ),
        (
            "settle-with-views",
            sample(Body::Settle(Settle { settled: vec![], servers: vec![with_views], ..Default::default() })),
        ),
        (
            "checkpoint-with-a-verdict",
            sample(Body::Checkpoint(Checkpoint { lane: Some(with_verdict), ..Checkpoint::default() })),
        ),
        ("question", sample(Body::Question(question()))),
        (
            "answer",
            sample(Body::Answer(Answer {
                table: 1,
                ordinal: 5,
                piece: 0,
                verdict: 1,
                by: "someone@host".into(),
            })),
        ),
        (
            "seal_with_origins",
            sample(Body::Seal(Seal {
                segment: "s".into(),
                segment_bytes: 119,
                frames: vec![Frame { origins_len: 7, ..frame() }],
                ..Seal::default()
            })),
        ),
        (
            "seal-to-be-made-again",
            sample(Body::Seal(Seal {
                segment: "s".into(),
                segment_bytes: 112,
                frames: vec![Frame { made: Some(Box::new(made())), ..frame() }],
                ..Seal::default()
            })),
        ),
        (
            "seal-with-a-refused-record",
            sample(Body::Seal(Seal { refusals: vec![refused], ..Seal::default() })),
        ),
        (
            "checkpoint-with-unsettled-fates",
            sample(Body::Checkpoint(Checkpoint { lane: Some(with_unsettled), ..Checkpoint::default() })),
        ),
        ("forget", sample(Body::Forget(Forget { partitions: forgotten.clone(), by: "someone@host".into() }))),
        (
            "checkpoint-with-forgotten-partitions",
            sample(Body::Checkpoint(Checkpoint {
                lane: Some(LaneImage { forgotten, ..LaneImage::default() }),
                ..Checkpoint::default()
            })),
        ),
        (
            "seal-with-layouts",
            sample(Body::Seal(Seal {
                frames: vec![of_layout()],
                layouts: layouts.clone(),
                ..Seal::default()
            })),
        ),
        (
            "split-with-layouts",
            sample(Body::Split(Split { pieces: vec![of_layout()], layouts, ..Split::default() })),
        ),
        (
            "checkpoint-with-layouts",
            sample(Body::Checkpoint(Checkpoint { lane: Some(with_layouts), ..Checkpoint::default() })),
        ),
        ("rename", sample(Body::Rename(Rename { to: "q".into(), is_done: true, by: "someone@host".into() }))),
        ("arrival", sample(Body::Arrival(Arrival { from: "p".into(), by: "someone@host".into() }))),
        (
            "removal",
            sample(Body::Removal(Removal { is_done: true, by: "someone@host".into(), before: None })),
        ),
        (
            "checkpoint-with-former-names",
            sample(Body::Checkpoint(Checkpoint {
                lane: Some(LaneImage {
                    former_names: vec![FormerName {
                        name: "p".into(),
                        until_ms: 1_700_000_000_002,
                        from_ms: 0,
                    }],
                    ..LaneImage::default()
                }),
                ..Checkpoint::default()
            })),
        ),
        (
            "seal-with-absorbed",
            sample(Body::Seal(Seal {
                derived: Some(Derived { absorbed: 5, ..Derived::default() }),
                absorbed: Some(Absorbed { released: 4, held: 7, discarded: 0 }),
                ..Seal::default()
            })),
        ),
        (
            "checkpoint-with-absorbed",
            sample(Body::Checkpoint(Checkpoint {
                lane: Some(LaneImage {
                    absorbed: Some(Absorbed { released: 4, held: 7, discarded: 0 }),
                    ..LaneImage::default()
                }),
                ..Checkpoint::default()
            })),
        ),
        (
            "genesis-with-parts",
            sample(Body::Genesis(Genesis { parts: vec![part.clone()], ..Genesis::default() })),
        ),
        (
            "change",
            sample(Body::Change(Change {
                steps: vec![StepShape::new("dedup", "key"), StepShape::new("window", "size").absorbing()],
                kept: vec![KeptState { step: 1, before: 2 }],
                discarded: 5,
                parts: vec![part.clone()],
                by: "someone@host".into(),
            })),
        ),
        (
            "change-with-an-enum",
            sample(Body::Change(Change {
                steps: vec![StepShape {
                    enums: vec![KeptEnum {
                        of: "level".into(),
                        names: vec![EnumName { name: "low".into(), number: -1 }],
                    }],
                    ..StepShape::new("dedup", "key")
                }],
                ..Change::default()
            })),
        ),
        (
            "rewind",
            sample(Body::Rewind(Rewind {
                moves: vec![Move::new(2, 9, 4, -1)],
                emptied: vec![0, 1],
                discarded: 5,
                at_ms: 0,
                by: "someone@host".into(),
            })),
        ),
        (
            "checkpoint-after-a-change",
            sample(Body::Checkpoint(Checkpoint {
                lane: Some(LaneImage {
                    absorbed: Some(Absorbed { released: 4, held: 7, discarded: 2 }),
                    parts: vec![part],
                    rewound: vec![Rewound::new(2, 9)],
                    ..LaneImage::default()
                }),
                ..Checkpoint::default()
            })),
        ),
        ("hand-over", sample(Body::HandOver(HandOver { to: 1, partitions: vec![2, 5] }))),
        (
            "taken-over",
            sample(Body::Genesis(Genesis {
                partitions: vec![
                    PartitionGenesis { taken_over: Some(taken), ..PartitionGenesis::default() }.at(IN_AN_ERA),
                ],
                ..Genesis::default()
            })),
        ),
        (
            "checkpoint-of-long-positions",
            sample(Body::Checkpoint(Checkpoint {
                lane: Some(LaneImage {
                    rewound: vec![Rewound::new(2, IN_AN_ERA)],
                    handed_over: vec![HandedOver { partition: 2, to: 1, seq: 40 }],
                    ..LaneImage::default()
                }),
                ..Checkpoint::default()
            })),
        ),
        (
            "seal-of-long-positions",
            sample(Body::Seal(Seal {
                ranges: vec![Range::new(0, 1, IN_AN_ERA)],
                refusals: vec![Refusal { record: Some(RecordPlace::new(0, IN_AN_ERA)), ..refused }],
                ..Seal::default()
            })),
        ),
        (
            "seal-of-versions",
            sample(Body::Seal(Seal {
                rows: vec![TableRows { table: 1, rows: 3, replaced: 2 }],
                next_version: 5 << 20,
                ..Seal::default()
            })),
        ),
        (
            "checkpoint-of-versions",
            sample(Body::Checkpoint(Checkpoint {
                lane: Some(LaneImage {
                    tables: vec![TableImage {
                        rows: Some(Rows { sealed: 3, replaced: 2, ..Rows::default() }),
                        ..TableImage::default()
                    }],
                    next_version: 5 << 20,
                    ..LaneImage::default()
                }),
                ..Checkpoint::default()
            })),
        ),
        (
            "rewind-to-a-long-position",
            sample(Body::Rewind(Rewind { moves: vec![Move::new(0, IN_AN_ERA, 7, 3)], ..Rewind::default() })),
        ),
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The bytes that a program has written are those that it reads: a change here is a new format version.
#[test]
fn records_keep_their_golden_bytes() {
    let golden: Vec<(&str, &str)> =
        include_str!("golden.txt").lines().filter_map(|line| line.split_once(' ')).collect();
    let mut others = Vec::new();
    for (name, record) in samples() {
        let (expected, bytes) = (golden.iter().find(|(n, _)| *n == name), hex(&record.to_bytes()));
        if expected.map(|(_, expected)| *expected) != Some(bytes.as_str()) {
            others.push(format!("{name} {bytes}"));
        }
    }
    assert!(others.is_empty(), "other than the golden bytes:\n{}", others.join("\n"));
}

#[test]
fn records_read_back_as_written() {
    for (name, record) in samples() {
        assert_eq!(Record::from_bytes(3, &record.to_bytes()).as_ref(), Ok(&record), "{name}");
    }
}

#[test]
fn every_damaged_byte_is_noticed() {
    let bytes = samples()[2].1.to_bytes();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(Record::from_bytes(3, &damaged).is_err(), "byte {at}");
    }
    for len in 0..bytes.len() {
        assert!(Record::from_bytes(3, &bytes[..len]).is_err(), "cut to {len}");
    }
}

#[test]
fn a_record_under_another_number_is_refused() {
    let bytes = samples()[0].1.to_bytes();
    assert!(matches!(Record::from_bytes(4, &bytes), Err(RecordError::Damaged { seq: 4, .. })));
}

#[test]
fn another_format_is_named_as_such_with_the_way_out() {
    let mut bytes = samples()[0].1.to_bytes();
    bytes[3] = MAGIC[3] + 1;
    assert!(matches!(Record::from_bytes(3, &bytes), Err(RecordError::Later { .. })));
    bytes[3] = MAGIC[3] - 1;
    let error = Record::from_bytes(3, &bytes).expect_err("an earlier program's");
    assert!(matches!(error, RecordError::Earlier { .. }));
    assert!(error.to_string().contains("`forebay run FILE --drain`"), "{error}");
}

#[test]
fn a_position_keeps_its_order_and_both_halves() {
    let positions = [0, 5, u64::MAX.into(), 1 << 64, IN_AN_ERA, Position::MAX];
    assert!(positions.is_sorted());
    for position in positions {
        let (range, moved) = (Range::new(0, position, Position::MAX), Move::new(0, 0, position, -1));
        let genesis = PartitionGenesis::default().at(position);
        let read = [range.from(), moved.next(), genesis.next(), Rewound::new(0, position).read_to()];
        assert_eq!((read, range.next()), ([position; 4], Position::MAX));
        assert_eq!((RecordPlace::new(0, position).position(), moved.is_back()), (position, false));
    }
    assert!(Move::new(0, IN_AN_ERA, 7, -1).is_back(), "a lower era, whatever the low half");
    assert_eq!((shown(7).to_string(), shown(IN_AN_ERA).to_string()), ("7".into(), "77:5".into()));
}

#[test]
fn counts_add_up_or_not() {
    let good = Counts {
        read: 15,
        passed: 5,
        filtered: 4,
        duplicates: 3,
        dead_letters: 2,
        late: 1,
        ..Counts::default()
    };
    assert!(good.add_up());
    assert!(!Counts { read: 16, ..good }.add_up());
}

#[test]
fn a_fate_is_found_by_position_and_an_unknown_code_is_none() {
    let fates = Fates { partition: 0, from: 7, codes: vec![1, 5, 99], unsettled: vec![] };
    assert_eq!((fates.at(6), fates.at(7), fates.at(8)), (None, Some(Fate::Written), Some(Fate::DeadLetter)));
    assert_eq!((fates.at(9), fates.at(10), fates.next()), (None, None, 10));
    for fate in (0..=255).filter_map(Fate::of) {
        assert_eq!(Fate::of(fate.code()), Some(fate));
    }
}

/// Puts the right checksum under changed bytes: chance would never get past it.
fn summed(bytes: &[u8]) -> Vec<u8> {
    let head = bytes.split_last_chunk::<4>().map_or(bytes, |(head, _)| head);
    let mut bytes = head.to_vec();
    bytes.extend_from_slice(&crc32c::crc32c(head).to_le_bytes());
    bytes
}

#[test]
fn fuzz_journal_record() {
    let examples = samples().into_iter().map(|(_, record)| record.to_bytes());
    // A thousand empty entries, of whatever list they end up in.
    let empty = (1..16_u8).map(|tag| [tag << 3 | 2, 0].repeat(1_000));
    let fuzz =
        testkit::Fuzz::new("journal record").examples(examples).words(["FBJ3", "FBJ4", "FBJ5"]).words(empty);
    // It is read, written, and read again.
    fuzz.memory_max(1 << 20, 300).run(20_000, |bytes| {
        // As it is, it is damaged for all practical purposes; with the checksum right, it may be a record.
        let _ = Record::from_bytes(3, bytes);
        let Ok(record) = Record::from_bytes(3, &summed(bytes)) else { return };
        let again = Record::from_bytes(3, &record.to_bytes()).expect("what was read can be written and read");
        assert_eq!(again, record);
    });
}
