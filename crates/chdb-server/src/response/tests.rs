use super::*;

#[test]
fn an_error_of_the_engine_keeps_its_code_and_gets_clickhouses_status() {
    for (code, status) in [
        (60, 404),
        (81, 404),
        (115, 404),
        (62, 400),
        (27, 400),
        (53, 400),
        (516, 403),
        (194, 401),
        (241, 500),
        (252, 500),
    ] {
        let failure = Failure::from_engine(format!("Code: {code}. DB::Exception: words. (NAME)"));
        assert_eq!((failure.code, failure.status.as_u16()), (code, status));
    }
}

#[test]
fn an_error_without_a_code_is_a_server_error() {
    let failure = Failure::from_engine("std::bad_alloc".to_owned());
    assert_eq!((failure.code, failure.status.as_u16()), (STD_EXCEPTION, 500));
}

#[test]
fn the_code_stands_in_the_header_and_the_body() {
    let response = Failure::new(UNKNOWN_SETTING, "no").response(Some("id-1"));
    assert_eq!(response.headers()["x-clickhouse-exception-code"], "115");
    assert_eq!(response.headers()["x-clickhouse-query-id"], "id-1");
}
