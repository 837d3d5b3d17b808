use serde_json::json;

use super::*;

#[test]
fn the_address_is_taken_from_the_line_that_tells_it() {
    let log = "{\"level\":\"INFO\",\"message\":\"other\",\"address\":\"no\"}\n\
               {\"level\":\"INFO\",\"message\":\"metrics, health and status over HTTP\",\"address\":\"127.0.0.1:4\"}\n";
    assert_eq!(address(log, LISTENS).as_deref(), Some("127.0.0.1:4"));
    assert_eq!(address("{\"message\":\"metrics, health and status over HTTP\",\"addr", LISTENS), None);
}

/// Keys in files take next to no memory, so bytes by all keys would be far too few.
#[test]
fn bytes_a_key_are_those_of_keys_in_memory() {
    let mut seen = Seen::default();
    assert_eq!(seen.state_bytes_per_key(), None);
    for (keys, in_files, bytes) in
        [(0, 0, 10), (1_000, 0, 130_000), (900, 0, 200_000), (9_000, 8_000, 150_000)]
    {
        seen.note_state(&json!({ "keys": keys, "keys_spilled": in_files, "bytes": bytes }));
    }
    assert_eq!(seen.state_bytes_per_key(), Some(130.0));
    assert_eq!((seen.state_keys, seen.state_bytes), (1_000, 200_000));
    let mut only_in_files = Seen::default();
    only_in_files.note_state(&json!({ "keys": 9_000, "keys_spilled": 8_000, "bytes": 150_000 }));
    assert_eq!(only_in_files.state_bytes_per_key(), None);
}
