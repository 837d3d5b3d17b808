use std::sync::Arc;

use arrow_array::StringArray;
use proptest::prelude::*;

use super::*;

fn added(text: &str, pattern: &str, replacement: &str, flags: &str) -> i64 {
    let columns = [text, pattern, replacement, flags];
    let columns = columns.map(|text| (Arc::new(StringArray::from(vec![text])) as ArrayRef, true));
    matches_replaced(&Row { columns: &columns, row: 0 }, &mut Patterns::new())
}

#[test]
fn what_a_replacement_adds_is_counted_where_it_can_be_too_much() {
    let long = "ab".repeat(40_000);
    assert_eq!(added(&long, "(a)(b)", r"\2\1", "g"), 0);
    assert_eq!(added(&long, "(a)(b)", "$2$1-${1}$$", "g"), 40_000 * 3);
    assert_eq!(added(&long, "(?<first>A)", "${first}${first}", "gi"), 40_000);
    assert_eq!(added(&long, "^", &"x".repeat(70_000), ""), 70_000);
    assert!(added(&long, "", &"x".repeat(70_000), "g") > TEXT_BYTES_MAX);
    assert_eq!(added(&long, "(", &"x".repeat(70_000), "g"), 0, "DataFusion refuses the pattern");
}

proptest! {
    /// Against the text that is made.
    #[test]
    fn the_count_is_that_of_the_text_that_is_made(
        text in "[abc]{0,40}", pattern in "\\(?[abc]\\)?[ab]?", replacement in "[ab$1{}\\\\_]{0,12}",
    ) {
        let Ok(pattern) = Regex::new(&pattern) else { return Ok(()) };
        static NUMBERS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\{1,2}(\d+)").expect("a pattern"));
        let written = NUMBERS.replace_all(&replacement, "$${$1}").into_owned();
        let made = pattern.replace_all(&text, written.as_str());
        let counted = Replacement::new(&replacement, &pattern);
        let added: i64 = pattern.captures_iter(&text).map(|found| counted.len(&found) - found[0].len() as i64).sum();
        prop_assert_eq!(added, made.len() as i64 - text.len() as i64, "{:?} {:?}", pattern, replacement);
    }
}
