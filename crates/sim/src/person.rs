//! The person who answers what a stopped lane asks, and the one who moves a pipeline back.
//!
//! Owns the looking: into the table, as nobody but the world can, and into the target of its view. Says the truth, and brings the
//! view's target to what it says. Does not own when a person comes (`drive`) or what follows from an answer (the engine).

use std::sync::Arc;
use std::time::Duration;

use dataflow::Partition;
use dataflow::block::NO_LEADER_EPOCH;
use engine::answer::{AnswerError, Request, frame_name};
use engine::change;
use engine::journal::{self, Journal};
use engine::rewind::{Request as Move, RewindError, Target};
use protocol::doubt::Verdict;
use protocol::lane::PartitionState;
use protocol::record::{Body, Rewind};
use protocol::{Lane, Record, names};
use store::{Key, Store};

use crate::executor::{MOVER, WORLD};
use crate::objects::SimStore;
use crate::table::NAMES;
use crate::world::World;

/// Pause before another try, microseconds.
const TRY_US: u64 = 1_000_000;

/// Tries before a person gives up; the lane then asks again.
const TRIES_MAX: u32 = 200;

/// Moves every partition back to the half of where it stands, once nothing is pending; whoever runs is ended.
pub async fn move_back(world: &Arc<World>, is_emptied: bool, forgets_pending: bool) {
    for _ in 0..TRIES_MAX {
        if try_to_move(world, is_emptied, forgets_pending).await.is_ok() {
            return;
        }
        world.executor.sleep_us(TRY_US).await;
    }
}

async fn try_to_move(world: &Arc<World>, is_emptied: bool, forgets_pending: bool) -> Result<(), RewindError> {
    let store: Arc<dyn Store> = Arc::new(SimStore { world: world.clone(), pid: MOVER });
    let folder = names::lane_folder("p", world.plan.lane);
    let lane = journal::load(&*store, &folder).await?;
    let target = |(_, p): (usize, &PartitionState)| Target {
        partition: Partition::new(p.stream.as_str(), p.index).of_input(p.input),
        next: p.next / 2,
        leader_epoch: NO_LEADER_EPOCH,
    };
    let request = Move {
        targets: lane.reading().map(target).collect(),
        new_state: if is_emptied { change::labels(&lane.steps) } else { Vec::new() },
        by: "person".into(),
        take_over: true,
        quiet_min: Duration::ZERO,
    };
    if lane.counts.read == 0 {
        return Err(RewindError::Running);
    }
    if forgets_pending {
        return forget_pending(world, store, &folder, &lane).await;
    }
    engine::rewind::rewind(store, world.executor.runtime(WORLD), &folder, &request).await.map(drop)
}

/// What a broken engine would do: partitions are moved, whatever is pending.
async fn forget_pending(
    world: &Arc<World>,
    store: Arc<dyn Store>,
    folder: &str,
    lane: &Lane,
) -> Result<(), RewindError> {
    if lane.spool_frames() == 0 {
        return Err(RewindError::Running);
    }
    let runtime = world.executor.runtime(WORLD);
    let owner = "person".to_owned();
    let pause = Duration::from_secs(1);
    let journal = Journal::claim(store.clone(), runtime, folder.to_owned(), owner, pause).await?;
    let lane = journal.lane();
    let moved = |(at, p): (usize, &PartitionState)| {
        protocol::record::Move::new(at as u32, p.next, p.next / 2, NO_LEADER_EPOCH)
    };
    let moves = lane.reading().map(moved).collect();
    let record = Record {
        seq: lane.next_seq,
        epoch: lane.epoch,
        nonce: lane.nonce.clone(),
        written_at_ms: 0,
        body: Some(Body::Rewind(Rewind { moves, ..Rewind::default() })),
    };
    let key = Key::new(names::journal(folder, record.seq)).expect("a lane's folder makes valid keys");
    let put = store.put_if_absent(&key, vec![record.to_bytes().into()]).await;
    put.map(drop).map_err(|error| RewindError::Engine(error.into()))
}

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
