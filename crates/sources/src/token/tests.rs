use super::*;

/// `{"alg":"none"}` and `{"sub":"loader","exp":1900000000.5}` in base64url.
const JWT: &str = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJsb2FkZXIiLCJleHAiOjE5MDAwMDAwMDAuNX0.";

#[test]
fn a_jwt_says_who_and_until_when() {
    let token = TokenSource::Command(vec!["printf".into(), format!("{JWT}\\n")]).get(7).expect("a token");
    assert_eq!((token.value.as_str(), token.principal.as_str()), (JWT, "loader"));
    assert_eq!(token.expires_ms, 1_900_000_000_500);
}

#[test]
fn an_opaque_token_holds_for_a_while() {
    let token = TokenSource::Command(vec!["echo".into(), "opaque".into()]).get(7).expect("a token");
    assert_eq!((token.principal.as_str(), token.expires_ms), ("forebay", 7 + LIFETIME_MS));
}

#[test]
fn failures_are_told_without_the_token() {
    for (source, says) in [
        (TokenSource::File("/no/such/file".into()), "No such file"),
        (TokenSource::Command(vec!["false".into()]), "failed"),
        (TokenSource::Command(vec!["true".into()]), "is empty"),
        (TokenSource::Command(vec![]), "is empty"),
        (TokenSource::Command(vec!["no-such-program".into()]), "No such file"),
    ] {
        let Err(error) = source.get(0) else { panic!("{source:?} gives no token") };
        let error = error.to_string();
        assert!(error.contains(says), "{error}");
    }
    let Err(error) =
        TokenSource::Command(vec!["sh".into(), "-c".into(), "echo secret; exit 3".into()]).get(0)
    else {
        panic!("a failed command's output is no token")
    };
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[test]
fn a_commands_arguments_do_not_show() {
    let source = TokenSource::Command(vec!["get-token".into(), "hunter2".into()]);
    for shown in [format!("{source}"), format!("{source:?}")] {
        assert!(shown.contains("get-token") && !shown.contains("hunter2"), "{shown}");
    }
}
