//! How each variant breaks a pipeline.
//!
//! Owns which seam is replaced by one that lies, or which of the world's parts is told to. Does not own the lies (`lies`).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use dataflow::{Operator, Source, Table, Transform};
use engine::Pipeline;

use super::Variant;
use crate::changes::Changes;
use crate::executor::Pid;
use crate::lies::{
    Hidden, LyingClock, LyingDecoder, LyingEnd, LyingRouter, LyingRuntime, LyingSource, LyingStep,
    LyingStore, LyingTable, LyingTime, LyingVersions, LyingWindow, TornSessions, UnreadStore, WholeRecord,
};
use crate::plan::inputs::NAMES;
use crate::world::World;

/// A clamp of the future that does not look at the window: a year.
const FUTURE_MS_MAX: i64 = 365 * 86_400_000;

impl Variant {
    /// Breaks a pipeline.
    pub(crate) fn apply(self, mut pipeline: Pipeline, world: &Arc<World>, pid: Pid) -> Pipeline {
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
            Self::ExistsIsAnothers => pipeline.store = Arc::new(UnreadStore::new(pipeline.store.clone())),
            Self::SettleOverAHole
            | Self::TokenFromTheAttempt
            | Self::ResendBeyondMemory
            | Self::NewGenerationWithoutEnding
            | Self::NoGate
            | Self::ProbeSaysNone
            | Self::ProbeSaysAll
            | Self::TokenAgeIgnored
            | Self::AlterIgnored
            | Self::AnotherTableIgnored
            | Self::ViewsIgnored
            | Self::ViewRefusalIsNone
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
            | Self::ClosedForEver
            | Self::EndUnsealed
            | Self::ReleasedUncounted
            | Self::PartialMergedTwice
            | Self::LateInBoth
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
            | Self::RowTakenBackTwice
            | Self::RowNotTakenBack
            | Self::GivenBeforeTakenBack
            | Self::FirstOfASealHolds
            | Self::ChangesUnsealed
            | Self::ChangesOneSealEarly
            | Self::MultipliedUncounted => {
                let lying = |inner| -> Box<dyn Operator> { Box::new(LyingStep::new(inner, self)) };
                pipeline.steps = pipeline.steps.into_iter().map(lying).collect();
            }
            Self::VersionsBeginAgain
            | Self::EarlyAfterFinal
            | Self::FinalWithAnOldVersion
            | Self::UpdatesLost
            | Self::LateRowNowhere
            | Self::LateRowsOfOthers
            | Self::FreezeUnsealed
            | Self::PieceUnsealed
            | Self::SessionsTorn
            | Self::SessionsLateAlone
            | Self::SweepUnsealed
            | Self::SweptUnsealed
            | Self::SessionsInFilesUnseen => self.apply_to_window(&mut pipeline, world),
            Self::VersionsInFilesForgotten => {
                if let Some(joins) = world.plan.joins.filter(|joins| joins.is_temporal) {
                    pipeline.steps[0] =
                        Box::new(LyingVersions::new(joins.temporal(world.plan.is_in_files())));
                }
            }
            Self::ChangesInFilesForgotten => {
                if let Some(changes) = world.plan.changes {
                    pipeline.steps[1] = Box::new(LyingVersions::new(changes.step(world.plan.is_in_files())));
                }
            }
            Self::VersionsIgnored | Self::DeletionsIgnored => {
                if let Some(changes) = world.plan.changes {
                    let changes = match self {
                        Self::VersionsIgnored => Changes { is_versioned: false, ..changes },
                        _ => Changes { has_deletions: false, ..changes },
                    };
                    pipeline.steps[1] = Box::new(changes.step(false));
                }
            }
            Self::InsertsOvertake => pipeline.settings.in_flight_max = 4,
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
            Self::ClosedBeforeAllEnded
            | Self::ClosedByADrain
            | Self::BehindNotHeldBack
            | Self::ClosedBehindTooEarly
            | Self::JoinNotHeldBack
            | Self::OuterRowsNotAwaited => {
                let lying =
                    |inner| -> Box<dyn Operator> { Box::new(LyingEnd::new(inner, world.clone(), pid, self)) };
                // The step with state.
                pipeline.steps = pipeline.steps.into_iter().map(lying).collect();
            }
            Self::EndForgotten => world.state().broker.forgets_ends = true,
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

    /// Puts a window in the place of that of the pipeline, if it has one.
    fn apply_to_window(self, pipeline: &mut Pipeline, world: &Arc<World>) {
        let Some(aggregates) = world.plan.aggregates else { return };
        let window = || aggregates.window(self.knows_files() && world.plan.is_in_files());
        pipeline.steps[0] = match self {
            Self::SessionsTorn => Box::new(TornSessions::new([window(), window(), window()], world.clone())),
            _ => Box::new(LyingWindow::new(window(), self, aggregates)),
        };
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
