//! The questions about rows that are there in part, or that the targets of views may lack: each answer is taken, as docs/design/stop-states.md
//! says, on the real engine.

use live::pipeline::ended;
use live::{Case, Feed, Pipeline, Table};
use serde_json::{Value, json};
use testkit::{Fault, FaultProxy, Rule, wait_until};

use super::doubts::{INSERT, LONG, OTHERS, PERSON, WINDOW, goes_on, ids, others_write, wait_until_old};

/// A pipeline that has stopped to ask about the insert of the rows 100 to 199.
struct Asked {
    pipeline: Pipeline,
    table: Table,
    feed: Feed,
    frame: String,
    _proxy: FaultProxy,
}

impl Asked {
    /// The answer to an insert is lost, its token proves nothing any more, and `change` changes what the insert has written. `view` is SQL that
    /// runs before the pipeline's first start.
    fn about(case: &Case, reason: &str, view: &[&str], change: impl Fn(&Table)) -> Asked {
        wait_until_old(case);
        let proxy = FaultProxy::start(&case.server().url()).expect("a proxy");
        let table = case.table("id UInt32", "id");
        table
            .ask(&format!("ALTER TABLE {{t}} MODIFY SETTING non_replicated_deduplication_window = {WINDOW}"));
        view.iter().for_each(|sql| drop(table.ask(sql)));
        let feed = case.feed();
        feed.send(ids(0..100));
        let pipeline = case.pipeline().url(&proxy.url()).sink("timeout: 2s").batch("{ rows: 1000, age: 1s }");
        let running = pipeline.run();
        table.wait_for(100);
        // The answer has come as well: one insert is asked about.
        wait_until(LONG, "the first rows to be settled", || pipeline.pending_frames() == 0);
        let lost = proxy.add(Rule::next(1, Fault::SwallowAnswer).query(INSERT));
        let shut = proxy.add(Rule::always(Fault::Reset));
        feed.send(ids(100..200));
        wait_until(LONG, "the answer to be lost", || proxy.fired(lost) == 1);
        table.wait_for(200);
        others_write(&table, OTHERS);
        change(&table);
        proxy.remove(shut);
        let (exit, log) = ended(running);
        assert_eq!(exit.status.code(), Some(PERSON), "{log}");
        // A start without an answer asks again.
        assert_eq!(ended(pipeline.run()).0.status.code(), Some(PERSON));
        let asked: Value = pipeline.status()["questions"][0].clone();
        assert_eq!((&asked["reason"], &asked["rows"]), (&json!(reason), &json!(100)), "{asked}");
        let frame = asked["frame"].as_str().expect("its id").to_owned();
        Asked { pipeline, table, feed, frame, _proxy: proxy }
    }

    /// `SQL … WHERE _forebay = 'ID'`, with the frame's id as a UUID.
    fn with_rows_of_the_insert(&self, sql: &str) {
        let id: String = self.frame.chars().filter(|c| *c != '-').collect();
        let parts = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]];
        self.table.ask(&format!("{sql} WHERE _forebay = '{}' SETTINGS mutations_sync = 1", parts.join("-")));
    }

    /// Answers, and goes on to a good end.
    fn answer(&self, verdict: &str, rows: u64) {
        wait_until(LONG, "the answer to be taken", || {
            let answer = self.pipeline.run_tool(&["answer"], &["--frame", &self.frame, verdict]);
            let is_early = answer.stderr.contains("may still be on its way");
            assert!(answer.exit.status.success() || is_early && verdict == "--absent", "{}", answer.stderr);
            answer.exit.status.success()
        });
        self.pipeline.drain();
        assert_eq!(self.table.count_and_distinct("id"), (rows + OTHERS, rows + OTHERS));
        assert_eq!((self.pipeline.pending_frames(), &self.pipeline.status()["questions"]), (0, &json!([])));
        goes_on(&self.feed, &self.pipeline, &self.table, rows + OTHERS);
    }
}

const DELETED: &str = "ALTER TABLE {t} DELETE WHERE id BETWEEN 120 AND 149 SETTINGS mutations_sync = 1";

#[test]
fn rows_that_others_have_deleted_of_an_insert_in_doubt_stay_away_when_told_so() {
    let Some(case) = Case::begin("part_present") else { return };
    let asked = Asked::about(&case, "part_present", &[], |table| drop(table.ask(DELETED)));
    asked.answer("--present", 170);
}

#[test]
fn rows_that_others_have_deleted_of_an_insert_in_doubt_come_back_when_told_so() {
    let Some(case) = Case::begin("part_absent") else { return };
    let asked = Asked::about(&case, "part_present", &[], |table| drop(table.ask(DELETED)));
    asked.with_rows_of_the_insert("ALTER TABLE {t} DELETE");
    assert_eq!(asked.table.count(), 100 + OTHERS, "the rest of the insert is gone");
    asked.answer("--absent", 200);
}

/// A view's target that the insert's rows did not reach: somebody has deleted them there, which looks the same.
fn views(name: &str) -> Option<(Case, Asked, Table)> {
    let case = Case::begin(name)?;
    let target = format!("{name}_target");
    let view = [
        format!(
            "CREATE TABLE {target} (id UInt32) ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = {WINDOW}"
        ),
        format!("CREATE MATERIALIZED VIEW {name}_view TO {target} AS SELECT id FROM {name}"),
    ];
    let target = Table::at(&case.server().url(), &target);
    let lose = |_: &Table| {
        drop(target.ask("ALTER TABLE {t} DELETE WHERE id BETWEEN 100 AND 199 SETTINGS mutations_sync = 1"));
    };
    let asked = Asked::about(&case, "views_unknown", &[&view[0], &view[1]], lose);
    assert_eq!((asked.table.count(), target.count()), (200 + OTHERS, 100 + OTHERS));
    Some((case, asked, target))
}

#[test]
fn rows_that_the_target_of_a_view_lacks_are_inserted_there_before_they_are_said_to_be_present() {
    let Some((_case, asked, target)) = views("views_present") else { return };
    asked.with_rows_of_the_insert("INSERT INTO views_present_target SELECT id FROM {t}");
    asked.answer("--present", 200);
    assert_eq!(target.count_and_distinct("id"), (300 + OTHERS, 300 + OTHERS));
}

#[test]
fn rows_that_the_target_of_a_view_lacks_come_with_all_others_once_they_are_deleted_and_said_to_be_absent() {
    let Some((_case, asked, target)) = views("views_absent") else { return };
    asked.with_rows_of_the_insert("ALTER TABLE {t} DELETE");
    asked.answer("--absent", 200);
    assert_eq!(target.count_and_distinct("id"), (300 + OTHERS, 300 + OTHERS));
}
