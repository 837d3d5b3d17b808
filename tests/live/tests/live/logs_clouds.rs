//! Logs on Google's and Microsoft's object storage: a gateway fills one, is killed meanwhile, and a pipeline that has all it needs from the environment reads it.
//!
//! Ignored: `scripts/setup clouds` installs the emulators, which takes minutes where nothing is cached. Does not own the rules of the store (`crates/store/tests/clouds.rs`).

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use live::pipeline::term;
use live::{Case, PATIENCE};
use testkit::{Azure, Gcs, Service, available, free_port, wait_until};

use super::logs::{
    End, PER_REQUEST, SENDERS, Sent, drain_to, program, send, start_gateway_of, wait_for_gateway,
};

/// How often the gateway dies, and requests that are answered before each death.
const KILLS: u64 = 3;
const PER_LIFE: u64 = 20;

#[test]
#[ignore = "needs `scripts/setup clouds`"]
fn every_record_of_a_log_on_google_is_in_the_table_once() {
    if !available(&[Service::Gcs]) {
        return;
    }
    let gcs = Gcs::start().expect("a server");
    let (endpoint, account) = (gcs.url(), gcs.service_account());
    let settings = format!("{{ endpoint: '{endpoint}', service_account: '{account}' }}");
    let env = [("GOOGLE_BASE_URL", endpoint), ("GOOGLE_SERVICE_ACCOUNT", account)];
    fill_and_read("logs_gcs", &format!("gs://{}/logs", Gcs::BUCKET), &settings, &env);
}

#[test]
#[ignore = "needs `scripts/setup clouds`"]
fn every_record_of_a_log_on_azure_is_in_the_table_once() {
    if !available(&[Service::Azure]) {
        return;
    }
    let azure = Azure::start().expect("an emulator");
    let settings = format!(
        "{{ endpoint: '{}', account: {}, secret_key: '{}' }}",
        azure.url(),
        Azure::ACCOUNT,
        Azure::KEY
    );
    let env = [
        ("AZURE_STORAGE_ENDPOINT", azure.url()),
        ("AZURE_STORAGE_ACCOUNT_NAME", Azure::ACCOUNT.to_owned()),
        ("AZURE_STORAGE_ACCOUNT_KEY", Azure::KEY.to_owned()),
    ];
    fill_and_read("logs_azure", &format!("az://{}/logs", Azure::CONTAINER), &settings, &env);
}

/// The gateway has its settings from its file, the pipeline and `forebay log check` from `env`.
fn fill_and_read(name: &str, store: &str, settings: &str, env: &[(&str, String)]) {
    let Some(case) = Case::begin(name) else { return };
    let (table, port) = (case.table("id UInt64", "id"), free_port());
    let text = format!(
        "gateway: test\nlisten: '127.0.0.1:{port}'\nstore: {store}\nobject_storage: {settings}\nstreams: {{ events: {{ linger: 50ms }} }}\n\
         http: {{ listen: none }}\nshutdown: {{ timeout: 20s }}\n"
    );
    std::fs::write(case.dir().join("gateway.yaml"), text).expect("the test's folder can be written");
    let input = format!("{{ log: {{ url: '{store}/events' }} }}");
    let pipeline = case.pipeline().input_of("events", &input).batch("{ rows: 2000, age: 50ms }");
    let pipeline = env.iter().fold(pipeline, |pipeline, (key, value)| pipeline.env(key, value));
    let mut gateway = start_gateway_of(case.dir(), "gateway.yaml");
    wait_for_gateway(port);
    let running = pipeline.run();
    let (over, sent) = (AtomicBool::new(false), Sent::default());
    let requests: u64 = std::thread::scope(|scope| {
        let (over, sent) = (&over, &sent);
        let _end = End(over);
        let senders: Vec<_> =
            (0..SENDERS).map(|number| scope.spawn(move || send(number, &|| port, over, sent))).collect();
        for kill in 0..=KILLS {
            let answered = || sent.answered.load(Ordering::Relaxed);
            wait_until(PATIENCE, "requests are answered", || answered() >= (kill + 1) * PER_LIFE);
            if kill < KILLS {
                gateway.kill9().expect("the gateway dies");
                gateway = start_gateway_of(case.dir(), "gateway.yaml");
            }
        }
        over.store(true, Ordering::Release);
        senders.into_iter().map(|sender| sender.join().expect("a sender")).sum()
    });
    term(gateway);
    term(running);
    drain_to(&pipeline, &table, requests * PER_REQUEST);
    let mut check = Command::new(program());
    check.args(["log", "check", &format!("{store}/events")]).current_dir(case.dir());
    let check = check.envs(env.iter().map(|(key, value)| (key, value))).output().expect("the program starts");
    let told = String::from_utf8_lossy(&check.stdout) + String::from_utf8_lossy(&check.stderr);
    assert!(check.status.success(), "{told}");
    println!("{requests} requests in {} tries", sent.tries.into_inner());
}
