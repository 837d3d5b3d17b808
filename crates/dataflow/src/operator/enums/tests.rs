use std::sync::Arc;

use super::*;

fn small(names: &[(&str, i8)]) -> ColumnType {
    ColumnType::Enum8(names.iter().map(|(name, number)| (Arc::from(*name), *number)).collect())
}

fn within(column_type: &ColumnType) -> Vec<Vec<(String, i16)>> {
    let names =
        |found: KeptEnum| found.names.iter().map(|(name, number)| (name.to_string(), *number)).collect();
    KeptEnum::within("level", column_type).into_iter().map(names).collect()
}

#[test]
fn enums_are_found_at_any_depth_and_their_names_stand_by_number() {
    let level = small(&[("high", 2), ("low", -1)]);
    let names = vec![("low".to_owned(), -1), ("high".to_owned(), 2)];
    let boxed = |inner: &ColumnType| Box::new(inner.clone());
    let nullable = ColumnType::Nullable(boxed(&level));
    for around in [
        level.clone(),
        nullable.clone(),
        ColumnType::LowCardinality(boxed(&nullable)),
        ColumnType::Array(boxed(&nullable)),
    ] {
        assert_eq!(within(&around), std::slice::from_ref(&names), "{around:?}");
    }
    let wide = ColumnType::Enum16([(Arc::from("x"), 300)].into());
    let map = ColumnType::Map(boxed(&level), Box::new(ColumnType::Array(Box::new(wide))));
    assert_eq!(within(&map), [names, vec![("x".to_owned(), 300)]]);
    assert_eq!(within(&ColumnType::Int8), Vec::<Vec<(String, i16)>>::new());
}

#[test]
fn enums_agree_unless_a_name_has_two_numbers_or_a_number_two_names() {
    let of = |names: &[(&str, i8)]| KeptEnum::within("level", &small(names)).pop().expect("an Enum");
    let level = of(&[("low", 1), ("high", 2)]);
    for (other, do_agree) in [
        (&[("high", 2), ("low", 1)][..], true),
        (&[("low", 1)], true),
        (&[("low", 1), ("mid", 3)], true),
        (&[("none", 0)], true),
        (&[("low", 2)], false),
        (&[("tall", 2)], false),
        (&[("low", 1), ("mid", 2), ("high", 3)], false),
    ] {
        assert_eq!((level.agrees(&of(other)), of(other).agrees(&level)), (do_agree, do_agree), "{other:?}");
    }
}
