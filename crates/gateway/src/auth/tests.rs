use std::path::PathBuf;

use axum::http::HeaderValue;
use testkit::TestDir;

use super::*;

fn client(name: &str, secret: SecretFile) -> ClientOptions {
    ClientOptions { name: name.to_owned(), secret, streams: None, tenant: None }
}

fn file(dir: &TestDir, name: &str, text: &str) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn with(value: &str) -> HeaderMap {
    HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap())])
}

fn basic(user: &str, password: &str) -> HeaderMap {
    with(&format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
}

fn who(auth: &Auth, headers: &HeaderMap) -> String {
    match auth.check(headers) {
        Ok(client) => client.map_or("anyone".to_owned(), |client| client.name.clone()),
        Err(refusal) => {
            assert_eq!(refusal.kind, Kind::Unknown);
            "nobody".to_owned()
        }
    }
}

#[test]
fn clients_are_known_by_tokens_and_passwords() {
    let dir = TestDir::new("gateway-auth").unwrap();
    let auth = Auth::open(vec![
        client("shop", SecretFile::Tokens(file(&dir, "shop", "old-token-of-shop\n\nnew-token-of-shop\n"))),
        client("edge", SecretFile::Passwords("edge".into(), file(&dir, "edge", "pass:word of edge"))),
    ])
    .unwrap();
    for scheme in ["Bearer", "bearer", "Splunk", "ApiKey"] {
        assert_eq!(who(&auth, &with(&format!("{scheme} new-token-of-shop"))), "shop");
    }
    assert_eq!(who(&auth, &with("Bearer old-token-of-shop")), "shop", "until it is taken out of the file");
    assert_eq!(who(&auth, &basic("edge", "pass:word of edge")), "edge");
    for headers in [
        HeaderMap::new(),
        with("Bearer new-token-of-sho"),
        with("Bearer new-token-of-shop2"),
        with("Bearer "),
        with("new-token-of-shop"),
        with("Basic !!"),
        with("Digest new-token-of-shop"),
        basic("edge", "new-token-of-shop"),
        basic("shop", "new-token-of-shop"),
        with("Bearer pass:word of edge"),
    ] {
        assert_eq!(who(&auth, &headers), "nobody", "{headers:?}");
    }
    assert_eq!(who(&Auth::open(Vec::new()).unwrap(), &HeaderMap::new()), "anyone");
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_secret() {
    let dir = TestDir::new("gateway-auth-mark").unwrap();
    let path = file(&dir, "shop", "\u{feff}token-of-shop\r\nother-token-of-shop\r\n");
    let auth = Auth::open(vec![client("shop", SecretFile::Tokens(path))]).unwrap();
    for token in ["token-of-shop", "other-token-of-shop"] {
        assert_eq!(who(&auth, &with(&format!("Bearer {token}"))), "shop");
    }
}

#[test]
fn a_file_that_changes_counts_and_one_that_breaks_leaves_the_last_good_secrets() {
    let dir = TestDir::new("gateway-auth-change").unwrap();
    let path = file(&dir, "shop", "token-number-one");
    let auth = Auth::open(vec![client("shop", SecretFile::Tokens(path.clone()))]).unwrap();
    assert_eq!(auth.look(), (false, Vec::new()));
    std::fs::write(&path, "token-number-two").unwrap();
    assert_eq!(auth.look(), (true, Vec::new()));
    assert_eq!(who(&auth, &with("Bearer token-number-one")), "nobody");
    assert_eq!(who(&auth, &with("Bearer token-number-two")), "shop");
    std::fs::write(&path, "").unwrap();
    let (has_changed, errors) = auth.look();
    assert!(!has_changed && errors[0].why.contains("holds 0 lines"), "{errors:?}");
    assert_eq!(who(&auth, &with("Bearer token-number-two")), "shop");
}

#[test]
fn a_file_that_is_being_written_does_not_count_before_it_is_whole() {
    let dir = TestDir::new("gateway-auth-half").unwrap();
    let path = file(&dir, "shop", "token-number-one");
    let auth = Auth::open(vec![client("shop", SecretFile::Tokens(path.clone()))]).unwrap();
    let after = |text: &str, before: &[Secret]| {
        std::fs::write(&path, text).unwrap();
        read_each(&auth.clients, before)
    };
    // The same file with one token more, caught when half of it was there.
    let reads = std::cell::Cell::new(0);
    let half_then_whole = |before: &[Secret]| {
        reads.set(reads.get() + 1);
        after(["token-number-two", "token-number-two\ntoken-number-one"][reads.get().min(2) - 1], before)
    };
    assert_eq!(auth.look_by(half_then_whole), (false, Vec::new()));
    assert_eq!(who(&auth, &with("Bearer token-number-one")), "shop");
    assert_eq!(who(&auth, &with("Bearer token-number-two")), "nobody");
    assert_eq!(auth.look(), (true, Vec::new()));
    for token in ["token-number-one", "token-number-two"] {
        assert_eq!(who(&auth, &with(&format!("Bearer {token}"))), "shop");
    }
}

#[test]
fn a_file_that_cannot_be_read_keeps_no_other_client_from_a_new_secret() {
    let dir = TestDir::new("gateway-auth-others").unwrap();
    let [shop, edge] = ["shop", "edge"].map(|name| file(&dir, name, &format!("first-token-of-{name}")));
    let clients = [("shop", &shop), ("edge", &edge)];
    let clients = clients.map(|(name, path)| client(name, SecretFile::Tokens(path.clone())));
    let auth = Auth::open(clients.to_vec()).unwrap();
    for (broken, name, replaced, other) in [(&shop, "shop", &edge, "edge"), (&edge, "edge", &shop, "shop")] {
        std::fs::remove_file(broken).unwrap();
        std::fs::write(replaced, format!("second-token-of-{other}")).unwrap();
        let (has_changed, errors) = auth.look();
        assert!(has_changed && errors.len() == 1 && errors[0].client == name, "{errors:?}");
        for (token, expected) in [
            (format!("first-token-of-{other}"), "nobody"),
            (format!("second-token-of-{other}"), other),
            (format!("first-token-of-{name}"), name),
        ] {
            assert_eq!(who(&auth, &with(&format!("Bearer {token}"))), expected, "{token}");
        }
        std::fs::write(broken, format!("first-token-of-{name}")).unwrap();
        std::fs::write(replaced, format!("first-token-of-{other}")).unwrap();
        assert_eq!(auth.look(), (true, Vec::new()));
    }
    // A token that was given to another client is that one's alone.
    std::fs::remove_file(&edge).unwrap();
    std::fs::write(&shop, "first-token-of-edge").unwrap();
    assert_eq!(auth.look().1.len(), 1);
    assert_eq!(who(&auth, &with("Bearer first-token-of-edge")), "shop");
}

#[test]
fn a_token_that_is_copied_into_another_clients_file_stays_its_owners() {
    for [owner, other] in [["shop", "edge"], ["edge", "shop"]] {
        let dir = TestDir::new("gateway-auth-copied").unwrap();
        let files = ["edge", "shop"].map(|name| (name, file(&dir, name, &format!("the-token-of-{name}"))));
        let clients = files.clone().map(|(name, path)| client(name, SecretFile::Tokens(path)));
        let auth = Auth::open(clients.to_vec()).unwrap();
        let copied = &files.iter().find(|(name, _)| *name == other).unwrap().1;
        std::fs::write(copied, format!("the-token-of-{owner}")).unwrap();
        let (has_changed, errors) = auth.look();
        assert!(!has_changed && errors.len() == 1 && errors[0].client == other, "{errors:?}");
        for name in [owner, other] {
            assert_eq!(who(&auth, &with(&format!("Bearer the-token-of-{name}"))), name);
        }
    }
}

#[test]
fn a_token_may_have_letters_beyond_ascii() {
    let dir = TestDir::new("gateway-auth-letters").unwrap();
    let path = file(&dir, "shop", "schl\u{fc}ssel-eins");
    let auth = Auth::open(vec![client("shop", SecretFile::Tokens(path))]).unwrap();
    let header = |bytes: &[u8]| {
        HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_bytes(bytes).unwrap())])
    };
    assert_eq!(who(&auth, &header("Bearer schl\u{fc}ssel-eins".as_bytes())), "shop");
    assert_eq!(who(&auth, &header(b"Bearer schl\xfcssel-eins")), "nobody");
}

#[test]
fn files_that_cannot_be_used_are_named_without_their_words() {
    let dir = TestDir::new("gateway-auth-bad").unwrap();
    let good = file(&dir, "good", "a-good-token");
    let fails = |path: PathBuf| {
        let clients = vec![
            client("first", SecretFile::Tokens(good.clone())),
            client("second", SecretFile::Tokens(path)),
        ];
        Auth::open(clients).err().expect("refused").to_string()
    };
    for (path, why) in [
        (dir.path().join("none"), "cannot be read"),
        (file(&dir, "short", "s3cr3t"), "less than 8 bytes"),
        (file(&dir, "same", "a-good-token"), "another client has too"),
        (file(&dir, "many", &"a-token-of-many\n".repeat(17)), "holds 17 lines"),
        (file(&dir, "long", &"x".repeat(65 << 10)), "more than 65536"),
    ] {
        let error = fails(path);
        assert!(error.starts_with("client `second`: `") && error.contains(why), "{error}");
        for secret in ["s3cr3t", "a-good-token", "a-token-of-many"] {
            assert!(!error.contains(secret), "{error}");
        }
    }
}
