//! Which kind of record stands at a position, in constant time.
//!
//! Owns the arithmetic of the order. Does not own which record a duplicate copies (`glassflow::Workload`).
//!
//! Uniques and near duplicates repeat with a period of eleven: `u n u u u u u u u u u`. Far and cross duplicates are laid
//! evenly over that, and evenly mixed among themselves: of `e` things over `n` places, ⌊p·e/n⌋ stand before place `p`.

use super::{NEAR_EVERY, POSITIONS_MAX, Spec};

/// Why a record stands at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// For the first time.
    Unique,
    /// A copy of one of the last 1,000 uniques of the publisher.
    Near,
    /// A copy of any earlier unique of the publisher.
    Far,
    /// A copy of another publisher's unique.
    Cross,
}

/// The counts that decide the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    near: bool,
    /// Far and cross duplicates.
    extras: u64,
    far: u64,
    positions: u64,
}

/// What stands at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) kind: Kind,
    /// Uniques at lower positions; at least 1 for a duplicate.
    pub(super) uniques_before: u64,
}

impl Layout {
    /// `None` if there would be too many positions.
    pub(super) fn new(spec: &Spec) -> Option<Self> {
        let near = if spec.near_duplicates { spec.uniques.div_ceil(NEAR_EVERY) } else { 0 };
        let extras = spec.far_duplicates.checked_add(spec.cross_duplicates)?;
        let positions = spec.uniques.checked_add(near)?.checked_add(extras)?;
        (positions <= POSITIONS_MAX).then_some(Self {
            near: spec.near_duplicates,
            extras,
            far: spec.far_duplicates,
            positions,
        })
    }

    pub(super) fn positions(&self) -> u64 {
        self.positions
    }

    /// What stands at `position`, which is below [`Self::positions`].
    pub(super) fn slot(&self, position: u64) -> Slot {
        let extra = share(position, self.extras, self.positions);
        let base = position - extra;
        if share(position + 1, self.extras, self.positions) > extra {
            let is_far = share(extra + 1, self.far, self.extras) > share(extra, self.far, self.extras);
            let kind = if is_far { Kind::Far } else { Kind::Cross };
            return Slot { kind, uniques_before: self.uniques_before(base) };
        }
        let is_near = self.near && base % (NEAR_EVERY + 1) == 1;
        let kind = if is_near { Kind::Near } else { Kind::Unique };
        Slot { kind, uniques_before: self.uniques_before(base) }
    }

    /// Uniques among the first `base` of uniques and near duplicates.
    fn uniques_before(&self, base: u64) -> u64 {
        let near = if self.near { (base + NEAR_EVERY - 1) / (NEAR_EVERY + 1) } else { 0 };
        base - near
    }
}

/// ⌊place · things / places⌋, and 0 of nothing.
fn share(place: u64, things: u64, places: u64) -> u64 {
    if things == 0 {
        return 0;
    }
    match place.checked_mul(things) {
        Some(product) => product / places,
        // At most `things`, since `place` is at most `places`.
        None => (u128::from(place) * u128::from(things) / u128::from(places)) as u64,
    }
}

#[cfg(test)]
mod tests;
