use super::super::{Errors, Unit, parse};
use super::*;
use crate::options::Format;
use crate::support::roomy;

fn taken(parameters: &str, body: &[u8]) -> Result<(Vec<Vec<u8>>, Errors), Refusal> {
    let media = ("application/x-protobuf".to_owned(), parameters.to_owned());
    let parsed = parse(&Format::Protobuf, &media, (body, 1 << 20), 5, roomy())?;
    let records = &parsed.records.payloads;
    Ok(((0..parsed.records.len()).map(|row| records.get(row).to_vec()).collect(), parsed.errors))
}

fn good(parameters: &str, body: &[u8]) -> Vec<Vec<u8>> {
    let (records, errors) = taken(parameters, body).unwrap();
    assert_eq!(errors, Errors { unit: Unit::Record, ..Errors::default() });
    records
}

const ONE: &[u8] = &[8, 1, 18, 1, b'a'];

#[test]
fn a_body_is_a_message_or_several_behind_their_lengths() {
    assert_eq!(good("", ONE), [ONE]);
    assert_eq!(good("", b""), [b""], "a message without fields");
    let body = [&[5][..], ONE, &[0, 2, 8, 7]].concat();
    for parameters in
        ["encoding=delimited", "proto=shop.order; encoding=\"delimited\"", "charset=utf-8;delimited=true"]
    {
        assert_eq!(good(parameters, &body), [ONE, b"", &[8, 7]]);
        assert_eq!(good(parameters, b""), [b""; 0], "nothing is nothing");
    }
    for parameters in ["encoding=json", "framing=length", "delimited"] {
        let refused = taken(parameters, &body).unwrap_err();
        assert!(
            refused.kind == Kind::Media && refused.message.contains("encoding=delimited"),
            "{parameters}"
        );
    }
}

#[test]
fn a_message_that_is_none_is_an_error_by_its_number_and_a_length_that_lies_refuses_all() {
    let body = [&[5][..], ONE, &[2, 8, 0x80, 2, 8, 7]].concat();
    let (records, errors) = taken("encoding=delimited", &body).unwrap();
    assert_eq!(records, [ONE, &[8, 7]]);
    assert_eq!((errors.count, errors.shown[0].0), (1, 2));
    assert!(errors.refusal().message.starts_with("1 record is not valid, so nothing was stored"));
    for cut in [1, 4, body.len() - 1] {
        let refused = taken("encoding=delimited", &body[..cut]).unwrap_err();
        assert_eq!(refused.kind, Kind::Malformed);
        assert!(refused.message.contains("nothing was stored"), "{}", refused.message);
    }
    // Who forgets to say that there are several learns how.
    let (records, errors) = taken("", &body).unwrap();
    assert!(records.is_empty() && errors.shown[0].1.contains("encoding=delimited"), "{errors:?}");
}
