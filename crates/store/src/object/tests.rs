use super::*;

fn refused(url: &str, remote: &Remote) -> StoreError {
    ObjectStorage::new(url, remote).expect_err("refused")
}

fn local() -> Remote {
    Remote {
        endpoint: Some("http://127.0.0.1:9".into()),
        access_key: Some("key".into()),
        secret_key: Some("hunter2".into()),
        ..Remote::default()
    }
}

#[test]
#[cfg(feature = "s3")]
fn a_url_names_a_bucket_and_a_folder_in_it() {
    for (url, described, path) in [
        ("s3://bucket", "s3://bucket", "lane/7"),
        ("s3://bucket/", "s3://bucket", "lane/7"),
        ("s3://bucket/a/b", "s3://bucket/a/b", "a/b/lane/7"),
        ("s3://my.bucket-1/a/", "s3://my.bucket-1/a", "a/lane/7"),
    ] {
        let store = ObjectStorage::new(url, &local()).expect("a store");
        assert_eq!((store.describe().as_str(), store.path("lane/7").as_ref()), (described, path));
    }
}

#[test]
fn a_url_that_names_no_bucket_or_no_folder_is_refused_without_being_shown() {
    for url in ["s3://", "s3:///prefix", "s3://user:hunter2@bucket/x", "s3://bucket/a//b", "s3://bucket/.x"] {
        let error = refused(url, &local());
        assert_eq!(error.kind, ErrorKind::Url, "{url}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[test]
#[cfg(feature = "s3")]
fn a_bucket_that_lists_without_order_is_refused() {
    let error = refused("s3://mine--use1-az4--x-s3/x", &local());
    assert!(error.to_string().contains("directory bucket"), "{error}");
}

#[test]
fn settings_do_not_show_their_secrets() {
    let shown = format!("{:?}", local());
    assert!(!shown.contains("hunter2") && !shown.contains("\"key\""), "{shown}");
}

#[tokio::test]
#[cfg(feature = "s3")]
async fn a_store_that_is_not_there_was_not_asked_for_anything() {
    let store = ObjectStorage::new("s3://bucket/x", &local()).expect("a store");
    let error =
        store.put_if_absent(&Key::new("a").expect("a key"), vec![]).await.expect_err("nobody listens");
    assert_eq!((error.kind, error.effect), (ErrorKind::Io, dataflow::Effect::None), "{error}");
    assert!(error.kind.is_transient());
}

#[tokio::test]
#[cfg(feature = "s3")]
async fn http_to_another_machine_needs_a_word() {
    let endpoint = Some("http://store.invalid".to_owned());
    let store = ObjectStorage::new("s3://bucket/x", &Remote { endpoint, ..local() }).expect("a store");
    let error = store.get(&Key::new("a").expect("a key"), 1).await.expect_err("refused");
    assert!(error.to_string().contains("URL scheme is not allowed"), "{error}");
}

#[test]
#[cfg(feature = "s3")]
fn a_store_on_this_machine_is_never_asked_through_a_proxy() {
    testkit::assert_this_machine_is_asked_directly(
        module_path!(),
        "a_store_on_this_machine_is_never_asked_through_a_proxy",
        |url| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            // Only a word lets a key go to another machine in clear.
            let remote = Remote { endpoint: Some(url.into()), allow_http: true, ..local() };
            let store = ObjectStorage::new("s3://bucket/x", &remote);
            let _ = runtime.block_on(store.expect("a store").get(&Key::new("a").expect("a key"), 1));
        },
    );
}
