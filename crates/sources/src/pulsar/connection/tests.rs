//! A broker in this process that says hello and then nothing, and a clock that stands still until it is moved.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};

use dataflow::Task;
use futures::future::BoxFuture;

use super::super::messages::Connected;
use super::*;

/// Only its clock is of use here.
struct Clock {
    seconds: AtomicU64,
}

impl Runtime for Clock {
    fn wall_ms(&self) -> i64 {
        0
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(self.seconds.load(Ordering::SeqCst))
    }

    fn begin_ms(&self) -> i64 {
        0
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, _: &'static str, _: BoxFuture<'static, ()>) -> Task {
        Task::new(|| {})
    }

    fn compute(&self, job: Box<dyn FnOnce() + Send>) {
        job();
    }

    fn compute_threads(&self) -> usize {
        1
    }

    fn random(&self) -> u128 {
        0
    }
}

/// A broker that answers a hello and nothing else.
fn silent() -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a client");
        let mut length = [0; PREFIX_BYTES];
        socket.read_exact(&mut length).expect("a hello");
        let mut hello = vec![0; u32::from_be_bytes(length) as usize];
        socket.read_exact(&mut hello).expect("a hello");
        let connected = Connected {
            server_version: "fake".into(),
            protocol_version: Some(PROTOCOL_VERSION),
            ..Connected::default()
        };
        let mut out = Vec::new();
        let kind = Kind::Connected as i32;
        frame::write(&mut out, &Command { kind, connected: Some(connected), ..Command::default() });
        socket.write_all(&out).expect("the client reads");
        // Until the client has gone.
        while socket.read(&mut hello).is_ok_and(|count| count > 0) {}
    });
    Address { host: "127.0.0.1".into(), port }
}

#[test]
fn a_question_that_is_not_answered_for_half_a_minute_is_given_up() {
    let clock = Arc::new(Clock { seconds: AtomicU64::new(0) });
    let runtime: Arc<dyn Runtime> = clock.clone();
    let address = silent();
    let service = format!("pulsar://{}", address.authority());
    let options = PulsarOptions::new(&service, &["a/b/c".to_owned()], "s").expect("options");
    let opened = Connection::open(&address, None, &Arc::new(options), &runtime, &|| true);
    let mut connection = opened.unwrap_or_else(|lost| panic!("{lost}"));
    // Ten seconds pass from one look to the next.
    let is_wanted = || {
        clock.seconds.fetch_add(10, Ordering::SeqCst);
        true
    };
    let answer = connection.ask(&frame::ping(), &is_wanted, |_| None::<()>);
    let Err(Lost::Failed { why, .. }) = answer else { panic!("nobody answers") };
    assert_eq!(why, "no answer within 30s");
    assert_eq!(clock.seconds.load(Ordering::SeqCst), 40, "it waits for the whole time");
    // Nobody waits any more: that ends it at once.
    assert!(matches!(connection.ask(&frame::ping(), &|| false, |_| None::<()>), Err(Lost::Closed)));
}
