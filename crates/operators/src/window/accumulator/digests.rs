//! The state of ClickHouse's `quantileTDigest` and `quantilesTDigest`: the values of a group as weighted means.
//!
//! Owns the digest and its bytes, which are those of the server for the same values in the same order. Does not own quantiles that the pipeline
//! computes itself (`sketch`).
//!
//! A value is added as a centroid of its own. Beyond [`UNMERGED_MAX`] of those the digest is compressed: in the order of their means, a
//! centroid takes in the next one as long as both together weigh no more than `4 q (1 - q) δ n`, where `q` is the quantile on that side of them that
//! permits less, and δ is 0.01. So centroids near the ends stay single values. Means are Float32, as the server keeps them. NaN is in no centroid,
//! but a group that has NaN alone is not one without a value.
//!
//! | bytes    | what they are                                |
//! |----------|----------------------------------------------|
//! | a varint | centroids, after compressing                 |
//! | 8 each   | the mean and the weight, Float32 little-endian |
//!
//! Parts that are merged add their centroids one by one, as the server merges states. So the bytes depend on where the rows were cut into batches once
//! one of these had more than [`UNMERGED_MAX`] values, as they do in the server.

use arrow_array::ArrayRef;
use dataflow::types::StateFunction;
use dataflow::{ColumnType, StateError};

use super::states::{put_flag, put_varint};
use super::{Accumulator, Input, Rows, same};
use crate::window::aggregate::Bound;
use crate::window::encoding::{Reader, damaged, put_len};
use crate::window::values::{Values, grow_to};

/// Centroids that may be added before all are compressed, and centroids that may be left then: 32 KiB a group at the most.
const UNMERGED_MAX: usize = 2_048;
const CENTROIDS_MAX: usize = 2_048;

/// δ, as precise as the server has it.
const EPSILON: f32 = 0.01;

/// Values that are taken for one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Centroid {
    mean: f32,
    weight: f32,
}

/// A centroid that grows. Its own numbers are more precise than those that are kept.
struct Growing {
    mean: f64,
    weight: f64,
}

impl Growing {
    fn of(centroid: Centroid) -> Self {
        Self { mean: centroid.mean.into(), weight: centroid.weight.into() }
    }

    fn take(&mut self, next: Centroid) {
        let (mean, weight) = (f64::from(next.mean), f64::from(next.weight));
        self.weight += weight;
        // Infinities of one sign have no difference.
        if mean != self.mean {
            self.mean += weight * (mean - self.mean) / self.weight;
        }
    }

    fn kept(&self) -> Centroid {
        Centroid { mean: self.mean as f32, weight: self.weight as f32 }
    }
}

/// One group's values.
#[derive(Clone, Debug, Default, PartialEq)]
struct Digest {
    centroids: Vec<Centroid>,
    /// The weight of all.
    weight: f64,
    /// Centroids that were added since the last compression.
    unmerged: usize,
    /// Whether there was any value, be it NaN.
    has_value: bool,
}

impl Digest {
    fn add(&mut self, centroid: Centroid) {
        self.has_value = true;
        self.centroids.push(centroid);
        self.weight += f64::from(centroid.weight);
        self.unmerged += 1;
        if self.unmerged > UNMERGED_MAX {
            self.compress();
        }
    }

    fn compress(&mut self) {
        if self.unmerged == 0 {
            return;
        }
        // Those of one mean stay in their order.
        self.centroids.sort_by(|a, b| a.mean.total_cmp(&b.mean));
        let (all, bound) = (self.weight, self.weight * f64::from(EPSILON) * 4.0);
        let mut before = 0.0;
        self.join(|left, right| {
            let Some(left) = left else { return Joined::Begins };
            let weight = f64::from(right.weight);
            let room = |at: f64| (at / all) * (1.0 - at / all);
            let (at_left, at_right) = (before + left.weight * 0.5, before + left.weight + weight * 0.5);
            let room = room(at_left).min(room(at_right)) * bound;
            let is_finite = left.mean.is_finite() && right.mean.is_finite();
            let may = left.mean == f64::from(right.mean) || is_finite;
            if left.weight + weight <= room && may {
                return Joined::Taken;
            }
            before += f64::from(left.kept().weight);
            Joined::Begins
        });
        self.unmerged = 0;
        if self.centroids.len() > CENTROIDS_MAX {
            self.compress_evenly();
        }
    }

    /// As many neighbours for one as it takes to be few enough. Values whose weights grow without the rule above getting room are not known.
    fn compress_evenly(&mut self) {
        let each = self.centroids.len().div_ceil(CENTROIDS_MAX);
        let mut taken = 0;
        self.join(|left, _| {
            taken = if left.is_none() || taken == each { 1 } else { taken + 1 };
            if taken == 1 { Joined::Begins } else { Joined::Taken }
        });
        // Infinities of both signs have no mean.
        self.centroids.retain(|centroid| !centroid.mean.is_nan());
    }

    /// Goes over neighbours: each is taken in by the one before it, or begins another.
    fn join(&mut self, mut rule: impl FnMut(Option<&Growing>, Centroid) -> Joined) {
        let (mut kept, mut growing, mut before) = (0, None::<Growing>, 0.0);
        for at in 0..self.centroids.len() {
            let next = self.centroids[at];
            match (rule(growing.as_ref(), next), &mut growing) {
                (Joined::Taken, Some(growing)) => growing.take(next),
                _ => {
                    if let Some(done) = growing.replace(Growing::of(next)) {
                        self.centroids[kept] = done.kept();
                        before += f64::from(done.kept().weight);
                        kept += 1;
                    }
                }
            }
        }
        if let Some(last) = growing {
            self.centroids[kept] = last.kept();
            self.weight = before + last.weight;
            kept += 1;
        }
        self.centroids.truncate(kept);
    }

    fn memory_bytes(&self) -> usize {
        self.centroids.capacity() * size_of::<Centroid>()
    }
}

/// What becomes of a centroid.
enum Joined {
    /// The one before it takes it in.
    Taken,
    /// It stays.
    Begins,
}

/// Of every group.
#[derive(Default)]
pub(super) struct Digests {
    groups: Vec<Digest>,
    /// What their centroids take.
    bytes: usize,
}

impl Digests {
    fn change(&mut self, group: usize, change: impl FnOnce(&mut Digest)) {
        let group = &mut self.groups[group];
        let before = group.memory_bytes();
        change(group);
        self.bytes = self.bytes + group.memory_bytes() - before;
    }
}

impl Accumulator for Digests {
    fn grow(&mut self, groups: usize) {
        grow_to(&mut self.groups, groups, Digest::default());
    }

    fn update(&mut self, input: &Input<'_>, of: Rows<'_>) -> Result<(), String> {
        let values = input.values()?;
        for (row, group) in of.pairs() {
            let mean = match &values {
                Values::Int(values) => values[row] as f32,
                Values::UInt(values) => values[row] as f32,
                Values::Float(values) => values[row] as f32,
                Values::Wide(_) | Values::Bytes(_) => {
                    return Err("a digest takes integers and floats".to_owned());
                }
            };
            match mean.is_nan() {
                true => self.groups[group].has_value = true,
                false => self.change(group, |group| group.add(Centroid { mean, weight: 1.0 })),
            }
        }
        Ok(())
    }

    fn merge(&mut self, later: &dyn Accumulator, moves: &[(u32, u32)]) {
        let later: &Self = same(later);
        for (from, to) in moves {
            let later = &later.groups[*from as usize];
            self.groups[*to as usize].has_value |= later.has_value;
            self.change(*to as usize, |group| {
                later.centroids.iter().for_each(|centroid| group.add(*centroid));
            });
        }
    }

    fn column(&self, _bound: &Bound) -> (ArrayRef, Vec<u32>) {
        unreachable!("a state is asked for")
    }

    fn state(&self, bound: &Bound, group: usize, to: &mut Vec<u8>) -> bool {
        // The result of several quantiles is an array, which is never NULL: there the server sets the flag without a value too.
        let is_array = matches!(&bound.output, ColumnType::State(state) if state.function == StateFunction::QuantilesTDigest);
        if !put_flag(bound, is_array || self.groups[group].has_value, to) {
            return true;
        }
        let mut digest = self.groups[group].clone();
        digest.compress();
        put_varint(digest.centroids.len() as u64, to);
        put_centroids(&digest.centroids, to);
        true
    }

    fn memory_bytes(&self) -> usize {
        self.groups.capacity() * size_of::<Digest>() + self.bytes
    }

    fn write(&self, to: &mut Vec<u8>) {
        for digest in &self.groups {
            put_len(to, digest.centroids.len());
            put_len(to, digest.unmerged);
            // No weight at all has a sign to tell NaN alone from no value.
            let is_nan = digest.has_value && digest.centroids.is_empty();
            let weight = if is_nan { -0.0 } else { digest.weight };
            to.extend_from_slice(&weight.to_le_bytes());
            put_centroids(&digest.centroids, to);
        }
    }

    fn read(&mut self, from: &mut Reader<'_>, counts: &[u64]) -> Result<(), StateError> {
        let wrong = || damaged("has a digest of values that cannot be");
        for _ in counts {
            let (size, unmerged) = (from.len()?, from.len()?);
            let weight = f64::from_le_bytes(from.array()?);
            if size > CENTROIDS_MAX + UNMERGED_MAX || unmerged > UNMERGED_MAX.min(size) {
                return Err(wrong());
            }
            let numbers = from.numbers(2 * size, f32::from_le_bytes)?;
            let centroids = numbers.chunks_exact(2).map(|of| Centroid { mean: of[0], weight: of[1] });
            let has_value = size > 0 || weight.is_sign_negative();
            let digest = Digest { centroids: centroids.collect(), weight, unmerged, has_value };
            if !digest.centroids.iter().all(|of| of.weight > 0.0 && !of.mean.is_nan()) {
                return Err(wrong());
            }
            self.bytes += digest.memory_bytes();
            self.groups.push(digest);
        }
        Ok(())
    }
}

fn put_centroids(centroids: &[Centroid], to: &mut Vec<u8>) {
    for Centroid { mean, weight } in centroids {
        to.extend_from_slice(&mean.to_le_bytes());
        to.extend_from_slice(&weight.to_le_bytes());
    }
}

#[cfg(test)]
mod tests;
