//! Pauses between tries.
//!
//! Owns the length of a pause. Does not own what is tried again, nor when to give up (each caller). Tries have no bound in number: a server
//! or a disk that is away comes back some day, and until then nothing is dropped; what is bounded is the rate.

use std::time::Duration;

use dataflow::Runtime;

/// The first pause: long enough for a connection that was just reset.
const FIRST: Duration = Duration::from_millis(50);

/// Doubling pauses with a random part, so that many lanes do not knock in step.
#[derive(Clone, Debug)]
pub struct Backoff {
    next: Duration,
    max: Duration,
    tries: u64,
}

impl Backoff {
    /// Pauses that grow to `max`.
    pub fn new(max: Duration) -> Self {
        Self { next: FIRST.min(max), max, tries: 0 }
    }

    /// Waits for the next pause.
    pub async fn pause(&mut self, runtime: &dyn Runtime) {
        let pause = self.next_pause(runtime);
        runtime.sleep(pause).await;
    }

    /// How long the next pause is, for a caller who does something else meanwhile.
    pub fn next_pause(&mut self, runtime: &dyn Runtime) -> Duration {
        let part = self.next.as_millis() as u64 / 4;
        let jitter = if part == 0 { 0 } else { (runtime.random() % u128::from(part)) as u64 };
        let pause = self.next + Duration::from_millis(jitter);
        self.next = (self.next * 2).min(self.max);
        self.tries += 1;
        pause
    }

    /// The next pause is as short as the first.
    pub fn reset(&mut self) {
        (self.next, self.tries) = (FIRST.min(self.max), 0);
    }

    /// Pauses so far.
    pub fn tries(&self) -> u64 {
        self.tries
    }

    /// Whether this attempt should be logged: the first is, and then fewer and fewer.
    pub fn should_log(&self) -> bool {
        self.tries.is_power_of_two() || self.tries == 0
    }
}
