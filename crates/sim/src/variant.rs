//! Engines that are broken on purpose, to show that the simulation would notice.
//!
//! Owns the list, and the plan in which each can show itself. Each is broken by a seam that lies ([`apply`], `lies`), never by a switch in what
//! ships. Does not own the rules that catch them (`oracle`).

mod apply;
mod words;

use crate::drive::{Report, run};
use crate::plan::{Fault, Plan};
use crate::results::Aggregates;

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
    AlterIgnored,
    AnotherTableIgnored,
    ViewsIgnored,
    ViewRefusalIsNone,
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
    PartialMergedTwice,
    LateInBoth,
    VersionsBeginAgain,
    EarlyAfterFinal,
    FinalWithAnOldVersion,
    UpdatesLost,
    LateRowNowhere,
    LateRowsOfOthers,
    FreezeUnsealed,
    PieceUnsealed,
    SessionsTorn,
    SessionsLateAlone,
    SweepUnsealed,
    SweptUnsealed,
    SessionsInFilesUnseen,
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
    VersionsInFilesForgotten,
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
    ClosedBeforeAllEnded,
    ClosedByADrain,
    ClosedForEver,
    EndUnsealed,
    EndForgotten,
    BehindNotHeldBack,
    ClosedBehindTooEarly,
    JoinNotHeldBack,
    OuterRowsNotAwaited,
    ExistsIsAnothers,
    RowTakenBackTwice,
    RowNotTakenBack,
    GivenBeforeTakenBack,
    FirstOfASealHolds,
    VersionsIgnored,
    DeletionsIgnored,
    ChangesUnsealed,
    ChangesOneSealEarly,
    ChangesInFilesForgotten,
    InsertsOvertake,
}

impl Variant {
    /// All of them.
    pub const ALL: [Self; 116] = [
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
        Self::AlterIgnored,
        Self::AnotherTableIgnored,
        Self::ViewsIgnored,
        Self::ViewRefusalIsNone,
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
        Self::PartialMergedTwice,
        Self::LateInBoth,
        Self::VersionsBeginAgain,
        Self::EarlyAfterFinal,
        Self::FinalWithAnOldVersion,
        Self::UpdatesLost,
        Self::LateRowNowhere,
        Self::LateRowsOfOthers,
        Self::FreezeUnsealed,
        Self::PieceUnsealed,
        Self::SessionsTorn,
        Self::SessionsLateAlone,
        Self::SweepUnsealed,
        Self::SweptUnsealed,
        Self::SessionsInFilesUnseen,
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
        Self::VersionsInFilesForgotten,
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
        Self::ClosedBeforeAllEnded,
        Self::ClosedByADrain,
        Self::ClosedForEver,
        Self::EndUnsealed,
        Self::EndForgotten,
        Self::BehindNotHeldBack,
        Self::ClosedBehindTooEarly,
        Self::JoinNotHeldBack,
        Self::OuterRowsNotAwaited,
        Self::ExistsIsAnothers,
        Self::RowTakenBackTwice,
        Self::RowNotTakenBack,
        Self::GivenBeforeTakenBack,
        Self::FirstOfASealHolds,
        Self::VersionsIgnored,
        Self::DeletionsIgnored,
        Self::ChangesUnsealed,
        Self::ChangesOneSealEarly,
        Self::ChangesInFilesForgotten,
        Self::InsertsOvertake,
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

    /// Whether its step can have state in files.
    pub fn knows_files(self) -> bool {
        matches!(
            self,
            Self::FreezeUnsealed
                | Self::PieceUnsealed
                | Self::SweepUnsealed
                | Self::SweptUnsealed
                | Self::SessionsInFilesUnseen
                | Self::VersionsInFilesForgotten
                | Self::ChangesInFilesForgotten
                | Self::BehindNotHeldBack
                | Self::ClosedBehindTooEarly
                | Self::JoinNotHeldBack
                | Self::OuterRowsNotAwaited
        )
    }

    /// Runs seeds from 0 until one catches the variant; the seed and its report, or `None`.
    pub fn caught(self, seeds: u64) -> Option<(u64, Report)> {
        let reports = (0..seeds).map(|seed| (seed, run(&self.plan(seed), Some(self), false)));
        reports.into_iter().find(|(_, report)| report.violation.is_some())
    }

    /// The plan of a seed in which it can show itself.
    pub fn plan(self, seed: u64) -> Plan {
        match self {
            Self::ClosedEarly
            | Self::ClosedUnsealed
            | Self::ReleasedUncounted
            | Self::PartialMergedTwice
            | Self::LateInBoth => Plan::windowed(seed),
            Self::VersionsBeginAgain
            | Self::EarlyAfterFinal
            | Self::FinalWithAnOldVersion
            | Self::UpdatesLost
            | Self::LateRowNowhere
            | Self::LateRowsOfOthers => Plan::emitted(seed),
            Self::FreezeUnsealed | Self::PieceUnsealed => Plan::spilled(seed),
            Self::SessionsTorn | Self::SessionsLateAlone => Plan::of_sessions(seed),
            Self::SweepUnsealed | Self::SweptUnsealed => Plan::of_sessions(seed),
            // With a table of late records their rows would tell at once.
            Self::SessionsInFilesUnseen => {
                let plan = Plan::of_sessions(seed);
                let aggregates = plan.aggregates.map(|of| Aggregates { beside: None, ..of });
                Plan { aggregates, ..plan }
            }
            Self::JoinReleasedEarly
            | Self::JoinUnsealed
            | Self::JoinReleasedUncounted
            | Self::JoinSidesSwapped
            | Self::JoinPairsTwice
            | Self::JoinPairLost
            | Self::UnmatchedTwice
            | Self::UnmatchedLost => Plan::joined(seed),
            Self::VersionOfTheFuture
            | Self::VersionFreedEarly
            | Self::VersionsUnsealed
            | Self::VersionsInFilesForgotten => Plan::temporal(seed),
            Self::ClosedBeforeAllEnded
            | Self::ClosedByADrain
            | Self::ClosedForEver
            | Self::EndUnsealed
            | Self::EndForgotten => Plan::ended(seed),
            Self::BehindNotHeldBack | Self::ClosedBehindTooEarly => Plan::rolled(seed),
            Self::JoinNotHeldBack | Self::OuterRowsNotAwaited => Plan::chained(seed),
            Self::ExistsIsAnothers => Plan::resent(seed),
            Self::RowTakenBackTwice
            | Self::RowNotTakenBack
            | Self::GivenBeforeTakenBack
            | Self::FirstOfASealHolds
            | Self::VersionsIgnored
            | Self::DeletionsIgnored
            | Self::ChangesUnsealed
            | Self::ChangesOneSealEarly
            | Self::ChangesInFilesForgotten
            | Self::InsertsOvertake => Plan::upserted(seed),
            Self::MovedWhilePending => Plan::moved(seed),
            Self::PutWhereNobodyReads => Plan::replayed(seed),
            // Where commands die.
            Self::TornReplayIsRead => Plan::replayed(8 * seed + 3),
            Self::LetsGoEarly => Plan::released(seed),
            Self::AnswersEarly => Plan::pushed(seed),
            Self::FitsWhatIsGone => Plan::altered(seed),
            Self::RejectsHoldTime => Plan::untimed(seed),
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
}
