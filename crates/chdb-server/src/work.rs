//! One request's work on a blocking thread: unpack the body, understand the statement, run it, pack the answer.
//!
//! Owns the order of these four and where a statement ends and its data begin. Does not own how each is done (`compression`, `sql`, `gate`,
//! `insert`, `processes`, `engine`, `session`, `response`), nor who gets a turn (`http`).

use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode};

use crate::compression::{self, Encoding, Method};
use crate::ffi::Answer;
use crate::insert::{self, Script};
use crate::request::Asked;
use crate::response::{self, ACCESS_DENIED, About, Failure, NOT_IMPLEMENTED, STD_EXCEPTION, SYNTAX_ERROR};
use crate::room::Share;
use crate::shared::{Admitted, Server};
use crate::sql::{self, Refused, Statement};
use crate::{gate, processes, session};

/// Longest statement without data. The engine's own bound (`max_query_size`) is 256 KiB and can be raised.
const STATEMENT_BYTES_MAX: usize = 16 << 20;
/// What ClickHouse answers in when nothing else is asked.
const FORMAT_DEFAULT: &str = "TabSeparated";

/// A request that has its turn.
pub struct Work {
    /// The query string and headers.
    pub asked: Asked,
    /// What the headers say of bodies.
    pub headers: BodyHeaders,
    /// The body as it came.
    pub body: Vec<u8>,
    /// The body's share of the memory.
    pub share: Share,
    /// Its place and session.
    pub admitted: Admitted,
}

/// How the body is packed and the answer may be.
pub struct BodyHeaders {
    content_encoding: Option<String>,
    accept_encoding: Option<String>,
}

impl BodyHeaders {
    /// Reads the two headers.
    pub fn read(headers: &HeaderMap) -> BodyHeaders {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        BodyHeaders { content_encoding: text("content-encoding"), accept_encoding: text("accept-encoding") }
    }
}

/// A new query id in the form of a UUID.
pub fn random_id() -> String {
    let kernel =
        std::fs::read_to_string("/proc/sys/kernel/random/uuid").map(|text| text.trim_end().to_owned());
    kernel.unwrap_or_else(|_| {
        // Without /proc: unique in this process, which is what a query id must be.
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        format!("query-{}", NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
    })
}

/// Does a request's work and gives the whole response. Blocks.
pub fn run(server: &Server, mut work: Work) -> Result<Response<Body>, Failure> {
    unpack(server, &mut work)?;
    let statement = find_statement(&work.asked.query, std::mem::take(&mut work.body))?;
    work.admitted.ticket.show(&statement.text);
    if !server.engine.is_open() {
        statement.check_gate(&work.asked).map_err(gated)?;
    }
    let format =
        statement.format().or(work.asked.default_format.as_deref()).unwrap_or(FORMAT_DEFAULT).to_owned();
    let query_id = work.admitted.ticket.query_id().to_owned();
    name_query(&mut work.asked, &query_id);
    let (script, _file) = match &statement.parsed {
        Statement::Kill(kill) => {
            let mut answer = processes::kill(server, &work.asked, &query_id, &statement.text, kill)?;
            return pack(&work, &format, &mut answer);
        }
        Statement::Other(other) => {
            let main = processes::rewrite(&statement.text, &other.processes, &server.running);
            (Script { main, ..Script::default() }, None)
        }
        Statement::Insert(insert) => {
            let prepared = insert::prepare(&statement.text, insert, &statement.data).map_err(|error| {
                Failure::new(STD_EXCEPTION, &format!("no file in memory for the data: {error}"))
            })?;
            (prepared.script, Some(prepared.file))
        }
    };
    drop(statement);
    work.admitted.ticket.check()?;
    let mut answer = match &mut work.admitted.session {
        Some(held) => session::run(&server.engine, held, &work.asked, &script, &format)?,
        None => server.engine.run_script(&work.asked, &script, &format)?,
    };
    pack(&work, &format, &mut answer)
}

/// Puts the plain body in the place of the packed one. The packed one's share of the memory is given back when the
/// plain one has its own.
fn unpack(server: &Server, work: &mut Work) -> Result<(), Failure> {
    if let Some(encoding) = Encoding::of_body(work.headers.content_encoding.as_deref())? {
        let mut share = server.budget.share();
        work.body = encoding.decode(&work.body, &mut share)?;
        work.share = share;
    }
    if work.asked.decompress {
        let mut share = server.budget.share();
        work.body = compression::decode_blocks(&work.body, &mut share)?;
        work.share = share;
    }
    Ok(())
}

/// A statement and the data that follow it.
#[derive(Debug)]
struct Found {
    text: Vec<u8>,
    parsed: Statement,
    /// An insert's data beyond those at the end of `text`.
    data: Vec<u8>,
}

impl Found {
    /// Refuses what reaches files or the network.
    fn check_gate(&self, asked: &Asked) -> Result<(), gate::Gated> {
        gate::settings(&asked.settings)?;
        gate::parameters(&self.text, &asked.parameters)?;
        let Statement::Insert(insert) = &self.parsed else { return gate::statement(&self.text) };
        let (head, first) = self.text.split_at(insert.data_start.min(self.text.len()));
        gate::statement(head)?;
        // Only this format evaluates expressions.
        let values = insert.format.eq_ignore_ascii_case("Values");
        if values && (gate::may_call(first) || gate::may_call(&self.data)) {
            // Strings may begin in one part and end in the other.
            gate::values(&[first, &self.data].concat())?;
        }
        Ok(())
    }

    /// The format that the statement names for its answer.
    fn format(&self) -> Option<&str> {
        match &self.parsed {
            Statement::Insert(_) => None,
            Statement::Kill(kill) => kill.format.as_deref(),
            Statement::Other(other) => other.format.as_deref(),
        }
    }
}

/// Finds the statement in the query string and the body, which follows it after a line end.
fn find_statement(query: &str, body: Vec<u8>) -> Result<Found, Failure> {
    if query.trim().is_empty() {
        let parsed = sql::analyse(head_of(&body)?).map_err(refused)?;
        return Ok(Found { text: body, parsed, data: Vec::new() });
    }
    let text = [query.as_bytes(), b"\n"].concat();
    match sql::analyse(&text) {
        Ok(parsed @ Statement::Insert(_)) => Ok(Found { text, parsed, data: body }),
        parsed if body.is_empty() => Ok(Found { text, parsed: parsed.map_err(refused)?, data: body }),
        _ => {
            let text = [text, body].concat();
            let parsed = sql::analyse(head_of(&text)?).map_err(refused)?;
            Ok(Found { text, parsed, data: Vec::new() })
        }
    }
}

fn gated(gated: gate::Gated) -> Failure {
    let text = format!("default: Not enough privileges. {gated}. (ACCESS_DENIED)");
    Failure::new(ACCESS_DENIED, &text).with_status(StatusCode::FORBIDDEN)
}

fn refused(refused: Refused) -> Failure {
    let code = match refused {
        Refused::Empty | Refused::Several => SYNTAX_ERROR,
        Refused::ClientOnly(_) => NOT_IMPLEMENTED,
    };
    Failure::new(code, &refused.to_string())
}

/// All of a text that is short enough to be a statement, or that begins with INSERT.
fn head_of(text: &[u8]) -> Result<&[u8], Failure> {
    let inserts = text.trim_ascii_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case(b"insert"));
    if text.len() > STATEMENT_BYTES_MAX && !inserts {
        let message = format!("a statement of `{}` bytes is above `{STATEMENT_BYTES_MAX}`", text.len());
        return Err(Failure::new(SYNTAX_ERROR, &message));
    }
    Ok(text)
}

/// The engine gives every statement an id of its own and takes none, so the client's rides in `log_comment`,
/// before a line end and the client's own comment.
fn name_query(asked: &mut Asked, query_id: &str) {
    match asked.settings.iter_mut().find(|(name, _)| name == "log_comment") {
        Some((_, comment)) => *comment = format!("{query_id}\n{comment}"),
        // First, since nothing can be set any more after `readonly`.
        None => asked.settings.insert(0, ("log_comment".to_owned(), query_id.to_owned())),
    }
}

fn pack(work: &Work, format: &str, answer: &mut Answer) -> Result<Response<Body>, Failure> {
    let failed =
        |error: std::io::Error| Failure::new(STD_EXCEPTION, &format!("cannot compress the answer: {error}"));
    let mut body = std::mem::take(&mut answer.body);
    let setting = |wanted: &str| {
        work.asked.settings.iter().rev().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    };
    let mut encoding = None;
    if work.asked.compress {
        let zstd =
            setting("network_compression_method").is_some_and(|method| method.eq_ignore_ascii_case("zstd"));
        body = compression::encode_blocks(&body, if zstd { Method::Zstd } else { Method::Lz4 })
            .map_err(failed)?;
    } else if matches!(setting("enable_http_compression"), Some("1" | "true")) {
        encoding = Encoding::for_answer(work.headers.accept_encoding.as_deref());
        if let Some(encoding) = encoding {
            body = encoding.encode(&body).map_err(failed)?;
        }
    }
    let about = About {
        query_id: work.admitted.ticket.query_id(),
        format,
        encoding: encoding.map(Encoding::name),
        counts: answer,
    };
    Ok(response::success(body, &about))
}

#[cfg(test)]
mod tests;
