use super::*;

#[test]
fn a_service_has_hosts_and_says_whether_it_is_encrypted() {
    let (addresses, is_encrypted) = service("pulsar://a:1,b , [::1]:3").expect("is one");
    let shown: Vec<String> = addresses.iter().map(Address::authority).collect();
    assert_eq!((shown, is_encrypted), (vec!["a:1".into(), "b:6650".into(), "[::1]:3".into()], false));
    let (addresses, is_encrypted) = service("pulsar+ssl://a").expect("is one");
    assert_eq!((addresses[0].port, is_encrypted), (6651, true));
    for wrong in
        ["", "a:1", "http://a", "pulsar://", "pulsar://a:x", "pulsar://u@a", "pulsar://a,", "pulsar://a/b"]
    {
        assert!(service(wrong).is_err(), "{wrong}");
    }
}
