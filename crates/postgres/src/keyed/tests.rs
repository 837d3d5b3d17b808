use super::*;

#[test]
fn a_connection_that_has_rested_is_not_used_again_and_neither_is_an_old_one() {
    let at = Duration::from_secs;
    assert!(is_of_use(at(100), at(100), at(100)));
    assert!(is_of_use(at(100), at(600), at(659)), "it was used within the minute");
    assert!(!is_of_use(at(100), at(600), at(660)), "a firewall may have forgotten it");
    assert!(is_of_use(at(100), at(698), at(699)));
    assert!(!is_of_use(at(100), at(699), at(700)), "a renewed certificate is to count");
}
