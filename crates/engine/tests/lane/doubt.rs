//! Doubts that only an operator can end: the lane stops, asks, and goes on with the answer.

use std::sync::Arc;
use std::time::Duration;

use dataflow::{Runtime, Task};
use engine::answer::{AnswerError, Request, answer, frame_name};
use engine::{EngineError, Outcome, Pipeline, TokioRuntime};
use futures::FutureExt;
use futures::future::BoxFuture;
use protocol::doubt::{StopReason, Verdict};
use tokio::sync::watch;

use crate::support::{Bench, Fault, LONG, Process};
use crate::{give_ten_that_hang, give_ten_that_pass, run};

fn request(frames: &[&str], verdict: Verdict) -> Request {
    Request {
        frames: frames.iter().map(|f| (*f).to_owned()).collect(),
        verdict,
        by: "test".into(),
        take_over: false,
        insert_time_max: Duration::ZERO,
    }
}

async fn say(bench: &Bench, request: &Request) -> Result<Vec<String>, AnswerError> {
    answer(bench.store.clone(), bench.runtime.clone(), "p/lane-0", request).await
}

/// Names of the frames whose questions are open, and whether the table has their rows.
async fn open(bench: &Bench) -> Vec<(String, bool)> {
    let lane = bench.lane().await;
    let world = bench.table.world.lock().expect("no panic");
    let has = |id| world.rows.iter().any(|(frame, _)| frame.0 == id);
    lane.open_questions().map(|(_, piece)| (frame_name(piece), has(piece.id()))).collect()
}

#[test]
fn a_lane_that_cannot_tell_stops_asks_once_and_goes_on_with_the_answers() {
    run(async {
        for fault in [Fault::TokenWithoutRows, Fault::LostAfter] {
            let bench = Bench::new();
            bench.push(0..200);
            {
                let mut world = bench.table.world.lock().expect("no panic");
                world.cannot_tell = true;
                world.faults.push_back(fault);
            }
            if fault == Fault::LostAfter {
                // The rows arrive, and the server dies before it says so.
                bench.table.world.lock().expect("no panic").dies_after_fault = true;
            }
            let mut stops = 0;
            let outcome = loop {
                match bench.drain().await {
                    Ok(outcome) => break outcome,
                    Err(EngineError::Doubt { reason: StopReason::CannotTell, frame, .. }) => {
                        stops += 1;
                        let open = open(&bench).await;
                        assert!(open.iter().any(|(name, _)| *name == frame), "the message names an open one");
                        for (name, is_there) in open {
                            let verdict = if is_there { Verdict::Present } else { Verdict::Absent };
                            say(&bench, &Request { take_over: true, ..request(&[&name], verdict) })
                                .await
                                .expect("an open question is answered");
                        }
                    }
                    Err(error) => panic!("{error}"),
                }
            };
            assert_eq!(outcome, Outcome::Complete);
            assert_eq!(stops, 1, "everything was asked at once");
            bench.assert_holds(0..200);
        }
    });
}

#[test]
fn an_answer_is_taken_only_where_it_is_asked_for() {
    run(async {
        let bench = Bench::new();
        let none = say(&bench, &request(&[], Verdict::Present)).await;
        assert!(matches!(none, Err(AnswerError::NotOpen { .. })), "{none:?}");
        bench.push(0..50);
        {
            let mut world = bench.table.world.lock().expect("no panic");
            world.cannot_tell = true;
            world.faults.push_back(Fault::TokenWithoutRows);
        }
        assert!(matches!(bench.drain().await, Err(EngineError::Doubt { .. })));
        let before = bench.lane().await;
        let other = say(&bench, &request(&["00"], Verdict::Present)).await;
        assert!(matches!(other, Err(AnswerError::NotOpen { .. })), "{other:?}");
        let patient = Duration::from_secs(180);
        let early = say(&bench, &Request { insert_time_max: patient, ..request(&[], Verdict::Absent) }).await;
        assert!(matches!(early, Err(AnswerError::TooEarly { wait_s: 1..=181 })), "{early:?}");
        assert_eq!(bench.lane().await, before, "a refused answer writes nothing and claims nothing");
        // A start without an answer asks again.
        assert!(matches!(bench.drain().await, Err(EngineError::Doubt { .. })));
        let folder = "p/lane-0".to_owned();
        let pause = Duration::from_millis(10);
        let (store, runtime) = (bench.store.clone(), bench.runtime.clone());
        engine::journal::Journal::claim(store, runtime, folder, "x".into(), pause).await.expect("a claim");
        let claimed = say(&bench, &request(&[], Verdict::Absent)).await;
        assert!(matches!(claimed, Err(AnswerError::Claimed)), "{claimed:?}");
        let taken = say(&bench, &Request { take_over: true, ..request(&[], Verdict::Absent) }).await;
        assert_eq!(taken.expect("taken over").len(), 1);
        bench.drain().await.expect("drains");
        bench.assert_holds(0..50);
    });
}

#[test]
fn an_exchanged_table_is_asked_about_once_and_then_takes_all_that_waits() {
    run(async {
        let bench = Bench::new();
        bench.push(0..50);
        bench.drain().await.expect("drains");
        // Sealed while the table is away, and never sent.
        bench.table.world.lock().expect("no panic").away = true;
        bench.table.world.lock().expect("no panic").facts_away = false;
        let running = Process::start(bench.pipeline(false));
        // One frame after the other, more than a window of them.
        for n in 1..=11u64 {
            bench.push(n * 50..n * 50 + 50);
            while (bench.lane().await.spool_frames() as u64) < n {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        running.kill().await;
        {
            let mut world = bench.table.world.lock().expect("no panic");
            world.away = false;
            world.exchanged += 1;
        }
        let stopped = bench.drain().await;
        assert!(
            matches!(stopped, Err(EngineError::Doubt { reason: StopReason::TableChanged, .. })),
            "{stopped:?}"
        );
        say(&bench, &request(&[], Verdict::Absent)).await.expect("all that is asked");
        bench.drain().await.expect("drains without another question");
        bench.assert_holds(0..600);
    });
}

#[test]
fn what_was_found_is_judged_by_the_facts_of_the_same_look() {
    run(async {
        let bench = Bench::new();
        bench.push(0..50);
        {
            let mut world = bench.table.world.lock().expect("no panic");
            world.faults.push_back(Fault::LostAfter);
            world.dies_after_fault = true;
            world.rows_elsewhere = true;
        }
        // Every other look sees the right table, and together with "no rows" that would lead to a new generation.
        let stopped = bench.drain().await;
        assert!(
            matches!(stopped, Err(EngineError::Doubt { reason: StopReason::TableChanged, .. })),
            "{stopped:?}"
        );
        bench.table.world.lock().expect("no panic").rows_elsewhere = false;
        say(&bench, &request(&[], Verdict::Present)).await.expect("it is in the right table");
        bench.drain().await.expect("drains");
        bench.assert_holds(0..50);
    });
}

#[test]
fn an_order_dependent_table_never_sees_a_later_frame_before_the_one_that_is_asked_about() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.in_flight_max = 1;
        bench.push(0..200);
        {
            let mut world = bench.table.world.lock().expect("no panic");
            world.cannot_tell = true;
            world.faults.push_back(Fault::TokenWithoutRows);
        }
        assert!(matches!(bench.drain().await, Err(EngineError::Doubt { ordinal: 0, more: 0, .. })));
        assert!(bench.table.world.lock().expect("no panic").rows.is_empty(), "nothing overtook it");
        // Frames of the same window may have been sent for all that the journal knows: asked one after the other.
        let mut ordinals = 1..;
        loop {
            say(&bench, &request(&[], Verdict::Absent)).await.expect("answered");
            match bench.drain().await {
                Ok(_) => break,
                Err(EngineError::Doubt { ordinal, .. }) => assert_eq!(Some(ordinal), ordinals.next()),
                Err(error) => panic!("{error}"),
            }
        }
        bench.assert_holds(0..200);
    });
}

/// The answer is lost, the resend is decided while the token stands, and others push it out while the bytes travel.
#[test]
fn a_resend_whose_token_is_pushed_out_on_the_way_is_never_completed() {
    run(async {
        for restarts in [false, true] {
            let mut bench = Bench::new();
            bench.settings.in_flight_max = 1;
            bench.push(0..50);
            {
                let mut world = bench.table.world.lock().expect("no panic");
                world.faults.push_back(Fault::LostAfter);
                if restarts {
                    world.restarts_on_the_way.extend([false, true]);
                } else {
                    world.others_on_the_way.extend([0, 150]);
                }
            }
            assert_eq!(bench.drain().await.expect("nothing to ask"), Outcome::Complete);
            bench.assert_holds(0..50);
            let world = bench.table.world.lock().expect("no panic");
            assert_eq!(world.held_back, 1, "the resend stopped before its last bytes");
            assert!(world.probes >= 1, "and its rows were looked for");
        }
    });
}

/// A frame that was found absent is confirmed; meanwhile so many others write that a late copy could have come and been forgotten.
#[test]
fn a_confirmation_that_grows_old_on_the_way_is_never_completed() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.in_flight_max = 1;
        bench.push(0..50);
        {
            let mut world = bench.table.world.lock().expect("no panic");
            world.faults.push_back(Fault::TokenWithoutRows);
            world.others_on_the_way.extend([0, 150]);
        }
        assert_eq!(bench.drain().await.expect("nothing to ask"), Outcome::Complete);
        bench.assert_holds(0..50);
        assert_eq!(bench.table.world.lock().expect("no panic").held_back, 1);
    });
}

/// Questions to the server cost time, so only what is sent again asks them before its last bytes.
#[test]
fn first_attempts_ask_for_ownership_only() {
    run(async {
        let looks = async |records: u64| {
            let mut bench = Bench::new();
            bench.settings.facts_every = Duration::from_secs(3_600);
            bench.push(0..records);
            assert_eq!(bench.drain().await.expect("nothing to ask"), Outcome::Complete);
            let world = bench.table.world.lock().expect("no panic");
            (world.looks, world.attempts)
        };
        let (few, many) = (looks(10).await, looks(1_000).await);
        assert!(many.1 > few.1, "more inserts: {few:?} {many:?}");
        assert_eq!(few.0, many.0, "and no look more");
    });
}

/// Tasks of one name come to their turn late, as on a machine that is busy with other work.
struct Late {
    inner: Arc<TokioRuntime>,
    name: &'static str,
}

impl Runtime for Late {
    fn wall_ms(&self) -> i64 {
        self.inner.wall_ms()
    }

    fn elapsed(&self) -> Duration {
        self.inner.elapsed()
    }

    fn begin_ms(&self) -> i64 {
        self.inner.begin_ms()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.inner.sleep(time)
    }

    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>) -> Task {
        let pause = self.inner.sleep(Duration::from_millis(if name == self.name { 300 } else { 0 }));
        self.inner.spawn(name, pause.then(|()| task).boxed())
    }

    fn compute(&self, job: Box<dyn FnOnce() + Send>) {
        self.inner.compute(job);
    }

    fn compute_threads(&self) -> usize {
        self.inner.compute_threads()
    }

    fn random(&self) -> u128 {
        self.inner.random()
    }
}

#[test]
fn what_was_sealed_before_the_delivery_came_to_its_turn_is_no_doubt() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.facts_every = Duration::from_secs(3_600);
        bench.push(0..150);
        let late: Arc<dyn Runtime> = Arc::new(Late { inner: bench.runtime.clone(), name: "deliver" });
        let (_stop, asked) = watch::channel(false);
        let pipeline = Pipeline { runtime: late, ..bench.pipeline(true) };
        let ended = tokio::time::timeout(LONG, engine::run(pipeline, asked)).await.expect("it ends");
        assert_eq!(ended.expect("nothing to ask"), Outcome::Complete);
        bench.assert_holds(0..150);
        let world = bench.table.world.lock().expect("no panic");
        assert_eq!((world.looks, world.probes), (1, 0), "nobody asks what became of inserts that never were");
    });
}

#[test]
fn several_questions_are_answered_one_after_the_other_or_all_at_once() {
    run(async {
        for at_once in [false, true] {
            let mut bench = Bench::new();
            bench.settings.in_flight_max = 4;
            bench.push(0..300);
            {
                let mut world = bench.table.world.lock().expect("no panic");
                world.cannot_tell = true;
                world.faults.extend([Fault::LostBefore; 3]);
                world.dies_after_fault = true;
                world.faults.push_back(Fault::TokenWithoutRows);
            }
            let stopped = bench.drain().await;
            assert!(matches!(stopped, Err(EngineError::Doubt { .. })), "{stopped:?}");
            let asked = open(&bench).await;
            assert!(asked.len() > 1, "{asked:?}");
            if at_once {
                assert!(asked.iter().all(|(_, is_there)| !is_there));
                let answered = say(&bench, &request(&[], Verdict::Absent)).await.expect("all of them");
                assert_eq!(answered.len(), asked.len());
            } else {
                for (name, is_there) in &asked {
                    let verdict = if *is_there { Verdict::Present } else { Verdict::Absent };
                    // Nobody but the answers before has claimed the lane since.
                    say(&bench, &request(&[name], verdict)).await.expect("one by one");
                }
            }
            assert_eq!(open(&bench).await, []);
            bench.drain().await.expect("drains");
            bench.assert_holds(0..300);
        }
    });
}

#[test]
fn what_is_settled_while_an_insert_hangs_is_not_asked_about_again() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.in_flight_max = 4;
        bench.settings.batch_rows_max = 10;
        bench.push(0..10);
        bench.drain().await.expect("drains");
        {
            let mut world = bench.table.world.lock().expect("no panic");
            (world.away, world.facts_away, world.cannot_tell) = (true, false, true);
        }
        let running = Process::start(bench.pipeline(false));
        for n in 1..=4u64 {
            bench.push(n * 10..n * 10 + 10);
            while (bench.lane().await.spool_frames() as u64) < n {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        running.kill().await;
        {
            let mut world = bench.table.world.lock().expect("no panic");
            (world.away, world.facts_away) = (false, true);
            // Another server by now: a token says nothing, and rows cannot be looked for.
            world.restart();
        }
        let stopped = bench.drain().await;
        assert!(matches!(stopped, Err(EngineError::Doubt { .. })), "{stopped:?}");
        let asked = open(&bench).await;
        assert!(asked.len() > 2, "{asked:?}");
        say(&bench, &request(&[&asked[1].0], Verdict::Present)).await.expect("the second");
        say(&bench, &request(&[&asked[2].0], Verdict::Absent)).await.expect("the third");
        // The first is asked about once more, the second is settled, and the insert of the third has no answer.
        bench.table.world.lock().expect("no panic").insert_time = Duration::from_secs(120);
        let stopped = bench.drain().await;
        assert!(matches!(stopped, Err(EngineError::Doubt { .. })), "{stopped:?}");
        let lane = bench.lane().await;
        let of = |name: &str| {
            let mut pieces = lane.tables.iter().flat_map(|table| table.pending.iter().flatten());
            pieces.find(|piece| frame_name(piece) == name).map(|piece| piece.settled)
        };
        assert_eq!(
            asked[..3].iter().map(|(name, _)| of(name)).collect::<Vec<_>>(),
            [Some(false), Some(true), Some(false)]
        );
    });
}

/// A proxy holds one answer back, and all others were positive.
#[test]
fn what_is_settled_beyond_an_insert_that_hangs_is_not_asked_about_after_a_crash() {
    run(async {
        let mut bench = Bench::new();
        give_ten_that_hang(&mut bench);
        let running = Process::start(bench.pipeline(false));
        let hang = give_ten_that_pass(&bench).await;
        let is_recorded = async || {
            let lane = bench.lane().await;
            let settled = lane.tables[0].pending.iter().flatten().filter(|piece| piece.settled);
            settled.map(|piece| piece.frame.rows).sum::<u64>() == 10
        };
        let recorded = async {
            while !is_recorded().await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(LONG, recorded).await.expect("it is recorded though nothing is answered");
        running.kill().await;
        {
            let mut world = bench.table.world.lock().expect("no panic");
            world.cannot_tell = true;
            world.restart();
        }
        let stopped = bench.drain().await;
        assert!(matches!(stopped, Err(EngineError::Doubt { .. })), "{stopped:?}");
        assert_eq!(open(&bench).await.len() as u64, hang, "of the others each was answered");
    });
}

#[test]
fn a_crash_during_an_outage_asks_only_about_frames_that_were_let_out() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.in_flight_max = 2;
        bench.settings.window_frames_max = 64;
        bench.settings.batch_rows_max = 10;
        bench.push(0..10);
        bench.drain().await.expect("drains");
        {
            let mut world = bench.table.world.lock().expect("no panic");
            (world.away, world.facts_away, world.cannot_tell) = (true, false, true);
        }
        let running = Process::start(bench.pipeline(false));
        for n in 1..=30u64 {
            bench.push(n * 10..n * 10 + 10);
            while (bench.lane().await.spool_frames() as u64) < n {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        // No insert is answered, and that is on record.
        let told = || async { bench.lane().await.tables[0].sent_below.is_some() };
        for _ in 0..30_000 {
            if told().await {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let lane = bench.lane().await;
        let limit = protocol::window::send_limit(&lane.tables[0]);
        assert!(limit <= lane.tables[0].frontier + 2, "{} to {limit}", lane.tables[0].frontier);
        running.kill().await;
        {
            let mut world = bench.table.world.lock().expect("no panic");
            (world.away, world.facts_away) = (false, true);
            // Another server by now: a token says nothing, and rows cannot be looked for.
            world.restart();
        }
        let stopped = bench.drain().await;
        assert!(matches!(stopped, Err(EngineError::Doubt { .. })), "{stopped:?}");
        let asked = open(&bench).await;
        assert!((1..=2).contains(&asked.len()), "{} questions", asked.len());
        say(&bench, &request(&[], Verdict::Absent)).await.expect("all that is asked");
        // All others go out by themselves, the window as wide as ever.
        bench.drain().await.expect("drains");
        bench.assert_holds(0..310);
        assert_eq!(bench.lane().await.tables[0].sent_below, None);
    });
}
