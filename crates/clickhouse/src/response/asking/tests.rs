use super::*;

fn asked(code: i32, text: &str) -> (Remedy, TableFault) {
    let body = format!("Code: {code}. DB::Exception: {text}");
    let answer = Answer { status: 500, exception_code: Some(code), from_clickhouse: true, body: &body };
    let error = classify_asking(answer).unwrap_err();
    assert_eq!((error.effect, error.code), (Effect::None, code), "a question has none");
    (error.remedy, error.kind)
}

#[test]
fn a_limit_of_the_profile_ends_with_a_person() {
    for code in [158, 161, 165, 166, 167, 168, 191, 277, 306, 307, 396, 392, 584, 704, 719] {
        assert_eq!(asked(code, "x"), (Remedy::Stop, TableFault::Request), "{code}");
    }
    assert_eq!(asked(62, "Max query size exceeded"), (Remedy::Stop, TableFault::Request));
    assert_eq!(asked(452, "Setting limit should not be changed"), (Remedy::Stop, TableFault::Access));
    assert_eq!(asked(164, "Cannot modify 'limit' setting in readonly mode").0, Remedy::Stop);
}

#[test]
fn what_passes_by_itself_is_waited_for() {
    for code in [159, 160, 201, 202, 209, 210, 236, 241, 394, 999] {
        assert_eq!(asked(code, "x"), (Remedy::Resend, TableFault::Overloaded), "{code}");
    }
    assert_eq!(asked(225, "no keeper"), (Remedy::Resend, TableFault::ReadOnly));
    assert_eq!(asked(123_456, "of the future"), (Remedy::Resend, TableFault::Uncertain));
}

#[test]
fn a_question_that_is_not_answerable_is_no_matter_of_rows() {
    for code in [6, 46, 53, 620] {
        assert_eq!(asked(code, "x"), (Remedy::Stop, TableFault::Request), "{code}");
    }
    // A row policy may ask for the number of an empty text; a request that was cut off ends with the same code.
    let empty = "Attempt to read after eof: Cannot parse Int64 from String, because value is too short";
    assert_eq!(asked(32, empty), (Remedy::Stop, TableFault::Request));
    assert_eq!(asked(32, "Attempt to read after eof"), (Remedy::Resend, TableFault::Damaged));
    assert_eq!(asked(497, "x"), (Remedy::Stop, TableFault::Access));
    assert_eq!(asked(60, "x"), (Remedy::Stop, TableFault::TableMissing));
}
