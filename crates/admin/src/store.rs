//! Everything of a pipeline in its store, read and verified.
//!
//! Owns which lanes are read, and which reader verifies the bytes of each kind of object. Does not own the walk over the objects
//! (`engine::inspect`), nor their formats: frames (`clickhouse`), files of state (`operators`), replay logs (`replays`). Only reads:
//! nothing is claimed, so a running pipeline is not disturbed, though its disk or its bucket is read once.

use anyhow::{Context, bail};
use engine::inspect::{self, Report};
use operators::join::spilled::file as joins;
use operators::window::spilled::file as windows;
use pipeline::config::model::Pipeline;
use pipeline::replays::{self, Log};
use pipeline::wiring;

/// What frames are made of.
struct Frames;

impl inspect::Reader for Frames {
    fn frame(&self, body: &[u8]) -> Result<u64, String> {
        Ok(clickhouse::native::shape::of_frame(body)?.rows)
    }

    fn probe(&self, probe: &[u8]) -> Result<(), String> {
        clickhouse::table::check_sample(probe)
    }

    fn file(&self, object: &str, bytes: &[u8]) -> Result<(), String> {
        let checked = if bytes.starts_with(&windows::MAGIC) {
            windows::verify(object, bytes).map(|_| ())
        } else if bytes.starts_with(&joins::MAGIC) {
            joins::verify(object, bytes).map(|_| ())
        } else {
            operators::dedup::spilled::part::verify(object, bytes).map(|_| ())
        };
        checked.map_err(|error| error.to_string())
    }
}

/// A store by the settings of a pipeline file, or by its address with keys from the environment.
pub enum Where {
    /// By the settings of a pipeline file.
    Pipeline(Box<Pipeline>),
    /// By its address.
    Url(String),
}

/// Nothing is at the address that was named.
#[derive(Debug)]
pub struct NoStore;

impl std::fmt::Display for NoStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("there is no store at this address; give it as pipeline files do")
    }
}

impl std::error::Error for NoStore {}

/// Reads every lane of the store, or those of one pipeline, and verifies them. `told` hears of each lane, and of the bytes read and to read.
///
/// # Errors
/// When the store cannot be read; what is damaged in it is no error.
pub async fn look(
    place: Where,
    pipeline: Option<&str>,
    told: &(dyn Fn(&str, u64, u64) + Sync),
) -> anyhow::Result<Vec<Report>> {
    let opened = match place {
        Where::Pipeline(pipeline) => wiring::storage::open_to_read(&pipeline).await,
        Where::Url(url) => wiring::storage::open_url_to_read(url).await,
    };
    let Some(store) = opened.context("the store cannot be opened")? else {
        match pipeline {
            // A pipeline that has not run yet has no store yet.
            Some(_) => return Ok(Vec::new()),
            None => bail!(NoStore),
        }
    };
    let mut reports = Vec::new();
    for lane in inspect::lanes(&*store, pipeline).await.context("the store cannot be read")? {
        let progress = |read: u64, all: u64| told(&lane, read, all);
        let report = inspect::inspect(&*store, &lane, &Frames, &progress).await;
        let mut report = report.with_context(|| format!("`{lane}` cannot be read"))?;
        let replays = replays::inspect::inspect(&Log::new(store.clone(), &lane), &report.lane).await;
        let replays = replays.with_context(|| format!("the replay log of `{lane}` cannot be read"))?;
        report.objects += replays.objects;
        // As many as a log has objects at the most.
        report.findings.extend(replays.findings);
        // All that is left of a pipeline that was deleted is what fences its owners.
        if report.lane.is_removed() && report.is_sound() && report.orphans.is_empty() {
            continue;
        }
        reports.push(report);
    }
    Ok(reports)
}
