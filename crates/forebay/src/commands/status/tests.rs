use serde_json::json;

use super::*;

#[test]
fn what_a_first_start_waits_for_is_shown_though_there_is_no_journal() {
    let mut report = json!({
        "pipeline": "events", "has_run": false, "running": null, "not_running": "nothing answers at 127.0.0.1:9464"
    });
    let told = for_people(&report);
    assert_eq!(told, "pipeline     events\njournal      none in this store: the pipeline has not run yet\n");
    report["running"] = json!({
        "phase": "starting", "lag": null, "tables": {},
        "problems": [{
            "place": "default.events", "state": "server_away", "since_ms": 0, "times": 3, "effect": "none",
            "words": "connection refused", "remedy": "start the server"
        }]
    });
    let told = for_people(&report);
    for words in [
        "journal      none in this store: the process below is starting",
        "running      phase starting, lag unknown\n",
        "waiting      default.events: server_away since 1970-01-01T00:00:00Z, 3 times; nothing was written by it\n",
        "             connection refused\n",
        "             way out: start the server\n",
    ] {
        assert!(told.contains(words), "`{words}` is not in\n{told}");
    }
}
