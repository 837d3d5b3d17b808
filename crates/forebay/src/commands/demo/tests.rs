use super::*;

fn demo() -> Demo {
    Demo { uniques: 2_000_000, dir: PathBuf::from("./forebay-demo") }
}

#[test]
fn numbers_are_grouped() {
    assert_eq!(grouped(0), "0");
    assert_eq!(grouped(999), "999");
    assert_eq!(grouped(2_204_000), "2 204 000");
}

#[test]
fn the_demos_pipeline_file_has_no_fault() {
    let text = demo().pipeline("http://127.0.0.1:1", "0123456789e0", Path::new("/tmp/forebay-demo"));
    let surroundings = pipeline::config::values::reference::Surroundings::of_process();
    let checked = pipeline::config::check(&text, &surroundings);
    assert!(checked.pipeline.is_some(), "{}", checked.faults.render("demo.yaml"));
}

#[test]
fn a_folder_that_no_demo_made_is_left_alone() {
    let dir = std::env::temp_dir().join(format!("forebay-demo-test-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder");
    std::fs::write(dir.join("mine"), "x").expect("a file");
    let error = fresh(&dir).expect_err("it is not empty").to_string();
    assert!(error.contains("--dir"), "{error}");
    assert!(dir.join("mine").exists());
    std::fs::write(dir.join(MARK), "").expect("a file");
    fresh(&dir).expect("now it is a demo's");
    assert!(!dir.join("mine").exists());
    std::fs::remove_dir_all(&dir).expect("removed");
}

#[test]
fn a_wrong_table_is_said_to_be_wrong() {
    let content = Content { rows: 10, ids: 10, checksum: 7 };
    let last = Status::default().snapshot();
    assert!(verdict(&content, &content, &last, 1.0).expect("printed"));
    let doubled = Content { rows: 11, ..content };
    assert!(!verdict(&content, &doubled, &last, 1.0).expect("printed"));
}

#[test]
fn the_next_commands_name_paths_with_blanks_as_a_shell_takes_them() {
    let dir = Path::new("/my demo");
    let said = next_commands(dir, &dir.join("user-events.yaml"), "http://127.0.0.1:1", "0123456789e0");
    assert!(said.contains(" status '/my demo/user-events.yaml'\n"), "{said}");
    assert!(said.contains(" --path '/my demo/clickhouse' --token"), "{said}");
}
