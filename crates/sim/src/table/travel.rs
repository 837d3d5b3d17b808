//! A request on its way to the server and back.
//!
//! Owns the time that each part of it takes, and when it is cut off. Does not own what the server does with it (`server`), nor what the client makes of the
//! answer ([`super`]).

use std::sync::Arc;
use std::time::Duration;

use dataflow::{Effect, InsertError, Remedy, TableFault};

use super::{Answer, failed};
use crate::plan::InsertFault;
use crate::server::{Insert, Step, VIEW};
use crate::world::World;

/// A copy that stayed in the network arrives as a request of its own.
pub(super) async fn arrive_late(world: &Arc<World>, mut insert: Insert, ms: u64) {
    world.executor.sleep_us(ms * 1_000).await;
    insert.query_id += "-late";
    insert.is_late = true;
    {
        let mut state = world.state();
        let now_us = state.now_us();
        if !state.server.is_reachable(now_us) || !state.server.begin(&insert, now_us, true, now_us) {
            return;
        }
        insert.run = state.server.run;
        state.note("late", ms, || format!("`{}` arrives", insert.query_id));
    }
    // Nobody listens.
    let _ = serve(world.clone(), insert, None).await;
}

/// The server at work on one whole request.
pub(super) async fn serve(world: Arc<World>, insert: Insert, fault: Option<InsertFault>) -> Answer {
    let unknown = || failed(Effect::Unknown, Remedy::Resend, TableFault::Broken);
    world.pause(100, 2_000).await;
    {
        let mut state = world.state();
        let now_us = state.now_us();
        let is_connected = state.server.is_connected(insert.run);
        let is_there = is_connected && state.server.complete(&insert.query_id, now_us);
        if !is_there || fault == Some(InsertFault::LostBefore) {
            state.server.end(&insert.query_id);
            return unknown();
        }
        if fault == Some(InsertFault::Refused) {
            state.server.end(&insert.query_id);
            return failed(Effect::None, Remedy::Resend, TableFault::TooManyParts);
        }
        if let Some(InsertFault::CrashBefore(ms)) = fault {
            drop(state);
            crash(&world, ms);
            return unknown();
        }
    }
    if let Some(InsertFault::Slow(ms)) = fault {
        world.executor.sleep_us(ms * 1_000).await;
    }
    world.pause(500, 8_000).await;
    if let Err(answer) = write(&world, &insert, fault).await {
        return answer;
    }
    if world.state().server.feeds_view(insert.place) {
        world.state().server.written(&insert.query_id);
        if fault == Some(InsertFault::ViewFails) {
            world.state().server.end(&insert.query_id);
            return failed(Effect::Unknown, Remedy::Resend, TableFault::View);
        }
        if let Some(InsertFault::CrashBeforeView(ms)) = fault {
            crash(&world, ms);
            return unknown();
        }
        world.pause(200, 3_000).await;
        let at_token = match fault {
            Some(InsertFault::CrashAtViewToken(ms)) => Some(InsertFault::CrashAtToken(ms)),
            _ => None,
        };
        // Also where the table knows the token: the view has its own.
        if let Err(answer) = write(&world, &Insert { place: VIEW, ..insert.clone() }, at_token).await {
            return answer;
        }
    }
    world.state().server.end(&insert.query_id);
    if let Some(InsertFault::CrashAfter(ms)) = fault {
        crash(&world, ms);
        return unknown();
    }
    answer(&world, &insert, fault).await
}

/// One table takes the rows, or knows their token; the answer if neither.
async fn write(world: &Arc<World>, insert: &Insert, fault: Option<InsertFault>) -> Result<(), Answer> {
    let unknown = || failed(Effect::Unknown, Remedy::Resend, TableFault::Broken);
    loop {
        let step = world.state().insert_begins(insert);
        match step {
            Step::Wait => world.executor.sleep_us(300).await,
            Step::Known => return Ok(()),
            Step::Written => break,
            Step::Misfit => {
                world.state().server.end(&insert.query_id);
                return Err(failed(Effect::None, Remedy::Stop, TableFault::Differs));
            }
            Step::Gone => {
                world.state().server.end(&insert.query_id);
                return Err(unknown());
            }
            Step::Poison(at) => {
                world.state().server.end(&insert.query_id);
                world.pause(100, 1_000).await;
                let refused = failed(Effect::None, Remedy::Divert, TableFault::BadContent);
                // The servers of every other seed name the row.
                let code = if world.plan.seed.is_multiple_of(2) { 0 } else { at as i32 + 1 };
                return Err(refused.map_err(|error| InsertError { code, ..error }));
            }
        }
    }
    if let Some(InsertFault::CrashAtToken(ms)) = fault {
        crash(world, ms);
        return Err(unknown());
    }
    world.pause(50, 800).await;
    if !world.state().insert_commits(insert) {
        world.state().server.end(&insert.query_id);
        return Err(unknown());
    }
    Ok(())
}

pub(super) async fn answer(world: &Arc<World>, insert: &Insert, fault: Option<InsertFault>) -> Answer {
    world.pause(100, 2_000).await;
    let is_connected = world.state().server.is_connected(insert.run);
    if !is_connected || fault == Some(InsertFault::LostAfter) {
        return failed(Effect::Unknown, Remedy::Resend, TableFault::Broken);
    }
    Ok(())
}

/// The server dies, and comes back after a while.
pub fn crash(world: &Arc<World>, down_ms: u64) {
    let run = {
        let mut state = world.state();
        state.note("server", down_ms, || format!("dies, for {down_ms} ms"));
        state.server.crash();
        state.server.run
    };
    let back = world.clone();
    world.spawn(async move {
        back.executor.sleep_us(Duration::from_millis(down_ms).as_micros() as u64).await;
        let mut state = back.state();
        let now_us = state.now_us();
        if state.server.run == run {
            state.note("server", 0, || "is back".into());
            state.server.restart(now_us);
        }
    });
}
