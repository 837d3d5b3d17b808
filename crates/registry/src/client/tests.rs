//! What needs no registry: addresses, logins and the order of texts.

use super::*;

fn reference(subject: &str) -> Reference {
    Reference { name: format!("{subject}.proto"), subject: subject.into(), version: 1 }
}

fn refused(config: Config) -> String {
    let error = Client::new(&config).err().expect("it cannot be used");
    assert_eq!(error.fault, SourceFault::Config);
    error.message
}

#[test]
fn a_text_stands_behind_all_that_it_uses_and_stands_once() {
    // a uses b and c, c uses b and d, d uses b.
    let mut others = BTreeMap::from([
        (reference("b"), ("B".into(), vec![])),
        (reference("c"), ("C".into(), vec![reference("b"), reference("d")])),
        (reference("d"), ("D".into(), vec![reference("b")])),
    ]);
    let shown = |texts: Vec<SchemaText>| {
        texts.into_iter().map(|text| text.name + "=" + &text.text).collect::<Vec<_>>()
    };
    let texts = in_order("A".into(), &[reference("c"), reference("b")], &mut others);
    assert_eq!(shown(texts), ["b.proto=B", "d.proto=D", "c.proto=C", "=A"]);
    // A circle, which no registry takes, ends all the same.
    let mut circle = BTreeMap::from([(reference("b"), ("B".into(), vec![reference("b")]))]);
    assert_eq!(shown(in_order("A".into(), &[reference("b")], &mut circle)), ["b.proto=B", "=A"]);
}

#[test]
fn addresses_that_cannot_be_a_registry_are_refused() {
    for (url, expected) in [
        ("registry:8081", "`url` must be `http://host:port`"),
        ("no address", "`url` is not an address: "),
        ("http://r:8081/?x=1", "`url` must be "),
        ("http://me:secret@r:8081", "`url` holds a user or a password; "),
    ] {
        let message = refused(Config { url: url.into(), ..Config::default() });
        assert!(message.starts_with(expected), "{url}: {message}");
        assert!(!message.contains("secret"), "{message}");
    }
    let ca_pem = Some(b"no certificate".to_vec());
    let message = refused(Config { url: "https://r".into(), ca_pem, ..Config::default() });
    assert_eq!(message, "`ca` holds no certificates in PEM form");
}

#[test]
fn a_registry_on_this_machine_is_never_asked_through_a_proxy() {
    testkit::assert_this_machine_is_asked_directly(
        module_path!(),
        "a_registry_on_this_machine_is_never_asked_through_a_proxy",
        |url| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let client = Client::new(&Config { url: url.into(), ..Config::default() }).expect("a client");
            let _ = runtime.block_on(client.schema(1));
        },
    );
}
