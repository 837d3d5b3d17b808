use super::*;
use crate::figure::Shown;

const RATE: Figure = Figure::new("offered_records_per_s", "offered", Shown::Whole);
const P99: Figure = Figure::new("visible_p99_s", "p99, s", Shown::Decimals(3));

fn grid() -> Grid {
    let mut grid = Grid::new("by rate", &[RATE, P99]);
    grid.push("slow", |figure| (figure == RATE).then_some(5_000.0));
    grid.push("fast", |figure| Some(if figure == RATE { 40_000.0 } else { 1.25 }));
    grid.notes.push("latencies of every record".to_owned());
    grid
}

#[test]
fn columns_stand_below_their_headings_and_what_is_not_known_is_a_dash() {
    let mut text = String::new();
    grid().write(&mut text).expect("a String takes all that is written");
    assert_eq!(
        text,
        "by rate  offered  p99, s\n\
         slow       5,000       -\n\
         fast      40,000   1.250\n\
         \u{20} latencies of every record\n"
    );
}

#[test]
fn programs_find_each_number_under_the_name_of_its_figure() {
    let json = serde_json::to_value(grid()).expect("numbers and texts");
    assert_eq!(json["title"], "by rate");
    assert_eq!(
        json["rows"][1],
        serde_json::json!({"name": "fast", "offered_records_per_s": 40_000.0, "visible_p99_s": 1.25})
    );
    assert_eq!(
        json["rows"][0].as_object().map(serde_json::Map::len),
        Some(2),
        "what is not known has no name"
    );
}

#[test]
fn a_long_sentence_goes_on_in_lines_that_are_set_in() {
    let mut grid = Grid::new("t", &[]);
    grid.notes.push(["words"; 60].join(" "));
    let mut text = String::new();
    grid.write(&mut text).expect("a String takes all that is written");
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert!(
        lines.len() == 4 && lines[0].starts_with("  words") && lines[1].starts_with("    words"),
        "{text}"
    );
    assert!(lines.iter().all(|line| line.len() <= NOTE_WIDTH), "{text}");
    assert_eq!(text.matches("words").count(), 60);
}
