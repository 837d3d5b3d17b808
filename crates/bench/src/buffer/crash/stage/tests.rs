use super::*;

#[test]
fn every_part_is_killed_in_each_of_its_stages_as_often_as_there_is_time() {
    let second = Duration::from_secs;
    let planned = |has_proxy, time_s| planned(has_proxy, second(time_s)).map(|kills| kills.len());
    assert_eq!(planned(true, 108).expect("there is time"), 27);
    assert_eq!(planned(true, 240).expect("there is time"), 54);
    assert_eq!(planned(false, 32).expect("there is time"), 8);
    let why = planned(true, 107).expect_err("there is none").to_string();
    assert!(why.contains("27 times, which takes 108 s") && why.contains("`--seconds`"), "{why}");
    for part in PARTS {
        let of_part = |kill: &&Kill| kill.part == part;
        assert_eq!(kills(true).iter().filter(of_part).count(), stages(part).len(), "{part:?}");
    }
}

#[test]
fn a_folder_is_never_away_and_shows_no_stage() {
    let all = kills(false);
    assert!(all.iter().all(|kill| kill.part != Part::Store), "{all:?}");
    let wanted = Kill { part: Part::ClickHouse, stage: Stage::Start };
    assert!(all.contains(&wanted) && !all.contains(&Kill { part: Part::Pipeline, ..wanted }), "{all:?}");
}

#[test]
fn the_report_counts_kills_by_part_and_stage() {
    let crash = |part, stage| Crash { kill: Kill { part, stage }, back: Duration::ZERO };
    assert_eq!(grid(&[]), None);
    let crashes = [
        crash(Part::Gateway, Stage::Commit),
        crash(Part::Store, Stage::Commit),
        crash(Part::Gateway, Stage::Commit),
        crash(Part::Pipeline, Stage::Inserted),
    ];
    let grid = grid(&crashes).expect("something was killed");
    let rows: Vec<(&str, Vec<String>)> =
        grid.rows.iter().map(|row| (row.name.as_str(), grid.cells(row))).collect();
    assert_eq!(
        rows,
        [
            ("a commit is put", ["2", "-", "-", "1"].map(str::to_owned).to_vec()),
            ("an insert is done and not answered", ["-", "1", "-", "-"].map(str::to_owned).to_vec()),
        ]
    );
}
