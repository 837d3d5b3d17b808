use super::*;

fn of_code(code: i32) -> InsertError {
    let body = format!("Code: {code}. DB::Exception: why");
    let answer = Answer { status: 500, exception_code: Some(code), from_clickhouse: true, body: &body };
    classify_making(answer).expect_err("it failed")
}

#[test]
fn what_is_refused_for_good_is_not_tried_again_and_the_rest_is() {
    for code in [36, 42, 43, 44, 46, 47, 50, 62, 69, 80, 223, 455, 457, 1_000_000] {
        let error = of_code(code);
        assert_eq!((error.remedy, error.effect), (Remedy::Stop, Effect::None), "{code}");
        assert_eq!(
            error.message,
            format!("the server refuses it: code {code}: Code: {code}. DB::Exception: why")
        );
    }
    for code in TEMPORARY {
        assert_eq!(of_code(code).remedy, Remedy::Resend, "{code}");
    }
    let (denied, missing) = (of_code(497), of_code(81));
    assert_eq!((denied.kind, missing.kind), (TableFault::Access, TableFault::TableMissing));
    assert!(TEMPORARY.is_sorted_by(|a, b| a < b), "each code once, in order");
}

#[test]
fn an_answer_without_a_code_is_read_as_that_to_an_insert() {
    let of =
        |status, body| classify_making(Answer { status, exception_code: None, from_clickhouse: true, body });
    assert!(of(200, "").is_ok());
    assert_eq!(of(503, "busy").expect_err("no").remedy, Remedy::Resend);
    assert_eq!(of(401, "no").expect_err("no").remedy, Remedy::Stop);
}
