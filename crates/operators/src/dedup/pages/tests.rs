use super::*;

/// A page with so many hashes, from `n * 1000` on.
fn filled(pages: &mut Pages, place: Place, len: usize) -> PageNumber {
    let page = pages.take(place);
    for n in 0..len {
        pages.write(Spot { page, at: n }, u128::from(page) * 1000 + n as u128);
    }
    page
}

fn hashes(pages: &Pages, page: PageNumber, from: usize) -> Vec<u128> {
    let bytes: Vec<u8> = pages.bytes(page, from).flatten().copied().collect();
    bytes.as_chunks::<16>().0.iter().map(|bytes| u128::from_le_bytes(*bytes)).collect()
}

#[test]
fn a_hash_is_found_in_its_line_until_it_is_gone() {
    let mut pages = Pages::new();
    let page = filled(&mut pages, 7, 20);
    let hash = |n: usize| u128::from(page) * 1000 + n as u128;
    for at in 0..20 {
        let spot = Spot { page, at };
        assert_eq!(pages.find(spot.line(), hash(at), |place| place == 7), Some(spot));
        assert_eq!(pages.find(spot.line(), hash(at), |place| place == 8), None);
        assert_eq!(pages.find(spot.line(), hash(at) + 8, |_| true), None);
    }
    let spot = Spot { page, at: 3 };
    pages.remove(spot);
    assert_eq!(pages.find(spot.line(), hash(3), |_| true), None);
    pages.write(Spot { page, at: 20 }, hash(3));
    assert_eq!(pages.find(spot.line(), hash(3), |_| true), None, "it lies in another line now");
    assert_eq!(pages.find(Spot { page, at: 20 }.line(), hash(3), |_| true), Some(Spot { page, at: 20 }));
}

#[test]
fn what_was_never_written_is_not_found_nor_what_was_there_before() {
    let mut pages = Pages::new();
    let page = filled(&mut pages, 1, PAGE);
    let first = Spot { page, at: 0 }.line();
    assert_eq!(pages.find(0, 0, |_| true), None, "line 0 belongs to nobody");
    pages.give_back(page);
    let again = pages.take(2);
    assert_eq!(again, page);
    assert_eq!(pages.find(first, u128::from(page) * 1000, |_| true), None);
    assert_eq!(pages.find(first, 0, |_| true), None);
}

#[test]
fn bytes_leave_out_what_is_gone_at_every_place() {
    let mut pages = Pages::new();
    for removed in
        [vec![], vec![0], vec![63], vec![0, 63], vec![5, 6, 7, 40], (0..64).collect(), (1..63).collect()]
    {
        for len in [0, 1, 41, 63, 64] {
            let page = filled(&mut pages, 1, len);
            let removed: Vec<usize> = removed.iter().copied().filter(|at| *at < len).collect();
            removed.iter().for_each(|at| pages.remove(Spot { page, at: *at }));
            for from in [0, 1, 40, 63, 64] {
                let left = (from..len).filter(|at| !removed.contains(at));
                let wanted: Vec<u128> = left.map(|at| u128::from(page) * 1000 + at as u128).collect();
                assert_eq!(hashes(&pages, page, from), wanted, "{removed:?} of {len} from {from}");
                assert_eq!(pages.count(page, from), wanted.len());
            }
            assert_eq!(pages.hashes(page).map(|(_, hash)| hash).collect::<Vec<_>>(), hashes(&pages, page, 0));
        }
    }
}

#[test]
fn pages_fill_the_first_slabs_and_slabs_without_pages_are_given_back() {
    let mut pages = Pages::new();
    let taken: Vec<PageNumber> = (0..5 * SLAB).map(|_| pages.take(1)).collect();
    assert!(taken.is_sorted() && taken[0] == 1, "page 0 is nobody's");
    assert_eq!(pages.lines_end() as usize, 6 * SLAB * LINES);
    let full = pages.memory_bytes();
    // Slabs 1 and 2 empty; 3 keeps one page.
    taken
        .iter()
        .filter(|page| (1..4).contains(&(**page as usize / SLAB)) && **page as usize != 3 * SLAB + 9)
        .for_each(|page| pages.give_back(*page));
    assert!(pages.memory_bytes() < full * 3 / 4, "{} of {full}", pages.memory_bytes());
    assert_eq!(pages.lines_end() as usize, 6 * SLAB * LINES, "the last slab is in use");
    assert_eq!(pages.take(1) as usize, SLAB, "the first page of the first slab with room");
    taken.iter().filter(|page| **page as usize / SLAB > 3).for_each(|page| pages.give_back(*page));
    assert_eq!(pages.lines_end() as usize, 4 * SLAB * LINES);
    pages.give_back((3 * SLAB + 9) as PageNumber);
    assert_eq!(pages.lines_end() as usize, 2 * SLAB * LINES);
}
