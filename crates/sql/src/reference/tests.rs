use std::path::Path;

#[test]
fn the_committed_page_lists_the_functions_of_this_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/sql-functions.md");
    let page = super::reference();
    if std::env::var_os("UPDATE_CASES").is_some() {
        std::fs::write(&path, &page).expect("written");
    }
    let committed = std::fs::read_to_string(&path).expect("a page");
    assert!(
        page == committed,
        "`docs/reference/sql-functions.md` is stale; refresh it by `UPDATE_CASES=1 cargo test -p sql`"
    );
}
