use super::*;

#[test]
fn a_setting_takes_the_place_of_the_one_that_is_there() {
    let ports = Ports { broker: 1, web: 2, bookie: 3 };
    let set = [
        ("keepAliveIntervalSeconds".to_owned(), "5".to_owned()),
        ("webServicePort".to_owned(), "9".to_owned()),
    ];
    let text = with_properties(
        "# comment\n\nkeepAliveIntervalSeconds=30\nwebServicePort=8080\nother=x=y\n",
        ports,
        &set,
    );
    let lines: Vec<&str> = text.lines().collect();
    for wanted in ["keepAliveIntervalSeconds=5", "webServicePort=9", "brokerServicePort=1", "other=x=y"] {
        assert_eq!(lines.iter().filter(|line| **line == wanted).count(), 1, "{text}");
    }
    assert!(!text.contains("=30") && !text.contains("8080") && !text.contains('#'), "{text}");
}
