use super::*;

#[test]
fn a_message_names_the_place_the_reason_and_the_way_out() {
    let full = io::Error::from(io::ErrorKind::StorageFull);
    let error = StoreError::io(Operation::Put, "lane/7", "write its bytes", full);
    assert_eq!((error.kind, error.effect), (ErrorKind::Full, Effect::None));
    assert_eq!(
        error.to_string(),
        "cannot put `lane/7`: failed to write its bytes: no storage space; free some space or raise the quota (the \
         limit `ulimit -f` of the process is one), and Forebay continues"
    );
    assert_eq!(error.with_effect(Effect::Unknown).effect, Effect::Unknown);
}

#[test]
fn a_read_only_disk_asks_for_permission_and_a_full_quota_for_space() {
    let kind = |kind: io::ErrorKind| StoreError::io(Operation::Put, "k", "sync", kind.into()).kind;
    assert_eq!(kind(io::ErrorKind::ReadOnlyFilesystem), ErrorKind::Permission);
    let error = StoreError::io(Operation::Put, "k", "sync", io::ErrorKind::ReadOnlyFilesystem.into());
    assert!(error.to_string().contains("`mount -o remount,rw`"), "{error}");
    assert_eq!(kind(io::ErrorKind::QuotaExceeded), ErrorKind::Full);
    // `ulimit -f`.
    assert_eq!(kind(io::ErrorKind::FileTooLarge), ErrorKind::Full);
    assert_eq!(kind(io::ErrorKind::CrossesDevices), ErrorKind::NotSupported);
    assert_eq!(kind(io::ErrorKind::Interrupted), ErrorKind::Io);
}
