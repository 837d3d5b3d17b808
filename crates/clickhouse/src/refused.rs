//! Which row the server names when it refuses an insert.
//!
//! Owns the words of the server that say it. Does not own what an error means (`crate::response`).

/// The code of a CHECK constraint that a row violates.
const VIOLATED_CONSTRAINT: i32 = 469;

/// What stands before the number, which counts from 1.
const BEFORE: &str = " is violated at row ";

/// The row of the insert that a CHECK constraint is violated at, from 0: the first one. A hint, for the words are the server's.
pub(crate) fn row(code: i32, message: &str) -> Option<u64> {
    // The values of the row are behind the number.
    let (_, after) = message.split_once(BEFORE).filter(|_| code == VIOLATED_CONSTRAINT)?;
    let digits = after.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse::<u64>().ok()?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::row;

    #[test]
    fn the_row_that_violates_a_constraint_is_read_off_the_message() {
        let message = "code 469: Code: 469. DB::Exception: Constraint `lucky` for table default.t (088685ae) is violated at row 4. Expression: (bad = 0). \
                       Column values: note = ' is violated at row 7'. (VIOLATED_CONSTRAINT)";
        assert_eq!((row(469, message), row(470, message)), (Some(3), None));
        assert_eq!(row(469, "Constraint expression returns nullable column that contains null value"), None);
        for number in ["", "0", "x", "99999999999999999999999"] {
            assert_eq!(row(469, &format!("is violated at row {number}")), None, "{number}");
        }
    }
}
