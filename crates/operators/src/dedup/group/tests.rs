use proptest::prelude::*;

use super::*;

#[test]
fn a_group_is_a_cache_line() {
    assert_eq!((size_of::<Group>(), align_of::<Group>()), (64, 64));
}

#[test]
fn a_group_ends_with_its_first_empty_entry() {
    assert_eq!((Group::EMPTY.entries().len(), Group::EMPTY.gaps()), (0, 0xffff));
    let mut group = Group::EMPTY;
    for len in 0..ENTRIES {
        assert_eq!((group.entries().len(), group.gaps()), (len, 0xffff << len & 0xffff));
        group.0[len] = 1 << len;
    }
    assert_eq!((group.entries().len(), group.gaps()), (ENTRIES, 0));
}

proptest! {
    #[test]
    fn comparing_all_at_once_is_comparing_one_by_one(entries in any::<[u32; ENTRIES]>(), mask: u32, at in 0..ENTRIES) {
        let group = Group(entries);
        for (mask, wanted) in [(mask, entries[at] & mask), (mask, entries[at]), (u32::MAX, EMPTY), (1 << 31, 1 << 31)] {
            prop_assert_eq!(group.equal(mask, wanted), group.equal_one_by_one(mask, wanted));
            #[cfg(target_arch = "x86_64")]
            if let Some(wide) = Wide::new() {
                prop_assert_eq!(wide.compare(&group, mask, wanted), Plain.compare(&group, mask, wanted));
            }
        }
    }
}

proptest! {
    #[test]
    fn hashes_are_the_same_in_all_bits_or_not_at_all(bits in prop::array::uniform8(0_u32..129), hash: u128) {
        // Each differs in one bit, or in none.
        let line = bits.map(|bit| (hash ^ 1_u128.checked_shl(bit).unwrap_or(0)).to_le_bytes());
        prop_assert_eq!(same_hashes(&line, hash), same_hashes_one_by_one(&line, hash));
        let same: u32 = bits.iter().enumerate().map(|(n, bit)| u32::from(*bit == 128) << (4 * n)).sum();
        prop_assert_eq!(same_hashes(&line, hash), same);
    }
}

/// A group of so many of these entries.
fn group(entries: [u32; ENTRIES], len: usize) -> Group {
    Group(std::array::from_fn(|n| if n < len { entries[n].max(1) } else { EMPTY }))
}

proptest! {
    #[test]
    fn a_group_is_halved_by_one_bit_and_what_stays_is_left_out(entries in any::<[u32; ENTRIES]>(), len in 0..=ENTRIES, stays in 0..8_u32, at in 3..18_u32) {
        let (from, mask) = (group(entries, len), (1 << at) - 8);
        let moved = |odd: u32| {
            let own = from.entries().iter().filter(|entry| *entry & stays == 0 && *entry >> at & 1 == odd);
            own.map(|entry| entry >> at >> 1 << at | entry & mask).collect::<Vec<u32>>()
        };
        let wanted = [moved(0), moved(1)];
        let padded = wanted.clone().map(|own| std::array::from_fn(|n| own.get(n).copied().unwrap_or(EMPTY)));
        let count = wanted.iter().map(Vec::len).sum::<usize>() as u32;
        for halve in [Group::halve, Group::halve_one_by_one] {
            let mut to = [Group::EMPTY; 2];
            prop_assert_eq!(halve(&from, stays, at, mask, &mut to), count);
            prop_assert_eq!(to.map(|half| half.0), padded);
        }
    }
}
