//! The rule of dedup, as a relation: given what each record became, was that right?
//!
//! Owns an independent account of which keys are held. Does not own the counts of a seal (`oracle::fold`), nor windows and joins
//! (`oracle::windows`, `oracle::joins`). It is not told in which order the records of one seal were taken, so it checks what must hold in
//! any order. Does not use the operator, nor its arithmetic.

use std::collections::BTreeMap;

use operators::dedup::Late;

use super::{Broken, Fate};
use crate::plan::Plan;
use crate::records::{Record, Row, reason_code};

/// Buckets in a window, and buckets behind the watermark that are in time: the published rule of the step.
const SPAN: i64 = 16;
const SLACK: i64 = 4;

/// One seal as the oracle found it.
#[derive(Clone, Debug, Default)]
pub struct Sealed {
    /// The records of its ranges.
    pub read: Vec<Record>,
    /// The place of the input that has read each of them.
    pub sides: Vec<usize>,
    /// How many of them each input has read, by the input's place.
    pub read_of: [u64; 2],
    /// Rows of its frames for the table.
    pub written: Vec<Row>,
    /// Rows of its frames for the dead letters.
    pub dead: Vec<Row>,
    /// Ids of rows that the server refused.
    pub refused: Vec<u64>,
    /// The watermark after it.
    pub watermark_ms: i64,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    id: u64,
    bucket: i64,
    /// False once it may have been freed.
    is_held: bool,
}

/// Every record ever kept and not forgotten.
#[derive(Clone, Debug)]
pub struct Model {
    width_ms: Option<i64>,
    late: Late,
    watermark: Option<i64>,
    kept: BTreeMap<u64, Vec<Kept>>,
    records: BTreeMap<u64, Record>,
    plan: Plan,
}

impl Model {
    /// Nothing is kept.
    pub fn new(plan: &Plan) -> Self {
        let width_ms = plan.window.map(|w| (w.as_millis() as i64 / SPAN).max(1));
        Self {
            width_ms,
            late: plan.late,
            watermark: None,
            kept: BTreeMap::new(),
            records: BTreeMap::new(),
            plan: plan.clone(),
        }
    }

    /// No key is known any more, and time begins again.
    pub fn begin_again(&mut self) {
        self.kept.clear();
        self.watermark = None;
    }

    fn bucket(&self, time_ms: i64) -> i64 {
        self.width_ms.map_or(0, |width| time_ms.div_euclid(width))
    }

    fn is_late(&self, bucket: i64) -> bool {
        self.watermark.is_some_and(|watermark| bucket < watermark - SLACK)
    }

    /// True if a kept record makes this one a duplicate for certain.
    fn is_seen(&self, key: u64, bucket: i64, but: &[u64]) -> bool {
        let kept = self.kept.get(&key).into_iter().flatten();
        kept.filter(|k| !but.contains(&k.id) && k.is_held).any(|k| near(k.bucket, bucket))
    }

    /// True if a kept record may have made this one a duplicate: the step may know it for longer than it must.
    fn may_be_seen(&self, key: u64, bucket: i64) -> bool {
        self.kept.get(&key).into_iter().flatten().any(|k| near(k.bucket, bucket))
    }

    /// Judges a seal, and says what became of its records.
    ///
    /// # Errors
    /// When a record became what the rule does not allow.
    pub fn seal(&mut self, sealed: &Sealed) -> Result<Vec<(u64, Fate)>, Broken> {
        let mut fates: BTreeMap<u64, Fate> = BTreeMap::new();
        self.records.extend(sealed.read.iter().map(|r| (r.id, *r)));
        let of_seal: BTreeMap<u64, Record> = sealed.read.iter().map(|r| (r.id, *r)).collect();
        for [id, key, time] in &sealed.written {
            let record = of_seal
                .get(id)
                .ok_or(("C1", format!("record {id} is written by a seal that does not read it")))?;
            if (record.key, record.time_ms as u64) != (*key, *time) || !record.is_good {
                return Err(("C9", format!("record {id} is written as another")));
            }
            if fates.insert(*id, Fate::Written).is_some() {
                return Err(("C9", format!("record {id} is written twice by one seal")));
            }
        }
        self.judge_dead(sealed, &of_seal, &mut fates)?;
        // The key of a record that has other rows stays known.
        let is_forgotten = |id: &u64| {
            let record = self.records.get(id);
            record.is_none_or(|r| !self.plan.is_shared([r.id, r.key, r.time_ms as u64]))
        };
        let forgotten: Vec<u64> = sealed.refused.iter().copied().filter(is_forgotten).collect();
        self.judge_written(sealed, &forgotten)?;
        // What is forgotten in this seal may have been there for some of its records; after it, it is not.
        let mut now_kept: Vec<(u64, Kept)> = Vec::new();
        for [id, key, time] in &sealed.written {
            now_kept.push((*key, Kept { id: *id, bucket: self.bucket(*time as i64), is_held: true }));
        }
        for (key, kept) in now_kept {
            self.kept.entry(key).or_default().push(kept);
        }
        self.judge_dropped(&of_seal, &mut fates)?;
        if let Some(id) = sealed.refused.iter().find(|id| !self.records.contains_key(id)) {
            return Err(("C10", format!("record {id} is refused, and was never read")));
        }
        for id in &forgotten {
            let key = self
                .records
                .get(id)
                .map(|r| r.key)
                .ok_or(("C10", format!("record {id} is refused, and was never read")))?;
            self.kept.entry(key).or_default().retain(|k| k.id != *id);
        }
        self.advance(sealed.watermark_ms);
        Ok(fates.into_iter().collect())
    }

    fn judge_dead(
        &self,
        sealed: &Sealed,
        of_seal: &BTreeMap<u64, Record>,
        fates: &mut BTreeMap<u64, Fate>,
    ) -> Result<(), Broken> {
        let mut refused = sealed.refused.clone();
        for [id, reason, _] in &sealed.dead {
            if *reason == reason_code("refused") {
                let at = refused.iter().position(|r| r == id);
                refused.remove(
                    at.ok_or(("C9", format!("record {id} is a refused dead letter, and was not refused")))?,
                );
                fates.insert(*id, Fate::Dead);
                continue;
            }
            let record = of_seal
                .get(id)
                .ok_or(("C1", format!("record {id} is a dead letter of a seal that does not read it")))?;
            let bucket = self.bucket(record.time_ms);
            let is_late = self.late == Late::DeadLetter && self.is_late(bucket) && record.is_good;
            let is_right = match *reason {
                r if r == reason_code("malformed") => !record.is_good,
                r if r == reason_code("late") => is_late && !self.is_seen(record.key, bucket, &[]),
                _ => false,
            };
            if !is_right || fates.insert(*id, Fate::Dead).is_some() {
                return Err(("C9", format!("record {id} is a dead letter for the wrong reason")));
            }
        }
        match refused.first() {
            Some(id) => Err(("C9", format!("record {id} is refused, and has no dead letter"))),
            None => Ok(()),
        }
    }

    /// A written record was not seen before, neither in an earlier seal nor in this one.
    fn judge_written(&self, sealed: &Sealed, forgotten: &[u64]) -> Result<(), Broken> {
        let mut of_this: BTreeMap<u64, Vec<(u64, i64)>> = BTreeMap::new();
        for [id, key, time] in &sealed.written {
            let bucket = self.bucket(*time as i64);
            if self.is_seen(*key, bucket, forgotten) {
                return Err(("C6", format!("record {id} is written, though its key {key} was seen")));
            }
            if self.is_late(bucket) && self.late != Late::Keep {
                return Err(("C6", format!("record {id} is written, though it is late")));
            }
            let others = of_this.entry(*key).or_default();
            if let Some((other, _)) = others.iter().find(|(_, b)| near(*b, bucket)) {
                return Err(("C6", format!("records {other} and {id} of key {key} are written by one seal")));
            }
            others.push((*id, bucket));
        }
        Ok(())
    }

    /// A dropped record has a kept one of its key, or is late where late ones are dropped.
    fn judge_dropped(
        &self,
        of_seal: &BTreeMap<u64, Record>,
        fates: &mut BTreeMap<u64, Fate>,
    ) -> Result<(), Broken> {
        for (id, record) in of_seal {
            if fates.contains_key(id) {
                continue;
            }
            let bucket = self.bucket(record.time_ms);
            let fate = if !record.is_good {
                return Err(("C9", format!("record {id} is malformed, and no dead letter")));
            } else if self.plan.is_dropped(record.key) {
                // Whichever of its key came first: no table has a row of it.
                Fate::Dropped
            } else if self.is_seen(record.key, bucket, &[])
                || self.is_late(bucket) && self.may_be_seen(record.key, bucket)
            {
                Fate::Duplicate
            } else if self.late == Late::Drop && self.is_late(bucket) {
                Fate::Late
            } else {
                return Err((
                    "C10",
                    format!("record {id} of key {} was dropped, and none of its key is kept", record.key),
                ));
            };
            fates.insert(*id, fate);
        }
        Ok(())
    }

    fn advance(&mut self, watermark_ms: i64) {
        if self.width_ms.is_none() || watermark_ms == i64::MIN {
            return;
        }
        self.watermark = self.watermark.max(Some(self.bucket(watermark_ms)));
        let floor = self.watermark.map_or(i64::MIN, |w| w - SPAN - SLACK);
        for kept in self.kept.values_mut().flatten().filter(|k| k.bucket < floor) {
            kept.is_held = false;
        }
    }
}

fn near(a: i64, b: i64) -> bool {
    a.abs_diff(b) <= SPAN as u64
}
