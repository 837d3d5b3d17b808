use super::*;

fn place(table: &str, replicated: bool) -> Place {
    Place { database: "d".into(), table: table.into(), replicated, shared: false }
}

fn replica_of(table: &str, side: u8, behind: u64) -> Replica {
    Replica { side, database: "d".into(), table: table.into(), behind, log_max: 70, ..Replica::default() }
}

#[test]
fn one_statement_asks_one_server_for_everything() {
    let places = [place("t", true), place("target", false)];
    let count = "SELECT count() FROM `d`.`t` WHERE `_forebay` = toUUID('0')";
    let views = [("d".to_owned(), "v".to_owned())];
    let unnamed = "SELECT toUInt8(count()) FROM (SELECT 1 FROM `d`.`t` LIMIT 1)";
    let question = Question {
        places: &places,
        views: &views,
        count: Some(count),
        unnamed: Some(unnamed),
        counts_async: true,
        nonce: "look-7",
    };
    let sql = question.sql();
    for part in [
        "serverUUID()",
        "uptime()",
        "now64(3)",
        "system.parts",
        "AsyncInsertQuery",
        count,
        unnamed,
        "getSetting('insert_deduplication_token') /* look-7 */",
        "(database, name) IN (('d', 'target')) AND database IN ('d') AND name IN ('target')",
        "is_in_partition_key",
    ] {
        assert_eq!(sql.matches(part).count(), 1, "{part} in {sql}");
    }
    // Of the table and the targets, and of the views.
    assert_eq!(sql.matches("max(toUnixTimestamp(metadata_modification_time))").count(), 2, "{sql}");
    // The lag is read on both sides of the count, in two texts that no cache takes for one.
    let [before, after] = sql.split(count).collect::<Vec<_>>()[..] else { panic!("{sql}") };
    assert!(before.contains("toUInt8(1), database") && before.contains("system.replicas"), "{sql}");
    assert!(after.contains("toUInt8(2), database") && after.contains("system.replicas"), "{sql}");
    assert!(sql.contains("system.parts WHERE (database, table) IN (('d', 'target'))"), "{sql}");
    let alone = "database IN ('d') AND name IN ('t', 'target')";
    let tables = format!("system.tables WHERE (database, name) IN (('d', 't'), ('d', 'target')) AND {alone}");
    assert!(sql.contains(&tables), "{sql}");
    assert_eq!(sql.matches(';').count(), 0);
    // Without a doubt the keeper is asked once.
    let look = Question { count: None, unnamed: None, ..question }.sql();
    assert_eq!(look.matches("system.replicas").count(), 1, "{look}");
}

#[test]
fn what_a_command_asks_of_a_replica_stands_between_two_readings_of_its_lag() {
    let place = place("t", true);
    let question = "SELECT h, count() FROM `d`.`t` GROUP BY h";
    let sql = beside_replica(&place, question);
    let [before, after] = sql.split(question).collect::<Vec<_>>()[..] else { panic!("{sql}") };
    for (side, text) in [(1, before), (2, after)] {
        assert!(text.contains(&format!("toUInt8({side}), database")), "{sql}");
        assert!(text.contains("FROM system.replicas WHERE (database, table) IN (('d', 't'))"), "{sql}");
    }
    let [good, behind] = [0, 3].map(|behind| vec![replica_of("t", 1, behind)]);
    assert_eq!(lag_of(&place, &good, &good), None);
    for (before, after) in [(&good, &behind), (&behind, &good), (&good, &Vec::new())] {
        assert!(lag_of(&place, before, after).is_some());
    }
}

#[test]
fn a_replica_that_is_behind_on_either_side_of_the_count_lags() {
    let places = [place("t", true)];
    let sight = |before, after| Sight {
        before: vec![replica_of("t", 1, before)],
        after: vec![replica_of("t", 2, after)],
        ..Sight::default()
    };
    assert_eq!(sight(0, 0).lag(&places, true), None);
    for (before, after) in [(1, 0), (0, 1), (3, 3)] {
        let why = sight(before, after).lag(&places, true).unwrap();
        assert!(why.contains("log entries behind"), "{why}");
    }
    let mut expired = sight(0, 0);
    expired.before[0].expired = 1;
    assert!(expired.lag(&places, true).unwrap().contains("lost its keeper"));
    let mut readonly = sight(0, 0);
    readonly.after[0].readonly = 1;
    assert!(readonly.lag(&places, true).unwrap().contains("lost its keeper"));
    // One side only is no answer.
    let half = Sight { after: Vec::new(), ..sight(0, 0) };
    assert!(half.lag(&places, true).unwrap().contains("does not show"));
    // Parts in a store that all nodes share cannot lag, and a plain table has no replica.
    assert_eq!(Sight::default().lag(&[Place { shared: true, ..place("t", true) }], true), None);
    assert_eq!(Sight::default().lag(&[place("t", false)], true), None);
}

/// Its log has no entry, which shows as one entry that was not read.
#[test]
fn a_table_with_replicas_that_nobody_has_written_to_is_not_waited_for() {
    let places = [place("t", true)];
    let new = |side| Replica { log_max: 0, is_unread: 1, ..replica_of("t", side, 1) };
    let sight = Sight { before: vec![new(1)], after: vec![new(2)], ..Sight::default() };
    assert_eq!(sight.lag(&places, false), None);
    let why = sight.lag(&places, true).expect("an insert that was answered is in the log");
    assert!(why.contains("1 log entries behind"), "{why}");
    // One that was read and not fetched, a keeper that could not be asked, and a replica without it.
    let unfetched = Replica { is_unread: 0, ..new(2) };
    let readonly = Replica { readonly: 1, ..new(2) };
    let expired = Replica { expired: 1, ..new(2) };
    for after in [vec![unfetched], vec![readonly], vec![expired], Vec::new()] {
        assert!(Sight { after, ..sight.clone() }.lag(&places, false).is_some());
    }
    let read: Replica = serde_json::from_str(r#"[1,"d","t",0,0,1,0,1]"#).unwrap();
    assert_eq!(read, new(1));
    let sql =
        Question { places: &places, views: &[], count: None, unnamed: None, counts_async: false, nonce: "" }
            .sql();
    let shown = "toUInt8(log_max_index = 0 AND log_pointer = 0 AND inserts_in_queue = 0)";
    assert_eq!(sql.matches(shown).count(), 1, "{sql}");
    assert_eq!(sql.matches("toUInt8(is_session_expired OR total_replicas = 0)").count(), 1, "{sql}");
}

/// A server that lost its keeper in the middle of a commit shows the part until it knows better.
#[test]
fn rows_of_a_replica_that_has_parts_to_verify_may_be_gone_in_a_while() {
    let to_verify = |side, to_verify| vec![Replica { to_verify, ..replica_of("t", side, 0) }];
    for (before, after, stays) in [(0, 0, true), (1, 0, false), (0, 2, false)] {
        let (before, after) = (to_verify(1, before), to_verify(2, after));
        let sight = Sight { before, after, ..Sight::default() };
        assert_eq!(sight.unverified(&[place("t", true)]).is_none(), stays);
        // What is not there is not there.
        assert_eq!(sight.lag(&[place("t", true)], true), None);
        assert_eq!(sight.unverified(&[place("t", false)]), None);
    }
    let read: Replica = serde_json::from_str(r#"[1,"d","t",0,0,0,70,0,2]"#).unwrap();
    assert_eq!(read.to_verify, 2);
    assert_eq!(replicas_of(1, "('d', 't')").matches("toUInt64(parts_to_check)").count(), 1);
}

#[test]
fn a_shared_table_that_is_listed_without_a_log_has_the_sum_of_its_partitions() {
    let shared = [Place { shared: true, ..place("t", true) }];
    let parts = vec![("d".into(), "t".into(), 4, 9)];
    let listed = |log_max| Sight {
        before: vec![Replica { log_max, ..replica_of("t", 1, 0) }],
        parts: parts.clone(),
        ..Sight::default()
    };
    assert_eq!(listed(0).blocks(&shared), Ok(vec![9]), "a number that stands still would hide every insert");
    assert_eq!(listed(70).blocks(&shared), Ok(vec![70]));
}

#[test]
fn a_replicated_table_without_its_replica_has_no_block_number() {
    let sight = Sight { before: vec![replica_of("t", 1, 0)], ..Sight::default() };
    assert_eq!(sight.blocks(&[place("t", true)]), Ok(vec![70]));
    let error = sight.blocks(&[place("t", true), place("target", true)]).unwrap_err();
    assert!(error.contains("no replica of table `d.target`"), "{error}");
    let shared = Place { shared: true, ..place("s", true) };
    let parts = vec![("d".into(), "s".into(), 4, 9)];
    assert_eq!(Sight { parts, ..Sight::default() }.blocks(&[shared]), Ok(vec![9]));
}

#[test]
fn asynchronous_inserts_of_others_move_the_number_of_a_plain_table() {
    let sight = |newest, asyncs| Sight {
        parts: vec![("d".into(), "t".into(), newest, newest)],
        asyncs,
        ..Sight::default()
    };
    let (before, after) = (sight(5, 1_000), sight(6, 1_450));
    let number = |sight: &Sight| sight.blocks(&[place("t", false)]).unwrap()[0];
    assert_eq!(
        number(&after) - number(&before),
        451,
        "one part that holds 450 inserts of others is 450 tokens"
    );
    assert_eq!(Sight::default().blocks(&[place("t", false)]), Ok(vec![0]), "a table without parts");
}

#[test]
fn identities_of_zeros_are_none() {
    let nil = "00000000-0000-0000-0000-000000000000";
    let sight =
        Sight { server_uuid: nil.into(), table: vec![(nil.into(), "['/p']".into())], ..Sight::default() };
    assert_eq!((sight.server_identity(), sight.table_identity()), ("", Some("['/p']")));
    assert_eq!(Sight::default().table_identity(), None);
    let sight = Sight { now_ms: 5_000, uptime_s: 3, ..Sight::default() };
    assert_eq!(sight.start_ms(), 2_000);
}

#[test]
fn a_row_is_read_as_the_server_writes_it() {
    let row = r#"[1700000000123,77,"u",[["id","['/p']"]],[[1,"d","t",0,0,2,9]],3,[[2,"d","t",0,0,0,9]],[["d","x",4,5]],6,[1700000000,18446744073709551615,8],9,1,"look-7"]"#;
    let sight: Sight = serde_json::from_str(row).unwrap();
    assert_eq!(
        (sight.now_ms, sight.uptime_s, sight.count, sight.asyncs),
        (1_700_000_000_123, 77, Some(3), 6)
    );
    assert_eq!(sight.altered, (1_700_000_000, u64::MAX, 8));
    assert_eq!((sight.before[0].behind, sight.after[0].side), (2, 2));
    assert_eq!(sight.parts, [("d".to_owned(), "x".to_owned(), 4, 5)]);
    assert_eq!((sight.routes, sight.unnamed, sight.echo.as_str()), (9, Some(1), "look-7"));
    // Without a question about rows there is no count.
    let row = r#"[1,2,"u",[],[],null,[],[],0,[0,0,0],0,null,""]"#;
    let sight: Sight = serde_json::from_str(row).unwrap();
    assert_eq!((sight.count, sight.unnamed), (None, None));
}
