//! The variants in words: the name on the command line, what is broken, and within how many seeds it is caught.
//!
//! Owns that table alone, in which every variant has one row. Does not own how a variant is broken (`sim::variant`, `sim::lies`).

use super::Variant;

impl Variant {
    pub(super) fn row(self) -> (&'static str, &'static str, u64) {
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
            Self::AlterIgnored => {
                ("alter-ignored", "a table is taken to remember all that it did before an ALTER", 600)
            }
            Self::AnotherTableIgnored => {
                ("another-table-ignored", "every table of that name is taken for the first", 400)
            }
            Self::ViewsIgnored => ("views-ignored", "nobody asks what the views have", 20),
            Self::ViewRefusalIsNone => {
                ("view-refusal-is-none", "rows that a view refuses count as refused by the table", 200)
            }
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
            Self::PartialMergedTwice => (
                "partial-merged-twice",
                "what a window makes of a batch is merged into it twice, and all of its counts are halved",
                5,
            ),
            Self::LateInBoth => {
                ("late-in-both", "a record that is counted as late goes into an open window too", 20)
            }
            Self::VersionsBeginAgain => (
                "versions-begin-again",
                "the versions of a window's results begin again with each process",
                20,
            ),
            Self::EarlyAfterFinal => (
                "early-after-final",
                "early results of a window leave one seal late, beside or behind the last ones",
                20,
            ),
            Self::FinalWithAnOldVersion => (
                "final-with-an-old-version",
                "the last results of a window have a version before that of their seal",
                20,
            ),
            Self::UpdatesLost => {
                ("updates-lost", "a window that has come to its end has no results before it is closed", 20)
            }
            Self::LateRowNowhere => (
                "late-row-nowhere",
                "the last of a batch's late rows is not among those of the late table",
                20,
            ),
            Self::LateRowsOfOthers => (
                "late-rows-of-others",
                "the late table gets as many rows of a batch as are late, but the first of it",
                20,
            ),
            Self::FreezeUnsealed => (
                "freeze-unsealed",
                "a seal without records freezes panes of a window, and its delta does not say so",
                100,
            ),
            Self::PieceUnsealed => (
                "piece-unsealed",
                "a seal without records lets results out of files, and its delta does not say so",
                20,
            ),
            Self::SessionsTorn => (
                "sessions-torn",
                "records that come after a start are no part of the sessions that it has found",
                20,
            ),
            Self::SessionsLateAlone => (
                "sessions-late-alone",
                "a record that a session of it alone would be closed for is late, whatever it could join",
                20,
            ),
            Self::SweepUnsealed => (
                "sweep-unsealed",
                "a seal without records begins a sweep of sessions in files, and its delta does not say so",
                60,
            ),
            Self::SweptUnsealed => (
                "swept-unsealed",
                "a seal without records lets sessions out of files, and its delta does not say so",
                60,
            ),
            Self::SessionsInFilesUnseen => (
                "sessions-in-files-unseen",
                "a record that is late alone does not ask what files have of its key",
                60,
            ),
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
            Self::VersionsInFilesForgotten => (
                "versions-in-files-forgotten",
                "a start does not open the files of a temporal join that its checkpoint names",
                60,
            ),
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
                ("torn-replay-is-read", "a replay whose command has died is read before it is durable", 800)
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
            Self::ClosedBeforeAllEnded => {
                ("closed-before-all-ended", "all that is open closes once one partition has ended", 20)
            }
            Self::ClosedByADrain => {
                ("closed-by-a-drain", "a drain closes all that is open, though its inputs may go on", 150)
            }
            Self::ClosedForEver => {
                ("closed-for-ever", "the end of every input closes windows that are not there yet", 20)
            }
            Self::EndUnsealed => {
                ("end-unsealed", "the state's delta of the seal that closes at the end is not sealed", 20)
            }
            Self::EndForgotten => {
                ("end-forgotten", "a partition that is moved back behind its end does not end again", 20)
            }
            Self::BehindNotHeldBack => (
                "behind-not-held-back",
                "a window does not hold the watermark of the one over its results back",
                20,
            ),
            Self::ClosedBehindTooEarly => (
                "closed-behind-too-early",
                "a window closes at the end while results for it are on their way",
                60,
            ),
            Self::JoinNotHeldBack => (
                "join-not-held-back",
                "a join does not hold the watermark of the window over its rows back",
                20,
            ),
            Self::OuterRowsNotAwaited => (
                "outer-rows-not-awaited",
                "a join holds that watermark back by its lateness alone, and not for rows of an outer side without a match",
                20,
            ),
            Self::ExistsIsAnothers => {
                ("exists-is-anothers", "a record that is there already counts as another's, unread", 60)
            }
            Self::RowTakenBackTwice => {
                ("row-taken-back-twice", "the rows that a seal takes back come out twice", 20)
            }
            Self::RowNotTakenBack => {
                ("row-not-taken-back", "the first seal of a process takes no row back", 20)
            }
            Self::GivenBeforeTakenBack => (
                "given-before-taken-back",
                "the new rows of a seal stand before those that take rows back, so that a merge keeps the wrong ones",
                20,
            ),
            Self::FirstOfASealHolds => (
                "first-of-a-seal-holds",
                "of the rows of a key in one batch the first holds, and not the last",
                20,
            ),
            Self::VersionsIgnored => {
                ("versions-ignored", "an upsert with versions lets the row hold that came last", 20)
            }
            Self::DeletionsIgnored => {
                ("deletions-ignored", "a row that deletes its key is written as any other", 20)
            }
            Self::ChangesUnsealed => {
                ("changes-unsealed", "every third delta of an upsert's state is not sealed", 20)
            }
            Self::ChangesOneSealEarly => {
                ("changes-one-seal-early", "a snapshot of an upsert's state lacks the last seal", 60)
            }
            Self::ChangesInFilesForgotten => (
                "changes-in-files-forgotten",
                "a start does not open the files of an upsert that its checkpoint names: rows stay that were replaced",
                20,
            ),
            Self::InsertsOvertake => (
                "inserts-overtake",
                "inserts into a table to which their order matters are sent several at a time",
                60,
            ),
        }
    }
}
