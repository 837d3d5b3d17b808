//! A record was put under its number: is it ours?
//!
//! Owns the fencing decision (C5). Does not own the put: the store answers `created`, `exists`, or nothing at all.
//!
//! | answer of the put | object read back  | decision                          |
//! |-------------------|-------------------|-----------------------------------|
//! | created           | -                 | ours, if the floor is not above   |
//! | exists or lost    | our bytes         | ours: our own first try had won   |
//! | exists or lost    | other bytes       | fenced                            |
//! | lost              | absent            | put again                         |
//! | exists            | absent            | fenced: the number was retired    |
//!
//! After it is ours the floor is read: a number below the floor was retired, so a newer owner had passed it long ago, and the
//! slot was only free because its record had been deleted.

/// How the store answered a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutAnswer {
    /// The object is new and durable.
    Created,
    /// An object of that name was there.
    Exists,
    /// No answer, or one that does not say.
    Lost,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Read the object and ask [`after_read`].
    Read,
    /// Read the floor and ask [`after_floor`].
    Floor,
    /// Put again, after a pause.
    PutAgain,
    /// Another owner holds the lane: stop.
    Fenced,
    /// The record is in the journal.
    Appended,
}

/// The first decision: what follows from the store's answer to the put.
pub fn after_put(answer: PutAnswer) -> Next {
    match answer {
        PutAnswer::Created => Next::Floor,
        PutAnswer::Exists | PutAnswer::Lost => Next::Read,
    }
}

/// The decision once the object was read; `found` is `None` when there is none.
pub fn after_read(answer: PutAnswer, ours: &[u8], found: Option<&[u8]>) -> Next {
    match (found, answer) {
        (Some(found), _) if found == ours => Next::Floor,
        (Some(_), _) => Next::Fenced,
        (None, PutAnswer::Lost) => Next::PutAgain,
        (None, PutAnswer::Exists | PutAnswer::Created) => Next::Fenced,
    }
}

/// The last decision: `floor` is the lowest number that still counts.
pub fn after_floor(seq: u64, floor: u64) -> Next {
    if seq < floor { Next::Fenced } else { Next::Appended }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_created_record_counts_unless_its_number_was_retired() {
        assert_eq!(after_put(PutAnswer::Created), Next::Floor);
        assert_eq!(after_floor(7, 7), Next::Appended);
        assert_eq!(after_floor(6, 7), Next::Fenced);
    }

    #[test]
    fn our_own_first_try_is_recognised() {
        for answer in [PutAnswer::Exists, PutAnswer::Lost] {
            assert_eq!(after_put(answer), Next::Read);
            assert_eq!(after_read(answer, b"ours", Some(b"ours")), Next::Floor);
            assert_eq!(after_read(answer, b"ours", Some(b"theirs")), Next::Fenced);
        }
    }

    #[test]
    fn a_lost_put_that_left_nothing_is_repeated_and_a_vanished_one_is_not() {
        assert_eq!(after_read(PutAnswer::Lost, b"ours", None), Next::PutAgain);
        assert_eq!(after_read(PutAnswer::Exists, b"ours", None), Next::Fenced);
    }
}
