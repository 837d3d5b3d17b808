use dataflow::{Column, ColumnType, Schema};

use super::column_index;

fn message(name: &str) -> String {
    let columns = ["event_id", "user_id", "at"].map(|name| Column::new(name, ColumnType::Int64));
    column_index(&Schema::new(columns.to_vec()), "dedup.key", name).unwrap_err().to_string()
}

#[test]
fn an_unknown_column_is_answered_with_the_nearest() {
    assert_eq!(message("event_ids"), "dedup.key: there is no column `event_ids`; did you mean `event_id`?");
    assert_eq!(message("Evnt_Id"), "dedup.key: there is no column `Evnt_Id`; did you mean `event_id`?");
    assert_eq!(message("ät"), "dedup.key: there is no column `ät`; did you mean `at`?");
}

#[test]
fn a_name_that_is_near_to_none_is_not_guessed_at() {
    assert_eq!(message("session"), "dedup.key: there is no column `session`");
    assert_eq!(message(""), "dedup.key: there is no column ``");
}
