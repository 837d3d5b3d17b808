use object_store::client::HttpError;

use super::*;

fn xml(code: &str) -> String {
    format!("<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>in so\nmany words</Message></Error>")
}

fn carried(status: u16, body: String) -> object_store::Error {
    let refusal = HttpError::new(HttpErrorKind::Unknown, Refusal { status, body });
    object_store::Error::Generic { store: "S3", source: Box::new(refusal) }
}

#[test]
fn a_refusal_is_found_at_the_bottom_of_the_chain_of_errors() {
    let answer = Answer::of(&carried(412, xml("PreconditionFailed")));
    let (code, words) = ("PreconditionFailed".to_owned(), "in so many words".to_owned());
    assert_eq!(answer, Answer::Status { status: 412, code, words });
}

#[test]
fn only_a_failed_condition_means_that_an_object_exists() {
    for (status, code, exists) in [
        (412, "PreconditionFailed", true),
        (412, "", true),
        (409, "BlobAlreadyExists", true),
        // Another put of the same key was under way; which of them wins is not known yet.
        (409, "ConditionalRequestConflict", false),
        (409, "OperationAborted", false),
        (403, "AccessDenied", false),
        (503, "SlowDown", false),
    ] {
        assert_eq!(Answer::status(status, &xml(code)).is_exists(), exists, "{status} {code}");
    }
}

#[test]
fn a_missing_bucket_is_no_missing_object() {
    assert!(Answer::status(404, &xml("NoSuchKey")).is_absent());
    assert!(Answer::status(404, "").is_absent(), "a HEAD has no body");
    for code in ["NoSuchBucket", "ContainerNotFound"] {
        let answer = Answer::status(404, &xml(code));
        assert!(!answer.is_absent());
        assert_eq!(answer.kind(), ErrorKind::Missing);
    }
}

/// A proxy before the store that has no way to it for a moment must not make an object look deleted.
#[test]
fn a_404_of_something_before_the_store_says_nothing_of_an_object() {
    for body in [
        "default backend - 404",
        "<html><head><title>404 Not Found</title></head></html>",
        "404 page not found\n",
    ] {
        let answer = Answer::status(404, body);
        assert!(!answer.is_absent(), "{body}");
        assert_eq!(answer.kind(), ErrorKind::Io, "it passes: {body}");
        assert_eq!(answer.effect(Operation::Put), Effect::Unknown, "{body}");
        assert_eq!(answer.effect(Operation::Get), Effect::None, "{body}");
        let error = answer.into_error(Operation::Get, "lane/7", carried(404, body.to_owned()));
        let text = error.to_string();
        assert!(
            text.contains("something before the store answered 404: ") && !text.contains("bucket"),
            "{text}"
        );
    }
    for body in ["", "\n", "Not Found\n"] {
        assert!(Answer::status(404, body).is_absent(), "{body:?}");
    }
    for code in ["NoSuchKey", "BlobNotFound", "KeyNotFound"] {
        assert!(Answer::status(404, &xml(code)).is_absent(), "{code}");
    }
}

/// A page to log in at, for instance, which is there until somebody has.
#[test]
fn a_redirect_for_a_while_passes_and_one_for_good_is_a_wrong_url() {
    for (status, body) in [(302, "<html>log in</html>"), (303, ""), (307, "")] {
        let answer = Answer::status(status, body);
        assert_eq!(
            (answer.kind(), answer.effect(Operation::Put)),
            (ErrorKind::Io, Effect::Unknown),
            "{status}"
        );
        let error = answer.into_error(Operation::Get, "lane/7", carried(status, body.to_owned()));
        let told = format!("something before the store answered {status}");
        assert!(error.to_string().contains(&told) && error.effect == Effect::None, "{error}");
    }
    let answer = Answer::status(307, &xml("TemporaryRedirect"));
    assert_eq!((answer.kind(), answer.effect(Operation::Put)), (ErrorKind::Io, Effect::None));
    for status in [301, 308] {
        assert_eq!(Answer::status(status, "<html></html>").kind(), ErrorKind::Url, "{status}");
    }
}

#[test]
fn a_clock_that_is_wrong_is_told_as_one_and_not_as_a_lack_of_access() {
    let error = carried(403, xml("RequestTimeTooSkewed"));
    let error = Answer::of(&error).into_error(Operation::Put, "lane/7", error);
    assert_eq!((error.kind, error.effect), (ErrorKind::Io, Effect::None));
    assert!(error.kind.may_pass_at_start(), "the clock may be set a moment later");
    let text = error.to_string();
    assert!(text.contains("set this machine's clock") && !text.contains("access"), "{text}");
}

#[test]
fn azures_refusal_of_a_wrong_clock_is_told_from_that_of_a_wrong_key() {
    let of = |detail: &str| {
        let words = "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly";
        let body = format!(
            "<Error><Code>AuthenticationFailed</Code><Message>{words}</Message><AuthenticationErrorDetail>{detail}</AuthenticationErrorDetail></Error>"
        );
        let error = carried(403, body);
        Answer::of(&error).into_error(Operation::Put, "lane/7", error)
    };
    for detail in [
        "Request date header too old: 'Fri, 04 Oct 2019 18:02:12 GMT'",
        "The Date header in the request is incorrect.",
    ] {
        let error = of(detail);
        let text = error.to_string();
        assert_eq!((error.kind, error.effect), (ErrorKind::Io, Effect::None), "{text}");
        assert!(text.contains(detail) && text.contains("set this machine's clock"), "{text}");
    }
    let error =
        of("The MAC signature found in the HTTP request 'c2VjcmV0' is not the same as any computed one.");
    let text = error.to_string();
    assert_eq!(error.kind, ErrorKind::Permission, "{text}");
    assert!(!text.contains("c2VjcmV0") && !text.contains("clock"), "{text}");
}

#[test]
fn a_put_whose_checksum_may_be_unknown_names_the_way_without_one() {
    let of = |status, body: &str, operation| {
        let error = carried(status, body.to_owned());
        Answer::of(&error).into_error(operation, "lane/7", error).to_string()
    };
    let unknown = "<Error><Code>InvalidArgument</Code><Message>unsupported checksum</Message></Error>";
    let (put, told) = (Operation::Put, "AWS_REQUEST_CHECKSUM_CALCULATION=when_required");
    assert!(of(501, &xml("NotImplemented"), put).contains(told));
    assert!(of(400, unknown, put).contains(told));
    for (status, body, operation) in [
        (501, xml("NotImplemented"), Operation::Get),
        (400, xml("EntityTooLarge"), put),
        (403, xml("AccessDenied"), put),
    ] {
        let text = of(status, &body, operation);
        assert!(!text.contains(told), "{text}");
    }
}

#[test]
fn a_put_may_have_happened_only_where_something_else_may_have_answered() {
    let effect = |answer: Answer| answer.effect(Operation::Put);
    for status in [408, 500, 502, 503, 504, 599] {
        assert_eq!(effect(Answer::status(status, "")), Effect::Unknown, "{status}");
    }
    for status in [301, 400, 401, 403, 404, 409, 413, 429, 501] {
        assert_eq!(effect(Answer::status(status, "")), Effect::None, "{status}");
    }
    assert_eq!(effect(Answer::NotSent), Effect::None);
    assert_eq!(effect(Answer::Lost), Effect::Unknown);
    assert_eq!(Answer::Lost.effect(Operation::Get), Effect::None, "a get has no effect");
    assert_eq!(Answer::Lost.effect(Operation::Delete), Effect::Unknown);
}

#[test]
fn kinds_tell_a_person_from_a_passing_trouble() {
    for (status, code, kind) in [
        (403, "AccessDenied", ErrorKind::Permission),
        (401, "", ErrorKind::Permission),
        (400, "ExpiredToken", ErrorKind::Permission),
        (400, "BadDigest", ErrorKind::Io),
        (404, "NoSuchBucket", ErrorKind::Missing),
        (409, "ContainerBeingDeleted", ErrorKind::Missing),
        (409, "ConditionalRequestConflict", ErrorKind::Io),
        (409, "BlobImmutableDueToPolicy", ErrorKind::NotSupported),
        (409, "InvalidBucketState", ErrorKind::Conflict),
        (400, "EntityTooLarge", ErrorKind::TooLarge),
        (416, "InvalidRange", ErrorKind::OutOfRange),
        (301, "PermanentRedirect", ErrorKind::Url),
        (400, "InvalidBucketName", ErrorKind::Url),
        (400, "AuthorizationHeaderMalformed", ErrorKind::Url),
        (501, "NotImplemented", ErrorKind::NotSupported),
        (507, "", ErrorKind::Full),
        (429, "TooManyRequests", ErrorKind::Io),
        (503, "SlowDown", ErrorKind::Io),
    ] {
        assert_eq!(Answer::status(status, &xml(code)).kind(), kind, "{status} {code}");
    }
}

#[test]
fn a_message_has_the_stores_words_and_is_bounded() {
    let error = carried(403, xml("AccessDenied"));
    let error = Answer::of(&error).into_error(Operation::Put, "lane/7", error);
    assert_eq!(
        error.to_string(),
        "cannot put `lane/7`: it answered 403 `AccessDenied`: in so many words; give the process read, write, list and \
         delete access to the store"
    );
    let error = carried(502, "<html>".repeat(1_000));
    let error = Answer::of(&error).into_error(Operation::Put, "lane/7", error);
    assert!(error.to_string().len() < 600, "{error}");
}
