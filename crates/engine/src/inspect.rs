//! Reads everything of a lane and says what is damaged, what is missing, and what that means.
//!
//! Owns the order of the reading: floor, journal (bytes, numbers, fold), then every object that the journal or its records point
//! to, and what nobody points to. Reads only, claims nothing, and may run beside the owner. Does not own what a frame's bytes
//! mean: the caller brings a [`Reader`] for them.
//!
//! A living owner retires objects while they are read. What is missing is therefore judged by the journal as it stands *afterwards*, and
//! the journal is read again from its beginning when its floor rises meanwhile.

mod look;
mod parts;
mod words;

use std::collections::BTreeMap;

use protocol::record::RECORD_BYTES_MAX;
use protocol::retire::{Judge, KINDS, Marks, Standing};
use protocol::{Lane, Record, names, retire};
use store::{Entry, ErrorKind, Key, Store, StoreError};

use self::look::{is_damage, look};
use self::parts::{Part, Parts, end};
use crate::survey::{self, Pages, Survey};

/// Findings and orphans that are kept with their names; the others are only counted.
pub const NAMED_MAX: usize = 1_000;

/// Times that the look at the journal begins again because its floor has risen: checkpoints are seconds apart.
const LOOKS_MAX: u32 = 10;

/// Understands what the engine does not.
pub trait Reader: Sync {
    /// Rows in a frame's body.
    ///
    /// # Errors
    /// When it is no frame, in words.
    fn frame(&self, body: &[u8]) -> Result<u64, String>;

    /// Looks at the probe behind a frame; empty if there is none.
    ///
    /// # Errors
    /// When it is no probe, in words.
    fn probe(&self, probe: &[u8]) -> Result<(), String>;

    /// Looks at a whole file of a step's state.
    ///
    /// # Errors
    /// When anything in it is not as it was written, in words.
    fn file(&self, object: &str, bytes: &[u8]) -> Result<(), String>;
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The object's key.
    pub object: String,
    /// What is wrong with it.
    pub what: String,
    /// What that means for the pipeline.
    pub means: String,
    /// What an operator can do.
    pub way_out: &'static str,
}

/// What was found in one lane.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The lane's folder.
    pub folder: String,
    /// Number of the oldest record that counts.
    pub floor: u64,
    /// Records read and found sound.
    pub records: u64,
    /// Objects of segments, splits and state that were read, and their bytes.
    pub objects: u64,
    /// Bytes of parts that were read and compared with their checksum.
    pub bytes: u64,
    /// Frames decoded.
    pub frames: u64,
    /// Rows in them.
    pub rows: u64,
    /// Inserts that wait and are not in the store: whoever runs the pipeline has them, or makes them again from the source.
    pub unwritten: u64,
    /// What is damaged or missing; [`NAMED_MAX`] at the most.
    pub findings: Vec<Finding>,
    /// Findings beyond those.
    pub findings_more: u64,
    /// Objects that nobody points to, with their bytes and standing; [`NAMED_MAX`] at the most.
    pub orphans: Vec<(String, u64, Standing)>,
    /// All that lies there.
    pub survey: Survey,
    /// The lane as of the newest sound record.
    pub lane: Lane,
}

impl Report {
    fn new(folder: &str) -> Self {
        Self { folder: folder.to_owned(), lane: Lane::new(), ..Self::default() }
    }

    /// True if nothing is damaged or missing.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    fn find(&mut self, finding: Finding) {
        if self.findings.len() < NAMED_MAX {
            self.findings.push(finding);
        } else {
            self.findings_more += 1;
        }
    }
}

/// Every lane in the store, by folder, in order; of one pipeline if `pipeline` is given.
///
/// # Errors
/// When the store cannot be listed.
pub async fn lanes(store: &dyn Store, pipeline: Option<&str>) -> Result<Vec<String>, StoreError> {
    let prefix = pipeline.map_or_else(
        || Ok(store::Prefix::root()),
        |name| {
            store::Prefix::new(name)
                .map_err(|e| StoreError::new(ErrorKind::Url, store::Operation::List, name, e.to_string()))
        },
    )?;
    let mut lanes = Vec::new();
    let mut after: Option<Key> = None;
    // One request a lane: the next question begins behind the last folder.
    while let Some(first) = store.list(&prefix, after.as_ref(), 1).await?.into_iter().next() {
        let key = first.key.as_str();
        let mut parts = key.splitn(3, '/');
        if let (Some(pipeline), Some(lane), Some(_)) = (parts.next(), parts.next(), parts.next())
            && lane.starts_with("lane-")
        {
            let folder = format!("{pipeline}/{lane}");
            // No folder of a lane begins with a `z`.
            after = Key::new(format!("{folder}/zzzz")).ok();
            lanes.push(folder);
        } else {
            after = Some(first.key);
        }
    }
    Ok(lanes)
}

/// Reads everything of the lane in `folder`. `progress` gets the bytes read so far and all that lie there, as far as they
/// are known.
///
/// # Errors
/// When the store cannot be read. Damage is not an error but a finding.
pub async fn inspect(
    store: &dyn Store,
    folder: &str,
    reader: &dyn Reader,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Report, StoreError> {
    let mut report = Report::new(folder);
    let mut parts = Parts::default();
    for look in 1.. {
        report = Report::new(folder);
        parts = Parts::default();
        let floor_before = crate::ownership::floor(store, folder).await?;
        journal(store, &mut report, &mut parts, floor_before).await?;
        let has_risen = crate::ownership::floor(store, folder).await? > floor_before;
        if report.is_sound() || !has_risen || look == LOOKS_MAX {
            break;
        }
    }
    parts.of_lane(&report.lane);
    let is_journal_whole = report.is_sound();
    let mut suspects = objects(store, &mut report, &parts, reader, progress).await?;
    if !is_journal_whole {
        // What the unreadable records point to is not known, so nothing can be called an orphan.
        report.orphans.clear();
    }
    if !suspects.is_empty() {
        // The owner may have settled and retired them in the meantime.
        let now = crate::journal::load_any(store, folder).await.unwrap_or_else(|_| report.lane.clone());
        let needed = retire::needed(&now);
        suspects.retain(|finding| needed.contains(finding.object.as_str()));
        suspects.into_iter().for_each(|finding| report.find(finding));
    }
    Ok(report)
}

/// Reads and folds the journal. After damage the rest is only read record by record.
async fn journal(
    store: &dyn Store,
    report: &mut Report,
    parts: &mut Parts,
    floor: u64,
) -> Result<(), StoreError> {
    let folder = report.folder.clone();
    report.floor = floor;
    let mut lane: Option<Lane> = None;
    let mut expected = floor;
    let mut is_whole = true;
    let mut pages = Pages::new(store, &folder, "journal");
    while let Some(page) = pages.next().await? {
        for entry in page {
            let Some(seq) = names::number(entry.key.as_str()).filter(|seq| *seq >= floor) else { continue };
            if seq != expected {
                report.find(words::records_missing(&folder, expected, seq, floor));
                is_whole = false;
            }
            expected = seq + 1;
            let record = match read_record(store, &entry, seq).await? {
                Ok(record) => record,
                Err(what) => {
                    report.find(words::record(entry.key.as_str(), what));
                    is_whole = false;
                    continue;
                }
            };
            report.records += 1;
            parts.of_record(&record);
            if !is_whole {
                continue;
            }
            let folded = match &mut lane {
                Some(lane) => lane.apply(&record),
                None if seq > 0 => Lane::from_checkpoint(&record).map(|first| lane = Some(first)),
                None => {
                    let mut first = Lane::new();
                    first.apply(&record).map(|()| lane = Some(first))
                }
            };
            if let Err(violation) = folded {
                report.find(words::record(entry.key.as_str(), violation.to_string()));
                is_whole = false;
            }
        }
    }
    if expected == floor && floor > 0 {
        report.find(words::records_missing(&folder, floor, floor + 1, floor));
    }
    if let Some(lane) = lane {
        report.lane = lane;
    }
    Ok(())
}

async fn read_record(
    store: &dyn Store,
    entry: &Entry,
    seq: u64,
) -> Result<Result<Record, String>, StoreError> {
    match store.get(&entry.key, RECORD_BYTES_MAX).await {
        Ok(Some(bytes)) => Ok(Record::from_bytes(seq, &bytes).map_err(|e| e.to_string())),
        Ok(None) => Ok(Err("missing: it was listed and then was not there".into())),
        Err(error) if is_damage(&error) => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Reads every object that there is, and gives back what may be missing or cut short.
async fn objects(
    store: &dyn Store,
    report: &mut Report,
    parts: &Parts,
    reader: &dyn Reader,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Vec<Finding>, StoreError> {
    let lane = report.lane.clone();
    let judge = Judge::new(&lane, Marks::seen_in(&lane));
    let mut missing: BTreeMap<&str, ()> = judge.needed().iter().map(|object| (*object, ())).collect();
    let mut suspects = Vec::new();
    let known = parts
        .0
        .values()
        .map(|(bytes, parts)| bytes.unwrap_or_else(|| end(parts)))
        .fold(0, u64::saturating_add);
    for kind in survey::FOLDERS {
        let mut pages = Pages::new(store, &report.folder.clone(), kind);
        while let Some(page) = pages.next().await? {
            for entry in page {
                let object = entry.key.as_str();
                let standing = survey::standing(&judge, kind, object, report.floor);
                report.survey.add(kind, standing, entry.size_bytes);
                missing.remove(object);
                if KINDS.contains(&kind) {
                    if standing != Standing::Needed && report.orphans.len() < NAMED_MAX {
                        report.orphans.push((object.to_owned(), entry.size_bytes, standing));
                    }
                    if let Some((bytes, parts)) = parts.0.get(object) {
                        report.objects += 1;
                        suspects
                            .extend(object_parts(store, report, &lane, &entry, *bytes, parts, reader).await?);
                        progress(report.bytes, known);
                    }
                }
            }
        }
    }
    for object in missing.into_keys() {
        let parts = parts.0.get(object).map_or(&[][..], |(_, parts)| parts);
        let is_made_again = |part: &Part| matches!(part, Part::Frame(frame) if frame.made.is_some());
        match !parts.is_empty() && parts.iter().all(is_made_again) {
            true => report.unwritten += 1,
            false => suspects.push(words::object(&lane, object, parts, "missing")),
        }
    }
    Ok(suspects)
}

async fn object_parts(
    store: &dyn Store,
    report: &mut Report,
    lane: &Lane,
    entry: &Entry,
    bytes: Option<u64>,
    parts: &[Part],
    reader: &dyn Reader,
) -> Result<Vec<Finding>, StoreError> {
    let object = entry.key.as_str();
    if let Some(bytes) = bytes.filter(|bytes| *bytes != entry.size_bytes) {
        let what = format!("of {} bytes, {bytes} were sealed", entry.size_bytes);
        return Ok(vec![words::object(lane, object, parts, &what)]);
    }
    let mut found = Vec::new();
    for part in parts {
        match look(store, &entry.key, part, reader).await? {
            Ok(seen) => {
                report.bytes += seen.bytes;
                report.frames += u64::from(seen.rows > 0);
                report.rows += seen.rows;
            }
            Err(what) => found.push(words::object(lane, object, std::slice::from_ref(part), &what)),
        }
    }
    Ok(found)
}
