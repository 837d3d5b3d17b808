use proptest::prelude::*;

use super::*;
use crate::columns::{Exact, Whole};

proptest! {
    #[test]
    fn the_short_way_agrees_with_the_long_way(text in "-?[0-9]{1,20}([.eE][0-9])?[,} ]") {
        let mut short = Cursor::new(text.as_bytes());
        if let Some(value) = short_integer(&mut short) {
            let mut long = Cursor::new(text.as_bytes());
            let token = long.number().expect("what the short way takes is a number");
            prop_assert_eq!(short.position(), long.position());
            prop_assert_eq!(Exact::read(token).map(|e| e.whole(0)), Some(Whole::Value(value.into())));
        }
    }
}
