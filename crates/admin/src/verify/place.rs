//! Which record, or which item of a record's array, a row is of.
//!
//! Owns the place and its words. Does not own what is compared by it.

use std::collections::BTreeSet;

use dataflow::{Position, Reject, position};

/// Where a row comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The partition of its record, by the lane's number.
    pub partition: u32,
    /// The position of its record.
    pub position: u64,
    /// The item of the record's array that it was made of (`UNNEST`), and one; 0 if it is all of its record.
    of_item: u32,
}

/// Places, as many as fit.
pub type Places = BTreeSet<Place>;

impl Place {
    /// All of a record, or the row of one item of its array.
    pub fn new(partition: u32, position: u64, item: Option<u32>) -> Self {
        Self { partition, position, of_item: item.map_or(0, |item| item.saturating_add(1)) }
    }

    /// The place of what was turned down.
    pub fn of(partition: u32, reject: &Reject) -> Self {
        Self::new(partition, position::low(reject.position), reject.item)
    }

    /// As [`Place::new`], of an item and one as a dead letter's print has it; `None` if there are not so many items.
    pub fn of_print(partition: u32, position: u64, print: u64) -> Option<Self> {
        Some(Self { partition, position, of_item: u32::try_from(print).ok()? })
    }

    /// The item of the record's array; `None` for all of a record.
    pub fn item(self) -> Option<u32> {
        self.of_item.checked_sub(1)
    }

    /// The item and one, or 0.
    pub fn print(self) -> u32 {
        self.of_item
    }

    /// The positions of the record alone.
    pub fn range(self) -> (Position, Position) {
        (self.position.into(), Position::from(self.position) + 1)
    }

    /// Whether `places` has this one, or all of its record.
    pub fn is_in(self, places: &Places) -> bool {
        !places.is_empty() && (places.contains(&self) || places.contains(&Self { of_item: 0, ..self }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_among_others_by_itself_or_with_its_whole_record() {
        let places = Places::from([Place::new(0, 7, None), Place::new(0, 8, Some(1))]);
        let is_in = |position, item| Place::new(0, position, item).is_in(&places);
        assert!(is_in(7, None) && is_in(7, Some(0)) && is_in(7, Some(3)) && is_in(8, Some(1)));
        assert!(!is_in(8, None) && !is_in(8, Some(0)) && !Place::new(1, 7, None).is_in(&places));
        assert_eq!(Place::of_print(0, 8, 2), Some(Place::new(0, 8, Some(1))));
        assert_eq!(Place::of_print(0, 8, 1 << 40), None);
        assert_eq!((Place::new(0, 8, Some(1)).item(), Place::new(0, 8, None).item()), (Some(1), None));
    }
}
