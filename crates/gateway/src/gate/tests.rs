use super::*;

#[test]
fn a_tenants_name_is_a_word() {
    for name in ["acme", "ACME-1_x", &"a".repeat(64)] {
        assert_eq!(tenant(Some(name)).unwrap(), name);
    }
    // A dot would make one tenant's stream another's.
    for name in ["", "a.b", "a/b", "ä", "a b", &"a".repeat(65)] {
        assert_eq!(tenant(Some(name)).unwrap_err().kind, Kind::Malformed);
    }
    assert_eq!(tenant(None).unwrap_err().kind, Kind::Malformed);
}
