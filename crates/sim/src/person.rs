//! The person who answers what a stopped lane asks.
//!
//! Owns the looking: into the table, as nobody but the world can, and into the target of its view. Says the truth, and brings the
//! view's target to what it says. Does not own when a person comes (`drive`) or what follows from an answer (the engine).

use std::sync::Arc;
use std::time::Duration;

use engine::answer::{AnswerError, Request, frame_name};
use engine::journal;
use protocol::doubt::Verdict;
use protocol::names;
use store::Store;

use crate::executor::WORLD;
use crate::objects::SimStore;
use crate::table::NAMES;
use crate::world::World;

/// Pause before another try, microseconds.
const TRY_US: u64 = 1_000_000;

/// Tries before a person gives up; the lane then asks again.
const TRIES_MAX: u32 = 200;

/// Answers every open question.
pub async fn answer(world: &Arc<World>) {
    for _ in 0..TRIES_MAX {
        if !world.state().objects.is_rolled_back() && try_to_answer(world).await.is_ok() {
            return;
        }
        world.executor.sleep_us(TRY_US).await;
    }
}

async fn try_to_answer(world: &Arc<World>) -> Result<(), AnswerError> {
    let store: Arc<dyn Store> = Arc::new(SimStore { world: world.clone(), pid: WORLD });
    let folder = names::lane_folder("p", world.plan.lane);
    let lane = journal::load(&*store, &folder).await?;
    let open: Vec<(usize, u128, String)> = lane
        .open_questions()
        .filter_map(|(table, piece)| {
            let place = NAMES.iter().position(|name| *name == table.name)?;
            Some((place, piece.id(), frame_name(piece)))
        })
        .collect();
    for verdict in [Verdict::Present, Verdict::Absent] {
        let mut frames = Vec::new();
        for (place, id, name) in &open {
            let mut state = world.state();
            let is_there = state.server.mend(*place, *id);
            state.note("person", u64::from(is_there), || format!("frame {name} is there: {is_there}"));
            if is_there == (verdict == Verdict::Present) {
                frames.push(name.clone());
            }
        }
        if frames.is_empty() {
            continue;
        }
        let request = Request {
            frames,
            verdict,
            by: "person".into(),
            take_over: true,
            insert_time_max: Duration::ZERO,
        };
        engine::answer::answer(store.clone(), world.executor.runtime(WORLD), &folder, &request).await?;
    }
    Ok(())
}
