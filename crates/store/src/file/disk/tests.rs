use super::*;
use crate::file::tests::Folder;

/// Records the steps of a store and lets one of them fail.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    reached: Vec<Step>,
    /// The step to fail, after how many more of its kind, and how.
    fail: Option<(Step, usize, io::ErrorKind)>,
}

impl Faults {
    pub(crate) fn reach(&self, step: Step) -> io::Result<()> {
        let mut state = self.0.lock().expect("no panic");
        state.reached.push(step);
        match state.fail {
            Some((failing, 0, kind)) if failing == step => {
                state.fail = None;
                Err(kind.into())
            }
            Some((failing, left, kind)) if failing == step => {
                state.fail = Some((failing, left - 1, kind));
                Ok(())
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(crate) fn fail(&self, step: Step, after: usize, kind: io::ErrorKind) {
        self.0.lock().expect("no panic").fail = Some((step, after, kind));
    }

    pub(crate) fn take(&self) -> Vec<Step> {
        std::mem::take(&mut self.0.lock().expect("no panic").reached)
    }
}

fn disk() -> (Folder, Disk) {
    let folder = Folder::new();
    let disk = Disk::open(&folder.path().join("root")).expect("opens");
    disk.faults.take();
    (folder, disk)
}

fn key(text: &str) -> Key {
    Key::new(text).expect("a key")
}

#[test]
fn hardening_what_is_absent_or_an_object_is_no_failure() {
    let (_folder, disk) = disk();
    disk.harden(&Prefix::new("absent/deep").expect("a prefix")).expect("nothing is there");
    put(&disk, "a/1").expect("puts");
    disk.harden(&Prefix::new("a/1").expect("a prefix")).expect("an object has nothing below it");
    assert_eq!(put(&disk, "a/2").expect("puts"), Put::Created);
}

fn put(disk: &Disk, text: &str) -> Result<Put, StoreError> {
    disk.put_if_absent(&key(text), &[Bytes::from_static(b"body")], Way::Cached)
}

fn temps(disk: &Disk) -> usize {
    fs::read_dir(disk.root.join(temp::FOLDER)).expect("reads").count()
}

#[test]
fn bytes_are_durable_before_the_name_and_the_name_before_the_answer() {
    use Step::*;
    let (_folder, disk) = disk();
    put(&disk, "a/b/1").expect("puts");
    let first = [MakeFolder, Sync, MakeFolder, Sync, CreateTemp, WriteTemp, SyncTemp, Link, Sync];
    assert_eq!(disk.faults.take(), first);
    put(&disk, "a/b/2").expect("puts");
    assert_eq!(disk.faults.take(), [CreateTemp, WriteTemp, SyncTemp, Link, Sync], "folders are synced once");
    put(&disk, "a/b/2").expect("puts");
    assert_eq!(disk.faults.take(), [], "what exists costs no write");
}

#[test]
fn folders_found_are_synced_by_each_process_for_itself() {
    use Step::*;
    let (_folder, disk) = disk();
    // What a writer leaves that was killed between making the folder and its fsync.
    fs::create_dir(disk.root.join("a")).expect("makes");
    put(&disk, "a/1").expect("puts");
    assert_eq!(disk.faults.take()[..2], [MakeFolder, Sync]);
}

#[test]
fn a_failure_before_the_link_has_no_effect_and_leaves_nothing() {
    for step in [Step::MakeFolder, Step::CreateTemp, Step::WriteTemp, Step::SyncTemp, Step::Link] {
        let (_folder, disk) = disk();
        disk.faults.fail(step, 0, io::ErrorKind::StorageFull);
        let error = put(&disk, "a/1").expect_err("fails");
        assert_eq!((error.kind, error.effect), (ErrorKind::Full, Effect::None), "{step:?}");
        assert!(error.to_string().contains("`a/1`"), "{error}");
        assert_eq!(disk.get(&key("a/1"), 10).expect("reads"), None, "{step:?}");
        assert_eq!(temps(&disk), 0, "{step:?}");
        assert_eq!(put(&disk, "a/1").expect("the next one works"), Put::Created, "{step:?}");
    }
}

#[test]
fn a_failed_fsync_of_a_new_folder_has_no_effect_and_is_final() {
    let (_folder, disk) = disk();
    disk.faults.fail(Step::Sync, 0, io::ErrorKind::Other);
    let error = put(&disk, "a/1").expect_err("fails");
    assert_eq!((error.kind, error.effect), (ErrorKind::SyncFailed, Effect::None));
    assert_eq!(disk.get(&key("a/1"), 10).expect("reads"), None);
    assert_eq!(put(&disk, "a/1").expect_err("no more writes").kind, ErrorKind::SyncFailed);
}

#[test]
fn a_failed_fsync_after_the_link_is_in_doubt_and_final() {
    let (_folder, disk) = disk();
    disk.faults.fail(Step::Sync, 1, io::ErrorKind::Other);
    let error = put(&disk, "a/1").expect_err("fails");
    assert_eq!((error.kind, error.effect), (ErrorKind::SyncFailed, Effect::Unknown));
    assert_eq!(temps(&disk), 0);
    assert!(disk.get(&key("a/1"), 10).expect("reading goes on").is_some());
    let error = put(&disk, "a/2").expect_err("no more writes");
    assert_eq!((error.kind, error.effect), (ErrorKind::SyncFailed, Effect::None));
    assert_eq!(
        disk.harden(&Prefix::root()).expect_err("nothing can be promised").kind,
        ErrorKind::SyncFailed
    );
}

#[test]
fn a_failed_harden_is_final() {
    for after in 0..2 {
        let (_folder, disk) = disk();
        put(&disk, "a/1").expect("puts");
        disk.faults.fail(Step::Sync, after, io::ErrorKind::Other);
        assert_eq!(disk.harden(&Prefix::root()).expect_err("fails").kind, ErrorKind::SyncFailed);
        assert_eq!(put(&disk, "a/2").expect_err("no more writes").kind, ErrorKind::SyncFailed);
    }
}

#[test]
fn hardening_syncs_the_way_to_the_folder_too() {
    let (_folder, disk) = disk();
    put(&disk, "a/b/1").expect("puts");
    put(&disk, "c/1").expect("puts");
    disk.faults.take();
    disk.harden(&Prefix::new("a/b").expect("a prefix")).expect("hardens");
    assert_eq!(disk.faults.take(), [Step::Sync; 3], "the root, `a` and `a/b`");
}

#[test]
fn a_link_made_without_an_answer_counts_as_made() {
    let (_folder, disk) = disk();
    fs::create_dir(disk.root.join("a")).expect("makes");
    let mut temp = TempFile::create(&disk.root).expect("makes");
    temp.write(&[Bytes::from_static(b"x")]).expect("writes");
    assert!(!temp.is_linked().expect("looks"));
    fs::hard_link(temp.path(), disk.root.join("a/1")).expect("links");
    assert!(temp.is_linked().expect("looks"));
}

#[test]
fn a_temporary_file_removed_in_between_costs_a_retry() {
    let (_folder, disk) = disk();
    put(&disk, "a/0").expect("puts");
    disk.faults.take();
    disk.faults.fail(Step::Link, 0, io::ErrorKind::NotFound);
    assert_eq!(put(&disk, "a/1").expect("puts"), Put::Created);
    let links = disk.faults.take().into_iter().filter(|&step| step == Step::Link).count();
    assert_eq!(links, 2);
}
