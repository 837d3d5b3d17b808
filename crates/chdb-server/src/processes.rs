//! `system.processes` and `KILL QUERY`, with the clients' query ids.
//!
//! Owns how a statement that reads the table is rewritten, and a kill, from its condition to the end of the queries that it names. Does not
//! own the list of requests (`running`), nor how an id gets into `log_comment` (`work`).
//!
//! The embedded engine gives each statement an id of its own and takes none. So the client's id rides in the setting
//! `log_comment`, and a statement that reads `system.processes` reads a subquery instead, in which that id stands
//! in `query_id`. Requests that the engine does not know yet (their body is arriving, or they wait for their turn)
//! are in it too: **an id that is absent belongs to no request that could still have an effect.**
//!
//! The list of requests is taken before the engine's is read, and the two are joined in one reading, so that a
//! request on its way from the one to the other is never missed; one that just ended may still be shown.

use std::time::{Duration, Instant};

use crate::ffi::Answer;
use crate::request::Asked;
use crate::response::{Failure, SYNTAX_ERROR, TIMEOUT_EXCEEDED};
use crate::running::Running;
use crate::settings::literal;
use crate::shared::Server;
use crate::sql::Kill;

/// The client's id of a statement that the engine runs; the engine's own where there is none.
const CLIENT_ID: &str =
    "if(Settings['log_comment'] = '', query_id, splitByChar('\\n', Settings['log_comment'])[1])";
/// How long `KILL QUERY … SYNC` waits for the queries to end.
const SYNC_WAIT_MAX: Duration = Duration::from_secs(300);
/// How long an asynchronous kill goes on trying, for a request that is just being handed to the engine.
const ASYNC_WAIT_MAX: Duration = Duration::from_millis(100);
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Puts the subquery in the place of every `system.processes` in `sql`.
pub fn rewrite(sql: &[u8], places: &[(usize, usize)], running: &Running) -> Vec<u8> {
    if places.is_empty() {
        return sql.to_vec();
    }
    let subquery = listing(running);
    let mut out = Vec::with_capacity(sql.len() + places.len() * subquery.len());
    let mut at = 0;
    for (start, end) in places {
        out.extend_from_slice(&sql[at..*start]);
        out.extend_from_slice(subquery.as_bytes());
        at = *end;
    }
    out.extend_from_slice(&sql[at..]);
    out
}

/// The subquery: the engine's statements under their clients' ids, and the requests that the engine does not know.
fn listing(running: &Running) -> String {
    let here: Vec<String> = running
        .all()
        .iter()
        .map(|(id, elapsed_s, query)| format!("({}, {elapsed_s:.6}, {})", literal(id), literal(query)))
        .collect();
    // The first tuple gives the array its type and is filtered out by its empty id.
    let here = std::iter::once("('', 0.5, '')".to_owned()).chain(here).collect::<Vec<_>>().join(", ");
    format!(
        "(SELECT engine.* REPLACE (\
            if(engine.query_id = '', here.id, engine.query_id) AS query_id, \
            if(engine.query_id = '', here.id, engine.query_id) AS initial_query_id, \
            if(engine.query_id = '', 1, engine.is_initial_query) AS is_initial_query, \
            if(engine.query_id = '', 'default', engine.user) AS user, \
            if(engine.query_id = '', here.elapsed_s, engine.elapsed) AS elapsed, \
            if(engine.query_id = '', here.sql, engine.query) AS query) \
        FROM (SELECT * REPLACE ({CLIENT_ID} AS query_id) FROM system.processes) AS engine \
        FULL JOIN (SELECT part.1 AS id, part.2 AS elapsed_s, part.3 AS sql \
            FROM (SELECT arrayJoin([{here}]) AS part) WHERE id != '') AS here \
        ON engine.query_id = here.id SETTINGS join_use_nulls = 0)"
    )
}

/// Answers `KILL QUERY`: finds the requests, stops those that wait, and has the engine stop those that run.
///
/// The engine's own `SYNC` waits for ever in the embedded library, so the waiting is done here.
pub fn kill(
    server: &Server,
    asked: &Asked,
    own_id: &str,
    text: &[u8],
    kill: &Kill,
) -> Result<Answer, Failure> {
    if asked.settings.iter().any(|(name, value)| name == "readonly" && value != "0") {
        return Err(Failure::new(164, "Cannot execute query in readonly mode. (READONLY)"));
    }
    let (from, to) = kill.condition;
    let condition = std::str::from_utf8(&text[from..to])
        .map_err(|_| Failure::new(SYNTAX_ERROR, "the condition is not UTF-8"))?;
    let ids = matching(server, asked, own_id, condition)?;
    if kill.test || ids.is_empty() {
        return describe(server, asked, kill, "unknown_status", &ids);
    }
    let answer = describe(server, asked, kill, if kill.sync { "finished" } else { "waiting" }, &ids)?;
    let end = Instant::now() + if kill.sync { SYNC_WAIT_MAX } else { ASYNC_WAIT_MAX };
    let list = ids.iter().map(|id| literal(id)).collect::<Vec<_>>().join(", ");
    let statement = format!("KILL QUERY WHERE {CLIENT_ID} IN ({list}) ASYNC");
    loop {
        ids.iter().for_each(|id| server.running.kill(id));
        server.engine.run(&Asked::default(), statement.as_bytes(), "Null")?;
        if !ids.iter().any(|id| server.running.holds(id)) {
            return Ok(answer);
        }
        if Instant::now() >= end {
            let message = format!("the queries did not end within `{}` seconds", SYNC_WAIT_MAX.as_secs());
            return if kill.sync { Err(Failure::new(TIMEOUT_EXCEEDED, &message)) } else { Ok(answer) };
        }
        std::thread::sleep(RETRY_PAUSE);
    }
}

/// Stops all requests, for the server's own end. Does not wait for them.
pub fn kill_all(server: &Server) -> Result<(), Failure> {
    server.running.all().iter().for_each(|(id, ..)| server.running.kill(id));
    let statement = format!("KILL QUERY WHERE {CLIENT_ID} != query_id ASYNC");
    server.engine.run(&Asked::default(), statement.as_bytes(), "Null").map(drop)
}

/// The ids of the requests that the condition means, the killing one left out.
fn matching(server: &Server, asked: &Asked, own_id: &str, condition: &str) -> Result<Vec<String>, Failure> {
    let list = listing(&server.running);
    let own = literal(own_id);
    let sql = format!("SELECT query_id FROM {list} WHERE query_id != {own} AND ({condition}\n)");
    let answer = server.engine.run(asked, sql.as_bytes(), "JSONCompactEachRow")?;
    answer
        .body
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| match serde_json::from_slice::<[String; 1]>(line) {
            Ok([id]) => Ok(id),
            Err(error) => {
                Err(Failure::new(crate::response::STD_EXCEPTION, &format!("an unreadable id: {error}")))
            }
        })
        .collect()
}

/// The statement's answer: one row a query.
fn describe(
    server: &Server,
    asked: &Asked,
    kill: &Kill,
    status: &str,
    ids: &[String],
) -> Result<Answer, Failure> {
    let ids = std::iter::once("''".to_owned())
        .chain(ids.iter().map(|id| literal(id)))
        .collect::<Vec<_>>()
        .join(", ");
    let list = listing(&server.running);
    let sql = format!(
        "SELECT {} AS kill_status, query_id, user, query FROM {list} WHERE query_id IN ({ids})",
        literal(status)
    );
    let format = kill.format.as_deref().or(asked.default_format.as_deref()).unwrap_or("TabSeparated");
    server.engine.run(asked, sql.as_bytes(), format)
}

#[cfg(test)]
mod tests;
