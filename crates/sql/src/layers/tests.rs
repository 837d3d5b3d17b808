use super::layers;
use crate::text::Text;

/// The texts of the queries, the innermost first; or what is wrong.
fn texts(text: &str) -> Result<Vec<String>, String> {
    let all = layers(&Text::new(text)).map_err(|fault| fault.message)?;
    Ok(all.into_iter().map(|layer| layer.text).collect())
}

#[test]
fn queries_within_others_come_first_and_each_reads_the_one_before() {
    let hop = "SELECT auction, count(*) AS num FROM HOP(input, at, INTERVAL '2 seconds', INTERVAL '10 seconds') GROUP BY window_start, window_end, auction";
    let tumble = "SELECT max(num) AS most FROM TUMBLE(input, window_time, INTERVAL '2 seconds') GROUP BY window_start, window_end";
    let filter = "SELECT most FROM input AS w WHERE most > 3";
    let nested = tumble.replace("input", &format!("(\n {hop} )"));
    let expected = Ok(vec![hop.to_owned(), tumble.to_owned(), filter.to_owned()]);
    assert_eq!(texts(&filter.replace("input", &format!("({nested})"))), expected);
    let named = format!(
        "WITH hops AS ({hop}), best AS ({}) {}",
        tumble.replace("input", "hops"),
        filter.replace("input", "best")
    );
    assert_eq!(texts(&named), expected);
}

#[test]
fn columns_may_be_called_after_the_query_of_with_that_they_are_of() {
    for (from, expected) in [
        ("a", "SELECT a.x FROM input AS a WHERE a.y > 1"),
        ("\"a\"", "SELECT a.x FROM input AS \"a\" WHERE a.y > 1"),
        ("a AS b", "SELECT a.x FROM input AS b WHERE a.y > 1"),
        // Refused where it is read, and so it must be read.
        ("a WITH ORDINALITY", "SELECT a.x FROM input WITH ORDINALITY WHERE a.y > 1"),
        ("a PARTITION (p)", "SELECT a.x FROM input PARTITION (p) WHERE a.y > 1"),
    ] {
        let found = texts(&format!("WITH a AS (SELECT * FROM input) SELECT a.x FROM {from} WHERE a.y > 1"));
        assert_eq!(found, Ok(vec!["SELECT * FROM input".to_owned(), expected.to_owned()]), "{from}");
    }
}

#[test]
fn a_text_without_another_query_is_itself() {
    for text in [
        "SELECT * FROM input WHERE x IN (1, 2)",
        "SELECT FROM (",
        "SELECT o.id FROM orders AS o JOIN (SELECT * FROM payments) AS p ON o.id = p.id",
    ] {
        assert_eq!(texts(text), Ok(vec![text.to_owned()]));
    }
    assert_eq!(texts("\n  SELECT * FROM input\n"), Ok(vec!["SELECT * FROM input".to_owned()]));
}

#[test]
fn every_byte_of_a_query_knows_its_place_in_the_whole() {
    let text = "WITH a AS (SELECT übel, b FROM\n (SELECT * FROM input WHERE c > 1) AS x)\n SELECT d AS e FROM a WHERE f = 2";
    let all = layers(&Text::new(text)).unwrap();
    assert_eq!(all.len(), 3);
    for layer in &all {
        for word in ["übel", "b FROM", "c > 1", "d AS e", "WHERE f = 2"] {
            let Some(at) = layer.text.find(word) else { continue };
            assert_eq!(layer.place(at), text.find(word).unwrap(), "{word} in {}", layer.text);
        }
    }
}

#[test]
fn a_query_of_with_is_read_once() {
    let twice = "WITH a AS (SELECT * FROM input), b AS (SELECT * FROM a) SELECT * FROM a";
    assert!(texts(twice).unwrap_err().contains("nothing reads `b`"));
    let joined = "WITH a AS (SELECT * FROM input) SELECT * FROM a JOIN b ON a.x = b.x";
    assert!(texts(joined).unwrap_err().contains("nothing reads `a`"));
    for itself in [
        "WITH a AS (SELECT * FROM a) SELECT * FROM a",
        "WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM a",
    ] {
        assert!(texts(itself).unwrap_err().contains("`a` reads itself"), "{:?}", texts(itself));
    }
    let same = "WITH a AS (SELECT * FROM input), a AS (SELECT * FROM input) SELECT * FROM a";
    assert!(texts(same).unwrap_err().contains("take another"));
    let recursive = "WITH RECURSIVE a AS (SELECT * FROM input) SELECT * FROM a";
    assert!(texts(recursive).unwrap_err().contains("without RECURSIVE"));
}

#[test]
fn no_text_ends_the_program() {
    let text = "WITH a AS (SELECT x FROM ((SELECT * FROM input WHERE y IN (1, 2)))) SELECT max(x) AS m FROM TUMBLE((SELECT * FROM a), t, INTERVAL '1 hour') AS w (c)";
    for from in 0..text.len() {
        for len in [1, 2, 7, 30] {
            let rest = &text[(from + len).min(text.len())..];
            for middle in ["", "(", ")", "\u{fc}(", "((SELECT", "--"] {
                let changed = format!("{}{middle}{rest}", &text[..from]);
                if let Ok(all) = layers(&Text::new(&changed)) {
                    assert!(
                        all.iter().all(|layer| layer.place(layer.text.len()) <= changed.len()),
                        "{changed}"
                    );
                }
            }
        }
    }
}
