use super::*;

fn of(pairs: &[(&'static str, &'static str)]) -> Result<Security, String> {
    security(&pairs.iter().copied().collect())
}

#[test]
fn nothing_asked_for_is_in_clear() {
    assert_eq!(of(&[]), Ok(Security::default()));
    assert_eq!(of(&[("security.protocol", "PLAINTEXT"), ("sasl.username", "u")]), Ok(Security::default()));
}

#[test]
fn logins_by_password_are_taken_over_with_and_without_encryption() {
    for (protocol, is_encrypted) in [("sasl_plaintext", false), ("SASL_SSL", true)] {
        for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
            let set = [
                ("security.protocol", protocol),
                ("sasl.mechanism", mechanism),
                ("sasl.username", "loader"),
                ("sasl.password", "s3cret"),
            ];
            let security = of(&set).expect("directly");
            assert_eq!(security.tls.is_some(), is_encrypted);
            let login = security.login.as_ref().expect("a login");
            assert_eq!((login.mechanism.name(), login.password.0.as_str()), (mechanism, "s3cret"));
            assert!(!format!("{security:?}").contains("s3cret"));
        }
    }
}

#[test]
fn hosts_are_verified_unless_it_is_turned_off() {
    let verifies = |set: &[_]| of(set).expect("directly").tls.expect("encrypted").verify_host;
    const SSL: (&str, &str) = ("security.protocol", "ssl");
    const NAME: &str = "ssl.endpoint.identification.algorithm";
    assert!(verifies(&[SSL]) && verifies(&[SSL, (NAME, "https")]));
    assert!(!verifies(&[SSL, (NAME, "none")]));
    assert!(of(&[SSL, (NAME, "perhaps")]).is_err());
}

#[test]
fn what_is_asked_seldom_is_left_to_librdkafka() {
    let why = |set: &[_]| of(set).expect_err("left to librdkafka");
    assert!(why(&[("security.protocol", "SASL_SSL")]).contains("GSSAPI"));
    let token = [("security.protocol", "SASL_SSL"), ("sasl.mechanism", "OAUTHBEARER")];
    assert!(why(&token).contains("OAUTHBEARER"));
    let nobody = [("security.protocol", "SASL_SSL"), ("sasl.mechanism", "PLAIN")];
    assert!(why(&nobody).contains("sasl.username"));
    assert!(why(&[("security.protocol", "ssl"), ("ssl.ca.location", "/")]).contains("no file"));
    assert!(why(&[("security.protocol", "ssl"), ("ssl.key.location", "k")]).contains("without"));
    assert!(why(&[("security.protocol", "smoke")]).contains("smoke"));
}
