//! Runs the scripts in `scripts/*.txt`: a small world with one table and one journal, driven by lines of text.
//!
//! Owns the world and the language; the decisions under test are the crate's own. A script is blocks of commands, `----`,
//! and the expected output; an empty line ends a block, `#` begins a comment.
//!
//! | command                               | what happens                                                         |
//! |---------------------------------------|----------------------------------------------------------------------|
//! | `start`                               | a process claims the lane and recovers                               |
//! | `seal N [frames=K]`                   | N records are sealed in K frames (default 1)                         |
//! | `seal N answer=lost\|lost-before`      | the same, the put's answer is lost after or before it took effect    |
//! | `deliver F [answer=lost\|lost-before]` | frame F is sent once                                                 |
//! | `settle [sent-below=F]`               | the frontier is recorded, and that F and what follows was not sent   |
//! | `doubt F`                             | what is decided for frame F, step by step, until it is done; a stop seals its question |
//! | `answer F present\|absent`            | the operator claims the stopped lane and answers for frame F         |
//! | `late copy F`                         | a copy of F's first attempt, held up in a proxy, arrives             |
//! | `crash`                               | the process is gone                                                  |
//! | `freeze` / `thaw`                     | the process sleeps / the sleeper acts again instead of the present one |
//! | `server restart [loses F]`            | the server restarts; F's rows are gone, its token is not             |
//! | `replica NAME answers`                | from here on another replica of the table answers, with the same rows |
//! | `others insert N [into-target]`       | other writers use up N tokens of the table, or of the view's target  |
//! | `others insert N at-once`             | N asynchronous inserts of other writers come as one block            |
//! | `meanwhile COMMAND`                   | what happens while the bytes of the next resend travel               |
//! | `table writes-two-hashes`             | each block of a synchronous insert costs two tokens                  |
//! | `table bounds-nothing`                | nothing says how many tokens the inserts of others use               |
//! | `time passes MS`                      | on the server's clock                                                |
//! | `table rebuilt [copied]`              | the table is another of the same name, empty or with the same rows   |
//! | `table truncated`                     | its rows and tokens are gone, its identity is not                    |
//! | `table cannot-tell`                   | nothing in it names a row's frame                                    |
//! | `table merges F`                      | its engine merges rows away; F's are gone                            |
//! | `table deletes-part-of F`             | somebody deletes some of F's rows                                    |
//! | `table has-view`                      | a view feeds a target with a token memory of its own                 |
//! | `table forgets-after MS`              | tokens live no longer than this                                      |
//! | `replica lags N`                      | the next N looks at the rows find a replica that is behind           |
//! | `target lacks F`                      | the server died before the view had F's rows                         |
//! | `target gets F`                       | the operator brings F's rows to the target                           |
//! | `table loses F`                       | the operator deletes F's rows                                        |
//! | `change STEP[=N] …`                   | the file has these steps with state; `=N` goes on with that of step N before |
//! | `rewind POSITION [empty=N] [answer=…]` | the partition is read on there; step N's state is given up           |
//! | `checkpoint`                          | a checkpoint is written and everything below it deleted              |
//! | `rows [target]`                       | how many times each frame's rows are in the table, or in the target  |

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use dataflow::{Basis, Tokens as _};
use tokens::ClickHouseTokens;

use crate::append::{self, Next, PutAnswer};
use crate::doubt::{self, Decision, Facts, Found, StopReason, Verdict};
use crate::lane::{Lane, Piece};
use crate::record::{
    Answer, Body, Change, Checkpoint, Claim, Counts, Frame, Frontier, Generation, Genesis, InputCounts,
    KeptState, Move, PartitionGenesis, Position, Question, Range, Record, Rewind, Seal, Settle, Sighting,
    StepShape, TableGenesis, TableRows,
};
use crate::window::{self, Settled};
use crate::{names, retire};

const TOKENS: usize = 16;

/// A table that forgets tokens by number and may lose rows, but never a token, in a crash.
struct Table {
    uuid: u32,
    /// The replica that answers.
    server: String,
    start_ms: i64,
    now_ms: i64,
    age_ms_max: Option<u64>,
    base: Rows,
    target: Option<Rows>,
    cannot_tell: bool,
    merges: bool,
    part_of: Option<u128>,
    lags: u64,
    /// Tokens that a block may cost; `None` if nothing bounds them.
    tokens_per_block: Option<u64>,
}

/// Rows and tokens of the table, or of a view's target.
#[derive(Default)]
struct Rows {
    block: u64,
    tokens: VecDeque<String>,
    frames: BTreeMap<u128, u64>,
}

impl Rows {
    fn insert(&mut self, token: &str, id: u128) {
        if self.tokens.iter().any(|t| t == token) {
            return;
        }
        self.remember([token.to_owned()]);
        *self.frames.entry(id).or_default() += 1;
    }

    /// One block with its tokens.
    fn remember(&mut self, tokens: impl IntoIterator<Item = String>) {
        self.block += 1;
        self.tokens.extend(tokens);
        while self.tokens.len() > TOKENS {
            self.tokens.pop_front();
        }
    }
}

impl Table {
    /// A view is fed with what its table is given, whether the table knows the token or not.
    fn insert(&mut self, token: &str, id: u128) {
        self.base.insert(token, id);
        self.target.iter_mut().for_each(|target| target.insert(token, id));
    }

    fn probe(&mut self, id: u128) -> Option<Found> {
        if self.lags > 0 {
            self.lags -= 1;
            return None;
        }
        let rows = self.base.frames.get(&id).copied().unwrap_or(0);
        Some(match rows {
            _ if self.cannot_tell => Found::CannotTell,
            _ if self.part_of == Some(id) => Found::Part,
            0 if self.merges => Found::CannotTell,
            0 => Found::None,
            _ => Found::All,
        })
    }

    fn seen(&self) -> dataflow::Sighting {
        let facts = tokens::Facts {
            start_ms: self.start_ms,
            seen_ms: self.now_ms,
            server_uuid: self.server.clone(),
            block_number: self.base.block,
            view_blocks: self.target.iter().map(|target| target.block).collect(),
            token_window: TOKENS as u64,
            tokens_per_frame: 1,
            token_age_ms_max: self.age_ms_max,
            tokens_per_block_max: self.tokens_per_block,
            asked_ms: self.now_ms,
            answered_ms: self.now_ms,
            ..tokens::Facts::default()
        };
        facts.seen(self.uuid.to_string())
    }

    fn server(&self) -> Sighting {
        let dataflow::Sighting { table_uuid, feeds_views, facts } = self.seen();
        Sighting { table: 0, table_uuid, feeds_views, facts }
    }
}

/// What the journal kept of a look.
fn seen(server: Sighting) -> dataflow::Sighting {
    let Sighting { table_uuid, feeds_views, facts, .. } = server;
    dataflow::Sighting { table_uuid, feeds_views, facts }
}

/// A process that owns, or believes to own, the lane.
#[derive(Clone)]
struct Owner {
    lane: Lane,
    settled: Settled,
}

struct World {
    journal: BTreeMap<u64, Vec<u8>>,
    floor: u64,
    claims: u8,
    table: Table,
    owner: Option<Owner>,
    frozen: Option<Owner>,
    ids: BTreeMap<u128, u64>,
    /// What happens while the bytes of the next resend travel.
    meanwhile: Option<String>,
    out: String,
}

impl World {
    fn new() -> Self {
        let table = Table {
            uuid: 1,
            server: "s".into(),
            start_ms: 0,
            now_ms: 100_000,
            age_ms_max: None,
            base: Rows::default(),
            target: None,
            cannot_tell: false,
            merges: false,
            part_of: None,
            lags: 0,
            tokens_per_block: Some(1),
        };
        Self {
            journal: BTreeMap::new(),
            floor: 0,
            claims: 0,
            table,
            owner: None,
            frozen: None,
            ids: BTreeMap::new(),
            meanwhile: None,
            out: String::new(),
        }
    }

    fn say(&mut self, line: impl AsRef<str>) {
        writeln!(self.out, "{}", line.as_ref()).expect("a string takes text");
    }

    fn run(&mut self, command: &str) {
        let words: Vec<&str> = command.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let option = |name: &str| words.iter().find_map(|w| w.strip_prefix(name)?.strip_prefix('='));
        match words[0] {
            "start" => self.start(),
            "seal" => {
                let frames = option("frames").map_or(1, |k| k.parse().expect("a number"));
                self.seal(number(1), frames, option("answer"));
            }
            "deliver" => self.deliver(number(1), option("answer")),
            "settle" => self.settle(option("sent-below")),
            "change" => self.change(&words[1..]),
            "rewind" => self.rewind(number(1), option("empty"), option("answer")),
            "doubt" => self.doubt(number(1)),
            "checkpoint" => self.checkpoint(),
            "crash" => self.owner = None,
            "freeze" => self.frozen = self.owner.take(),
            "thaw" => self.owner = self.frozen.take(),
            "server" => {
                self.table.now_ms += 60_000;
                self.table.start_ms = self.table.now_ms - 10_000;
                if words.get(2) == Some(&"loses") {
                    let id = self.id_of(number(3));
                    self.table.base.frames.remove(&id);
                }
            }
            "others" => {
                let into_target = words.get(3) == Some(&"into-target");
                let (per_block, is_async) = (self.table.tokens_per_block, words.get(3) == Some(&"at-once"));
                let rows = match into_target {
                    true => self.table.target.as_mut().expect("a view"),
                    false => &mut self.table.base,
                };
                // Where nothing bounds what a block costs, these happen to cost one.
                let hashes = per_block.unwrap_or(1);
                let of_block = |n| (0..hashes).map(move |hash| format!("other-{n}-{hash}"));
                if is_async {
                    rows.remember((0..number(2)).flat_map(of_block));
                } else {
                    (0..number(2)).for_each(|n| rows.remember(of_block(n)));
                }
            }
            "meanwhile" => self.meanwhile = Some(words[1..].join(" ")),
            "time" => self.table.now_ms += number(2) as i64,
            "replica" if words[1] == "lags" => self.table.lags = number(2),
            "replica" => words[1].clone_into(&mut self.table.server),
            "target" => {
                let id = self.id_of(number(2));
                let target = self.table.target.as_mut().expect("a view");
                match words[1] {
                    "gets" => *target.frames.entry(id).or_default() += 1,
                    _ => {
                        target.frames.remove(&id);
                        target.tokens.clear();
                    }
                }
            }
            "table" => self.change_table(words[1], words.get(2).copied()),
            "late" => {
                let piece = self.piece(number(2));
                self.table.insert(&names::token(piece.id(), 0), piece.id());
            }
            "answer" => self.answer(number(1), words[2]),
            "rows" => {
                let rows = match words.get(1) {
                    Some(_) => self.table.target.as_ref().expect("a view"),
                    None => &self.table.base,
                };
                let line: Vec<String> = self
                    .ids
                    .iter()
                    .map(|(id, n)| (*n, rows.frames.get(id).copied().unwrap_or(0)))
                    .collect::<BTreeMap<_, _>>()
                    .iter()
                    .map(|(n, rows)| format!("{n}:{rows}"))
                    .collect();
                self.say(format!("rows {}", line.join(" ")));
            }
            other => panic!("no such command: {other}"),
        }
    }

    fn change_table(&mut self, what: &str, of: Option<&str>) {
        let frame = |world: &Self| world.id_of(of.expect("a frame").parse().expect("a number"));
        match what {
            "rebuilt" => {
                self.table.uuid += 1;
                let frames = std::mem::take(&mut self.table.base.frames);
                let kept = if of == Some("copied") { frames } else { BTreeMap::new() };
                self.table.base = Rows { frames: kept, ..Rows::default() };
            }
            "truncated" => self.table.base = Rows::default(),
            "cannot-tell" => self.table.cannot_tell = true,
            "writes-two-hashes" => self.table.tokens_per_block = Some(2),
            "bounds-nothing" => self.table.tokens_per_block = None,
            "has-view" => self.table.target = Some(Rows::default()),
            "forgets-after" => {
                self.table.age_ms_max = Some(of.expect("a time").parse().expect("a number"));
            }
            "merges" => {
                let id = frame(self);
                self.table.merges = true;
                self.table.base.frames.remove(&id);
            }
            "deletes-part-of" => self.table.part_of = Some(frame(self)),
            "loses" => {
                let id = frame(self);
                self.table.base.frames.remove(&id);
                self.table.part_of = None;
            }
            other => panic!("nothing happens to a table by `{other}`"),
        }
    }

    fn id_of(&self, ordinal: u64) -> u128 {
        *self.ids.iter().find(|(_, n)| **n == ordinal).expect("a sealed frame").0
    }

    fn start(&mut self) {
        let mut records = self
            .journal
            .range(self.floor..)
            .map(|(seq, bytes)| Record::from_bytes(*seq, bytes).expect("the journal is sound"));
        let mut lane = match records.next() {
            None => Lane::new(),
            Some(first) if matches!(first.body, Some(Body::Checkpoint(_))) => {
                Lane::from_checkpoint(&first).expect("a checkpoint")
            }
            Some(first) => {
                let mut lane = Lane::new();
                lane.apply(&first).expect("a claim");
                lane
            }
        };
        for record in records {
            lane.apply(&record).expect("the journal hangs together");
        }
        self.claims += 1;
        let is_new = lane.epoch == 0;
        let frontier = lane.tables.first().map_or(0, |t| t.frontier);
        self.owner = Some(Owner { lane, settled: Settled::at(frontier) });
        if !self.append(Body::Claim(Claim::default()), None) {
            return;
        }
        if is_new {
            self.append(
                Body::Genesis(Genesis {
                    partitions: vec![PartitionGenesis { stream: "e".into(), ..Default::default() }],
                    tables: vec![TableGenesis::of_rows("d.t")],
                    pipeline: "p".into(),
                    steps: vec![],
                    inputs: vec!["source".into()],
                    opened: vec![0],
                    parts: vec![],
                }),
                None,
            );
        }
        let lane = &self.owner.as_ref().expect("just started").lane;
        let table = &lane.tables[0];
        let (doubtful, unsent): (Vec<u64>, Vec<u64>) =
            (table.frontier..table.next_ordinal).partition(|n| window::is_doubtful(table, *n));
        let line = format!(
            "epoch {} reads from {} in doubt {doubtful:?} unsent {unsent:?}",
            lane.epoch, lane.partitions[0].next
        );
        self.say(line);
    }

    /// One append with every decision of [`append`]; false if the owner is fenced and gone.
    fn append(&mut self, body: Body, answer: Option<&str>) -> bool {
        let owner = self.owner.as_ref().expect("a process runs");
        let is_claim = matches!(body, Body::Claim(_));
        let record = Record {
            seq: owner.lane.next_seq,
            epoch: owner.lane.epoch + u64::from(is_claim),
            nonce: if is_claim { vec![self.claims; 16] } else { owner.lane.nonce.clone() },
            written_at_ms: 0,
            body: Some(body),
        };
        let bytes = record.to_bytes();
        let mut answer = answer;
        loop {
            let taken = self.journal.contains_key(&record.seq);
            if !taken && answer != Some("lost-before") {
                self.journal.insert(record.seq, bytes.clone());
            }
            let put = match answer.take() {
                Some(_) => PutAnswer::Lost,
                None if taken => PutAnswer::Exists,
                None => PutAnswer::Created,
            };
            let mut next = append::after_put(put);
            if next == Next::Read {
                next = append::after_read(put, &bytes, self.journal.get(&record.seq).map(Vec::as_slice));
            }
            if next == Next::Floor {
                next = append::after_floor(record.seq, self.floor);
            }
            match next {
                Next::PutAgain => continue,
                Next::Fenced => {
                    self.owner = None;
                    self.say(format!("fenced at {}", record.seq));
                    return false;
                }
                Next::Appended => break,
                Next::Read | Next::Floor => unreachable!("both were asked"),
            }
        }
        let owner = self.owner.as_mut().expect("a process runs");
        owner.lane.apply(&record).expect("what is written hangs together");
        true
    }

    fn frontier(&self) -> Frontier {
        let owner = self.owner.as_ref().expect("a process runs");
        Frontier {
            table: 0,
            frontier: owner.settled.frontier(),
            window: ClickHouseTokens.frames_max(&self.table.seen()),
            sent_below: None,
        }
    }

    fn seal(&mut self, records: u64, frames: u64, answer: Option<&str>) {
        let lane = &self.owner.as_ref().expect("a process runs").lane;
        let nonce = u128::from_le_bytes(lane.nonce.as_slice().try_into().expect("16 bytes"));
        let (from, first) = (lane.partitions[0].next, lane.tables[0].next_ordinal);
        let frame = |n: u64| Frame {
            ordinal: first + n,
            id: names::frame_id(nonce, 0, first + n, 0).to_le_bytes().to_vec(),
            offset: n,
            len: 1,
            rows: if n == 0 { records - frames + 1 } else { 1 },
            ..Default::default()
        };
        let frames: Vec<Frame> = (0..frames).map(frame).collect();
        let next = from + Position::from(records);
        let seal = Seal {
            ranges: vec![Range { time_ms_max: 0, ..Range::new(0, from, next) }],
            segment: format!("s{from}"),
            segment_bytes: frames.len() as u64,
            settled: vec![self.frontier()],
            servers: vec![self.table.server()],
            counts: vec![InputCounts::of(0, Counts { read: records, passed: records, ..Counts::default() })],
            rows: vec![TableRows { table: 0, rows: records, replaced: 0 }],
            frames: frames.clone(),
            ..Default::default()
        };
        if self.append(Body::Seal(seal), answer) {
            for f in &frames {
                self.ids
                    .insert(u128::from_le_bytes(f.id.as_slice().try_into().expect("16 bytes")), f.ordinal);
            }
            self.say(format!("sealed {from}..{next} frames {first}..{}", first + frames.len() as u64));
        }
    }

    fn piece(&self, ordinal: u64) -> Piece {
        let lane = &self.owner.as_ref().expect("a process runs").lane;
        lane.tables[0].pieces(ordinal).expect("an unsettled frame")[0].clone()
    }

    fn deliver(&mut self, ordinal: u64, answer: Option<&str>) {
        let table = &self.owner.as_ref().expect("a process runs").lane.tables[0];
        if ordinal >= window::send_limit(table) {
            return self.say(format!("held back {ordinal}"));
        }
        let piece = self.piece(ordinal);
        let token = names::token(piece.id(), piece.generation);
        if answer != Some("lost-before") {
            self.table.insert(&token, piece.id());
        }
        if answer.is_none() {
            self.owner.as_mut().expect("a process runs").settled.settle(ordinal);
        }
        self.say(format!("sent {ordinal} g{}{}", piece.generation, answer.map_or("", |_| " no answer")));
    }

    fn settle(&mut self, sent_below: Option<&str>) {
        let sent_below = sent_below.map(|end| end.parse().expect("a number"));
        let settle = Settle {
            settled: vec![Frontier { sent_below, ..self.frontier() }],
            servers: vec![self.table.server()],
            ..Default::default()
        };
        let frontier = self.frontier().frontier;
        if self.append(Body::Settle(settle), None) {
            self.say(format!("settled below {frontier}"));
        }
    }

    fn doubt(&mut self, ordinal: u64) {
        let (mut alive, mut found, mut confirmed) = (None, None, false);
        for _ in 0..10 {
            let piece = self.piece(ordinal);
            let accepted = &self.owner.as_ref().expect("runs").lane.tables[0].accepted_uuid;
            let asked = piece.question.as_ref().and_then(|question| StopReason::from_number(question.reason));
            let asked_of = piece.question.as_ref().map(|question| question.table_uuid.clone());
            let (before, now) = (piece.server.clone().map(seen), self.table.seen());
            let facts = Facts {
                table_before: before.as_ref().map(|before| before.table_uuid.clone()),
                table: now.table_uuid.clone(),
                token_stands: before
                    .as_ref()
                    .is_some_and(|before| ClickHouseTokens.lapse(Basis::Token, before, &now).is_none()),
                feeds_views: now.feeds_views,
                in_views_alone: before
                    .as_ref()
                    .is_none_or(|before| ClickHouseTokens.may_be_in_views_alone(before, &now)),
                found,
                alive,
                refused: false,
                confirmed,
                asked,
                answer: piece.verdict.zip(asked_of),
                accepted: *accepted == self.table.uuid.to_string(),
            };
            let decision = doubt::decide(&facts);
            self.say(format!("{ordinal}: {decision:?}"));
            let basis = match decision {
                Decision::Resend => Some((Basis::Token, before)),
                Decision::Confirm => Some((Basis::Absence, Some(now))),
                _ => None,
            };
            if let Some((basis, since)) = basis {
                if let Some(command) = self.meanwhile.take() {
                    self.run(&command);
                }
                let since = since.expect("a resend rests on a sighting");
                if let Some(lapse) = ClickHouseTokens.lapse(basis, &since, &self.table.seen()) {
                    self.say(format!("{ordinal}: held back, {lapse}"));
                    (alive, found, confirmed) = (None, None, false);
                    continue;
                }
            }
            match decision {
                Decision::EndAttempts => alive = Some(0),
                Decision::Probe => found = self.table.probe(piece.id()),
                Decision::Confirm => {
                    self.table.insert(&names::token(piece.id(), piece.generation), piece.id());
                    (confirmed, found, alive) = (true, None, None);
                }
                Decision::Settle => return self.owner.as_mut().expect("runs").settled.settle(ordinal),
                Decision::Resend => return self.deliver(ordinal, None),
                Decision::NewGeneration => {
                    let generation = piece.generation + 1;
                    let server = Some(self.table.server());
                    self.append(
                        Body::Generation(Generation { table: 0, ordinal, piece: 0, generation, server }),
                        None,
                    );
                    return self.deliver(ordinal, None);
                }
                Decision::Stop(reason) => {
                    let owner = self.owner.as_ref().expect("a process runs");
                    let question = Question {
                        ordinal,
                        reason: reason.number(),
                        table_uuid: self.table.uuid.to_string(),
                        epoch: owner.lane.epoch,
                        ..Default::default()
                    };
                    self.append(Body::Question(question), None);
                    return;
                }
            }
        }
        panic!("a doubt did not end");
    }

    /// The operator starts no process, but claims the lane like one.
    fn answer(&mut self, ordinal: u64, word: &str) {
        let verdict = if word == "present" { Verdict::Present } else { Verdict::Absent };
        let answer = Answer { ordinal, verdict: verdict.number(), ..Default::default() };
        if self.append(Body::Answer(answer), None) {
            self.say(format!("{ordinal} is {word}"));
        }
    }

    /// Whether the next record may say this; the rule that it breaks otherwise.
    fn may(&mut self, body: &Body) -> bool {
        let lane = &self.owner.as_ref().expect("a process runs").lane;
        let (epoch, nonce) = (lane.epoch, lane.nonce.clone());
        let record = Record { seq: lane.next_seq, epoch, nonce, written_at_ms: 0, body: Some(body.clone()) };
        let Err(violation) = lane.check(&record) else { return true };
        self.say(format!("refused by {}", violation.rule));
        false
    }

    fn change(&mut self, words: &[&str]) {
        let mut change = Change::default();
        for (step, word) in (0..).zip(words) {
            let (name, before) = word.split_once('=').map_or((*word, None), |(name, n)| (name, Some(n)));
            change.steps.push(StepShape::new("step", name));
            let before = before.map(|n| n.parse().expect("a number"));
            change.kept.extend(before.map(|before| KeptState { step, before }));
        }
        let body = Body::Change(change);
        if self.may(&body) && self.append(body, None) {
            let lane = &self.owner.as_ref().expect("a process runs").lane;
            let names: Vec<&str> = lane.steps.iter().map(|step| step.shape.as_str()).collect();
            let line = format!("steps {}", names.join(" "));
            self.say(line);
        }
    }

    fn rewind(&mut self, next: u64, emptied: Option<&str>, answer: Option<&str>) {
        let from = self.owner.as_ref().expect("a process runs").lane.partitions[0].next;
        let emptied = emptied.map(|n| n.parse().expect("a number"));
        let moves = vec![Move::new(0, from, next.into(), -1)];
        let body =
            Body::Rewind(Rewind { moves, emptied: emptied.into_iter().collect(), ..Rewind::default() });
        if self.may(&body) && self.append(body, answer) {
            let lane = &self.owner.as_ref().expect("a process runs").lane;
            let line =
                format!("moved from {from} to {}, was read to {}", lane.partitions[0].next, lane.read_to(0));
            self.say(line);
        }
    }

    fn checkpoint(&mut self) {
        let lane = &self.owner.as_ref().expect("a process runs").lane;
        let state_seq = lane.next_seq - 1;
        let body = Body::Checkpoint(Checkpoint {
            lane: Some(lane.image(state_seq)),
            states: vec![],
            state_seq,
            files: vec![],
        });
        if self.append(body, None) {
            self.floor =
                retire::floor(&self.owner.as_ref().expect("a process runs").lane).expect("a checkpoint");
            self.journal = self.journal.split_off(&self.floor);
            self.say(format!("floor {}", self.floor));
        }
    }
}

#[test]
fn scripts() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("the scripts are there")
        .map(|e| e.expect("an entry").path())
        .collect();
    paths.sort();
    assert!(paths.len() >= 8, "the scripts are there");
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a script is text");
        let mut world = World::new();
        for block in text.split("\n\n") {
            let lines: Vec<&str> = block.lines().filter(|l| !l.starts_with('#') && !l.is_empty()).collect();
            let Some(rule) = lines.iter().position(|l| *l == "----") else {
                assert!(lines.is_empty(), "{}: a block without `----`: {lines:?}", path.display());
                continue;
            };
            world.out.clear();
            lines[..rule].iter().for_each(|command| world.run(command));
            let expected = lines[rule + 1..].join("\n");
            assert_eq!(world.out.trim_end(), expected, "{} after {:?}", path.display(), &lines[..rule]);
        }
    }
}
