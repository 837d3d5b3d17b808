use super::*;

#[test]
fn the_address_is_taken_from_the_line_that_tells_it() {
    let log = "{\"level\":\"INFO\",\"message\":\"other\",\"address\":\"no\"}\n\
               {\"level\":\"INFO\",\"message\":\"metrics, health and status over HTTP\",\"address\":\"127.0.0.1:4\"}\n";
    assert_eq!(address(log, LISTENS).as_deref(), Some("127.0.0.1:4"));
    assert_eq!(address("{\"message\":\"metrics, health and status over HTTP\",\"addr", LISTENS), None);
}
