//! Starts S3 with an empty bucket, runs a command with its address and keys, and ends both.
//!
//! Owns the life of an S3 around one command. Does not own the S3 (`testkit::S3`), nor what the command does.
//!
//! ```text
//! cargo run -p testkit --example with-s3 -- target/release/forebay bench buffer
//! ```
//! The command finds `FOREBAY_S3`, `FOREBAY_S3_BUCKET`, and the names that S3's own tools use for keys and region. Ends with the command's code.
//! The objects are gone afterwards.

use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use testkit::{S3, Service, available};

fn main() -> anyhow::Result<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let Some(program) = words.next() else { bail!("give a command to run beside S3") };
    if !available(&[Service::S3]) {
        bail!("no S3 can be started here; run `scripts/setup test`");
    }
    let s3 = S3::start()?;
    let mut command = Command::new(&program);
    command
        .args(words)
        .env("FOREBAY_S3", s3.url())
        .env("FOREBAY_S3_BUCKET", S3::BUCKET)
        .env("AWS_REGION", S3::REGION)
        .env("AWS_ACCESS_KEY_ID", S3::ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", S3::SECRET_KEY);
    let status = command.status().with_context(|| format!("cannot run `{}`", program.to_string_lossy()))?;
    // A command that a signal ended has no code.
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}
