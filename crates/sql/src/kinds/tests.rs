use dataflow::ColumnType;

use super::text_of;

#[test]
fn every_spelling_of_a_value_has_its_one_text() {
    let cases = [
        (ColumnType::Uuid, "6F9619FF-8B86-D011-B42D-00C04FC964FF", "6f9619ff-8b86-d011-b42d-00c04fc964ff"),
        (ColumnType::Uuid, "6f9619ff8b86d011b42d00c04fc964ff", "6f9619ff-8b86-d011-b42d-00c04fc964ff"),
        (ColumnType::Ipv4, "10.1.2.3", "10.1.2.3"),
        (ColumnType::Ipv6, "2001:0DB8:0:0::0001", "2001:db8::1"),
        (ColumnType::Ipv6, "10.1.2.3", "::ffff:10.1.2.3"),
        (ColumnType::Ipv6, "::FFFF:a01:203", "::ffff:10.1.2.3"),
    ];
    for (kind, spelled, own) in cases {
        assert_eq!(text_of(spelled, &kind).expect("a value"), own);
        assert_eq!(text_of(own, &kind).expect("a value"), own, "the text of a value spells it");
    }
}

#[test]
fn what_spells_no_value_is_refused() {
    let cases = [
        (ColumnType::Uuid, "6f9619ff-8b86-d011-b42d-00c04fc964f"),
        (ColumnType::Uuid, "6f9619ff-8b86-d011-b42d-00c04fc964fg"),
        (ColumnType::Uuid, "6f9619ff8b86-d011-b42d-00c04fc964ff--"),
        (ColumnType::Uuid, "äf9619ff-8b86-d011-b42d-00c04fc964f"),
        (ColumnType::Uuid, ""),
        (ColumnType::Ipv4, "10.1.2"),
        (ColumnType::Ipv4, "::ffff:10.1.2.3"),
        (ColumnType::Ipv4, " 10.1.2.3"),
        (ColumnType::Ipv6, "2001:db8::1::"),
        (ColumnType::Ipv6, "2001:db8::1%eth0"),
    ];
    for (kind, text) in cases {
        let message = text_of(text, &kind).expect_err("no value");
        assert!(message.contains("is not a valid"), "{message}");
    }
}

#[test]
fn an_unknown_name_of_an_enum_is_told_the_names() {
    let few = ColumnType::Enum8([("low".into(), 1), ("high".into(), 2)].into_iter().collect());
    assert_eq!(
        text_of("hihg", &few).expect_err("no name"),
        "the Enum has no name `'hihg'`; did you mean `'high'`"
    );
    assert_eq!(
        text_of("medium", &few).expect_err("no name"),
        "the Enum has no name `'medium'`; its names are `'low'`, `'high'`"
    );
    let many = ColumnType::Enum16((0..500).map(|n| (format!("name-{n}").into(), n)).collect());
    assert!(text_of("x", &many).expect_err("no name").len() < 400);
    assert_eq!(text_of("name-499", &many).expect("a name"), "name-499");
}
