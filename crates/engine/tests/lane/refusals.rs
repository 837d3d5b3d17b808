//! Rows that the table refuses, and what becomes of them and of their neighbours.

use super::*;

#[test]
fn one_refused_row_goes_to_the_dead_letters_alone_and_its_key_is_forgotten() {
    run(async {
        let bench = Bench::new();
        bench.table.world.lock().expect("no panic").poison = vec![13, 37];
        bench.push(0..200);
        bench.drain().await.expect("drains");
        bench.assert_holds((0..200).filter(|id| ![13, 37].contains(id)));
        // Each by its record's position: ids go to the two partitions in turn.
        let letters = bench.dead_letters.world.lock().expect("no panic").ids();
        assert_eq!(letters.into_iter().collect::<Vec<_>>(), [(6, 1), (18, 1)]);
        let totals = bench.totals().await;
        assert_eq!((totals.written, totals.dead_letters, totals.records.passed), (198, 2, 200));
        assert!(totals.records.add_up());
        let told = bench.status.snapshot().tables.remove("d.t").expect("its rows");
        assert_eq!((told.rows_sealed, told.rows_settled, told.rows_refused), (200, 198, 2));
        assert_eq!(told.rows_in_flight(), 0);

        // The table was mended and the record sent again: it is welcome.
        bench.table.world.lock().expect("no panic").poison.clear();
        bench.push([13, 37, 14]);
        bench.drain().await.expect("drains");
        bench.assert_holds(0..200);
    });
}

#[test]
fn a_half_whose_rows_weigh_more_than_the_batchs_mean_is_sent_whole() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.batch_rows_max = 40;
        bench.settings.batch_age_max = Duration::from_secs(1);
        bench.settings.first_batch_age_max = Duration::from_secs(1);
        // All in one partition, the heavy ones last: two frames of 20 rows by the mean of all, where 10 heavy ones would be cut again.
        let ids: Vec<u64> = (0..30).map(|n| 2 * n).chain((500..510).map(|n| 2 * n)).collect();
        {
            let mut world = bench.table.world.lock().expect("no panic");
            world.frame_weight_max = 20 * ids.iter().sum::<u64>() / 40;
            world.poison = vec![4, 1_004];
        }
        bench.push(ids.iter().copied());
        bench.drain().await.expect("drains");
        bench.assert_holds(ids.into_iter().filter(|id| ![4, 1_004].contains(id)));
        assert_eq!(bench.totals().await.dead_letters, 2);
    });
}

#[test]
fn a_refused_row_whose_record_is_gone_or_away_is_a_dead_letter_at_its_place_all_the_same() {
    run(async {
        for is_gone in [true, false] {
            let mut bench = Bench::new();
            bench.settings.reread_time_max = Duration::from_millis(100);
            bench.table.world.lock().expect("no panic").away = true;
            bench.table.world.lock().expect("no panic").facts_away = false;
            bench.push(0..50);
            let (stop, asked) = watch::channel(false);
            let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
            wait_until(|| bench.status.snapshot().sealed.records.read == 50).await;
            if is_gone {
                (0..2).for_each(|index| bench.feed.forget(&Partition::new("e", index), 25));
            } else {
                bench.feed.fail(10_000);
            }
            {
                let mut world = bench.table.world.lock().expect("no panic");
                world.poison = vec![13, 37];
                world.away = false;
            }
            wait_until(|| bench.dead_letters.world.lock().expect("no panic").ids().len() == 2).await;
            stop.send(true).expect("it runs");
            running.await.expect("no panic").expect("drains");
            let letters = bench.dead_letters.world.lock().expect("no panic").ids();
            assert_eq!(letters.into_iter().collect::<Vec<_>>(), [(6, 1), (18, 1)]);
            bench.assert_holds((0..50).filter(|id| ![13, 37].contains(id)));
        }
    });
}

#[test]
fn a_table_that_was_changed_gets_nothing_until_it_is_as_it_was_and_no_row_is_blamed() {
    run(async {
        for are_rows_refused in [true, false] {
            let mut bench = Bench::new();
            bench.settings.facts_every = Duration::from_millis(5);
            bench.push(0..50);
            let (stop, asked) = watch::channel(false);
            let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
            wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 50).await;
            {
                let mut world = bench.table.world.lock().expect("no panic");
                world.changed = true;
                // Whether the server notices or would write something else in silence.
                world.poison = if are_rows_refused { (0..200).collect() } else { Vec::new() };
            }
            bench.table_looked_at().await;
            bench.push(50..200);
            wait_until(|| {
                let problem = bench.status.snapshot().problems.remove("d.t");
                problem.is_some_and(|problem| problem.state == State::TableDiffers)
            })
            .await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(bench.table.world.lock().expect("no panic").ids().len(), 50);
            {
                let mut world = bench.table.world.lock().expect("no panic");
                (world.changed, world.poison) = (false, Vec::new());
            }
            wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 200).await;
            stop.send(true).expect("it runs");
            running.await.expect("no panic").expect("drains");
            bench.assert_holds(0..200);
            assert_eq!(bench.status.snapshot().problems, BTreeMap::new(), "it has ended");
            assert_eq!(bench.totals().await.dead_letters, 0);
        }
    });
}

#[test]
fn more_bad_rows_than_pieces_hold_the_frame_say_so_and_lose_nothing() {
    run(async {
        for names_no_row in [true, false] {
            let mut bench = Bench::new();
            bench.settings.batch_rows_max = 4_000;
            bench.settings.batch_age_max = Duration::from_secs(1);
            bench.settings.first_batch_age_max = Duration::from_secs(1);
            bench.settings.drain_time_max = Duration::from_millis(100);
            {
                let mut world = bench.table.world.lock().expect("no panic");
                (world.poison, world.names_no_row) = ((0..4_000).collect(), names_no_row);
            }
            bench.push(0..4_000);
            let (stop, asked) = watch::channel(false);
            let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
            let problem = || bench.status.snapshot().problems.remove("d.t").map(|p| p.words);
            wait_until(|| problem().is_some_and(|words| words.contains("1024 pieces"))).await;
            stop.send(true).expect("it runs");
            assert_eq!(running.await.expect("no panic").expect("goes on"), Outcome::Interrupted);
            assert_eq!(bench.totals().await.dead_letters, 0);
            // Its table mended, all of it arrives, in pieces.
            bench.settings.drain_time_max = Duration::from_secs(50);
            bench.table.world.lock().expect("no panic").poison.clear();
            bench.drain().await.expect("drains");
            bench.assert_holds(0..4_000);
        }
    });
}

/// A row that was refused for what is mended by now, while its neighbours waited for the operator, is sent once more.
#[test]
fn no_row_is_blamed_for_what_was_mended_while_its_frame_waited() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.batch_rows_max = 4_000;
        bench.settings.batch_age_max = Duration::from_secs(1);
        bench.settings.first_batch_age_max = Duration::from_secs(1);
        // All in one partition, and so in one frame.
        let ids: Vec<u64> = (0..2_000).map(|n| 2 * n).collect();
        bench.table.world.lock().expect("no panic").poison.clone_from(&ids);
        bench.push(ids.iter().copied());
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        let problem = || bench.status.snapshot().problems.remove("d.t").map(|p| p.words);
        wait_until(|| problem().is_some_and(|words| words.contains("1024 pieces"))).await;
        bench.table.world.lock().expect("no panic").poison = vec![8];
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 1_999).await;
        stop.send(true).expect("it runs");
        running.await.expect("no panic").expect("drains");
        bench.assert_holds(ids.into_iter().filter(|id| *id != 8));
        assert_eq!(bench.totals().await.dead_letters, 1);
    });
}

/// A quarter of the rows is refused: each costs the insert that names it, and its own, and all of a frame share one split and one seal.
#[test]
fn many_bad_rows_that_the_server_names_are_parted_in_one_go() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.batch_rows_max = 2_000;
        bench.settings.batch_age_max = Duration::from_secs(1);
        bench.settings.first_batch_age_max = Duration::from_secs(1);
        // The rows of the two partitions are in turn.
        let is_bad = |id: &u64| id % 4 == 3;
        bench.table.world.lock().expect("no panic").poison = (0..1_000).filter(is_bad).collect();
        bench.push(0..1_000);
        bench.drain().await.expect("drains");
        bench.assert_holds((0..1_000).filter(|id| !is_bad(id)));
        let (attempts, refused, looks) = {
            let world = bench.table.world.lock().expect("no panic");
            (world.attempts, world.refused, world.looks)
        };
        assert_eq!(bench.totals().await.dead_letters, 250);
        let frames = bench.lane().await.tables[0].next_ordinal;
        assert!(refused <= 2 * 250 + frames, "{refused} inserts were refused, of {frames} frames");
        assert!(attempts <= refused + 250 + 2 * frames, "{attempts} inserts, {refused} of them refused");
        assert!(looks < 60, "{looks}: the table is looked at for all of them together");
        let letters = bench.dead_letters.world.lock().expect("no panic").rows.len();
        assert!(letters as u64 <= 2 * frames + 1, "{letters} seals with dead letters, of {frames} frames");
    });
}

/// A row is refused, the table is seen to be another, the row is refused once more, and the operator mends both before the next look. It is not that look that
/// makes a dead letter of it.
#[test]
fn a_row_whose_refusal_is_mended_before_the_look_is_no_dead_letter() {
    run(async {
        let mut bench = Bench::new();
        // No poll comes in between.
        bench.settings.facts_every = Duration::from_secs(3_600);
        {
            let mut world = bench.table.world.lock().expect("no panic");
            (world.poison, world.mended_at_look) = (vec![8], 2);
        }
        bench.push([8]);
        bench.drain().await.expect("drains");
        bench.assert_holds([8]);
        assert_eq!(bench.totals().await.dead_letters, 0);
        assert_eq!(
            bench.table.world.lock().expect("no panic").refused,
            2,
            "before and after the look that failed"
        );
    });
}

#[test]
fn a_crash_at_any_moment_of_a_refusal_loses_and_doubles_nothing() {
    run(async {
        for seed in 0..32u64 {
            let bench = Bench::new();
            let bad = [3, 50, 51, 99, 100, 177];
            {
                let mut world = bench.table.world.lock().expect("no panic");
                (world.poison, world.names_no_row) = (bad.to_vec(), seed % 2 == 0);
            }
            bench.push(0..200);
            for round in 0..5u64 {
                if (seed + round) % 3 == 0 {
                    let fault = [Fault::LostAfter, Fault::LostBefore][(round % 2) as usize];
                    bench.table.world.lock().expect("no panic").faults.push_back(fault);
                }
                let life = Duration::from_millis(5 + (seed * 13 + round * 7) % 47);
                let _ = Process::start(bench.pipeline(false)).kill_after(life).await;
            }
            bench.drain().await.expect("drains");
            bench.assert_holds((0..200).filter(|id| !bad.contains(id)));
            let letters = bench.dead_letters.world.lock().expect("no panic").ids();
            let expected: Vec<(u64, u64)> = [(1, 1), (25, 2), (49, 1), (50, 1), (88, 1)].to_vec();
            assert_eq!(letters.into_iter().collect::<Vec<_>>(), expected, "seed {seed}");
            let totals = bench.totals().await;
            assert!(totals.records.add_up() && totals.dead_letters == 6, "seed {seed}: {totals:?}");
        }
    });
}

#[test]
fn a_refused_row_in_a_frame_whose_answer_was_lost_is_found_all_the_same() {
    run(async {
        for fault in [Fault::LostBefore, Fault::LostAfter] {
            let bench = Bench::new();
            bench.push(0..200);
            {
                let mut world = bench.table.world.lock().expect("no panic");
                world.faults.push_back(fault);
                world.poison_after = Some((1, vec![13, 37]));
            }
            bench.drain().await.expect("drains");
            let counts = bench.totals().await;
            assert!(counts.records.add_up() && counts.written + counts.dead_letters == 200, "{counts:?}");
            let ids = bench.table.world.lock().expect("no panic").ids();
            assert_eq!((ids.len() as u64, ids.values().max()), (counts.written, Some(&1)));
        }
    });
}

#[test]
fn a_refused_row_in_a_frame_that_an_earlier_owner_may_have_sent_does_not_stop_the_lane() {
    run(async {
        let bench = Bench::new();
        bench.table.world.lock().expect("no panic").poison = vec![13];
        bench.table.world.lock().expect("no panic").away = true;
        bench.push(0..50);
        // It is sealed, and the owner is gone before the table has answered at all.
        bench.table.world.lock().expect("no panic").facts_away = false;
        let dies = Process::start(bench.pipeline(false));
        while bench.lane().await.counts.read < 50 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        dies.kill().await;
        bench.table.world.lock().expect("no panic").away = false;
        bench.drain().await.expect("drains");
        bench.assert_holds((0..50).filter(|id| *id != 13));
    });
}

#[test]
fn a_refused_dead_letter_waits_for_its_table_to_be_mended() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.drain_time_max = Duration::from_millis(200);
        bench.dead_letters.world.lock().expect("no panic").poison = vec![0];
        bench.push_text(0, "no number");
        bench.push(1..20);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        wait_until(|| bench.dead_letters.world.lock().expect("no panic").attempts > 0).await;
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 19).await;
        stop.send(true).expect("it runs");
        assert_eq!(running.await.expect("no panic").expect("goes on"), Outcome::Interrupted);
        let totals = bench.totals().await;
        assert_eq!((totals.written, totals.dead_letters), (19, 1));
        bench.dead_letters.world.lock().expect("no panic").poison.clear();
        bench.drain().await.expect("drains");
        assert_eq!(bench.dead_letters.world.lock().expect("no panic").rows.len(), 1);
    });
}

#[test]
fn a_refused_row_makes_its_way_past_a_full_spool() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.spool_bytes_max = 2_000;
        bench.push(0..50);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 50).await;
        {
            let mut world = bench.table.world.lock().expect("no panic");
            world.away = true;
            world.poison = vec![60, 61, 62, 160];
        }
        bench.push(50..2_000);
        wait_until(|| bench.status.snapshot().phase == engine::Phase::Paused).await;
        bench.table.world.lock().expect("no panic").away = false;
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 1_996).await;
        stop.send(true).expect("it runs");
        running.await.expect("no panic").expect("drains");
        bench.assert_holds((0..2_000).filter(|id| ![60, 61, 62, 160].contains(id)));
    });
}
