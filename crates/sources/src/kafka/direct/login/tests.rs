use super::*;
use crate::kafka::direct::scram::Hash;
use crate::kafka::direct::security::Secret;

const PASSWORD: &str = "a-password";

fn login(mechanism: Mechanism) -> Login {
    Login { mechanism, user: "loader".into(), password: Secret(PASSWORD.into()) }
}

/// An answer without its length: the correlation id, then `body`.
fn answer(body: &[&[u8]]) -> Vec<u8> {
    [&[0; 4], body.concat().as_slice()].concat()
}

fn names(error: i16, names: &[&str]) -> Vec<u8> {
    let mut bytes = answer(&[&error.to_be_bytes(), &(names.len() as u32).to_be_bytes()]);
    names.iter().for_each(|name| put_text(&mut bytes, name));
    bytes
}

fn granted(message: &[u8], life_ms: i64) -> Vec<u8> {
    let mut bytes = answer(&[&0i16.to_be_bytes(), &(-1i16).to_be_bytes()]);
    put_bytes(&mut bytes, message);
    bytes.extend_from_slice(&life_ms.to_be_bytes());
    bytes
}

fn refused(why: &str) -> Vec<u8> {
    let mut bytes = answer(&[&58i16.to_be_bytes()]);
    put_text(&mut bytes, why);
    put_bytes(&mut bytes, b"");
    bytes.extend_from_slice(&0i64.to_be_bytes());
    bytes
}

/// The last field of a request that was written.
fn ends_with(request: &[u8], field: &[u8]) -> bool {
    let len = u32::from_be_bytes(request[..4].try_into().expect("a length")) as usize;
    assert_eq!(len, request.len() - 4);
    request.ends_with(field)
}

/// Feeds answers until one is logged in.
fn play(login: &Login, answers: &[Vec<u8>]) -> Result<Option<Duration>, LoginError> {
    let mut out = Vec::new();
    let mut dialogue = Dialogue::begin(login, "forebay", &mut out);
    for answer in answers {
        if let Next::Done(renew) = dialogue.answer(answer, &mut out)? {
            return Ok(renew);
        }
    }
    panic!("not logged in after all answers");
}

#[test]
fn plain_sends_user_and_password_once() {
    let login = login(Mechanism::Plain);
    let mut out = Vec::new();
    let mut dialogue = Dialogue::begin(&login, "forebay", &mut out);
    assert!(ends_with(&out, b"\0\x05PLAIN"));
    assert!(matches!(dialogue.answer(&names(0, &["PLAIN"]), &mut out), Ok(Next::Send)));
    assert!(ends_with(&out, b"\0\0\0\x12\0loader\0a-password"));
    assert!(matches!(dialogue.answer(&granted(b"", 0), &mut out), Ok(Next::Done(None))));
}

#[test]
fn a_session_that_ends_is_renewed_before_it_does() {
    let renew = |life_ms| play(&login(Mechanism::Plain), &[names(0, &[]), granted(b"", life_ms)]);
    assert_eq!(renew(60_000), Ok(Some(Duration::from_secs(48))));
    assert_eq!(renew(1_000), Ok(Some(RENEW_AFTER_MIN)));
    assert_eq!(renew(0), Ok(None));
    assert_eq!(renew(-1), Ok(None));
    assert!(renew(i64::MAX).is_ok());
}

#[test]
fn a_refusal_is_told_in_the_brokers_words_and_shows_no_password() {
    let answers = [names(0, &[]), refused("Authentication failed: Invalid username or password")];
    let error = play(&login(Mechanism::Plain), &answers).expect_err("refused");
    assert!(error.to_string().contains("Authentication failed"), "{error}");
    assert!(!format!("{error} {error:?}").contains(PASSWORD));
}

#[test]
fn an_unknown_mechanism_names_those_that_are_known() {
    let error = play(&login(Mechanism::Plain), &[names(33, &["SCRAM-SHA-512", "GSSAPI"])]);
    assert!(error.expect_err("unknown").to_string().contains("SCRAM-SHA-512, GSSAPI"));
    let illegal = play(&login(Mechanism::Plain), &[names(34, &[])]).expect_err("out of place");
    assert!(matches!(illegal, LoginError::Refused { .. }));
}

#[test]
fn a_broker_that_cannot_prove_itself_is_not_believed() {
    let login = login(Mechanism::Scram(Hash::Sha256));
    let error = play(&login, &[names(0, &[]), granted(b"r=x,s=YQ==,i=4096", 0)]).expect_err("another nonce");
    assert_eq!(error, LoginError::Scram { mechanism: "SCRAM-SHA-256", why: ScramError::Nonce });
    // A broker that skips its proof: the right nonce, and then nothing.
    let mut out = Vec::new();
    let mut dialogue = Dialogue::begin(&login, "forebay", &mut out);
    assert!(matches!(dialogue.answer(&names(0, &[]), &mut out), Ok(Next::Send)));
    let first = String::from_utf8_lossy(&out).into_owned();
    let nonce = first.split("r=").nth(1).expect("a nonce");
    let server_first = format!("r={nonce}more,s=YQ==,i=4096");
    assert!(matches!(dialogue.answer(&granted(server_first.as_bytes(), 0), &mut out), Ok(Next::Send)));
    assert!(dialogue.answer(&granted(b"", 0), &mut out).is_err());
}

#[test]
fn answers_cut_anywhere_are_refused() {
    for whole in [names(33, &["PLAIN"]), granted(b"r=a", 5), refused("no")] {
        for cut in 0..whole.len() {
            assert!(super::granted(&whole[..cut], "x").is_err(), "{cut}");
        }
    }
    let unknown = names(33, &["PLAIN"]);
    for cut in 0..unknown.len() {
        assert!(greeted(&unknown[..cut], "x").is_err(), "{cut}");
    }
}

#[test]
fn fuzz_answers_to_a_login() {
    let first = b"r=N,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    let examples =
        [names(0, &[]), names(33, &["PLAIN"]), granted(b"", 0), granted(first, 3_600_000), refused("no")];
    let words: [&[u8]; 3] = [b",i=1000001", b"r=", b"v=6rriTRBi23WpRR/wtup="];
    testkit::Fuzz::new("answers to a login").examples(examples).words(words).memory_max(16 << 10, 64).run(
        5_000,
        |answer| {
            for mechanism in [Mechanism::Plain, Mechanism::Scram(Hash::Sha256)] {
                let login = login(mechanism);
                let mut out = Vec::new();
                let mut dialogue = Dialogue::begin(&login, "forebay", &mut out);
                // Greeted as it should be, or by this too.
                for greeting in [names(0, &[]).as_slice(), answer] {
                    match dialogue.answer(greeting, &mut out) {
                        Ok(Next::Send) => drop(dialogue.answer(answer, &mut out)),
                        Ok(Next::Done(_)) | Err(_) => {}
                    }
                }
            }
        },
    );
}
