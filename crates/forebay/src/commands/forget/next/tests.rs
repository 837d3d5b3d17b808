use sources::file::{FileOptions, FileSource};
use sources::pulsar::{PulsarOptions, PulsarSource};

use super::*;

/// A folder that goes with the test.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("forebay-forget-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }

    fn write(&self, name: &str) -> String {
        std::fs::write(self.path(name), format!("{{\"of\":\"{name}\"}}\n")).expect("written");
        self.path(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

async fn input(name: &str, path: &str) -> Input {
    let source = FileSource::new(FileOptions::new(vec![path.to_owned()])).expect("a source");
    let files = named(source.partitions().await.expect("they are listed"));
    Input { name: name.to_owned(), number: None, source: Arc::new(source), files }
}

async fn identity(path: &str) -> String {
    let source = FileSource::new(FileOptions::new(vec![path.to_owned()])).expect("a source");
    source.partitions().await.expect("they are listed").swap_remove(0).identity
}

#[tokio::test]
async fn what_is_forgotten_is_compared_with_what_the_pipeline_file_names_now() {
    let folder = Folder::new("next");
    let (a, b) = (folder.write("a.jsonl"), folder.write("b.jsonl"));
    let (of_a, of_b) = (identity(&a).await, identity(&b).await);
    let nothing = |_: &Input, _: &str| false;
    let one = input("one", &a).await;
    let all = input("all", &folder.path("*.jsonl")).await;
    let same = Some(Next::Continues { stream: a.clone() });
    assert_eq!(next(("one", &a, &of_a), std::slice::from_ref(&one), &nothing), same);
    assert_eq!(next(("one", &b, &of_b), std::slice::from_ref(&one), &nothing), None, "nobody names it");
    // The input has another name.
    let other = Some(Next::OtherInput { stream: b.clone(), was: "two".to_owned(), is: "all".to_owned() });
    let inputs = [one, all];
    assert_eq!(next(("two", &b, &of_b), &inputs, &nothing), other);
    let reads = |input: &Input, stream: &str| input.name == "all" && *stream == *b;
    assert_eq!(next(("two", &b, &of_b), &inputs, &reads), None, "that one has read it as well");
    // The file has another name, which the same pattern means, or another path.
    let c = folder.path("c.jsonl");
    std::fs::rename(&a, &c).expect("renamed");
    for (was, input) in
        [("all", input("all", &folder.path("*.jsonl")).await), ("all", input("all", &c).await)]
    {
        let renamed = Some(Next::OtherName { was: a.clone(), is: c.clone() });
        assert_eq!(next((was, &a, &of_a), std::slice::from_ref(&input), &nothing), renamed);
    }
    let found = next(("all", &a, &of_a), &[input("all", &c).await], &nothing).expect("it is found");
    assert!(found.doubles() && found.told(false).contains("a second time"), "{found:?}");
    assert!(found.way_out().ends_with(&format!("let `paths` name `{a}` too")), "{}", found.way_out());
    // The file has gone: the position is kept for one of its name.
    std::fs::remove_file(&c).expect("removed");
    assert_eq!(next(("all", &a, &of_a), &[input("all", &folder.path("*.jsonl")).await], &nothing), same);
    assert_eq!(next(("two", &a, &of_a), &[input("all", &folder.path("*.jsonl")).await], &nothing), None);
}

#[tokio::test]
async fn a_topic_without_an_identity_is_read_from_where_start_says_and_that_is_said_before() {
    let options =
        PulsarOptions::new("pulsar://127.0.0.1:9", &["a/b/c".to_owned()], "s").expect("they are right");
    let source = Arc::new(PulsarSource::new(options, TokioRuntime::new(1)));
    let inputs = [Input { name: "one".to_owned(), number: None, source, files: Vec::new() }];
    let nothing = |_: &Input, _: &str| false;
    let found = next(("one", "a/b/c", ""), &inputs, &nothing).expect("the pipeline file names it");
    assert_eq!(found, Next::Anew { stream: "a/b/c".to_owned() });
    assert!(found.doubles(), "it is said before anybody is asked");
    for from_start in [false, true] {
        let told = found.told(from_start);
        assert!(told.contains("the position that `start` names") && told.contains("a second time"), "{told}");
        assert!(!told.contains("continues"), "{told}");
    }
    let way_out = found.way_out();
    assert!(way_out.contains("do not forget it"), "{way_out}");
    assert!(way_out.contains("`forebay reset FILE --to earliest --topic a/b/c`"), "{way_out}");
    let known = next(("one", "a/b/c", "an id"), &inputs, &nothing);
    assert_eq!(known, Some(Next::Continues { stream: "a/b/c".to_owned() }));
    assert_eq!(next(("one", "a/b/d", ""), &inputs, &nothing), None, "nobody names it");
}
