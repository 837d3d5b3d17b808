//! From a block to the keys that its records look up, and the rows of these.
//!
//! Owns the work that finds the keys: the block is decoded, and goes through the steps before the lookup, once more than in the decode job itself, on a compute thread. So it is asked only for
//! keys of records that reach the step. Does not own what is remembered and asked ([`Keyed`]).
//!
//! A lookup whose key another one has found is asked after it, with the rows that came.

use std::any::Any;
use std::sync::Arc;

use dataflow::block::Found;
use dataflow::{Batch, Intake, OperatorError, RecordBlock, Runtime, Transform};
use operators::lookup::keys::{Key, LookupKeys};
use operators::{ConfigError, LookupTable};

use super::age::Moment;
use super::keyed::{Keyed, Needs, Why};
use crate::replays::source::input_of;

/// The way of an input's blocks to their keys.
pub struct Walk {
    intake: Intake,
    /// The steps of the intake, without their metrics.
    steps: Vec<Arc<dyn Transform>>,
    asks: Vec<Ask>,
}

/// A lookup whose side is asked for keys.
struct Ask {
    /// Its place among the steps.
    place: usize,
    side: Arc<Keyed>,
    keys: LookupKeys,
}

/// Rows that a block takes with it.
pub struct Taken {
    /// Where they are from.
    pub side: Arc<Keyed>,
    /// The rows.
    pub table: Arc<dyn Any + Send + Sync>,
    /// Bytes that they take.
    pub bytes: u64,
}

/// A block with what its records look up, or why that is not known.
pub struct Walked {
    /// The block; it has what was found beside it, if it is known.
    pub block: RecordBlock,
    /// What it takes with it of sides that are asked for keys.
    pub taken: Result<Vec<Taken>, Why>,
}

/// What a block needs at a step: the rows that reach it, what is known of their keys, and the keys that are not known.
type AtStep = Result<(Batch, Needs, Vec<Key>), OperatorError>;

impl Walk {
    /// For blocks of `intake`; `sides` are asked for keys, and `names` gives the columns of the key of the step of a number.
    ///
    /// # Errors
    /// When a column of a key is of a type that cannot be asked for.
    pub fn new(
        intake: &Intake,
        sides: &[Arc<Keyed>],
        names: impl Fn(u32) -> Vec<String>,
    ) -> Result<Self, ConfigError> {
        let steps = intake.steps().iter();
        let steps: Vec<_> = steps.map(|step| step.quietly().unwrap_or_else(|| step.clone())).collect();
        let mut asks = Vec::new();
        for (place, step) in steps.iter().enumerate() {
            let Some(number) = step.looks_up() else { continue };
            let Some(side) = sides.iter().find(|side| side.number == number) else { continue };
            let before = intake.clone().with_steps(steps[..place].to_vec());
            let keys = LookupKeys::new(before.schema(), &names(number))?;
            asks.push(Ask { place, side: side.clone(), keys });
        }
        Ok(Self { intake: intake.clone(), steps, asks })
    }

    /// Finds what the block's records look up: beside what was `found` in sides that are in memory as a whole, the rows of their keys. With `any_age`, answers that are
    /// known may be however old. `None` if a fault of the program ended it.
    pub async fn walk(
        self: Arc<Self>,
        mut block: RecordBlock,
        found: Found,
        runtime: &Arc<dyn Runtime>,
        any_age: bool,
    ) -> Option<Walked> {
        block.found = found;
        let (mut taken, mut before) = (Vec::new(), None);
        for nth in 0..self.asks.len() {
            let own = self.clone();
            let (now, wall_ms) = (Moment::now(&**runtime), runtime.wall_ms());
            let job = move || {
                let made = own.at_step(nth, &block, before, wall_ms);
                let made = made.and_then(|batch| own.needs(nth, batch, now, any_age));
                (block, made)
            };
            let made: AtStep;
            (block, made) = runtime.run(job).await?;
            // The decode job meets the same error, and says so.
            let Ok((batch, needs, keys)) = made else { break };
            before = Some(batch);
            let side = &self.asks[nth].side;
            match side.table(runtime, needs, keys).await {
                Ok(table) => taken.push(take(&mut block, side, table)),
                Err(why) => {
                    let named = |why: String| side.rules().sentence(&why);
                    let why = match why {
                        Why::TooMuch(why) => Why::TooMuch(named(why)),
                        Why::Away(why) => Why::Away(named(why)),
                    };
                    return Some(Walked { block, taken: Err(why) });
                }
            }
        }
        Some(Walked { block, taken: Ok(taken) })
    }

    /// The rows that reach the step of an ask; `before` are those that reached the one before it.
    fn at_step(
        &self,
        nth: usize,
        block: &RecordBlock,
        before: Option<Batch>,
        wall_ms: i64,
    ) -> Result<Batch, OperatorError> {
        let place = self.asks[nth].place;
        let Some(mut batch) = before else {
            let intake = self.intake.clone().with_steps(self.steps[..place].to_vec());
            return Ok(intake.prepare(block, wall_ms)?.batch);
        };
        for step in &self.steps[self.asks[nth - 1].place..place] {
            batch = step.apply_of(batch, block)?.batch;
        }
        Ok(batch)
    }

    fn needs(&self, nth: usize, batch: Batch, now: Moment, any_age: bool) -> AtStep {
        let Ask { side, keys, .. } = &self.asks[nth];
        let failed = |error: &dyn std::fmt::Display| OperatorError {
            step: side.name().to_owned(),
            message: error.to_string(),
        };
        let distinct = keys.distinct(&batch.rows).map_err(|error| failed(&error))?;
        let needs = side.needs(&distinct, now, any_age);
        let missing = keys.keys(&batch.rows, needs.missing());
        Ok((batch, needs, missing))
    }
}

/// Puts rows beside a block.
fn take(block: &mut RecordBlock, side: &Arc<Keyed>, table: LookupTable) -> Taken {
    let bytes = table.memory_bytes();
    let table = Arc::new(table) as Arc<dyn Any + Send + Sync>;
    block.found = block.found.and(side.number, table.clone());
    Taken { side: side.clone(), table, bytes }
}

/// The ways of all inputs, by their names: an input that carries the replay log has records of the others too.
pub struct Walks(Vec<(String, Arc<Walk>)>);

impl Walks {
    /// Of these inputs, in the order of the file.
    pub fn new(all: Vec<(String, Walk)>) -> Self {
        Self(all.into_iter().map(|(name, walk)| (name, Arc::new(walk))).collect())
    }

    /// The way of a block that the input number `own` of the file hands out.
    pub fn of(&self, block: &RecordBlock, own: usize) -> &Arc<Walk> {
        let named = input_of(block).and_then(|name| self.0.iter().find(|(other, _)| other == name));
        &named.unwrap_or(&self.0[own]).1
    }
}
