//! Elasticsearch's `_bulk`, for senders that speak nothing else.
//!
//! Owns the action lines and the answer. Does not own who may fill which index (`gateway::gate`), nor what becomes of an append
//! (`gateway::stream`). The index of an action is the stream. Documents are taken as they stand; there is no document store behind, so only
//! what adds one is taken.
//!
//! | request                                   | meets                                                       |
//! |-------------------------------------------|-------------------------------------------------------------|
//! | `POST` or `PUT` of `/_bulk`, `/INDEX/_bulk` | each document in the stream of its index; a `/` may stand behind either |
//! | action `create` or `index`                | taken; an `_id` is ignored                                  |
//! | action `update` or `delete`               | refused in its item, with status 400; the others are taken  |
//! | `GET /`                                   | a version that senders ask for first                        |
//! | `GET /_license`                           | a basic license, without which Beats and Logstash send nothing |
//! | `GET /_cluster/health`                    | 200 while requests are taken, as Vector asks before it starts; 503 while the gateway stops |
//!
//! All documents of one stream are one append: durable together. What is answered when a stream cannot take its documents now:
//!
//! | of the request            | answer                                                                                   |
//! |---------------------------|------------------------------------------------------------------------------------------|
//! | nothing was stored        | 429 or 503 with `Retry-After`: every sender sends the request again                      |
//! | other documents are stored | 200 with an item for each document, in their order; 429 in the items that may be sent again: senders that repeat items repeat those, and take 503 for final |

mod unsent;

use std::collections::BTreeMap;
use std::fmt;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, get, on};
use futures::future::join_all;
use memchr::memchr;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Value, json};

use crate::budget::Held;
use crate::gate::{self, Caller, Gate};
use crate::records::{Parsed, Rows, Word};
use crate::refusal::{Kind, Refusal, answer};
use unsent::Unsent;

/// What is said of the version: one whose `_bulk` senders know.
const VERSION: &str = "8.17.0";

/// Senders use the one or the other.
const BULK: MethodFilter = MethodFilter::POST.or(MethodFilter::PUT);

/// The routes of `_bulk`, and of the version that clients ask for first.
pub fn routes(gate: Gate) -> Router {
    let of_all =
        || on(BULK, async |State(gate): State<Gate>, request: Request| bulk(gate, None, request).await);
    let of_one = || {
        on(BULK, async |State(gate): State<Gate>, Path(index): Path<String>, request: Request| {
            bulk(gate, Some(index), request).await
        })
    };
    Router::new()
        .route("/", get(about))
        .route("/_license", get(license))
        .route("/_cluster/health", get(health))
        .route("/_bulk", of_all())
        .route("/{index}/_bulk", of_one())
        // Fluent Bit writes it so in front of the name of a pipeline.
        .route("/_bulk/", of_all())
        .route("/{index}/_bulk/", of_one())
        .layer(DefaultBodyLimit::disable())
        .with_state(gate)
}

async fn about() -> Response {
    of_product(answer(
        StatusCode::OK,
        &json!({ "name": "forebay", "cluster_name": "forebay", "version": { "number": VERSION }, "tagline": "You Know, for Search" }),
    ))
}

/// The license that every cluster has that nobody has bought another one for.
async fn license() -> Response {
    let license = json!({
        "status": "active",
        "uid": "00000000-0000-0000-0000-000000000000",
        "type": "basic",
        "mode": "basic",
        "issued_to": "forebay",
        "issuer": "forebay",
    });
    of_product(answer(StatusCode::OK, &json!({ "license": license })))
}

/// The health of a cluster of one node, which has no shards: there are no documents to search.
async fn health(State(gate): State<Gate>) -> Response {
    let (status, word) = match gate.is_ready() {
        true => (StatusCode::OK, "green"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "red"),
    };
    let health = json!({
        "cluster_name": "forebay",
        "status": word,
        "timed_out": false,
        "number_of_nodes": 1,
        "number_of_data_nodes": 1,
        "active_primary_shards": 0,
        "active_shards": 0,
        "relocating_shards": 0,
        "initializing_shards": 0,
        "unassigned_shards": 0,
        "unassigned_primary_shards": 0,
        "delayed_unassigned_shards": 0,
        "number_of_pending_tasks": 0,
        "number_of_in_flight_fetch": 0,
        "task_max_waiting_in_queue_millis": 0,
        "active_shards_percent_as_number": 100.0,
    });
    of_product(answer(status, &health))
}

/// Marks an answer as Elasticsearch marks its own: its clients take no other.
fn of_product(mut response: Response) -> Response {
    response.headers_mut().insert("x-elastic-product", HeaderValue::from_static("Elasticsearch"));
    response
}

/// What an action line says of its document.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Target {
    #[serde(rename = "_index")]
    index: Option<Word>,
    #[serde(rename = "_id")]
    id: Option<Word>,
}

/// A document and what became of it.
struct Item {
    action: &'static str,
    index: String,
    id: Option<String>,
    fate: Fate,
}

enum Fate {
    /// Row of its stream's append.
    Row(u64),
    Refused(Kind, String),
}

/// The documents of a body by stream, and an item for each.
struct Documents {
    items: Vec<Item>,
    rows: BTreeMap<String, Parsed>,
    /// Why each index that is not among `rows` takes none.
    refused: Vec<Kind>,
    /// What holds the items, and their answer.
    held: Held,
}

/// Documents of one request at the most: as many items are kept, and written into the answer.
const DOCUMENTS_MAX: usize = 100_000;

/// Bytes that an item takes beside its texts: itself, in a list that may have grown to twice its length, and its place in the answer.
const ITEM_BYTES: usize = 2 * size_of::<Item>() + 128;

impl Item {
    /// Bytes that it takes, and its line of the answer.
    fn bytes(&self) -> usize {
        let reason = match &self.fate {
            Fate::Row(_) => 0,
            Fate::Refused(_, reason) => reason.len(),
        };
        ITEM_BYTES + 3 * (self.index.len() + self.id.as_ref().map_or(0, String::len) + reason)
    }
}

async fn bulk(gate: Gate, index: Option<String>, request: Request) -> Response {
    of_product(match take(&gate, index, request).await {
        Ok(response) => response,
        Err(refusal) => {
            gate::count(None, refusal.kind.word());
            // Senders do not repeat what 408 refused.
            refused_whole(refusal.without_408())
        }
    })
}

/// Refuses a request of which nothing was stored.
fn refused_whole(refusal: Refusal) -> Response {
    let status = refusal.kind.status();
    let body =
        json!({ "error": { "type": "forebay", "reason": refusal.message }, "status": status.as_u16() });
    let mut response = answer(status, &body);
    refusal.kind.put_headers(response.headers_mut());
    response
}

async fn take(gate: &Gate, index: Option<String>, request: Request) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let caller = gate.admit(&head.uri, &head.headers)?;
    // The bounds are those of the stream that the path names, or of those that the caller may fill.
    let raw = match &index {
        Some(index) => gate.body(&*gate.stream(&caller, index)?, &head.headers, body).await?,
        None => gate.shared_body(&caller, &head.headers, body).await?,
    };
    let (streams, asking) = (gate.clone(), caller.clone());
    // Items count where the body does, so that no tenant fills the memory of all with them.
    let (room, items_held) = (raw.room(), raw.room());
    let documents = gate.compute(move || {
        let (body, _held) = raw.inflate()?;
        documents(&body, index.as_deref(), items_held, |index| {
            let stream = streams.stream(&asking, index)?;
            stream.takes_json()?;
            Rows::new(stream.now_ms(), room.beside(&stream.budget), 0)
        })
    });
    let Documents { items, rows, refused, held } = documents.await?;
    refused.into_iter().for_each(|kind| gate::count(None, kind.word()));
    let appends = rows.into_iter().map(|(index, parsed)| append(gate, &caller, index, parsed));
    let fates: Fates = join_all(appends).await.into_iter().collect();
    if let Some(refusal) = to_repeat_whole(&items, &fates) {
        return Ok(refused_whole(refusal));
    }
    let text = told_of_all(&items, &fates);
    drop((items, fates));
    let kind = [(header::CONTENT_TYPE, "application/json")];
    Ok((StatusCode::OK, kind, Body::new(Unsent::new(text, held))).into_response())
}

/// What became of the documents of each stream: where its append begins.
type Fates = BTreeMap<String, Result<Option<u64>, Refusal>>;

/// Why the whole request is to be sent again: nothing of it was stored, and some of it may be later. An answer of 200 would not do, since many senders
/// never repeat items, or only those of 429. Of several reasons the gravest: what may have taken effect, then what waits for the store, then room.
fn to_repeat_whole(items: &[Item], fates: &Fates) -> Option<Refusal> {
    if fates.values().any(Result::is_ok) {
        return None;
    }
    let of_items = items.iter().filter_map(|item| match &item.fate {
        Fate::Row(_) => None,
        Fate::Refused(kind, reason) => Some((*kind, reason)),
    });
    let of_streams =
        fates.values().filter_map(|fate| fate.as_ref().err()).map(|refusal| (refusal.kind, &refusal.message));
    let repeated = of_streams.chain(of_items).filter(|(kind, _)| kind.retry_after().is_some());
    let gravest = repeated.max_by_key(|(kind, _)| (*kind == Kind::NotYet, kind.status()));
    gravest.map(|(kind, reason)| Refusal::new(kind, reason.clone()))
}

/// The status of an item that was refused beside others that were not.
fn item_status(kind: Kind) -> StatusCode {
    match kind.retry_after() {
        Some(_) => StatusCode::TOO_MANY_REQUESTS,
        None => kind.status(),
    }
}

/// The whole answer, written item by item: a tree of a hundred thousand of them would be many times as large.
fn told_of_all(items: &[Item], fates: &Fates) -> String {
    let has_errors = items.iter().any(|item| {
        matches!(item.fate, Fate::Refused(..)) || fates.get(&item.index).is_some_and(Result::is_err)
    });
    let mut body = format!("{{\"took\":0,\"errors\":{has_errors},\"items\":[");
    for (at, item) in items.iter().enumerate() {
        body.push_str(if at == 0 { "" } else { "," });
        body.push_str(&told(item, fates).to_string());
    }
    body.push_str("]}\n");
    body
}

/// Appends the documents of one stream.
async fn append(
    gate: &Gate,
    caller: &Caller,
    index: String,
    parsed: Parsed,
) -> (String, Result<Option<u64>, Refusal>) {
    let appended = async {
        let stream = gate.stream(caller, &index)?;
        let stored = stream.append(parsed.records, None, parsed.held, gate.answer_wait_max()).await;
        gate::count(Some(&stream), gate::word(&stored));
        Ok(stored?.first)
    };
    let appended = appended.await;
    (index, appended)
}

fn told(item: &Item, fates: &Fates) -> Value {
    let refused = |kind: Kind, reason: &str| json!({ "_index": item.index, "_id": item.id, "status": item_status(kind).as_u16(), "error": { "type": "forebay", "reason": reason } });
    let of = match (&item.fate, fates.get(&item.index)) {
        (Fate::Refused(kind, reason), _) => refused(*kind, reason),
        (Fate::Row(_), Some(Err(refusal))) => refused(refusal.kind, &refusal.message),
        (Fate::Row(row), fate) => {
            let first = fate.and_then(|fate| fate.as_ref().ok().copied().flatten());
            let id = item.id.clone().or_else(|| first.map(|first| (first + row).to_string()));
            json!({ "_index": item.index, "_id": id, "status": 201, "result": "created" })
        }
    };
    json!({ item.action: of })
}

/// Splits a body into documents; `begin` makes the rows of a stream. What keeps a stream from being filled is the fate of its documents; a body that is no
/// `_bulk`, or finds no room, is refused as a whole.
fn documents(
    body: &[u8],
    index: Option<&str>,
    held: Held,
    begin: impl Fn(&str) -> Result<Rows, Refusal>,
) -> Result<Documents, Refusal> {
    let mut found = Documents { items: Vec::new(), rows: BTreeMap::new(), refused: Vec::new(), held };
    let mut room = 0;
    let mut rows: BTreeMap<String, Result<(Rows, u64), Refusal>> = BTreeMap::new();
    let mut lines = Lines { rest: body, number: 0 };
    while let Some((number, line)) = lines.next() {
        let (action, target) = action(line).map_err(|why| malformed(number, why))?;
        let named = target.index.as_ref().map(|Word(name)| name.as_str());
        let index = named.or(index).ok_or_else(|| malformed(number, "names no `_index`"))?;
        let id = target.id.map(|Word(id)| id);
        let mut item = Item { action, index: index.to_owned(), id, fate: Fate::Row(0) };
        if action == "delete" || action == "update" {
            if action == "update" {
                lines.next();
            }
            let reason = "only `create` and `index` are taken: a log has no documents to change";
            item.fate = Fate::Refused(Kind::Malformed, reason.to_owned());
            found.push(item, &mut room)?;
            continue;
        }
        let (at, document) = lines.next().ok_or_else(|| malformed(number, "has no document behind it"))?;
        match crate::records::check_object(document) {
            Err(why) => {
                item.fate = Fate::Refused(Kind::Malformed, format!("the document at line {at} {why}"))
            }
            Ok(()) => {
                if !rows.contains_key(index) {
                    if rows.len() == STREAMS_MAX {
                        return Err(malformed(number, "names more indices than one request may"));
                    }
                    rows.insert(index.to_owned(), begin(index).map(|rows| (rows, 0)));
                }
                match rows.get_mut(index).expect("just inserted") {
                    Ok((rows, count)) => {
                        rows.push(document)?;
                        item.fate = Fate::Row(*count);
                        *count += 1;
                    }
                    Err(refusal) => item.fate = Fate::Refused(refusal.kind, refusal.message.clone()),
                }
            }
        }
        found.push(item, &mut room)?;
    }
    for (index, rows) in rows {
        match rows {
            Ok((rows, _)) => drop(found.rows.insert(index, rows.done())),
            Err(refusal) => found.refused.push(refusal.kind),
        }
    }
    Ok(found)
}

impl Documents {
    /// One more item, once there is room for it and its answer; `room` is what is held and not used.
    fn push(&mut self, item: Item, room: &mut usize) -> Result<(), Refusal> {
        if self.items.len() == DOCUMENTS_MAX {
            let message = format!("the body has more than {DOCUMENTS_MAX} documents; send fewer at a time");
            return Err(Refusal::new(Kind::TooLarge, message));
        }
        let bytes = item.bytes();
        if bytes > *room {
            let more = bytes.max(64 << 10);
            self.held.take(more)?;
            *room += more;
        }
        *room -= bytes;
        self.items.push(item);
        Ok(())
    }
}

/// Indices of one request at the most: each is an append of its own.
const STREAMS_MAX: usize = 100;

fn malformed(line: u64, why: &str) -> Refusal {
    Refusal::new(Kind::Malformed, format!("line {line} {why}; nothing was stored"))
}

/// The word of an action line and what stands behind it.
fn action(line: &[u8]) -> Result<(&'static str, Target), &'static str> {
    const WORDS: [&str; 4] = ["create", "index", "update", "delete"];
    let mut pairs = Pairs::default();
    let mut reader = serde_json::Deserializer::from_slice(line);
    let read = reader.deserialize_map(&mut pairs).and_then(|()| reader.end());
    let (word, target) = match (read, pairs) {
        (Err(_), Pairs { has_more: false, .. }) => {
            return Err("is no action: it takes `{\"create\": {\"_index\": \"NAME\"}}`");
        }
        (Ok(()), Pairs { first: Some(first), .. }) => first,
        _ => return Err("names no action, or several"),
    };
    let known = WORDS.iter().find(|known| **known == word);
    known.map(|known| (*known, target)).ok_or("names an unknown action; `create` and `index` are known")
}

/// The pairs of an action line, read up to the second key: a map of a long line of them would take many times its bytes, which no budget holds.
#[derive(Default)]
struct Pairs {
    first: Option<(String, Target)>,
    has_more: bool,
}

impl<'de> Visitor<'de> for &mut Pairs {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object with one action")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<(), A::Error> {
        self.first = pairs.next_entry()?;
        self.has_more = self.first.is_some() && pairs.next_key::<IgnoredAny>()?.is_some();
        match self.has_more {
            true => Err(A::Error::custom("several actions")),
            false => Ok(()),
        }
    }
}

struct Lines<'b> {
    rest: &'b [u8],
    number: u64,
}

impl<'b> Iterator for Lines<'b> {
    type Item = (u64, &'b [u8]);

    /// The next line that is not blank, with its number from 1.
    fn next(&mut self) -> Option<(u64, &'b [u8])> {
        while !self.rest.is_empty() {
            self.number += 1;
            let end = memchr(b'\n', self.rest).unwrap_or(self.rest.len());
            let line = self.rest[..end].trim_ascii();
            self.rest = &self.rest[(end + 1).min(self.rest.len())..];
            if !line.is_empty() {
                return Some((self.number, line));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
