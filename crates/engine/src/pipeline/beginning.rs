//! A start before its claim.
//!
//! Owns how long which source and table is waited for, and which refusal ends the start. Does not own the opening of a source
//! ([`crate::start::open`]) nor what comes with the claim ([`super`]).

use std::sync::Arc;
use std::time::Duration;

use dataflow::{Effect, Runtime, Sighting, Table};
use futures::FutureExt;
use futures::future::{BoxFuture, Either, join_all, select, select_all, try_join};

use crate::change::{self, Composition, NewState};
use crate::inputs::{self, Inlet, Input};
use crate::journal;
use crate::lane::Opening;
use crate::patient::Patient;
use crate::problem::Noticed;
use crate::retry::Backoff;
use crate::start::NewlyOpened;
use crate::start::open::{Asking, Opened, Refusal, Standing};
use crate::tables::Tables;
use crate::{EngineError, Settings, Status, remake, start};
/// What a start has before it claims the lane.
pub(super) struct Begun {
    /// The tables as they are.
    pub(super) seen: Vec<Sighting>,
    /// Where the lane stood before any source was asked.
    pub(super) stood: Standing,
    /// The source of each input, opened where the lane stood; otherwise its refusal, or nothing while it is away.
    pub(super) opened: Vec<OneOpened>,
    /// What it takes to ask each of them again.
    pub(super) askings: Vec<Asking>,
}

/// The way to the read of an input once the lane is claimed and stands at `standing`; what its source has opened that is new is put
/// beside that of the others, into one record. Before any source was asked it stood at `stood`.
pub(super) fn opening(
    asking: Asking,
    opened: OneOpened,
    stood: &Standing,
    standing: &Standing,
    new: &mut NewlyOpened,
) -> Opening {
    match opened {
        // Opened where the lane stands: one record with all that is new.
        Ok((at, mut opened)) if at == *standing => {
            new.partitions.append(&mut opened.new);
            new.opened.push(asking.input.number);
            Box::pin(async { Ok(opened) })
        }
        // Nobody has gone on meanwhile, so it would say the same again.
        Err(Some(refusal)) if stood == standing => Box::pin(async { Err(refusal) }),
        // The owner before has gone on, perhaps beyond what was refused; or the source is away.
        Ok(_) | Err(_) => Box::pin(asking.shown_and_opened(standing.clone())),
    }
}

/// How long a start waits for the sources that do not answer once one is open: as long as a broker takes that was slow to find. It then
/// goes on without them, and they are read once they are open.
const OTHERS_TIME_MAX: Duration = Duration::from_secs(3);

/// How long the sources are still waited for before what is sealed is delivered without them: longer than the pause between two tries, so that one that is back
/// has answered, and as long as another may then be waited for.
const LAST_TRY_MAX: Duration = Duration::from_secs(5);

/// The source of an input before the claim; nothing while it is away.
pub(super) type OneOpened = Result<(Standing, Opened), Option<Refusal>>;

/// The source of an input on its way, before the claim.
type Asked<'a> = BoxFuture<'a, (usize, Result<Option<(Standing, Opened)>, Refusal>)>;

/// A start before its claim: it looks, and writes nothing.
pub(super) struct Beginning<'a> {
    pub(super) runtime: &'a Arc<dyn Runtime>,
    pub(super) settings: &'a Settings,
    pub(super) status: &'a Arc<Status>,
    pub(super) drain: bool,
    pub(super) inputs: &'a [Input],
    pub(super) reads: &'a Patient,
    pub(super) folder: &'a str,
    pub(super) name: &'a str,
    pub(super) tables: &'a Tables,
    pub(super) owner: &'a str,
    pub(super) made: &'a Composition,
    pub(super) new_state: &'a NewState,
}

impl Beginning<'_> {
    /// Waits until the lane may be claimed: the tables answer and the sources are open (at the first start all of them, later as many as
    /// let themselves be read); or frames are pending and nobody else seems to deliver them, whatever the sources say.
    pub(super) async fn begin(&self) -> Result<Begun, EngineError> {
        let Self { runtime, settings, status, .. } = self;
        let lane = self.load().await?;
        let askings = self.askings(&lane);
        let (pending, is_first) = (lane.spool_frames(), lane.pipeline.is_empty());
        let stood = Standing::of(&lane);
        let named = |place: usize, refusal: Refusal| askings[place].input.named(refusal.error);
        let seen = self.tables.all().map(|(table, _)| see_table(&***runtime, settings, &**table, status));
        let seen = join_all(seen).shared();
        if pending == 0 {
            let opened = async {
                let opened = self.open_all(&askings, is_first).await;
                opened.map_err(|(place, refusal)| named(place, refusal))
            };
            let (opened, seen) = try_join(opened, async { Ok(seen.await) }).await?;
            self.check_rows(&lane).await?;
            return Ok(Begun { seen, stood, opened, askings });
        }
        let left_alone = || async {
            seen.clone().await;
            while !self.is_left_to_deliver().await? {}
            Ok::<_, EngineError>(())
        };
        let opened = {
            let mut opening = std::pin::pin!(self.open_all(&askings, is_first));
            loop {
                match select(opening.as_mut(), std::pin::pin!(left_alone())).await {
                    Either::Left((opened, _)) => break Some(opened),
                    Either::Right((quiet, _)) => quiet?,
                }
                let stood_at = self.load().await?.next_seq;
                // A source that is back is asked within this time, and shows whether the store is the newest copy.
                let opened = runtime.timeout(LAST_TRY_MAX, opening.as_mut()).await;
                // Nobody has begun to deliver meanwhile; otherwise it is left alone as before.
                if opened.is_some() || self.load().await?.next_seq == stood_at {
                    break opened;
                }
            }
        };
        match opened {
            Some(Ok(opened)) => Ok(Begun { seen: seen.clone().await, stood, opened, askings }),
            Some(Err((place, refusal))) if refusal.may_deliver => {
                let seen = seen.clone().await;
                tracing::warn!(error = %refusal.error, pending,
                    "the source refuses to be read; sealed inserts are delivered anyway, unless another process delivers them");
                if self.is_left_to_deliver().await? {
                    // Each of the others has refused as well, and says so again.
                    let mut opened: Vec<_> = askings.iter().map(|_| Err(None)).collect();
                    opened[place] = Err(Some(refusal));
                    return Ok(Begun { seen, stood, opened, askings });
                }
                let error = named(place, refusal);
                match self.load().await?.spool_frames() {
                    0 => Err(error),
                    inserts => Err(EngineError::LeftAlone { error: Box::new(error), inserts }),
                }
            }
            Some(Err((place, refusal))) => Err(named(place, refusal)),
            None => {
                tracing::warn!(pending, "the source is unavailable; what is sealed is delivered meanwhile");
                let opened = askings.iter().map(|_| Err(None)).collect();
                Ok(Begun { seen: seen.clone().await, stood, opened, askings })
            }
        }
    }

    /// Whether no table has rows that this start would write a second time, or that have greater versions than those it would write.
    async fn check_rows(&self, lane: &protocol::Lane) -> Result<(), EngineError> {
        let Self { runtime, settings, status, .. } = self;
        for table in self.tables.of_rows() {
            if !start::must_ask(lane, &**table) {
                continue;
            }
            if let Err(objection) = start::check_rows(&***runtime, settings, &**table, status).await
                // The rows may be those of another start of this pipeline, which was faster.
                && start::must_ask(&self.load().await?, &**table)
            {
                return Err(objection);
            }
        }
        Ok(())
    }

    /// The lane, if the pipeline fits it.
    pub(super) async fn load(&self) -> Result<protocol::Lane, EngineError> {
        let lane = journal::load(self.reads, self.folder).await?;
        start::check(&lane, self.name, self.tables)?;
        change::decide(&lane, self.made, self.new_state, self.owner)?;
        remake::check(self.reads, &lane, self.made).await?;
        Ok(lane)
    }

    /// What it takes to ask the source of each input.
    pub(super) fn askings(&self, lane: &protocol::Lane) -> Vec<Asking> {
        let inlets = inputs::numbered(lane, self.inputs);
        let names: Arc<[Arc<str>]> = inlets.iter().map(|inlet| inlet.name.clone()).collect();
        let asking = |input: Arc<Inlet>| Asking {
            runtime: self.runtime.clone(),
            settings: self.settings.clone(),
            input,
            names: names.clone(),
            status: self.status.clone(),
            drain: self.drain,
        };
        inlets.into_iter().map(asking).collect()
    }

    /// Opens the sources side by side. At the first start a refusal of one is a refusal of all, for a start that cannot work writes
    /// nothing. Later the others are read all the same: once one is open, those that do not answer are waited for no longer than
    /// [`OTHERS_TIME_MAX`].
    ///
    /// # Errors
    /// When all refuse: the refusal of the first, and its place. Or when the store may be an older copy.
    async fn open_all(&self, askings: &[Asking], is_first: bool) -> Result<Vec<OneOpened>, (usize, Refusal)> {
        let ask = |(place, asking)| async move { (place, self.open(asking).await) };
        let mut asked: Vec<Asked<'_>> = askings.iter().enumerate().map(|one| ask(one).boxed()).collect();
        let mut opened: Vec<OneOpened> = askings.iter().map(|_| Err(None)).collect();
        let mut others: BoxFuture<'_, ()> = std::future::pending().boxed();
        while !asked.is_empty() {
            let next = match select(select_all(std::mem::take(&mut asked)), others).await {
                Either::Left(((next, _, left), waiting)) => {
                    (asked, others) = (left, waiting);
                    next
                }
                Either::Right(_) => break,
            };
            match next {
                (_, Ok(None)) => {}
                (place, Ok(Some(one))) => {
                    opened[place] = Ok(one);
                    if !is_first {
                        others = self.runtime.sleep(OTHERS_TIME_MAX);
                    }
                }
                (place, Err(refusal)) => {
                    if is_first || !refusal.may_deliver {
                        return Err((place, refusal));
                    }
                    let name = &askings[place].input.name;
                    if askings.len() > 1 {
                        // The start may wait long for the others.
                        tracing::error!(input = &**name, error = %refusal.error, "the source of an input refuses");
                        let (words, now_ms) = (refusal.error.to_string(), self.runtime.wall_ms());
                        self.status.source_refuses(name, true, &words, now_ms);
                    }
                    opened[place] = Err(Some(refusal));
                }
            }
        }
        if opened.iter().all(|one| matches!(one, Err(Some(_)))) {
            let mut refusals = opened.into_iter().map(|one| one.err().flatten()).enumerate();
            let first = refusals.find_map(|(place, refusal)| Some((place, refusal?)));
            return Err(first.expect("a pipeline has an input"));
        }
        Ok(opened)
    }

    /// Nothing if another start has given the input another number meanwhile: it is opened after the claim, by that number.
    async fn open(&self, asking: &Asking) -> Result<Option<(Standing, Opened)>, Refusal> {
        let mut was_outrun = false;
        loop {
            let shown = asking.shown().await?;
            // Behind the source: an owner that still works publishes what it has settled, and a journal that was read earlier than
            // that would look like a store that was rolled back.
            let lane = self.load().await.map_err(Refusal::of_the_store)?;
            let is_same =
                |inlet: &Arc<Inlet>| inlet.name == asking.input.name && inlet.number == asking.input.number;
            if !inputs::numbered(&lane, self.inputs).iter().any(is_same) {
                return Ok(None);
            }
            let standing = Standing::of(&lane);
            let refusal = match asking.open(&standing, shown).await {
                Ok(opened) => return Ok(Some((standing, opened))),
                Err(refusal) => refusal,
            };
            // If the owner has gone on meanwhile, the refusal may be of a position that nobody is to read any more. One more try is
            // enough: a start that is outrun twice has met an owner that is alive, and leaves the lane to it.
            if was_outrun || !refusal.may_deliver {
                return Err(refusal);
            }
            was_outrun = Standing::of(&self.load().await.map_err(Refusal::of_the_store)?) != standing;
            if !was_outrun {
                return Err(refusal);
            }
        }
    }

    /// Whether frames are pending and nobody else seems to deliver them. An owner that has delivered everything may be idle, and then
    /// its journal stands still as well: the frames are counted after the wait.
    async fn is_left_to_deliver(&self) -> Result<bool, EngineError> {
        let Self { runtime, settings, .. } = self;
        Ok(start::quiet::is_quiet(&***runtime, settings, self.reads, self.folder).await?
            && self.load().await?.spool_frames() > 0)
    }
}

async fn see_table(
    runtime: &dyn Runtime,
    settings: &Settings,
    table: &dyn Table,
    status: &Status,
) -> Sighting {
    let mut backoff = Backoff::new(settings.retry_pause_max);
    loop {
        match table.see().await {
            Ok(seen) => {
                status.ended(table.name(), Noticed::Asking);
                return seen;
            }
            Err(error) => {
                let now_ms = runtime.wall_ms();
                status.unanswered(table.name(), error.kind, &error.message, Effect::None, now_ms);
                if backoff.should_log() {
                    tracing::warn!(table = table.name(), %error, "the table does not answer; trying again");
                }
                backoff.pause(runtime).await;
            }
        }
    }
}
