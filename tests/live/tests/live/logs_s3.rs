//! A gateway whose log is on S3, with everything killed that takes part: every record that was answered is in the table once.
//!
//! Owns the order of what is killed. Does not own the senders (`logs`), nor the store and what it does wrong ([`live::S3Store`]).
//!
//! | round | what happens                                                                                        |
//! |-------|-----------------------------------------------------------------------------------------------------|
//! | 0     | the gateway is killed and started again                                                             |
//! | 1     | the pipeline is killed and started again                                                            |
//! | 2     | the store is away for some seconds                                                                  |
//! | 3     | the gateway freezes, a second one takes its log over, and the first one goes on and must end fenced |
//! | 4     | the store is away, and the gateway is killed and started while it is                                |
//! | 5     | ClickHouse is killed and started again                                                              |
//!
//! Meanwhile one answer in twenty to a write of the store is lost after the store has done the work, and some to reads.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use live::pipeline::{ended, term};
use live::{Case, PATIENCE, S3Store};
use testkit::{
    ClickHouseOptions, Fault, Lcg, Process, Rule, S3, Service, available, free_port, seed, wait_until,
};

use super::logs::{
    End, PER_REQUEST, SENDERS, Sent, drain_to, program, send, start_gateway_of, wait_for_gateway,
};

/// Answers of the store to writes that are lost at the least: one in twenty of some hundreds.
const LOST_MIN: u64 = 3;

/// How long the store is away: longer than a try of a request takes to fail, shorter than a sender waits.
const AWAY: Duration = Duration::from_secs(2);

/// Where the log is.
const LOGS: &str = "logs-of-a-gateway";

/// The gateways of the test: one runs, and for a moment two.
struct Gateways<'a> {
    dir: &'a Path,
    /// The port of each, and the one that the newest listens at.
    ports: [u16; 2],
    newest: usize,
    /// Where senders send to: the port of the newest, and that of the one before while it has not ended.
    sent_to: &'a [AtomicU16; 2],
    running: Process,
}

impl<'a> Gateways<'a> {
    fn start(dir: &'a Path, store: &S3Store, ports: [u16; 2], sent_to: &'a [AtomicU16; 2]) -> Gateways<'a> {
        for (number, port) in ports.iter().enumerate() {
            let text = format!(
                "gateway: test\nlisten: '127.0.0.1:{port}'\nstore: s3://{}/{LOGS}\nobject_storage: {{ endpoint: '{}', region: {}, \
                 access_key: '{}', secret_key: '{}' }}\nstreams: {{ events: {{ linger: 50ms }} }}\nhttp: {{ listen: none }}\n\
                 shutdown: {{ timeout: 60s }}\n",
                S3::BUCKET,
                store.proxy().url(),
                S3::REGION,
                S3::ACCESS_KEY,
                S3::SECRET_KEY
            );
            std::fs::write(dir.join(file(number)), text).expect("the test's folder can be written");
        }
        let running = start_gateway_of(dir, &file(0));
        wait_for_gateway(ports[0]);
        Gateways { dir, ports, newest: 0, sent_to, running }
    }

    fn kill_and_start(&mut self) {
        self.running.kill9().expect("the gateway dies");
        self.running = start_gateway_of(self.dir, &file(self.newest));
    }

    /// The one that runs freezes until another one has taken its log over and answered; then it goes on, and must end fenced.
    fn take_over(&mut self, answered: &dyn Fn() -> u64) {
        self.running.stop_signal().expect("it freezes");
        let second = 1 - self.newest;
        let other = start_gateway_of(self.dir, &file(second));
        let mut first = std::mem::replace(&mut self.running, other);
        wait_for_gateway(self.ports[second]);
        self.newest = second;
        self.sent_to[0].store(self.ports[second], Ordering::Release);
        let before = answered();
        wait_until(PATIENCE, "the second gateway answers", || answered() > before);
        first.continue_signal().expect("it goes on");
        let (exit, log) = ended(first);
        assert_eq!(exit.status.code(), Some(3), "the first gateway is fenced\n{log}");
        self.sent_to[1].store(self.ports[second], Ordering::Release);
    }
}

fn file(number: usize) -> String {
    format!("gateway-{number}.yaml")
}

/// `forebay log check` finds nothing to complain of.
fn check(dir: &Path, store: &S3Store) {
    let url = format!("s3://{}/{LOGS}/events", S3::BUCKET);
    let output = std::process::Command::new(program())
        .args(["log", "check", &url])
        .current_dir(dir)
        .envs([("AWS_ACCESS_KEY_ID", S3::ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", S3::SECRET_KEY)])
        .envs([("AWS_REGION", S3::REGION), ("AWS_ENDPOINT_URL", &store.url())])
        .output()
        .expect("the program starts");
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
}

#[test]
fn kill_test_every_record_that_a_gateway_on_s3_answered_is_in_the_table_once() {
    if !available(&[Service::S3]) {
        return;
    }
    let Some(mut case) = Case::with_own_server("gateways_s3", ClickHouseOptions::default()) else { return };
    let kills = match std::env::var("FOREBAY_GATEWAY_KILLS") {
        Ok(text) => text.parse().expect("FOREBAY_GATEWAY_KILLS is a number"),
        Err(_) => 12,
    };
    let store = S3Store::start().expect("a store");
    let lost = Rule::always(Fault::SwallowAnswer).method("PUT").one_in(20, seed());
    let lost = store.proxy().add(lost);
    store.proxy().add(Rule::always(Fault::SwallowAnswer).method("GET").one_in(50, seed()));
    let table = case.table("id UInt64", "id");
    let input = format!("{{ log: {{ url: 's3://{}/{LOGS}/events' }} }}", S3::BUCKET);
    let pipeline = case.pipeline().on_s3(&store.proxy().url()).input_of("events", &input);
    let pipeline = pipeline.batch("{ rows: 2000, age: 50ms }");
    let (dir, ports) = (case.dir().to_owned(), [free_port(), free_port()]);
    let sent_to = [AtomicU16::new(ports[0]), AtomicU16::new(ports[0])];
    let mut gateways = Gateways::start(&dir, &store, ports, &sent_to);
    let mut running = pipeline.run();
    let (over, sent, turns) = (AtomicBool::new(false), Sent::default(), AtomicU64::new(0));
    // One try in eight goes to the gateway that was replaced, as long as it is there.
    let port = || {
        let is_old = turns.fetch_add(1, Ordering::Relaxed).is_multiple_of(8);
        sent_to[usize::from(is_old)].load(Ordering::Acquire)
    };
    let answered = || sent.answered.load(Ordering::Relaxed);
    let mut take_overs = 0;
    let requests: u64 = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|number| {
                let (port, over, sent) = (&port, &over, &sent);
                scope.spawn(move || send(number, port, over, sent))
            })
            .collect();
        let _end = End(&over);
        let mut random = Lcg::new(seed());
        for kill in 0..kills {
            let before = answered();
            wait_until(PATIENCE, "requests are answered", || answered() > before);
            std::thread::sleep(Duration::from_millis(100 + random.below(600)));
            match kill % 6 {
                0 => gateways.kill_and_start(),
                1 => {
                    running.kill9().expect("the pipeline dies");
                    running = pipeline.run();
                }
                3 => {
                    gateways.take_over(&answered);
                    take_overs += 1;
                }
                5 => {
                    let server = case.own_server();
                    server.kill9().expect("the server dies");
                    server.restart().expect("the server comes back");
                }
                away => {
                    store.proxy().refuse().expect("the store goes away");
                    if away == 4 {
                        gateways.kill_and_start();
                    }
                    std::thread::sleep(AWAY);
                    store.proxy().accept().expect("the store comes back");
                }
            }
        }
        let repeats = || sent.repeats.load(Ordering::Relaxed);
        wait_until(PATIENCE, "answers to be lost", || store.proxy().fired(lost) >= LOST_MIN && repeats() > 0);
        over.store(true, Ordering::Release);
        senders.into_iter().map(|sender| sender.join().expect("a sender")).sum()
    });
    term(gateways.running);
    term(running);
    let lost = store.proxy().fired(lost);
    let (tries, repeats) = (sent.tries.into_inner(), sent.repeats.into_inner());
    println!(
        "{requests} requests in {tries} tries, of which {repeats} met their own records; {kills} kills, {take_overs} of them a second \
         gateway; {lost} answers to writes were lost"
    );
    drain_to(&pipeline, &table, requests * PER_REQUEST);
    check(&dir, &store);
    assert!(repeats > 0 && tries > requests, "no request was sent twice");
    assert!(lost >= LOST_MIN, "only {lost} answers were lost");
}

/// A key or a bucket that is wrong is no store that is away: nothing would be answered, and nobody would hear why.
#[test]
fn a_bucket_that_is_not_there_or_refuses_ends_a_gateway_and_a_pipeline_at_the_start() {
    if !available(&[Service::S3]) {
        return;
    }
    let Some(case) = Case::begin("refusing_buckets") else { return };
    let s3 = S3::start().expect("a store");
    let _table = case.table("id UInt64", "id");
    for (bucket, secret, why) in [
        ("no-such-bucket", S3::SECRET_KEY, "NoSuchBucket"),
        (S3::BUCKET, "wrong-secret", "SignatureDoesNotMatch"),
    ] {
        let url = format!("s3://{bucket}/{LOGS}");
        let text = format!(
            "gateway: test\nlisten: '127.0.0.1:{}'\nstore: {url}\nobject_storage: {{ endpoint: '{}', region: {}, access_key: '{}', \
             secret_key: '{secret}' }}\nstreams: {{ events: {{}} }}\nhttp: {{ listen: none }}\n",
            free_port(),
            s3.url(),
            S3::REGION,
            S3::ACCESS_KEY,
        );
        std::fs::write(case.dir().join(file(0)), text).expect("the test's folder can be written");
        let (exit, log) = ended(start_gateway_of(case.dir(), &file(0)));
        assert_eq!(exit.status.code(), Some(1), "{log}");
        assert!(log.contains(why) && log.contains("the log of stream `events`"), "{log}");
        assert!(log.contains(&format!("`{url}/events/.probe/")), "each folder once: {log}");
        assert!(!log.contains(secret), "{log}");

        let pipeline = case.pipeline().input_of("events", &format!("{{ log: {{ url: '{url}/events' }} }}"));
        let pipeline = pipeline.env("AWS_ACCESS_KEY_ID", S3::ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", secret);
        let pipeline = pipeline.env("AWS_REGION", S3::REGION).env("AWS_ENDPOINT_URL", &s3.url());
        let (exit, log) = ended(pipeline.run());
        assert_eq!(exit.status.code(), Some(4), "{log}");
        assert!(log.contains(why), "{log}");
    }
}
