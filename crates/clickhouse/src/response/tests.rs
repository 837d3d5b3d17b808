use super::*;

fn answer(status: u16, exception_code: Option<i32>, body: &str) -> Answer<'_> {
    Answer { status, exception_code, from_clickhouse: true, body }
}

/// One line a case: status, exception code in the header (or -), views (v or -), then the body; after the arrow the effect,
/// the remedy and the kind.
const CASES: &str = "
500 252 - Code: 252. DB::Exception: Too many parts (300)               -> none resend too_many_parts
500 252 v Code: 252. DB::Exception: Too many parts (100000) in all partitions in total in table 'd.t'. This indicates wrong choice of partition key -> none resend too_many_parts
500 252 - Code: 252. DB::Exception: Too many parts (300 with average size of 1.20 MiB) in table 'd.partitions' -> none resend too_many_parts
500 252 - Code: 252. DB::Exception: Too many partitions for single INSERT block -> none stop too_many_partitions
500 252 v Code: 252. DB::Exception: Too many partitions for single INSERT block -> unknown stop too_many_partitions
500 241 - Code: 241. DB::Exception: Memory limit exceeded              -> unknown resend uncertain
500 202 - Code: 202. DB::Exception: Too many simultaneous queries      -> none resend overloaded
500 243 - Code: 243. DB::Exception: Cannot reserve 1.00 MiB            -> none resend no_space
500 242 - Code: 242. DB::Exception: Table is in readonly mode          -> unknown resend read_only
500 774 - Code: 774. DB::Exception: Table is in readonly mode due to static storage or `table_readonly` -> none resend read_only
500 285 - Code: 285. DB::Exception: Number of alive replicas           -> none resend no_quorum
500 216 - Code: 216. DB::Exception: Query with id = x is already running -> unknown resend already_running
500 33  - Code: 33. DB::Exception: Cannot read all data                -> none resend damaged
500 32  - Code: 32. DB::Exception: Attempt to read after eof: (while reading column n) -> none resend damaged
500 32  v Code: 32. DB::Exception: Attempt to read after eof: Cannot parse Int64 from String, because value is too short: while executing 'FUNCTION toInt64(s)' -> none divert bad_content
500 130 - Code: 130. DB::Exception: Array does not start with '[' character -> none divert bad_content
500 40  - Code: 40. DB::Exception: Checksum doesn't match              -> none resend damaged
500 469 - Code: 469. DB::Exception: Constraint `c` is violated         -> none divert bad_content
500 117 - Code: 117. DB::Exception: Incorrect data                     -> none divert bad_content
500 53  - Code: 53. DB::Exception: Type mismatch                       -> none divert bad_content
500 349 - Code: 349. DB::Exception: Cannot insert NULL                 -> none divert bad_content
500 321 - Code: 321. DB::Exception: Value out of range                 -> none divert bad_content
500 131 - Code: 131. DB::Exception: Too large string size              -> none divert bad_content
500 135 - Code: 135. DB::Exception: Array indices are 1-based          -> none divert bad_content
500 153 v Code: 153. DB::Exception: Division by zero                   -> none divert bad_content
500 427 - Code: 427. DB::Exception: cannot compile re2                 -> none divert bad_content
500 441 - Code: 441. DB::Exception: Invalid IPv4 value                 -> none divert bad_content
500 153 v Code: 153. DB::Exception: Division by zero: while pushing to view d.v -> unknown stop view
500 469 v Code: 469. DB::Exception: violated: while pushing to view d.v -> unknown stop view
500 241 v Code: 241. DB::Exception: memory: while pushing to view d.v  -> unknown resend view
500 469 - Code: 469. DB::Exception: violated: while pushing to view d.v (0-1). (X) -> unknown stop view
500 6   - Code: 6. DB::Exception: in toUInt8('x'): while pushing to view d.v -> unknown stop view
404 47  - Code: 47. DB::Exception: no identifier: while pushing to view d.v -> unknown resend view
500 252 - Code: 252. DB::Exception: Too many partitions: while pushing to view d.v -> unknown resend view
500 469 - Code: 469. DB::Exception: v = 'while pushing to view d.v'. (X) -> none divert bad_content
500 469 v Code: 469. DB::Exception: violated: while pushing to view d.`it's` -> unknown stop view
404 60  - Code: 60. DB::Exception: Table d.t does not exist            -> none stop table_missing
404 81  - Code: 81. DB::Exception: Database d does not exist           -> none stop table_missing
404 16  - Code: 16. DB::Exception: No such column x                    -> none stop table
403 497 - Code: 497. DB::Exception: Not enough privileges              -> none stop access
403 516 - Code: 516. DB::Exception: Authentication failed              -> none stop access
403 192 - Code: 192. DB::Exception: There is no user                   -> none stop access
500 164 - Code: 164. DB::Exception: Cannot execute query in readonly mode -> none stop access
404 115 - Code: 115. DB::Exception: Unknown setting                    -> none stop request
400 62  - Code: 62. DB::Exception: Syntax error                        -> none stop request
500 319 - Code: 319. DB::Exception: Unknown status, client must retry  -> unknown resend uncertain
500 159 - Code: 159. DB::Exception: Timeout exceeded                   -> unknown resend uncertain
500 209 - Code: 209. DB::Exception: Socket timeout                     -> unknown resend uncertain
500 210 - Code: 210. DB::Exception: Network error                      -> unknown resend uncertain
500 425 - Code: 425. DB::Exception: System error                       -> unknown resend uncertain
500 999 - Code: 999. DB::Exception: Keeper exception                   -> unknown resend uncertain
500 123456 - Code: 123456. DB::Exception: a code of the future         -> unknown resend uncertain
500 -   - Code: 60. DB::Exception: a proxy ate the header              -> none stop table_missing
500 -   - Internal Server Error                                        -> unknown resend bad_status
502 -   - Bad Gateway                                                  -> unknown resend bad_status
503 -   - Service Unavailable                                          -> unknown resend bad_status
504 -   - Gateway Timeout                                              -> unknown resend bad_status
408 -   - Request Timeout                                              -> unknown resend bad_status
429 -   - Too Many Requests                                            -> none resend overloaded
401 -   - Unauthorized                                                 -> none stop access
403 -   - Forbidden                                                    -> none stop access
404 -   - Not Found                                                    -> none stop request
413 -   - Request Entity Too Large                                     -> none stop too_large
414 -   - URI Too Long                                                 -> none stop too_large
431 -   - Request Header Fields Too Large                              -> none stop too_large
307 -   - moved                                                        -> none stop request
204 -   -                                                              -> unknown resend bad_status
418 -   - teapot                                                       -> unknown resend bad_status
";

#[test]
fn every_code_has_its_effect_and_remedy() {
    let mut cases = 0;
    for line in CASES.lines().filter(|l| !l.is_empty()) {
        let (given, wanted) = line.split_once("->").unwrap();
        let mut words = given.splitn(4, ' ').collect::<Vec<_>>().join(" ");
        while words.contains("  ") {
            words = words.replace("  ", " ");
        }
        let parts: Vec<&str> = words.splitn(4, ' ').collect();
        let got = classify_answer(
            answer(parts[0].parse().unwrap(), parts[1].parse().ok(), parts[3]),
            parts[2] == "v",
        )
        .unwrap_err();
        let shown = format!("{:?} {:?} {}", got.effect, got.remedy, got.kind).to_lowercase();
        assert_eq!(shown, wanted.trim(), "{line}");
        cases += 1;
    }
    assert_eq!(cases, 68, "a line of the table was not read");
}

#[test]
fn only_an_empty_answer_of_clickhouse_is_a_success() {
    assert!(classify_answer(answer(200, None, ""), false).is_ok());
    assert!(classify_answer(answer(200, Some(0), "\n"), false).is_ok());
    let stranger = Answer { from_clickhouse: false, ..answer(200, None, "") };
    let error = classify_answer(stranger, false).unwrap_err();
    assert_eq!((error.effect, error.kind), (Effect::Unknown, TableFault::NotTheServer));
    // Nothing else would say what to do, and no insert ever counts.
    assert!(error.message.contains("takes the headers `X-ClickHouse-…` off"), "{}", error.message);
    assert_eq!(classify_answer(answer(200, None, "<html>"), false).unwrap_err().effect, Effect::Unknown);
}

#[test]
fn status_200_with_an_exception_is_a_failure() {
    let in_header = classify_answer(answer(200, Some(469), ""), false).unwrap_err();
    assert_eq!((in_header.code, in_header.remedy), (469, Remedy::Divert));
    let in_body = classify_answer(answer(200, None, "Code: 60. DB::Exception: no table"), false).unwrap_err();
    assert_eq!(in_body.code, 60);
    let marked = "__exception__\r\nabcd\r\nsomething broke\r\n__exception__";
    assert_eq!(
        classify_answer(answer(200, None, marked), false).unwrap_err().kind,
        TableFault::ExceptionInBody
    );
}

#[test]
fn a_lost_answer_leaves_the_effect_unknown_only_after_the_last_bytes() {
    for fault in [NoAnswer::Timeout, NoAnswer::Broken] {
        assert_eq!(classify_no_answer(fault, true, "x").effect, Effect::Unknown);
        assert_eq!(classify_no_answer(fault, false, "x").effect, Effect::None);
        assert_eq!(classify_no_answer(fault, true, "x").remedy, Remedy::Resend);
    }
    assert_eq!(classify_no_answer(NoAnswer::Connect, false, "refused").effect, Effect::None);
    let fenced = classify_no_answer(NoAnswer::Fenced, false, "");
    assert_eq!((fenced.effect, fenced.remedy), (Effect::None, Remedy::Stop));
}

#[test]
fn a_view_is_blamed_however_far_back_the_server_names_it() {
    let values = "'status', ".repeat(400);
    let body = format!(
        "Code: 469. DB::Exception: Constraint `c` for table d.to is violated. Expression: (v IN ({values})): \
         while pushing to view d.mv (1b4e28ba). (VIOLATED_CONSTRAINT) (version 26.7.2.1)"
    );
    for views in [false, true] {
        let error = classify_answer(answer(500, Some(469), &body), views).unwrap_err();
        assert_eq!((error.effect, error.kind), (Effect::Unknown, TableFault::View));
        assert!(error.message.starts_with("the materialized view d.mv failed"), "{}", error.message);
    }
}

/// What is sealed keeps its size, whatever the file says by then.
#[test]
fn the_way_out_of_a_body_that_is_too_large_is_the_limit_of_the_proxy() {
    let error = classify_answer(answer(413, None, "Request Entity Too Large"), false).unwrap_err();
    assert!(error.message.contains("raise its limit (`client_max_body_size` of nginx)"), "{}", error.message);
}

/// The same insert meets it again and again.
#[test]
fn a_limit_of_the_memory_of_one_query_is_told_with_its_setting() {
    for (words, is_of_one) in [
        ("Memory limit (for query) exceeded: would use 1.00 GiB", true),
        ("Query memory limit exceeded: would use 1.00 GiB", true),
        ("(total) memory limit exceeded: would use 1.00 GiB", false),
        ("User memory limit exceeded: would use 1.00 GiB", false),
    ] {
        let body = format!("Code: 241. DB::Exception: {words}. (MEMORY_LIMIT_EXCEEDED)");
        let error = classify_answer(answer(500, Some(241), &body), false).unwrap_err();
        assert_eq!((error.effect, error.remedy), (Effect::Unknown, Remedy::Resend));
        assert_eq!(error.kind, TableFault::Uncertain);
        assert_eq!(
            error.message.contains("raise the user's `max_memory_usage`"),
            is_of_one,
            "{}",
            error.message
        );
    }
}

/// Whoever reads it at night is not to drop a view for want of memory, or for a quota.
#[test]
fn a_view_is_to_be_fixed_only_if_it_is_at_fault() {
    for (code, says) in [
        (241, "this may pass"),
        (201, "this may pass"),
        (243, "this may pass"),
        (497, "a right that is missing"),
        (60, "bring it back"),
        (469, "failed on the rows: fix the view"),
        (47, "failed on the rows: fix the view"),
    ] {
        let body = format!("Code: {code}. DB::Exception: why: while pushing to view d.v (1b4e28ba). (X)");
        let error = classify_answer(answer(500, Some(code), &body), true).unwrap_err();
        assert_eq!((error.effect, error.kind), (Effect::Unknown, TableFault::View));
        assert!(error.message.contains(says), "{code}: {}", error.message);
    }
}

#[test]
fn the_servers_words_are_shortened() {
    let body = format!("Code: 60. DB::Exception: {}", "é".repeat(5000));
    let message = classify_answer(answer(404, Some(60), &body), false).unwrap_err().message;
    assert!(message.chars().count() < MESSAGE_CHARS_MAX + 200, "{}", message.len());
}

#[test]
fn codes_are_read_only_where_the_server_writes_them() {
    assert_eq!(code_in("Code: 60. DB::Exception: x"), Some(60));
    assert_eq!(code_in("rows\n__exception__ Code: 241. DB::Exception"), Some(241));
    assert_eq!(code_in("Code: 60"), None);
    assert_eq!(code_in("Code: x. DB::"), None);
    assert_eq!(code_in("Code: 99999999999. DB::"), None);
}

#[test]
fn fuzz_answer() {
    let examples = [
        "Code: 252. DB::Exception: Too many parts. (TOO_MANY_PARTS) (version 26.7.3)",
        "__exception__\r\nabc\r\nCode: 241. DB::Exception",
    ];
    let words = ["Code: ", "99999999999", "-1", ". DB::Exception", "(", ")", "\u{e9}", "\u{0}"];
    testkit::Fuzz::new("answer").examples(examples).words(words).run(10_000, |bytes| {
        let body = String::from_utf8_lossy(bytes);
        let code = code_in(&body);
        for status in [200, 400, 404, 500, 503] {
            let outcome = classify_answer(
                Answer { status, exception_code: None, from_clickhouse: true, body: &body },
                false,
            );
            assert!(
                outcome.is_err() || (status == 200 && code.is_none_or(|code| code == 0)),
                "{status}: {body}"
            );
        }
    });
}
