//! Engines that are broken on purpose, to show that the simulation would notice.
//!
//! Owns the list and how each is broken: by a seam that lies (`lies`), never by a switch in what ships. Does not own the rules that
//! catch them (`oracle`).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use dataflow::{Operator, Source, Table, Transform};
use engine::Pipeline;

use crate::drive::{Report, run};
use crate::executor::Pid;
use crate::lies::{
    Hidden, LyingClock, LyingDecoder, LyingRouter, LyingRuntime, LyingSource, LyingStep, LyingStore,
    LyingTable, LyingTime, WholeRecord,
};
use crate::plan::inputs::NAMES;
use crate::plan::{Fault, Plan};
use crate::world::World;

/// A clamp of the future that does not look at the window: a year.
const FUTURE_MS_MAX: i64 = 365 * 86_400_000;

/// A way to break the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "`Variant::what` says what each does")]
pub enum Variant {
    SendBeforeSeal,
    SettleOverAHole,
    TokenFromTheAttempt,
    SnapshotOneSealEarly,
    CollectOneRecordEarly,
    ResendBeyondMemory,
    NewGenerationWithoutEnding,
    NoGate,
    NoReadBack,
    ExistsIsCreated,
    IgnoreTheFloor,
    SeenThoughRefused,
    SealNotContiguous,
    LostDelta,
    NoHarden,
    OneNonce,
    LostRejects,
    ProbeSaysNone,
    ProbeSaysAll,
    PublishedIgnored,
    FrameOfManyPartitions,
    WrittenInPlace,
    TokenAgeIgnored,
    AnotherTableIgnored,
    ViewsIgnored,
    LeaderEpochForgotten,
    EndOneEarly,
    NoJudgementAtTheGate,
    TokensCountedAsBlocks,
    LagOfAnotherReplica,
    AlreadyRunningIsNone,
    AnsweredFromMemory,
    SyncFailedIsCreated,
    FutureMovesTime,
    SealedWaitsForTheSource,
    HandedOutUnverified,
    CutIsTheEnd,
    RowsThereIgnored,
    DuplicatesHoldTime,
    RejectsHoldTime,
    MultipliedUncounted,
    RoutedToTheWrongTable,
    FanOutLosesATable,
    FrameLacksARow,
    ClosedEarly,
    ClosedUnsealed,
    ReleasedUncounted,
    JoinReleasedEarly,
    JoinUnsealed,
    JoinReleasedUncounted,
    JoinSidesSwapped,
    JoinPairsTwice,
    JoinPairLost,
    UnmatchedTwice,
    UnmatchedLost,
    VersionOfTheFuture,
    VersionFreedEarly,
    VersionsUnsealed,
    AnothersOrigin,
    ColumnsChangePlaces,
    DuplicatesUncounted,
    DuplicatesAsFiltered,
    AwayIsAnswered,
    FilteredHoldTime,
    LedgerOfTheOtherInput,
    InputsByPlace,
    WatermarkOfOneInput,
    MovedWhilePending,
    NewStateKeepsTheOld,
    KnowsNoToken,
    LateKnownPasses,
    PutWhereNobodyReads,
    TornReplayIsRead,
    LetsGoEarly,
    AnswersEarly,
    FitsWhatIsGone,
    ItemsChangePlaces,
    ItemTakesTheRecord,
}

impl Variant {
    /// All of them.
    pub const ALL: [Self; 78] = [
        Self::SendBeforeSeal,
        Self::SettleOverAHole,
        Self::TokenFromTheAttempt,
        Self::SnapshotOneSealEarly,
        Self::CollectOneRecordEarly,
        Self::ResendBeyondMemory,
        Self::NewGenerationWithoutEnding,
        Self::NoGate,
        Self::NoReadBack,
        Self::ExistsIsCreated,
        Self::IgnoreTheFloor,
        Self::SeenThoughRefused,
        Self::SealNotContiguous,
        Self::LostDelta,
        Self::NoHarden,
        Self::OneNonce,
        Self::LostRejects,
        Self::ProbeSaysNone,
        Self::ProbeSaysAll,
        Self::PublishedIgnored,
        Self::FrameOfManyPartitions,
        Self::WrittenInPlace,
        Self::TokenAgeIgnored,
        Self::AnotherTableIgnored,
        Self::ViewsIgnored,
        Self::LeaderEpochForgotten,
        Self::EndOneEarly,
        Self::NoJudgementAtTheGate,
        Self::TokensCountedAsBlocks,
        Self::LagOfAnotherReplica,
        Self::AlreadyRunningIsNone,
        Self::AnsweredFromMemory,
        Self::SyncFailedIsCreated,
        Self::FutureMovesTime,
        Self::SealedWaitsForTheSource,
        Self::HandedOutUnverified,
        Self::CutIsTheEnd,
        Self::RowsThereIgnored,
        Self::DuplicatesHoldTime,
        Self::RejectsHoldTime,
        Self::MultipliedUncounted,
        Self::RoutedToTheWrongTable,
        Self::FanOutLosesATable,
        Self::FrameLacksARow,
        Self::ClosedEarly,
        Self::ClosedUnsealed,
        Self::ReleasedUncounted,
        Self::JoinReleasedEarly,
        Self::JoinUnsealed,
        Self::JoinReleasedUncounted,
        Self::JoinSidesSwapped,
        Self::JoinPairsTwice,
        Self::JoinPairLost,
        Self::UnmatchedTwice,
        Self::UnmatchedLost,
        Self::VersionOfTheFuture,
        Self::VersionFreedEarly,
        Self::VersionsUnsealed,
        Self::AnothersOrigin,
        Self::ColumnsChangePlaces,
        Self::DuplicatesUncounted,
        Self::DuplicatesAsFiltered,
        Self::AwayIsAnswered,
        Self::FilteredHoldTime,
        Self::LedgerOfTheOtherInput,
        Self::InputsByPlace,
        Self::WatermarkOfOneInput,
        Self::MovedWhilePending,
        Self::NewStateKeepsTheOld,
        Self::KnowsNoToken,
        Self::LateKnownPasses,
        Self::PutWhereNobodyReads,
        Self::TornReplayIsRead,
        Self::LetsGoEarly,
        Self::AnswersEarly,
        Self::FitsWhatIsGone,
        Self::ItemsChangePlaces,
        Self::ItemTakesTheRecord,
    ];

    /// The variant of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|variant| variant.name() == name)
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// What is broken.
    pub fn what(self) -> &'static str {
        self.row().1
    }

    /// Seeds, from 0, within which it is caught.
    pub fn seeds_max(self) -> u64 {
        self.row().2
    }

    fn row(self) -> (&'static str, &'static str, u64) {
        match self {
            Self::SendBeforeSeal => {
                ("send-before-seal", "a journal record is taken for durable 50 ms before it is", 5)
            }
            Self::SettleOverAHole => {
                ("settle-over-a-hole", "an insert whose answer was lost counts as answered", 20)
            }
            Self::TokenFromTheAttempt => {
                ("token-from-the-attempt", "every attempt has a token of its own", 5)
            }
            Self::SnapshotOneSealEarly => {
                ("snapshot-one-seal-early", "a checkpoint holds the state of the seal before", 60)
            }
            Self::CollectOneRecordEarly => {
                ("collect-one-record-early", "the checkpoint that the floor names is deleted too", 20)
            }
            Self::ResendBeyondMemory => {
                ("resend-beyond-memory", "the server always looks as when it was first seen", 60)
            }
            Self::NewGenerationWithoutEnding => {
                ("new-generation-without-ending", "attempts are not ended before a new token", 400)
            }
            Self::NoGate => ("no-gate", "inserts are completed without asking who owns the lane", 200),
            Self::NoReadBack => ("no-read-back", "a put whose answer was lost counts as done", 60),
            Self::ExistsIsCreated => {
                ("exists-is-created", "a record that is there already counts as one's own", 60)
            }
            Self::IgnoreTheFloor => ("ignore-the-floor", "the floor is never read", 600),
            Self::SeenThoughRefused => {
                ("seen-though-refused", "the key of a refused row stays in the state", 100)
            }
            Self::SealNotContiguous => {
                ("seal-not-contiguous", "a start leaves out one record of each partition", 20)
            }
            Self::LostDelta => ("lost-delta", "every third state delta is not sealed", 60),
            Self::NoHarden => ("no-harden", "what another process wrote is trusted as it is", 600),
            Self::OneNonce => ("one-nonce", "every claim has the same nonce", 20),
            Self::LostRejects => ("lost-rejects", "malformed records vanish", 5),
            Self::ProbeSaysNone => ("probe-says-none", "a probe never finds a row", 200),
            Self::ProbeSaysAll => ("probe-says-all", "a probe finds every row", 100),
            Self::PublishedIgnored => ("published-ignored", "published positions are not asked for", 60),
            Self::FrameOfManyPartitions => {
                ("frame-of-many-partitions", "rows are not cut by table partition", 20)
            }
            Self::WrittenInPlace => {
                ("written-in-place", "the store writes an object under its own name, piece by piece", 20)
            }
            Self::TokenAgeIgnored => ("token-age-ignored", "tokens are taken to stand for ever", 600),
            Self::AnotherTableIgnored => {
                ("another-table-ignored", "every table of that name is taken for the first", 400)
            }
            Self::ViewsIgnored => ("views-ignored", "nobody asks what the views have", 20),
            Self::LeaderEpochForgotten => {
                ("leader-epoch-forgotten", "a start does not say in which leader epoch it was", 800)
            }
            Self::EndOneEarly => ("end-one-early", "a drain stops one record before the end", 600),
            Self::NoJudgementAtTheGate => (
                "no-judgement-at-the-gate",
                "the last bytes of a resend leave by the facts that it was decided by",
                400,
            ),
            Self::TokensCountedAsBlocks => {
                ("tokens-counted-as-blocks", "every block counts as one token, whatever it costs", 400)
            }
            Self::LagOfAnotherReplica => (
                "lag-of-another-replica",
                "the lag that is asked for is that of another replica than the rows",
                200,
            ),
            Self::AlreadyRunningIsNone => (
                "already-running-is-none",
                "a query id that runs already counts as an insert that did not happen",
                1000,
            ),
            Self::AnsweredFromMemory => {
                ("answered-from-memory", "the table answers inserts from memory and writes them later", 5)
            }
            Self::SyncFailedIsCreated => {
                // The record that vanishes must be one that somebody has acted on.
                ("sync-failed-is-created", "a put whose fsync failed counts as durable", 400)
            }
            Self::FutureMovesTime => (
                "future-moves-time",
                "a record from the future moves the watermark whatever the window is",
                100,
            ),
            Self::SealedWaitsForTheSource => (
                "sealed-waits-for-the-source",
                "nothing that is sealed is delivered before the source is read",
                600,
            ),
            Self::HandedOutUnverified => {
                ("handed-out-unverified", "what is read is handed out before it is verified", 300)
            }
            Self::CutIsTheEnd => ("cut-is-the-end", "a file that was cut counts as read to its end", 600),
            Self::RowsThereIgnored => {
                ("rows-there-ignored", "a first start does not ask whether the table has rows", 60)
            }
            Self::DuplicatesHoldTime => {
                ("duplicates-hold-time", "a record whose key came before does not move the watermark", 20)
            }
            Self::RejectsHoldTime => (
                "rejects-hold-time",
                "a partition that yields nothing with a time holds the watermark for ever",
                200,
            ),
            Self::MultipliedUncounted => {
                ("multiplied-uncounted", "a step that makes several rows of one does not say so", 60)
            }
            Self::RoutedToTheWrongTable => {
                ("routed-to-the-wrong-table", "rows for the first table and for the last change places", 60)
            }
            Self::FanOutLosesATable => {
                ("fan-out-loses-a-table", "a row for several tables goes to the first of them alone", 60)
            }
            Self::FrameLacksARow => ("frame-lacks-a-row", "the last row of a frame is left out", 5),
            Self::ClosedEarly => {
                ("closed-early", "a window is closed by a watermark that is ahead of the sealed one", 5)
            }
            Self::ClosedUnsealed => {
                ("closed-unsealed", "the state's delta of a seal that closes windows is not sealed", 60)
            }
            Self::ReleasedUncounted => {
                ("released-uncounted", "a window that closes does not say which records it releases", 5)
            }
            Self::JoinReleasedEarly => (
                "join-released-early",
                "a row of a join is released by a watermark that is ahead of the sealed one",
                20,
            ),
            Self::JoinUnsealed => ("join-unsealed", "every third delta of a join's state is not sealed", 60),
            Self::JoinReleasedUncounted => {
                ("join-released-uncounted", "a join does not say which rows it releases", 20)
            }
            Self::JoinSidesSwapped => {
                ("join-sides-swapped", "the rows of each input enter the other side of a join", 20)
            }
            Self::JoinPairsTwice => ("join-pairs-twice", "each pair of a batch is made twice", 20),
            Self::JoinPairLost => ("join-pair-lost", "the last pair of a batch is left out", 20),
            Self::UnmatchedTwice => {
                ("unmatched-twice", "the rows without a match of a seal go to their table twice", 20)
            }
            Self::UnmatchedLost => (
                "unmatched-lost",
                "rows without a match that a start finds in the state do not go to their table",
                60,
            ),
            Self::VersionOfTheFuture => {
                ("version-of-the-future", "a row gets a version that is later than the row", 20)
            }
            Self::VersionFreedEarly => (
                "version-freed-early",
                "versions of every third batch are freed at once, though rows that come need them",
                20,
            ),
            Self::VersionsUnsealed => {
                ("versions-unsealed", "every third delta of a temporal join's state is not sealed", 60)
            }
            Self::AnothersOrigin => {
                ("anothers-origin", "each row of a frame has the origin of the next one", 60)
            }
            Self::ColumnsChangePlaces => {
                ("columns-change-places", "two columns change places on the way to the table", 5)
            }
            Self::DuplicatesUncounted => {
                ("duplicates-uncounted", "duplicates are dropped and not counted", 5)
            }
            Self::DuplicatesAsFiltered => {
                ("duplicates-as-filtered", "duplicates are counted as dropped by a rule", 5)
            }
            Self::AwayIsAnswered => {
                ("away-is-answered", "an insert into a table that is away counts as answered", 60)
            }
            Self::FilteredHoldTime => {
                ("filtered-hold-time", "a record that no table gets does not move the watermark", 60)
            }
            Self::LedgerOfTheOtherInput => {
                ("ledger-of-the-other-input", "the records of each input are counted for the other", 60)
            }
            Self::InputsByPlace => {
                ("inputs-by-place", "an input is known by its place in the file, whatever its name", 100)
            }
            Self::WatermarkOfOneInput => {
                ("watermark-of-one-input", "the watermark does not wait for the second input", 400)
            }
            Self::MovedWhilePending => {
                ("moved-while-pending", "a pipeline is moved back while inserts are pending", 20)
            }
            Self::NewStateKeepsTheOld => {
                ("new-state-keeps-the-old", "a step that is to begin empty goes on with its state", 100)
            }
            Self::KnowsNoToken => {
                ("knows-no-token", "a profile undoes the deduplication that each request asks for", 20)
            }
            Self::LateKnownPasses => {
                ("late-known-passes", "a late record passes though its key is known", 60)
            }
            Self::PutWhereNobodyReads => (
                "put-where-nobody-reads",
                "a replay does not look whether the place where it put its records was retired before",
                20,
            ),
            Self::TornReplayIsRead => {
                ("torn-replay-is-read", "a replay whose command has died is read before it is durable", 200)
            }
            Self::LetsGoEarly => (
                "lets-go-early",
                "a source lets go of records once they are read, and segments of theirs are not written",
                20,
            ),
            Self::AnswersEarly => (
                "answers-early",
                "whoever sends records is answered once they are read, and not once they are sealed",
                20,
            ),
            Self::FitsWhatIsGone => (
                "fits-what-is-gone",
                "a start does not look whether frames that wait hold a column that the table has no more",
                60,
            ),
            Self::ItemsChangePlaces => {
                ("items-change-places", "two rows of one record's items have each other's origin", 20)
            }
            Self::ItemTakesTheRecord => (
                "item-takes-the-record",
                "a refused item's record is read again with the rows of all its items, whose keys are forgotten",
                100,
            ),
        }
    }

    /// Runs seeds from 0 until one catches the variant; the seed and its report, or `None`.
    pub fn caught(self, seeds: u64) -> Option<(u64, Report)> {
        let reports = (0..seeds).map(|seed| (seed, run(&self.plan(seed), Some(self), false)));
        reports.into_iter().find(|(_, report)| report.violation.is_some())
    }

    /// The plan of a seed in which it can show itself.
    pub fn plan(self, seed: u64) -> Plan {
        match self {
            Self::ClosedEarly | Self::ClosedUnsealed | Self::ReleasedUncounted => Plan::windowed(seed),
            Self::JoinReleasedEarly
            | Self::JoinUnsealed
            | Self::JoinReleasedUncounted
            | Self::JoinSidesSwapped
            | Self::JoinPairsTwice
            | Self::JoinPairLost
            | Self::UnmatchedTwice
            | Self::UnmatchedLost => Plan::joined(seed),
            Self::VersionOfTheFuture | Self::VersionFreedEarly | Self::VersionsUnsealed => {
                Plan::temporal(seed)
            }
            Self::MovedWhilePending => Plan::moved(seed),
            Self::PutWhereNobodyReads => Plan::replayed(seed),
            // Where commands die.
            Self::TornReplayIsRead => Plan::replayed(8 * seed + 3),
            Self::LetsGoEarly => Plan::released(seed),
            Self::AnswersEarly => Plan::pushed(seed),
            Self::FitsWhatIsGone => Plan::altered(seed),
            Self::ItemsChangePlaces | Self::ItemTakesTheRecord => Plan::unnested(seed),
            // Of a window that is kept the fold tells at once.
            Self::NewStateKeepsTheOld => Plan::moved(3 * seed + 1),
            // It makes a drain end too early as well, which is another rule's.
            Self::WatermarkOfOneInput => {
                let plan = Plan::new(seed);
                let faults = plan.faults.iter().filter(|fault| !matches!(fault, Fault::Drain { .. }));
                plan.with_faults(faults.copied().collect())
            }
            _ => Plan::new(seed),
        }
    }

    /// Breaks a pipeline.
    pub(crate) fn apply(self, mut pipeline: Pipeline, world: &Arc<World>, _pid: Pid) -> Pipeline {
        let lying_table = |inner: Arc<dyn Table>| Arc::new(LyingTable::new(inner, self));
        match self {
            Self::SendBeforeSeal
            | Self::NoReadBack
            | Self::ExistsIsCreated
            | Self::CollectOneRecordEarly
            | Self::IgnoreTheFloor
            | Self::SyncFailedIsCreated
            | Self::NewStateKeepsTheOld
            | Self::NoHarden => {
                let inner = pipeline.store.clone();
                pipeline.store = Arc::new(LyingStore { inner, world: world.clone(), variant: self });
            }
            Self::SettleOverAHole
            | Self::TokenFromTheAttempt
            | Self::ResendBeyondMemory
            | Self::NewGenerationWithoutEnding
            | Self::NoGate
            | Self::ProbeSaysNone
            | Self::ProbeSaysAll
            | Self::TokenAgeIgnored
            | Self::AnotherTableIgnored
            | Self::ViewsIgnored
            | Self::NoJudgementAtTheGate
            | Self::TokensCountedAsBlocks
            | Self::AlreadyRunningIsNone
            | Self::RowsThereIgnored
            | Self::FrameLacksARow
            | Self::AnothersOrigin
            | Self::ColumnsChangePlaces
            | Self::AwayIsAnswered
            | Self::FitsWhatIsGone
            | Self::ItemsChangePlaces
            | Self::FrameOfManyPartitions => {
                pipeline.tables = pipeline
                    .tables
                    .into_iter()
                    .map(|table| -> Arc<dyn Table> { lying_table(table) })
                    .collect();
                pipeline.dead_letters = lying_table(pipeline.dead_letters.clone());
            }
            Self::SnapshotOneSealEarly
            | Self::SeenThoughRefused
            | Self::LostDelta
            | Self::ClosedEarly
            | Self::ClosedUnsealed
            | Self::ReleasedUncounted
            | Self::JoinReleasedEarly
            | Self::JoinUnsealed
            | Self::JoinReleasedUncounted
            | Self::JoinPairsTwice
            | Self::JoinPairLost
            | Self::UnmatchedTwice
            | Self::UnmatchedLost
            | Self::VersionOfTheFuture
            | Self::VersionFreedEarly
            | Self::VersionsUnsealed
            | Self::DuplicatesUncounted
            | Self::DuplicatesAsFiltered
            | Self::LateKnownPasses
            | Self::MultipliedUncounted => {
                let lying = |inner| -> Box<dyn Operator> { Box::new(LyingStep::new(inner, self)) };
                pipeline.steps = pipeline.steps.into_iter().map(lying).collect();
            }
            Self::DuplicatesHoldTime | Self::FilteredHoldTime => {
                let hidden = Hidden::default();
                let dropped = (self == Self::FilteredHoldTime).then(|| world.plan.clone());
                for input in &mut pipeline.inputs {
                    let lying = |time| -> Arc<dyn Transform> {
                        Arc::new(LyingTime::new(time, hidden.clone(), dropped.clone()))
                    };
                    let time = input.intake.time().cloned().map(lying);
                    input.intake = input.intake.clone().with_time(time);
                }
                let lying = |inner| -> Box<dyn Operator> { Box::new(LyingClock::new(inner, hidden.clone())) };
                pipeline.steps = pipeline.steps.into_iter().map(lying).collect();
            }
            Self::ItemTakesTheRecord => {
                for input in &mut pipeline.inputs {
                    let lying = |step: &Arc<dyn Transform>| -> Arc<dyn Transform> {
                        Arc::new(WholeRecord(step.clone()))
                    };
                    let steps = input.intake.steps().iter().map(lying).collect();
                    input.intake = input.intake.clone().with_steps(steps);
                }
            }
            Self::JoinSidesSwapped => {
                pipeline.flow.entries.iter_mut().for_each(|port| port.input = 1 - port.input);
            }
            Self::RoutedToTheWrongTable | Self::FanOutLosesATable => {
                let tables = pipeline.tables.len();
                pipeline.router =
                    Some(Arc::new(LyingRouter { inner: pipeline.router.take(), tables, variant: self }));
            }
            Self::RejectsHoldTime => pipeline.settings.idle_after = Duration::from_secs(1 << 30),
            Self::HandedOutUnverified => world.state().broker.hands_out_unverified = true,
            Self::LetsGoEarly | Self::AnswersEarly => world.state().broker.lets_go_early = true,
            Self::CutIsTheEnd => world.state().broker.takes_cut_for_end = true,
            Self::FutureMovesTime => pipeline.settings.future_ms_max = FUTURE_MS_MAX,
            Self::SealedWaitsForTheSource => {
                let is_read = Arc::new(AtomicBool::new(false));
                let lying = |inner| -> Arc<dyn Table> {
                    let mut table = LyingTable::new(inner, self);
                    table.waits_for = Some(is_read.clone());
                    Arc::new(table)
                };
                pipeline.tables = pipeline.tables.into_iter().map(lying).collect();
                for input in &mut pipeline.inputs {
                    let (inner, is_read) = (input.source.clone(), is_read.clone());
                    input.source = Arc::new(LyingSource { inner, variant: self, is_read });
                }
            }
            Self::LagOfAnotherReplica => world.state().server.is_lag_anothers = true,
            Self::AnsweredFromMemory => world.state().server.is_asynchronous = true,
            Self::KnowsNoToken => world.state().server.knows_no_token = true,
            Self::WrittenInPlace => world.state().objects.is_in_place = true,
            Self::SealNotContiguous
            | Self::PublishedIgnored
            | Self::LeaderEpochForgotten
            | Self::EndOneEarly => {
                pipeline.inputs.iter_mut().for_each(|input| lie_about(&mut input.source, self));
            }
            Self::LostRejects => {
                for input in &mut pipeline.inputs {
                    let decoder = Arc::new(LyingDecoder(input.intake.decoder().clone()));
                    input.intake = input.intake.clone().with_decoder(decoder);
                }
            }
            Self::LedgerOfTheOtherInput => rename(&mut pipeline, |place| NAMES[1 - place]),
            Self::InputsByPlace => {
                let mut place = NAMES.iter().copied();
                pipeline.inputs.iter_mut().filter(|_| world.plan.inputs > 1).zip(&mut place).for_each(
                    |(input, name)| {
                        input.name = name.into();
                    },
                );
            }
            Self::WatermarkOfOneInput => {
                let second = pipeline.inputs.iter_mut().filter(|input| input.name == NAMES[1]);
                second.for_each(|input| lie_about(&mut input.source, self));
            }
            // The person lies, or the replay log.
            Self::MovedWhilePending | Self::PutWhereNobodyReads | Self::TornReplayIsRead => {}
            Self::OneNonce => pipeline.runtime = Arc::new(LyingRuntime(pipeline.runtime.clone())),
        }
        pipeline
    }
}

fn lie_about(source: &mut Arc<dyn Source>, variant: Variant) {
    let inner = source.clone();
    *source = Arc::new(LyingSource { inner, variant, is_read: Arc::default() });
}

/// Gives the inputs other names, where there are two.
fn rename(pipeline: &mut Pipeline, name: impl Fn(usize) -> &'static str) {
    let is_two = pipeline.inputs.len() > 1;
    for input in pipeline.inputs.iter_mut().filter(|_| is_two) {
        let place = NAMES.iter().position(|own| *own == input.name).expect("an input of this world");
        input.name = name(place).into();
    }
}
