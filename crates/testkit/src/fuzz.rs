//! Parsers under changed input: a mutating loop that runs on the pinned stable compiler.
//!
//! Owns the mutations, the bounds of a run and the report of a failure. Does not own what is right: each crate's own
//! tests `fuzz_*` do, beside the parser, where its private functions can be reached. Coverage does not guide it (that takes
//! a nightly compiler's instrumentation); good examples, words of the format and a checksum put right by the test do.
//!
//! | run        | how                                                                     |
//! |------------|-------------------------------------------------------------------------|
//! | short      | part of `cargo test`: a fixed seed, so that it never fails by chance    |
//! | long       | `FOREBAY_FUZZ_SECONDS=60 cargo test --workspace --lib --bins fuzz_ -- --nocapture --test-threads 1` |
//! | repeat     | the same with the `FOREBAY_SEED` that was printed                       |

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::memory::peak_bytes;
use crate::random::{Lcg, seed};

/// Makes every fuzz test run for so long instead of its short form.
const SECONDS_VARIABLE: &str = "FOREBAY_FUZZ_SECONDS";
/// Numbers at which counters and lengths break.
const EDGES: [u64; 12] =
    [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 62, i64::MAX as u64, u64::MAX];
/// Changes to one input: few, or nothing of the example is left.
const CHANGES_MAX: u64 = 6;
/// Inputs that are changed further; above it an old one makes room.
const POOL_MAX: usize = 256;
/// No parser takes longer for a few kilobytes, even where eight compilers run beside it.
const ONE_INPUT_MAX: Duration = Duration::from_secs(20);
/// Tries to make a failing input smaller.
const SHRINKS_MAX: u32 = 400;

/// A loop that changes good inputs of one parser.
#[derive(Debug, Clone)]
pub struct Fuzz {
    name: String,
    examples: Vec<Vec<u8>>,
    words: Vec<Vec<u8>>,
    bytes_max: usize,
    memory: Option<(usize, usize)>,
}

impl Fuzz {
    /// A loop for the parser called `name`, for inputs of up to 4 KiB.
    pub fn new(name: &str) -> Fuzz {
        Fuzz {
            name: name.to_owned(),
            examples: Vec::new(),
            words: Vec::new(),
            bytes_max: 4 << 10,
            memory: None,
        }
    }

    /// One more good input to begin with; a longer one raises the bound.
    pub fn example(mut self, bytes: impl AsRef<[u8]>) -> Fuzz {
        self.bytes_max = self.bytes_max.max(2 * bytes.as_ref().len());
        self.examples.push(bytes.as_ref().to_owned());
        self
    }

    /// More good inputs.
    pub fn examples<B: AsRef<[u8]>>(self, many: impl IntoIterator<Item = B>) -> Fuzz {
        many.into_iter().fold(self, Fuzz::example)
    }

    /// Pieces of the format that chance would hardly find.
    pub fn words<B: AsRef<[u8]>>(mut self, words: impl IntoIterator<Item = B>) -> Fuzz {
        self.words.extend(words.into_iter().map(|word| word.as_ref().to_owned()));
        self
    }

    /// An input may take at most `base` bytes of memory and `each` for each of its own bytes, at any one time.
    ///
    /// # Panics
    /// When the crate's tests do not run with [`CountingAllocator`](crate::CountingAllocator).
    pub fn memory_max(mut self, base: usize, each: usize) -> Fuzz {
        let ((), counted) = peak_bytes(|| drop(std::hint::black_box(Vec::<u8>::with_capacity(1 << 16))));
        assert!(counted >= 1 << 16, "install `testkit::CountingAllocator` in the tests of this crate");
        self.memory = Some((base, each));
        self
    }

    /// Runs `check` on every example and on `rounds` changed ones. `check` panics where the parser is wrong: by itself,
    /// or by an assertion of what must hold whatever came in.
    ///
    /// # Panics
    /// When `check` did, or took too long; the input is printed as small as could be found.
    pub fn run(self, rounds: u64, check: impl Fn(&[u8])) {
        let seconds = std::env::var(SECONDS_VARIABLE).ok().map(|text| {
            text.trim()
                .parse::<u64>()
                .unwrap_or_else(|_| panic!("{SECONDS_VARIABLE} is `{text}`, not a number"))
        });
        let (mut lcg, end) = match seconds {
            Some(seconds) => (Lcg::new(seed()), Some(Instant::now() + Duration::from_secs(seconds))),
            None => (Lcg::new(1), None),
        };
        for example in &self.examples {
            self.one(example, &check);
        }
        let mut pool = self.examples.clone();
        pool.push(Vec::new());
        let mut done = 0;
        while end.map_or(done < rounds, |end| Instant::now() < end) {
            let input = self.changed(&mut lcg, &pool);
            self.one(&input, &check);
            // Changes add up over generations; the examples themselves stay.
            if lcg.one_in(8) {
                if pool.len() < POOL_MAX {
                    pool.push(input);
                } else {
                    let kept = self.examples.len();
                    let place = kept + lcg.below((pool.len() - kept) as u64) as usize;
                    pool[place] = input;
                }
            }
            done += 1;
        }
        println!("testkit: {} took {done} changed inputs", self.name);
    }

    fn one(&self, input: &[u8], check: &impl Fn(&[u8])) {
        let begun = Instant::now();
        let fails = |input: &[u8]| {
            let (caught, bytes) = peak_bytes(|| catch_unwind(AssertUnwindSafe(|| check(input))));
            let limit = self.memory.map(|(base, each)| base + each * input.len());
            let takes_too_much = limit.is_some_and(|limit| bytes > limit);
            if takes_too_much {
                eprintln!("{bytes} bytes of memory for an input of {}", input.len());
            }
            caught.is_err() || takes_too_much
        };
        if fails(input) {
            let small = shrunk(input, &fails);
            panic!("{} fails for {} bytes: {}", self.name, small.len(), small.escape_ascii());
        }
        let took = begun.elapsed();
        assert!(
            took < ONE_INPUT_MAX,
            "{} took {took:?} for {} bytes: {}",
            self.name,
            input.len(),
            input.escape_ascii()
        );
    }

    fn changed(&self, lcg: &mut Lcg, pool: &[Vec<u8>]) -> Vec<u8> {
        let mut input = lcg.pick(pool).clone();
        for _ in 0..=lcg.below(CHANGES_MAX) {
            self.change(lcg, &mut input, pool);
            input.truncate(self.bytes_max);
        }
        input
    }

    fn change(&self, lcg: &mut Lcg, input: &mut Vec<u8>, pool: &[Vec<u8>]) {
        let place = lcg.below(input.len() as u64 + 1) as usize;
        let length = 1 + lcg.below(16) as usize;
        let end = (place + length).min(input.len());
        match lcg.below(10) {
            0 if place < input.len() => input[place] ^= 1 << lcg.below(8),
            1 if place < input.len() => input[place] = lcg.below(256) as u8,
            2 => input.truncate(place),
            3 => drop(input.drain(place..end)),
            4 => {
                let copy = input[place..end].to_vec();
                let to = lcg.below(input.len() as u64 + 1) as usize;
                input.splice(to..to, copy);
            }
            5 => {
                let other = lcg.pick(pool);
                let from = lcg.below(other.len() as u64 + 1) as usize;
                input.truncate(place);
                input.extend_from_slice(&other[from..]);
            }
            6 => {
                let number = lcg.pick(&EDGES).wrapping_add(lcg.below(3)).wrapping_sub(1).to_le_bytes();
                let width = *lcg.pick(&[1, 2, 4, 8]);
                let end = (place + width).min(input.len());
                input.splice(place..end, number[..width].iter().copied());
            }
            7 => {
                let many = vec![lcg.below(256) as u8; length * 8];
                input.splice(place..place, many);
            }
            _ if !self.words.is_empty() => {
                let word = lcg.pick(&self.words).clone();
                let end = if lcg.one_in(2) { place } else { end };
                input.splice(place..end, word);
            }
            _ => input.insert(place, lcg.below(256) as u8),
        }
    }
}

/// A smaller input that fails too, found by leaving pieces out.
fn shrunk(input: &[u8], fails: &impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let hook = std::panic::take_hook();
    // Every try that fails would print its panic; the first one was shown.
    std::panic::set_hook(Box::new(|_| {}));
    let mut small = input.to_vec();
    let mut piece = small.len().div_ceil(2);
    let mut tries = 0;
    while piece > 0 && tries < SHRINKS_MAX {
        let mut place = 0;
        while place < small.len() && tries < SHRINKS_MAX {
            tries += 1;
            let mut less = small.clone();
            less.drain(place..(place + piece).min(small.len()));
            if fails(&less) {
                small = less;
            } else {
                place += piece;
            }
        }
        piece /= 2;
    }
    std::panic::set_hook(hook);
    small
}

#[cfg(test)]
mod tests;
