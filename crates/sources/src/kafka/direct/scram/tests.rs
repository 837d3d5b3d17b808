use super::*;

const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
const SERVER_FIRST: &str =
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

fn last(hash: Hash, server_first: &str, password: &str) -> Result<(String, Expected), ScramError> {
    let exchange = Exchange::new(hash, "user", NONCE.into());
    let (last, expected) = exchange.last(server_first.as_bytes(), password)?;
    Ok((String::from_utf8(last).expect("text"), expected))
}

fn refused(server_first: &str) -> ScramError {
    last(Hash::Sha256, server_first, "pencil").err().expect("refused")
}

/// RFC 7677, section 3.
#[test]
fn the_published_exchange_comes_out_byte_for_byte() {
    assert_eq!(
        Exchange::new(Hash::Sha256, "user", NONCE.into()).first(),
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    );
    let (last, expected) = last(Hash::Sha256, SERVER_FIRST, "pencil").expect("an answer");
    assert_eq!(
        last,
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    );
    assert_eq!(expected.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), Ok(()));
}

/// The same exchange with SHA-512, for which nothing is published: from Python's hashlib and hmac.
#[test]
fn the_longer_hash_agrees_with_another_program() {
    let (last, expected) = last(Hash::Sha512, SERVER_FIRST, "pencil").expect("an answer");
    let proof = "p=gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+xnoOMw+3R2xNJdMNnzMlTN8PPC6wdp6dybEmDYXYTxwnYPJQ==";
    assert!(last.ends_with(proof), "{last}");
    let answer = "v=ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0vSVlKDanekLtifDSeVGT4+5ZxXnJq199RVG2rR7N7Zw==";
    assert_eq!(expected.check(answer.as_bytes()), Ok(()));
}

#[test]
fn a_broker_that_does_not_know_the_password_is_found_out() {
    let (_, expected) = last(Hash::Sha256, SERVER_FIRST, "pen").expect("an answer");
    let of_pencil = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
    assert_eq!(expected.check(of_pencil), Err(ScramError::Signature));
    assert_eq!(expected.check(b"e=other-error"), Err(ScramError::Malformed));
    assert_eq!(expected.check(b"v=***"), Err(ScramError::Malformed));
    assert_eq!(expected.check(b""), Err(ScramError::Malformed));
}

#[test]
fn what_is_not_an_answer_to_us_is_refused() {
    assert_eq!(refused("r=elsewhere,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"), ScramError::Nonce);
    // Our own nonce alone: the broker has added nothing.
    assert_eq!(refused("r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"), ScramError::Nonce);
    for text in
        ["", "m=x,r=a,s=YQ==,i=4096", "r=rOprNGfwEbeRWgbNEkqOx,i=4096", "r=rOprNGfwEbeRWgbNEkqOx,s=*,i=4096"]
    {
        assert_eq!(refused(text), ScramError::Malformed, "{text}");
    }
    let exchange = Exchange::new(Hash::Sha256, "user", NONCE.into());
    assert!(exchange.last(&[0xff], "pencil").is_err());
}

#[test]
fn too_few_rounds_and_too_many_are_not_done() {
    let asked = |rounds: &str| refused(&SERVER_FIRST.replace("i=4096", &format!("i={rounds}")));
    assert_eq!(asked("4095"), ScramError::Rounds(4_095));
    assert_eq!(asked("0"), ScramError::Rounds(0));
    assert_eq!(asked("1000001"), ScramError::Rounds(1_000_001));
    assert_eq!(asked("99999999999"), ScramError::Malformed);
}

#[test]
fn commas_and_equals_signs_in_names_are_written_as_the_standard_says() {
    let first = Exchange::new(Hash::Sha256, "a=b,c", "n".into()).first();
    assert_eq!(first, b"n,,n=a=3Db=2Cc,r=n");
}

#[test]
fn nonces_differ() {
    let (a, b) = (nonce().expect("randomness"), nonce().expect("randomness"));
    assert_ne!(a, b);
    assert!(a.len() >= NONCE_BYTES && !a.contains(','));
}
