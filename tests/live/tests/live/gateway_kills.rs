//! Gateways, pipelines, ClickHouse and the store die at random, one after the other and together, while senders of records, and of OTLP over HTTP and gRPC, repeat
//! what was not answered: every record that was answered is in its table once. And two gateways fill one log, a partition each.
//!
//! Owns what dies when. Does not own the senders of records ([`super::logs::send`]) and those over gRPC ([`super::otlp_grpc`]), nor the store and what it does
//! wrong ([`live::S3Store`]). The order of [`super::logs_s3`] is
//! fixed and one thing dies at a time; here both are drawn.
//!
//! | who dies          | how                                                                         |
//! |-------------------|-----------------------------------------------------------------------------|
//! | the gateway       | killed and started, or frozen for a moment                                  |
//! | either pipeline   | killed and started                                                          |
//! | ClickHouse        | killed and started on its data                                              |
//! | the store         | the proxy before it refuses for a moment, or its server is killed and started |

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use live::pipeline::{ended, term};
use live::{Case, PATIENCE, Pipeline, S3Store};
use testkit::{
    ClickHouseOptions, Fault, HttpClient, Lcg, Process, Rule, S3, Service, available, free_port, seed,
    wait_until,
};

use super::hostile::field;
use super::logs::{
    End, PER_REQUEST, SENDERS, Sent, drain_to, listed, program, send, start_gateway_of, wait_for_gateway,
};
use super::otel::sink;
use super::otlp::tables;
use super::otlp_grpc;

/// Rounds of the short form and of the one in full: one to three die in each.
const ROUNDS: u64 = 6;
const ROUNDS_IN_FULL: u64 = 80;

/// Who sends requests of OTLP at the same time, every second one over gRPC; and logs of a request.
const OTLP_SENDERS: u64 = 4;
const PER_EXPORT: u64 = 40;

/// Everything that can die.
struct World<'a> {
    case: &'a mut Case,
    store: &'a mut S3Store,
    gateway: Process,
    pipelines: [(Pipeline, Process); 2],
}

impl World<'_> {
    /// Kills what was drawn, and starts all of it again.
    fn kill(&mut self, drawn: &[u64], random: &mut Lcg) {
        let dir = self.case.dir().to_owned();
        for victim in drawn {
            match victim {
                0 => drop(self.gateway.kill9().expect("the gateway dies")),
                1 => self.gateway.stop_signal().expect("the gateway freezes"),
                2 | 3 => drop(self.pipelines[*victim as usize - 2].1.kill9().expect("a pipeline dies")),
                4 => drop(self.case.own_server().kill9().expect("ClickHouse dies")),
                5 => self.store.proxy().refuse().expect("the store goes away"),
                _ => drop(self.store.gateway_mut().kill9().expect("the store dies")),
            }
        }
        std::thread::sleep(Duration::from_millis(random.below(1_000)));
        for victim in drawn {
            match victim {
                0 => self.gateway = start_gateway_of(&dir, "gateway.yaml"),
                1 => self.gateway.continue_signal().expect("the gateway goes on"),
                2 | 3 => {
                    let (pipeline, running) = &mut self.pipelines[*victim as usize - 2];
                    *running = pipeline.run();
                }
                4 => self.case.own_server().restart().expect("ClickHouse comes back"),
                5 => self.store.proxy().accept().expect("the store comes back"),
                _ => self.store.gateway_mut().restart().expect("the store comes back"),
            }
        }
    }
}

/// One to three of the seven, each once. Nobody freezes who is killed.
fn drawn(random: &mut Lcg) -> Vec<u64> {
    let mut drawn: Vec<u64> = (0..=random.below(3)).map(|_| random.below(7)).collect();
    drawn.sort_unstable();
    drawn.dedup();
    if drawn.starts_with(&[0, 1]) {
        drawn.remove(1);
    }
    drawn
}

/// A request of OTLP: logs whose bodies are these numbers.
fn export(ids: std::ops::Range<u64>) -> Vec<u8> {
    let log = |id: u64| field(2, &field(5, &field(1, id.to_string().as_bytes())));
    let logs: Vec<u8> = ids.flat_map(log).collect();
    field(1, &field(2, &logs))
}

/// The numbers in a request of a sender of OTLP.
fn exported_by(number: u64, request: u64) -> std::ops::Range<u64> {
    let first = (request * OTLP_SENDERS + number) * PER_EXPORT;
    first..first + PER_EXPORT
}

/// Sends requests of OTLP over HTTP as the specification says: what may be sent again is sent again, the same bytes.
fn send_otlp(number: u64, port: u16, over: &AtomicBool, sent: &Sent) -> u64 {
    let mut random = Lcg::new(seed() ^ (number + 77).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut request = 0;
    while !over.load(Ordering::Acquire) {
        let (body, begun) = (export(exported_by(number, request)), Instant::now());
        loop {
            assert!(begun.elapsed() < PATIENCE, "request {request} of OTLP was never answered");
            // Some exporters do not wait for their answer, and send again.
            let wait = if random.one_in(6) { Duration::from_millis(3) } else { Duration::from_secs(20) };
            let client = HttpClient::new(&format!("http://127.0.0.1:{port}")).timeout(wait);
            let headers = [("Content-Type", "application/x-protobuf")];
            sent.tries.fetch_add(1, Ordering::Relaxed);
            match client.request("POST", "/v1/logs", &headers, &body) {
                // A partial success would have a field.
                Ok(answer) if answer.status == 200 => {
                    assert_eq!(answer.text(), "", "all were taken");
                    break;
                }
                Ok(answer) => {
                    let may_be_repeated = [429, 502, 503, 504].contains(&answer.status);
                    assert!(may_be_repeated, "{}: {}", answer.status, answer.text());
                }
                // It was killed, is not there yet, or was not waited for.
                Err(_) => {}
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        sent.answered.fetch_add(1, Ordering::Relaxed);
        request += 1;
    }
    request
}

fn write_gateway(dir: &Path, port: u16, endpoint: &str) {
    let text = format!(
        "gateway: test\nlisten: '127.0.0.1:{port}'\nstore: s3://{}/logs\nobject_storage: {{ endpoint: '{endpoint}', region: {}, access_key: '{}', \
         secret_key: '{}' }}\nstreams:\n  events: {{ linger: 50ms }}\n  otlp_logs: {{ format: otlp_logs, linger: 50ms }}\nhttp: {{ listen: none }}\n\
         shutdown: {{ timeout: 60s }}\n",
        S3::BUCKET,
        S3::REGION,
        S3::ACCESS_KEY,
        S3::SECRET_KEY
    );
    std::fs::write(dir.join("gateway.yaml"), text).expect("the test's folder can be written");
}

/// `rounds` rounds, in each of which one to three die.
fn everything_dies(name: &str, rounds: u64) {
    if !available(&[Service::S3]) {
        return;
    }
    let Some(mut case) = Case::with_own_server(name, ClickHouseOptions::default()) else { return };
    let mut store = S3Store::start().expect("a store");
    let lost = store.proxy().add(Rule::always(Fault::SwallowAnswer).method("PUT").one_in(30, seed()));
    store.proxy().add(Rule::always(Fault::SwallowAnswer).method("GET").one_in(60, seed()));
    let (table, port, endpoint) = (case.table("id UInt64", "id"), free_port(), store.proxy().url());
    // With the column by which inserts are found: without it a pipeline whose server dies with an insert unanswered stops and asks.
    let database = tables(&case, &["logs", "--complete"]);
    write_gateway(case.dir(), port, &endpoint);
    let from =
        |stream: &str, more: &str| format!("{{ log: {{ url: 's3://{}/logs/{stream}' }}{more} }}", S3::BUCKET);
    let events = case.pipeline().on_s3(&endpoint).input_of("events", &from("events", ""));
    let logs = Pipeline::new(&case, &format!("{name}_otlp")).on_s3(&endpoint);
    let logs = logs.input_of("logs", &from("otlp_logs", ", format: otlp_logs"));
    let logs = logs.one_of(&sink(&case, "otel_logs", ""));
    let pipelines = [events, logs].map(|pipeline| pipeline.batch("{ rows: 2000, age: 50ms }"));
    let gateway = start_gateway_of(case.dir(), "gateway.yaml");
    wait_for_gateway(port);
    let pipelines = pipelines.map(|pipeline| (pipeline.clone(), pipeline.run()));
    let mut world = World { case: &mut case, store: &mut store, gateway, pipelines };
    let over = AtomicBool::new(false);
    // Records; OTLP over HTTP; OTLP over gRPC.
    let sent = [Sent::default(), Sent::default(), Sent::default()];
    let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
    let (requests, exports) = std::thread::scope(|scope| {
        let (over, [sent, by_http, by_grpc]) = (&over, &sent);
        let _end = End(over);
        let senders: Vec<_> =
            (0..SENDERS).map(|number| scope.spawn(move || send(number, &|| port, over, sent))).collect();
        let exporters: Vec<_> = (0..OTLP_SENDERS)
            .map(|number| {
                scope.spawn(move || match number % 2 {
                    0 => send_otlp(number, port, over, by_http),
                    _ => {
                        let request = |request| export(exported_by(number, request));
                        otlp_grpc::send(port, over, by_grpc, &request)
                    }
                })
            })
            .collect();
        let answered = || [sent, by_http, by_grpc].map(|sent| count(&sent.answered));
        let mut random = Lcg::new(seed());
        for _ in 0..rounds {
            let before = answered();
            let goes_on = || answered().iter().zip(&before).all(|(now, before)| now > before);
            wait_until(PATIENCE, "requests of every kind are answered", goes_on);
            std::thread::sleep(Duration::from_millis(random.below(500)));
            let drawn = drawn(&mut random);
            world.kill(&drawn, &mut random);
        }
        over.store(true, Ordering::Release);
        let sum = |senders: Vec<std::thread::ScopedJoinHandle<'_, u64>>| -> u64 {
            senders.into_iter().map(|sender| sender.join().expect("a sender")).sum()
        };
        (sum(senders), sum(exporters))
    });
    let World { gateway, pipelines: [(events, first), (logs, second)], .. } = world;
    for process in [gateway, first, second] {
        term(process);
    }
    // Each request that was begun was answered in the end.
    let again = sent.each_ref().map(|sent| count(&sent.tries) - count(&sent.answered));
    let repeats = count(&sent[0].repeats);
    let lost = store.proxy().fired(lost);
    println!(
        "{requests} requests, {exports} of OTLP; {again:?} tries more of records, of OTLP over HTTP and over gRPC, of the first of which {repeats} met \
         their own records; {lost} answers to writes were lost"
    );
    drain_to(&events, &table, requests * PER_REQUEST);
    logs.drain();
    let all = exports * PER_EXPORT;
    let found = database.ask("SELECT count(), uniqExact(Body) FROM {t}.otel_logs");
    assert_eq!(found.trim(), format!("{all}\t{all}"), "rows of OTLP, and how many of them are different");
    assert!(again.iter().all(|again| *again > 0), "nothing of one kind was sent twice: {again:?}");
}

#[test]
fn kill_test_every_record_that_was_answered_is_in_its_table_once_whatever_dies_together() {
    everything_dies("gateway_kills", ROUNDS);
}

#[test]
#[ignore = "several minutes"]
fn kill_test_every_record_that_was_answered_is_in_its_table_once_in_full() {
    everything_dies("gateway_kills_in_full", ROUNDS_IN_FULL);
}

/// Two gateways fill one log, a partition each. While one is dead the other answers; whoever comes back takes its own partition over, also from a process that only slept.
#[test]
fn two_gateways_fill_one_log_and_one_goes_on_while_the_other_is_dead() {
    let Some(case) = Case::begin("gateway_pair") else { return };
    let table = case.table("id UInt64", "id");
    let (dir, ports, late) = (case.dir(), [free_port(), free_port()], free_port());
    for (file, port, partition) in [("a", ports[0], 0), ("b", ports[1], 1), ("late", late, 0)] {
        let text = format!(
            "gateway: {file}\nlisten: '127.0.0.1:{port}'\nstore: ./logs\nstreams: {{ events: {{ linger: 20ms, partition: {partition} }} }}\n\
             http: {{ listen: none }}\nshutdown: {{ timeout: 20s }}\n"
        );
        std::fs::write(dir.join(format!("{file}.yaml")), text).expect("the test's folder can be written");
    }
    // The partitions come into being in their order.
    let mut gateways = ["a", "b"].map(|name| {
        let gateway = start_gateway_of(dir, &format!("{name}.yaml"));
        wait_for_gateway(ports[usize::from(name == "b")]);
        gateway
    });
    let input = "{ log: { url: ./logs/events } }";
    let pipeline = case.pipeline().input_of("events", input).batch("{ rows: 2000, age: 50ms }");
    let running = pipeline.run();
    let (over, sent, first_port) =
        (AtomicBool::new(false), [Sent::default(), Sent::default()], AtomicU16::new(ports[0]));
    let answered = |at: usize| sent[at].answered.load(Ordering::Relaxed);
    let goes_on = |at: usize| {
        let before = answered(at);
        wait_until(PATIENCE, "the gateway answers", || answered(at) >= before + 5);
    };
    let requests: [u64; 2] = std::thread::scope(|scope| {
        let (over, sent, first_port) = (&over, &sent, &first_port);
        let _end = End(over);
        // A repeat goes to the partition of the first try: even senders to one gateway, odd ones to the other.
        let senders: Vec<_> = (0..SENDERS)
            .map(|number| {
                let at = (number % 2) as usize;
                let port = move || if at == 0 { first_port.load(Ordering::Acquire) } else { ports[1] };
                scope.spawn(move || send(number, &port, over, &sent[at]))
            })
            .collect();
        for round in 0..4 {
            let (dies, lives) = (round % 2, 1 - round % 2);
            goes_on(dies);
            gateways[dies].kill9().expect("the gateway dies");
            goes_on(lives);
            gateways[dies] = start_gateway_of(dir, ["a.yaml", "b.yaml"][dies]);
            goes_on(dies);
        }
        // One sleeps, and another process takes its partition.
        gateways[0].stop_signal().expect("it freezes");
        let newer = start_gateway_of(dir, "late.yaml");
        wait_for_gateway(late);
        let mut sleeper = std::mem::replace(&mut gateways[0], newer);
        first_port.store(late, Ordering::Release);
        goes_on(0);
        goes_on(1);
        sleeper.continue_signal().expect("it goes on");
        let (exit, log) = ended(sleeper);
        assert_eq!(exit.status.code(), Some(3), "the sleeper is fenced\n{log}");
        goes_on(1);
        over.store(true, Ordering::Release);
        let mut requests = [0, 0];
        for (number, sender) in senders.into_iter().enumerate() {
            requests[number % 2] += sender.join().expect("a sender");
        }
        requests
    });
    for gateway in gateways {
        term(gateway);
    }
    term(running);
    drain_to(&pipeline, &table, requests.iter().sum::<u64>() * PER_REQUEST);
    for (partition, requests) in requests.into_iter().enumerate() {
        let listed = listed(dir, "./logs/events", partition);
        assert_eq!(listed["next"].as_u64(), Some(requests * PER_REQUEST), "each has its own: {listed}");
    }
    let check = Command::new(program()).args(["log", "check", "./logs/events"]).current_dir(dir).output();
    let check = check.expect("the program starts");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}
