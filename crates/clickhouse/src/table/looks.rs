//! What a poll of the table asks, and what its answer means.
//!
//! Owns the order of the questions, what is compared with the start or with the poll before, and what inserts take over from a poll. Does not own the
//! statement ([`crate::checks::sight`]), the judgement of the table ([`crate::checks`]), nor what follows for a frame in doubt (`tokens`, `protocol::doubt`).

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use dataflow::{Remedy, Sighting, TableError, TableFault};
use tokens::Facts;

use super::columns::Now;
use super::{ClickHouseTable, probe};
use crate::checks::sight::{self, Sight};
use crate::checks::{self, Fault, PROVENANCE, Plan, read};
use crate::client::{Client, Insert, QueryError};
use crate::config::TableConfig;
use crate::types::identifier;
use crate::upsert;

/// The server has given up a question because of `max_execution_time`.
const TIMEOUT_EXCEEDED: i32 = 159;

impl ClickHouseTable {
    /// The shape of the table, checked again, and what one server shows of it at one moment.
    pub(super) async fn sight(
        &self,
        count: Option<&str>,
        unnamed: Option<&str>,
    ) -> Result<(Arc<Plan>, Sight), TableError> {
        // What a doubt rests on comes from as many connections as at the start.
        let known = self.node.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let known = known.as_deref().filter(|_| count.is_none());
        let facts = read::facts(&self.client, &self.config, known).await.map_err(fault_error)?;
        let is_one = facts.nodes.windows(2).all(|two| two[0] == two[1]);
        *self.node.lock().unwrap_or_else(PoisonError::into_inner) =
            facts.nodes.first().filter(|_| is_one).cloned();
        // Frames of other columns need not wait for a column of a type that cannot be written.
        let config = TableConfig { leaves_out: true, ..self.config.clone() };
        if let Some(memory) = checks::remembered(&facts) {
            self.remembered.see(memory, self.client.steady_ms());
        }
        let plan = checks::judge(&facts, &config).map_err(|faults| self.all_faults(&faults))?;
        self.unchanged(&plan)?;
        let plan = Arc::new(plan);
        self.see_settings(&plan);
        let nonce = format!("look-{}-{}", self.client.wall_ms(), self.looks.fetch_add(1, Ordering::Relaxed));
        let (places, views, counts_async) = (&plan.places, &plan.view_paths, plan.counts_async);
        let question = sight::Question { places, views, count, unnamed, counts_async, nonce: &nonce };
        let mut settings = read::borrowed(&plan.look_settings);
        settings.push((sight::ECHO, &nonce));
        if count.is_some() {
            // A part of the statement was made from what lies in the store.
            settings.extend(probe::READ_ONLY);
        }
        let asked_ms = self.client.steady_ms();
        let asked = self.client.one(&question.sql(), &settings, &[]).await;
        let mut sight: Sight = asked.map_err(|error| self.unanswered(error, unnamed.is_some()))?;
        (sight.asked_ms, sight.answered_ms) = (asked_ms, self.client.steady_ms());
        if sight.echo != nonce {
            return Err(echo_error(&sight.echo));
        }
        self.is_at_home(&plan, sight.server_identity())?;
        self.see_home(&plan);
        if self.now().plan.table_uuid != plan.table_uuid {
            self.has_written.store(false, Ordering::Relaxed);
        }
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(Now::new(plan.clone()));
        Ok((plan, sight))
    }

    /// What a question says whose answer is one number, on a server that has every row and says so in the same answer.
    ///
    /// # Errors
    /// While the server lags, or when the answer holds no number.
    pub(super) async fn counted(
        &self,
        question: &str,
        unnamed: Option<&str>,
    ) -> Result<(Arc<Plan>, Sight, u64), TableError> {
        // As it was before the count: what is answered later came after it.
        let has_written = self.has_written.load(Ordering::Relaxed);
        let (plan, sight) = self.sight(Some(question), unnamed).await?;
        let again = |kind, message| TableError { remedy: Remedy::Resend, kind, message };
        if let Some(why) = sight.lag(&plan.places, has_written) {
            return Err(again(
                TableFault::ReplicaLags,
                format!("{why}; its rows are counted once it has caught up"),
            ));
        }
        match sight.count {
            Some(found) => Ok((plan, sight, found)),
            None => Err(again(
                TableFault::Uncertain,
                format!("the answer to a question about the rows of table `{}` holds no number", self.name),
            )),
        }
    }

    /// Why a look was not answered. `looks_for_rows` says that it was one for the rows of a frame, which takes as long as reading a whole column if no index leads
    /// to them.
    pub(super) fn unanswered(&self, error: QueryError, looks_for_rows: bool) -> TableError {
        let is_slow = error.kind == TableFault::Timeout || error.code == TIMEOUT_EXCEEDED;
        let error = query_error(error);
        if !(looks_for_rows && is_slow && self.now().plan.provenance) {
            return error;
        }
        let (table, column) = (self.config.quoted(), identifier(PROVENANCE));
        let message = format!(
            "{}; the rows of an insert are looked for in the whole column {column}, and an index makes that quick: `ALTER TABLE {table} ADD INDEX forebay {column} \
             TYPE bloom_filter GRANULARITY 1`, then `ALTER TABLE {table} MATERIALIZE INDEX forebay`",
            error.message
        );
        TableError { message, ..error }
    }

    /// The settings of the inserts to come are those that the server has now. With a view that came, an error no longer says that
    /// nothing was written.
    fn see_settings(&self, plan: &Plan) {
        let mut insert = self.insert.lock().unwrap_or_else(PoisonError::into_inner);
        if insert.settings != plan.insert_settings || insert.views != plan.views {
            let (settings, views) = (plan.insert_settings.clone(), plan.views);
            *insert = Arc::new(Insert { settings, views, ..Insert::clone(&insert) });
        }
    }

    /// Inserts are to be answered by the server that has just answered a poll.
    fn see_home(&self, plan: &Plan) {
        let mut insert = self.insert.lock().unwrap_or_else(PoisonError::into_inner);
        let home = home(&self.client, plan);
        if insert.home != home {
            *insert = Arc::new(Insert { home, ..Insert::clone(&insert) });
        }
    }

    /// An error if another server answers than before, and what it says is about rows and tokens of its own.
    pub(super) fn is_at_home(&self, plan: &Plan, server: &str) -> Result<(), TableError> {
        let Some(plain) = plan.places.iter().find(|place| !place.replicated) else { return Ok(()) };
        if server.is_empty() {
            return Ok(());
        }
        let home = self.home.get_or_init(|| server.to_owned());
        if home == server {
            return Ok(());
        }
        Err(TableError {
            remedy: Remedy::Stop,
            kind: TableFault::Differs,
            message: format!(
                "server `{server}` answers where server `{home}` did, and table `{}.{}` is not replicated: each server has rows and \
                 insert tokens of its own. Nothing is sent. Point `url` at one server; if the server was replaced together with its \
                 data, restart the pipeline",
                plain.database, plain.table
            ),
        })
    }

    pub(super) fn seen(&self, plan: &Plan, sight: &Sight) -> Result<Sighting, TableError> {
        let uncertain =
            |message: String| TableError { remedy: Remedy::Resend, kind: TableFault::Uncertain, message };
        let lost = sight.without_keeper(&plan.places);
        let has_numbers = lost.is_none();
        // Beside the number of before or after it 0 would say that tokens were used. At a start there is no other, and nothing is to wait for the keeper.
        if let Some(message) = lost.filter(|_| self.has_numbers.load(Ordering::Relaxed)) {
            return Err(TableError { remedy: Remedy::Resend, kind: TableFault::ReadOnly, message });
        }
        let mut view_blocks = sight.blocks(&plan.places).map_err(uncertain)?;
        if has_numbers {
            self.has_numbers.store(true, Ordering::Relaxed);
        }
        let block_number = view_blocks.remove(0);
        let Some(table_uuid) = sight.table_identity() else {
            let message = format!("table `{}` was there a moment ago and is not now", self.name);
            return Err(TableError { remedy: Remedy::Resend, kind: TableFault::TableMissing, message });
        };
        let bounded = |bound: u64| (bound != u64::MAX).then_some(bound);
        let facts = Facts {
            start_ms: sight.start_ms(),
            seen_ms: sight.now_ms,
            server_uuid: sight.server_identity().to_owned(),
            block_number,
            view_blocks,
            token_window: plan.token_window,
            tokens_per_frame: plan.parts_per_frame,
            token_age_ms_max: bounded(plan.token_age_ms_max),
            tokens_per_block_max: bounded(plan.tokens_per_block_max),
            asked_ms: sight.asked_ms,
            answered_ms: sight.answered_ms,
            zone: plan.zone.clone(),
            altered_ms: sight.altered.0.saturating_mul(1_000),
            declaration: sight.altered.1,
            engine: sight.altered.2,
            names_rows: plan.provenance || !plan.unique_key.is_empty(),
            narrowed_ms: self.remembered.narrowed_ms(),
            routes: sight.routes,
            has_unnamed: sight.unnamed == Some(1),
        };
        Ok(facts.seen(table_uuid))
    }

    /// Rows of another journal have greater versions than those that this machine's clock gives: new rows would never be seen.
    pub(super) async fn versions_are_ahead(&self) -> Result<Option<String>, TableError> {
        let column = identifier(upsert::VERSION);
        let question = format!("SELECT max({column}) FROM {}", self.config.quoted());
        let (.., greatest) = self.counted(&question, None).await?;
        let now_ms = self.client.wall_ms();
        let ahead_ms = upsert::ms_of(greatest).saturating_sub(now_ms);
        Ok((ahead_ms >= 0 && greatest > 0).then(|| {
            format!(
                "table `{}` has rows with versions up to {greatest}, and the journal of this pipeline knows of none of them: its versions would begin at \
                 this machine's clock, which is {ahead_ms} ms behind them, so that its rows would never replace those. No row was written. Bring \
                 the store of the pipeline back that wrote them, set the clock right, or wait until it has passed them",
                self.name
            )
        }))
    }

    /// An error if inserts cannot be made as they were any more. A new identity is not: that is the caller's to compare; nor are other
    /// columns ([`super::columns`]), nor more views ([`dataflow::Table::must_reopen`]).
    fn unchanged(&self, now: &Plan) -> Result<(), TableError> {
        if now.zone == self.plan.zone {
            return Ok(());
        }
        // A resend would put its rows into another partition, where their token is not known.
        let message = format!(
            "sessions of this user have the time zone `{}` now, and had `{}` at the start, by which the rows of table `{}` were put into \
             partitions; set `session_timezone` of the user back, or restart the pipeline once nothing waits",
            now.zone, self.plan.zone, self.name
        );
        Err(TableError { remedy: Remedy::Stop, kind: TableFault::Differs, message })
    }

    fn all_faults(&self, faults: &[Fault]) -> TableError {
        let remedy =
            if faults.iter().any(|f| f.remedy == Remedy::Stop) { Remedy::Stop } else { Remedy::Resend };
        let texts: Vec<String> = faults.iter().map(Fault::to_string).collect();
        let kind = faults.first().map_or(TableFault::Differs, |fault| fault.kind);
        TableError { remedy, kind, message: texts.join("; ") }
    }
}

/// What the server calls itself that answered last, if it alone has what is written.
pub(super) fn home(client: &Client, plan: &Plan) -> Option<String> {
    client.answered_by().filter(|_| plan.places.iter().any(|place| !place.replicated))
}

/// The settings of a request did not reach the server, or its answer is that of an earlier one.
fn echo_error(echo: &str) -> TableError {
    let (remedy, message) = match echo.starts_with("look-") {
        true => (
            Remedy::Resend,
            "a poll was answered with the answer to an earlier one: something between Forebay and the server keeps answers; switch that off for this user",
        ),
        false => (
            Remedy::Stop,
            "settings in the address of a request do not reach the server, so inserts would have no token: a proxy drops parameters that it does not know, \
             as chproxy does. Nothing is sent. Connect to the server itself, or let the proxy pass all parameters",
        ),
    };
    TableError { remedy, kind: TableFault::Uncertain, message: message.into() }
}

fn fault_error(fault: Fault) -> TableError {
    TableError { remedy: fault.remedy, kind: fault.kind, message: fault.to_string() }
}

pub(super) fn query_error(error: QueryError) -> TableError {
    TableError { remedy: error.remedy, kind: error.kind, message: error.message }
}
