//! Rules of the proxy: which requests, how often, and what happens to them.
//!
//! Owns what a rule fits, its turns, and the answers that a proxy makes up. Does not own the doing (`proxy::relay`).

use std::net::SocketAddr;
use std::time::Duration;

use crate::http::wire;
use crate::random::Lcg;

/// Names a rule of one proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId(pub(super) u64);

/// What happens to a request. The middle column is what the server sees of it.
///
/// | fault           | server                        | client                                   |
/// |-----------------|-------------------------------|------------------------------------------|
/// | `Pass`          | all                           | the server's answer                      |
/// | `Answer`        | nothing, or all (see `Reach`) | the given answer                         |
/// | `Reset`         | nothing                       | connection reset, nothing read           |
/// | `Hang`          | nothing                       | no answer until it gives up              |
/// | `CutRequest`    | the body's beginning          | connection reset                         |
/// | `SwallowAnswer` | all, and it ends its work     | connection reset                         |
/// | `CutAnswer`     | all, and it ends its work     | the answer's head and the body's beginning |
/// | `DelayRequest`  | all, later                    | the server's answer                      |
/// | `DelayAnswer`   | all                           | the server's answer, later               |
/// | `HoldTail`      | all, its end much later       | no answer: an orderly close              |
/// | `Elsewhere`     | nothing                       | another server's answer                  |
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing happens: shields requests from later rules.
    Pass,
    /// The client gets this answer.
    Answer(Answer),
    /// The connection is reset when the request's head has been read.
    Reset,
    /// The request is read and nothing answers it, as long as the client waits.
    Hang,
    /// Both connections break when so many bytes of the body have gone to the server. A body that is not longer goes whole,
    /// and then this is `SwallowAnswer` without the wait for the answer.
    CutRequest {
        /// Bytes of the body that the server gets.
        body_bytes: u64,
    },
    /// The server does its work and answers; the client's connection is reset instead.
    SwallowAnswer,
    /// The server does its work; the client gets the answer's beginning, and an orderly close in its middle.
    CutAnswer {
        /// Bytes of the body that the client gets.
        body_bytes: u64,
    },
    /// The proxy takes the whole request, which goes to the server after this time.
    DelayRequest(Duration),
    /// The answer goes to the client after this time.
    DelayAnswer(Duration),
    /// The proxy takes the whole request and closes the client's connection; the server gets all but the last bytes of the body, and
    /// those once the rule is taken away. Of a body that is not longer it gets nothing before, not even the head. For requests
    /// with a `Content-Length`.
    HoldTail {
        /// Bytes that are held back.
        body_bytes: u64,
    },
    /// Another server gets the request, as behind a balancer.
    Elsewhere(SocketAddr),
}

/// How far a request gets before it is answered by the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Its head is read and the body is left in the socket, as a balancer does that turns requests away.
    Head,
    /// The proxy reads all of it; the server sees nothing.
    Proxy,
    /// The server does its work, and its answer is thrown away, as by a gateway that lost its patience.
    Server,
}

/// An answer that the proxy makes up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    pub(super) reach: Reach,
}

impl Answer {
    /// A status and a body; the request does not reach the server.
    pub fn new(status: u16, body: &str) -> Answer {
        Answer { status, headers: Vec::new(), body: body.as_bytes().to_vec(), reach: Reach::Proxy }
    }

    /// What ClickHouse sends when a query fails before its answer has begun: a status, the code in a header, words in the body.
    pub fn exception(status: u16, code: u32, message: &str) -> Answer {
        Answer::new(status, &exception_text(code, message))
            .header("X-ClickHouse-Exception-Code", &code.to_string())
    }

    /// What ClickHouse sends when a query fails after its answer has begun: 200, and the exception in the body.
    pub fn exception_in_body(code: u32, message: &str) -> Answer {
        Answer::new(200, &exception_text(code, message))
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Answer {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// How far the request gets first.
    pub fn reach(mut self, reach: Reach) -> Answer {
        self.reach = reach;
        self
    }
}

fn exception_text(code: u32, message: &str) -> String {
    format!("Code: {code}. DB::Exception: {message}\n")
}

/// Some requests, a number of turns, and a fault.
#[derive(Debug, Clone)]
pub struct Rule {
    query_part: Option<String>,
    method: Option<String>,
    target_part: Option<String>,
    /// One request in so many, and the seed's random numbers.
    sometimes: Option<(u64, Lcg)>,
    skip: u64,
    turns: u64,
    fault: Fault,
}

impl Rule {
    /// For the next `turns` requests that fit.
    pub fn next(turns: u64, fault: Fault) -> Rule {
        Rule { query_part: None, method: None, target_part: None, sometimes: None, skip: 0, turns, fault }
    }

    /// For every request that fits, until the rule is taken away.
    pub fn always(fault: Fault) -> Rule {
        Rule::next(u64::MAX, fault)
    }

    /// Fits requests whose SQL contains `part`, letter for letter. The SQL is the `query` parameter, or else the first
    /// 4 KiB of the body, which are then read even for [`Reach::Head`] and [`Fault::Reset`].
    pub fn query(mut self, part: &str) -> Rule {
        self.query_part = Some(part.to_owned());
        self
    }

    /// Fits requests of this method.
    pub fn method(mut self, method: &str) -> Rule {
        self.method = Some(method.to_owned());
        self
    }

    /// Fits requests whose path or query string contains `part`, letter for letter as it was sent.
    pub fn target(mut self, part: &str) -> Rule {
        self.target_part = Some(part.to_owned());
        self
    }

    /// Takes one in `count` of the requests that fit, at random from `seed`.
    pub fn one_in(mut self, count: u64, seed: u64) -> Rule {
        self.sometimes = Some((count, Lcg::new(seed)));
        self
    }

    /// Lets the first `count` requests that fit go by.
    pub fn skip(mut self, count: u64) -> Rule {
        self.skip = count;
        self
    }

    /// Takes a turn if the request fits and a turn is left.
    pub(super) fn take(&mut self, seen: &Seen) -> Option<Fault> {
        let fits = self.turns > 0
            && self.method.as_ref().is_none_or(|method| *method == seen.method)
            && self.target_part.as_ref().is_none_or(|part| seen.target.contains(part))
            && self.query_part.as_ref().is_none_or(|part| seen.query.contains(part));
        if !fits || self.sometimes.as_mut().is_some_and(|(count, random)| random.below(*count) > 0) {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        if self.turns != u64::MAX {
            self.turns -= 1;
        }
        Some(self.fault.clone())
    }
}

/// A request that went by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// `GET`, `POST`.
    pub method: String,
    /// Path and query string as sent.
    pub target: String,
    /// The SQL: the `query` parameter, or the first 4 KiB of the body.
    pub query: String,
    /// Names and values of the query string, decoded.
    pub parameters: Vec<(String, String)>,
    /// The request's headers.
    pub headers: Vec<(String, String)>,
    /// Bytes of the body that the proxy read, without framing.
    pub body_bytes: u64,
    /// FNV-1a of these bytes: equal bodies have equal hashes.
    pub body_hash: u64,
    /// Whether the body was read to the end that its framing promised.
    pub body_whole: bool,
    /// The rule that decided.
    pub rule: Option<RuleId>,
    /// What the server answered, when the proxy heard it; the client may have got something else, or nothing.
    pub server_status: Option<u16>,
}

impl Seen {
    /// The first parameter of that name.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The value of a header, whatever the case of its name.
    pub fn header(&self, name: &str) -> Option<&str> {
        wire::find(&self.headers, name)
    }
}
