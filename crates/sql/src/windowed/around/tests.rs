use super::queries;
use crate::layers::{Layer, Role};
use crate::text::Text;

fn is_aggregate(name: &str) -> bool {
    ["count", "sum", "max", "avg"].contains(&name.to_lowercase().as_str())
}

fn all(text: &str) -> Result<Vec<Layer>, crate::Fault> {
    queries(&Text::new(text), &is_aggregate)
}

/// The queries that one stands for, without superfluous blanks.
fn texts(text: &str) -> Vec<String> {
    let plain = |layer: Layer| layer.text.split_whitespace().collect::<Vec<_>>().join(" ").replace(" ,", ",");
    all(text).unwrap().into_iter().map(plain).collect()
}

const FROM: &str = "FROM TUMBLE(input, at, INTERVAL '1 minute')";
const BY: &str = "GROUP BY window_start, window_end, device";

#[test]
fn conditions_are_queries_before_and_behind() {
    let text = format!(
        "SELECT window_start, device, count(*) AS n {FROM} AS w\nWHERE amount > 3 AND w.kind = 'where' {BY}\nHAVING count(*) > 1 AND max(amount) FILTER (WHERE x) < 10"
    );
    assert_eq!(
        texts(&text),
        [
            "SELECT * FROM input AS w WHERE amount > 3 AND w.kind = 'where'".to_owned(),
            format!(
                "SELECT window_start, device, count(*) AS n, max(amount) FILTER (WHERE x) AS aggregate_1 {FROM} AS w {BY}"
            ),
            "SELECT * EXCEPT (aggregate_1) FROM input WHERE n > 1 AND aggregate_1 < 10".to_owned(),
        ]
    );
    let roles: Vec<Role> = all(&text).unwrap().into_iter().map(|layer| layer.role).collect();
    assert_eq!(roles, [Role::Before, Role::Query, Role::Behind]);
}

#[test]
fn expressions_over_results_are_made_behind_them() {
    let text = format!(
        "SELECT device AS d, sum(a) AS total, sum(a) / count(*) AS mean, round(avg(b) + 1, 2) AS r {FROM} {BY}"
    );
    assert_eq!(
        texts(&text),
        [
            format!("SELECT sum(a) AS total, count(*) AS aggregate_1, avg(b) AS aggregate_2 {FROM} {BY}"),
            "SELECT * EXCEPT (device, aggregate_1, aggregate_2), device AS d, total / aggregate_1 AS mean, round(aggregate_2 + 1, 2) AS r FROM input".to_owned(),
        ]
    );
    // A condition may name what an item makes, and the key under either name.
    assert_eq!(
        texts(&format!("{text} HAVING mean > 2 AND d <> 'x' AND device <> 'y'"))[1..],
        [
            "SELECT *, device AS d, total / aggregate_1 AS mean, round(aggregate_2 + 1, 2) AS r FROM input".to_owned(),
            "SELECT * EXCEPT (device, aggregate_1, aggregate_2) FROM input WHERE mean > 2 AND d <> 'x' AND device <> 'y'".to_owned(),
        ]
    );
}

#[test]
fn a_comparison_of_two_aggregates_with_distinct_from_is_no_clause() {
    let text = format!("SELECT count(*) AS n, max(a) IS DISTINCT\nFROM sum(a) AS changed {FROM} {BY}");
    assert_eq!(
        texts(&text),
        [
            format!("SELECT count(*) AS n, max(a) AS aggregate_1, sum(a) AS aggregate_2 {FROM} {BY}"),
            "SELECT * EXCEPT (aggregate_1, aggregate_2), aggregate_1 IS DISTINCT FROM aggregate_2 AS changed FROM input"
                .to_owned(),
        ]
    );
}

#[test]
fn nothing_is_computed_of_results_that_a_condition_drops() {
    let text = format!("SELECT device, sum(a) / sum(n) AS mean {FROM} {BY} HAVING sum(n) > 0");
    assert_eq!(
        texts(&text),
        [
            format!("SELECT device, sum(a) AS aggregate_1, sum(n) AS aggregate_2 {FROM} {BY}"),
            "SELECT * FROM input WHERE aggregate_2 > 0".to_owned(),
            "SELECT * EXCEPT (aggregate_1, aggregate_2), aggregate_1 / aggregate_2 AS mean FROM input"
                .to_owned(),
        ]
    );
    // What the items make is there behind them alone, also under its full name.
    for named in ["mean > 2", "sum(n) > 0 AND input.mean > 2"] {
        let text = text.replace("sum(n) > 0", named);
        assert!(texts(&text)[1].ends_with("AS mean FROM input"), "{named}");
        assert!(texts(&text)[2].contains("mean > 2"), "{named}");
    }
}

#[test]
fn a_name_that_is_taken_is_not_taken_twice_and_quotes_stay() {
    let text = format!(
        "SELECT sum(\"aggregate_1\") AS \"Total amount\", device, device AS other, sum(x) {FROM} {BY}"
    );
    // Without a name it is refused as before.
    assert_eq!(texts(&text)[1], "SELECT *, device AS other FROM input");
    let text = format!(
        "SELECT sum(\"aggregate_1\") AS \"Total amount\" {FROM} {BY} HAVING sum(aggregate_1) > sum(y)"
    );
    assert_eq!(
        texts(&text),
        [
            format!(
                "SELECT sum(\"aggregate_1\") AS \"Total amount\", sum(aggregate_1) AS aggregate_2, sum(y) AS aggregate_3 {FROM} {BY}"
            ),
            "SELECT * EXCEPT (aggregate_2, aggregate_3) FROM input WHERE aggregate_2 > aggregate_3"
                .to_owned(),
        ]
    );
}

#[test]
fn what_has_nothing_around_it_or_no_windows_stays_as_it_is() {
    for text in [
        format!("SELECT window_start,  count(*) AS n {FROM} {BY}"),
        "SELECT a + 1 AS b FROM input WHERE count > 3".to_owned(),
        format!("SELECT * {FROM} {BY}"),
        format!("SELECT window_start, count(*) AS n {FROM} {BY} ORDER BY n"),
        "SELECT count(*) AS n FROM TUMBLE(input, at, INTERVAL '1 minute') WHERE a > 1".to_owned(),
    ] {
        assert_eq!(all(&text).unwrap().into_iter().map(|layer| layer.text).collect::<Vec<_>>(), [text]);
    }
}

#[test]
fn every_byte_knows_its_place_in_the_whole() {
    let inner = format!(
        "SELECT device, sum(größe) / count(*) AS mean {FROM} WHERE größe > 3 {BY} HAVING max(größe) < 9"
    );
    let text = format!("SELECT * FROM (\n {inner}) WHERE mean > 4");
    let all = all(&text).unwrap();
    assert_eq!(all.len(), 5);
    for (layer, words) in all.iter().zip([
        &["WHERE größe > 3", "größe > 3"][..],
        &["device", "sum(größe)", "count(*)", "max(größe)", "TUMBLE", "GROUP BY window_start"],
        &["< 9"],
        &[" AS mean"],
        &["WHERE mean > 4"],
    ]) {
        for word in words {
            let at = layer.text.find(word).unwrap_or_else(|| panic!("{word} in {}", layer.text));
            assert_eq!(layer.place(at), text.find(word).unwrap(), "{word} in {}", layer.text);
        }
    }
}

#[test]
fn columns_under_the_alias_of_the_windows_are_those_without_it() {
    let text = format!(
        "SELECT w.window_start, w.device, sum(w.amount) / count(*) AS mean {FROM} AS w\nWHERE w.kind = 'w.x' \
         GROUP BY w.window_start, window_end, w.device HAVING max(w.amount) > 1"
    );
    assert_eq!(
        texts(&text),
        [
            "SELECT * FROM input AS w WHERE w.kind = 'w.x'".to_owned(),
            format!(
                "SELECT window_start, device, sum(amount) AS aggregate_1, count(*) AS aggregate_2, max(amount) AS aggregate_3 {FROM} AS w {BY}"
            ),
            "SELECT * FROM input WHERE aggregate_3 > 1".to_owned(),
            "SELECT * EXCEPT (aggregate_1, aggregate_2, aggregate_3), aggregate_1 / aggregate_2 AS mean FROM input"
                .to_owned(),
        ]
    );
    let text = format!("SELECT w.device, count(*) AS n {FROM} AS w {BY}");
    assert_eq!(texts(&text), [format!("SELECT device, count(*) AS n {FROM} AS w {BY}")]);
    let layers = all(&text).unwrap();
    for word in ["device", "count", "TUMBLE"] {
        let at = layers[0].text.find(word).unwrap();
        assert_eq!(layers[0].place(at), text.find(word).unwrap(), "{word}");
    }
    // Without the alias there is no such prefix.
    let text = format!("SELECT v.device, count(*) AS n {FROM} AS w {BY}");
    let fault = all(&text).unwrap_err();
    assert!(fault.message.ends_with("not the alias of the windows; write `device`"), "{}", fault.message);
    assert_eq!(&text[fault.at.unwrap()], "v.device");
}

#[test]
fn an_aggregate_in_a_condition_on_records_is_refused_at_its_place() {
    let text = format!("SELECT count(*) AS n {FROM} WHERE a > 1 AND sum(b) > 3 {BY}");
    let fault = all(&text).unwrap_err();
    assert!(fault.message.contains("behind HAVING"), "{}", fault.message);
    assert_eq!(&text[fault.at.unwrap()], "sum(b)");
    let text = format!("SELECT count(*) AS n, device || 'x' {FROM} {BY}");
    let fault = all(&text).unwrap_err();
    assert_eq!(&text[fault.at.unwrap()], "device || 'x'");
}

#[test]
fn no_text_ends_the_program() {
    let text = format!(
        "SELECT device AS d, sum(a) / count(*) AS m {FROM} AS w WHERE a > 3 {BY} HAVING max(b) FILTER (WHERE c) < 9"
    );
    for from in 0..text.len() {
        for len in [1, 2, 7, 30] {
            let rest = &text[(from + len).min(text.len())..];
            for middle in ["", "(", ")", "\u{fc}(", "HAVING", "WHERE", ",", "--"] {
                let changed = format!("{}{middle}{rest}", &text[..from]);
                if let Ok(all) = all(&changed) {
                    assert!(
                        all.iter().all(|layer| layer.place(layer.text.len()) <= changed.len()),
                        "{changed}"
                    );
                }
            }
        }
    }
}
