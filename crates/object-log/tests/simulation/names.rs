//! Requests with names: clients that send them again, and the owner's side that knows them, as in a gateway.
//!
//! Owns when a client sends again, and how names reach the log (labels) and come back from it. Does not own what is known of a name: that is the
//! gateway's own table (`gateway::keys`), which runs here as it ships. What must hold is in `oracle`.
//!
//! ```text
//! client ─door─▶ task of the owner's process: begin ─▶ append under a label ─▶ end ─▶ answer
//!                next owner: claim ─▶ labels of some time past ─▶ table
//! ```

use std::sync::{Arc, Mutex, PoisonError};

use dataflow::Effect;
use futures::future::{Either, select};
use gateway::keys::{Begin, Key, Keys, Stored};
use gateway::{Kind, Refusal};
use object_log::{
    Append, AppendError, Appended, Appender, Clock, LogError, LogPartition, Owner, Root, labels,
};
use tokio::sync::{mpsc, oneshot};

use crate::actors::{block, spawn};
use crate::executor::Pid;
use crate::followed::is_of_file;
use crate::sim_store::World;
use crate::variant::Variant;

/// More names than a run has: that a table is full is tested by units.
const KEYS_MAX: usize = 100_000;

/// Owners whose doors clients know.
const DOORS: usize = crate::actors::KNOWN;

/// A request on its way to an owner.
struct Asked {
    key: Key,
    name: String,
    texts: Vec<String>,
    answer: oneshot::Sender<Result<Stored, Refusal>>,
}

/// Where an owner takes requests with names.
#[derive(Clone)]
pub struct Door(mpsc::UnboundedSender<Asked>);

/// What an owner that has just claimed the partition knows of names: those that the log has.
pub async fn read(
    world: &World,
    partition: &LogPartition,
    owner: &Owner,
    before: Option<&Root>,
) -> Result<Keys, LogError> {
    let window_ms = match world.variant {
        Some(Variant::NamesEndEarly) => world.plan.window_ms / 2,
        _ => world.plan.window_ms,
    };
    let mut keys = Keys::new(window_ms, KEYS_MAX);
    if world.variant == Some(Variant::LabelsForgotten) {
        return Ok(keys);
    }
    let root = before.cloned().unwrap_or_else(|| owner.root());
    let since_ms = partition.clock().now_ms().saturating_sub(window_ms);
    let restore = |label: labels::Label| {
        if !is_of_file(label.id) {
            let key = Key { id: label.id, tag: label.tag };
            keys.restore(key, label.first, u64::from(label.rows), label.stamp_ms);
        }
    };
    labels::read(partition, &root, since_ms, restore).await?;
    Ok(keys)
}

/// Opens the owner's door, and takes what comes until the future is dropped.
pub async fn serve(world: Arc<World>, pid: Pid, keys: Keys, appender: Appender, clock: Clock) {
    let (door, mut asked) = mpsc::unbounded_channel();
    {
        let mut doors = world.doors.lock().unwrap_or_else(PoisonError::into_inner);
        doors.push(Door(door));
        let excess = doors.len().saturating_sub(DOORS);
        doors.drain(..excess);
    }
    let keys = Arc::new(Mutex::new(keys));
    while let Some(asked) = asked.recv().await {
        // On a task of its own: an append goes on although its client has gone.
        spawn(&world, pid, take(world.clone(), keys.clone(), appender.clone(), clock.clone(), asked));
    }
}

async fn take(
    world: Arc<World>,
    keys: Arc<Mutex<Keys>>,
    appender: Appender,
    clock: Clock,
    Asked { key, name, texts, answer }: Asked,
) {
    let table = || keys.lock().unwrap_or_else(PoisonError::into_inner);
    let now_us = world.executor.now_us();
    world.state().oracle.begins(&name, now_us);
    let begun = table().begin(key, clock.now_ms());
    let outcome = match begun {
        Begin::New(tell, _fate) => {
            let producer = Some(labels::label(key.id, key.tag));
            let append = Append { producer, records: block(&texts), packed: None, digest: None };
            let outcome = match appender.append(append).await {
                Ok(appended) => {
                    let first = if let Appended::At(first) = appended { Some(first) } else { None };
                    Ok(Stored { first, rows: texts.len() as u64, is_repeat: false })
                }
                Err(error) => Err(refusal(&error)),
            };
            table().end(key, &outcome, clock.now_ms());
            tell.send_replace(Some(outcome.clone()));
            outcome
        }
        Begin::OnItsWay(mut fate) => match fate.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().expect("waited for"),
            Err(_) => Err(Refusal::new(Kind::NotYet, "nobody will say")),
        },
        Begin::Known(stored) => Ok(stored),
        other @ (Begin::Differs | Begin::Full) => {
            world.state().oracle.violate(format!("L3: `{name}` has met {other:?}"));
            Err(Refusal::new(Kind::Unavailable, "as was said"))
        }
    };
    // The client may have gone.
    let _ = answer.send(outcome);
}

fn refusal(error: &AppendError) -> Refusal {
    let kind = if error.effect == Effect::Unknown { Kind::NotYet } else { Kind::Unavailable };
    Refusal::new(kind, error.message.clone())
}

/// A client: each of its requests until it is answered, and some once more, because their answer was lost on the way.
pub async fn client(world: Arc<World>, number: u64, requests: u64) {
    for request in 0..requests {
        let name = format!("n{number}.{request}");
        let rows = 1 + world.draw(3);
        let texts: Vec<String> = (0..rows).map(|row| format!("{name}.{row}")).collect();
        // Far from the numbers of files, and never 0.
        let id = (u128::from(world.draw(u64::MAX)) << 64) | (u128::from((number << 32) | request) + 1);
        let key = Key { id, tag: 1 + request };
        let mut unheard = if world.percent(60) { 1 + world.draw(2) } else { 0 };
        let mut is_denied = true;
        loop {
            let Some(Door(door)) = pick(&world) else {
                world.executor.sleep_us(100_000).await;
                continue;
            };
            let (answer, answered) = oneshot::channel();
            let asked = Asked { key, name: name.clone(), texts: texts.clone(), answer };
            let patience_us = 200_000 + world.draw(20_000_000);
            let answer = match door.send(asked) {
                Err(_) => Some(Ok(Err(Refusal::new(Kind::Unavailable, "nobody is there")))),
                Ok(()) => match select(answered, Box::pin(world.executor.sleep_us(patience_us))).await {
                    Either::Left((answer, _)) => Some(answer),
                    Either::Right(_) => None,
                },
            };
            match answer {
                Some(Ok(Ok(stored))) => {
                    is_denied = false;
                    world.state().oracle.answered(&texts, stored.is_repeat);
                    if unheard == 0 {
                        break;
                    }
                    unheard -= 1;
                    let window_us = world.plan.window_ms.unsigned_abs() * 1_000;
                    world.executor.sleep_us(world.draw(window_us * 5 / 4)).await;
                }
                Some(Ok(Err(refusal))) => {
                    is_denied &= refusal.kind != Kind::NotYet;
                    if is_denied {
                        world.state().oracle.denied(&texts);
                    }
                }
                // It does not wait any longer, or the owner has died.
                Some(Err(_)) | None => is_denied = false,
            }
            world.executor.sleep_us(50_000 + world.draw(500_000)).await;
        }
        if world.percent(30) {
            world.executor.sleep_us(world.draw(3_000_000)).await;
        }
    }
    world.note(|| format!("client {number} is done"));
}

/// The newest owner, or now and then an earlier one.
fn pick(world: &World) -> Option<Door> {
    let doors = world.doors.lock().unwrap_or_else(PoisonError::into_inner);
    let last = doors.len().checked_sub(1)?;
    let back = if last > 0 && world.percent(15) { 1 + world.draw(last as u64) as usize } else { 0 };
    Some(doors[last - back].clone())
}
