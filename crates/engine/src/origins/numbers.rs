//! Numbers as few bytes: varints, runs of gaps that are mostly 0, and permutations.
//!
//! Owns each form, written and read back; what is read may be anything, and is an error then. Does not own what the numbers are ([`super`]).

/// Numbers that are mostly 0, as runs: a byte holds the length of a run of zeros (low half) and the number after it (high half);
/// 15 says that a varint with the rest follows.
#[derive(Default)]
pub(super) struct Gaps {
    bytes: Vec<u8>,
    zeros: u64,
}

impl Gaps {
    #[inline]
    pub(super) fn push(&mut self, value: u64) {
        if value == 0 {
            self.zeros += 1;
        } else {
            self.end(value);
        }
    }

    fn end(&mut self, value: u64) {
        self.bytes.push((value.min(15) << 4 | self.zeros.min(15)) as u8);
        for number in [self.zeros, value] {
            if number >= 15 {
                put(&mut self.bytes, number - 15);
            }
        }
        self.zeros = 0;
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        if self.zeros > 0 {
            self.end(0);
        }
        self.bytes
    }
}

/// Reads what [`Gaps`] has written.
pub(super) struct Ungaps<'a> {
    from: Bytes<'a>,
    zeros: u64,
    /// What follows the zeros.
    value: Option<u64>,
}

impl<'a> Ungaps<'a> {
    /// Of these bytes.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { from: Bytes(bytes), zeros: 0, value: None }
    }

    pub(super) fn next(&mut self) -> Result<u64, String> {
        loop {
            if self.zeros > 0 {
                self.zeros -= 1;
                return Ok(0);
            }
            if let Some(value) = self.value.take() {
                return Ok(value);
            }
            self.run()?;
        }
    }

    /// The sum of the next `count` numbers, in one step for each run.
    pub(super) fn sum(&mut self, count: u64) -> Result<u64, String> {
        let mut sum = 0_u64;
        self.each_run(count, |value| {
            sum = sum.checked_add(value).ok_or("numbers beyond any")?;
            Ok(())
        })?;
        Ok(sum)
    }

    /// Steps over the next `count` numbers, in one step for each run.
    pub(super) fn skip(&mut self, count: u64) -> Result<(), String> {
        self.each_run(count, |_| Ok(()))
    }

    fn each_run(
        &mut self,
        count: u64,
        mut each: impl FnMut(u64) -> Result<(), &'static str>,
    ) -> Result<(), String> {
        let mut left = count;
        while left > 0 {
            let zeros = self.zeros.min(left);
            (self.zeros, left) = (self.zeros - zeros, left - zeros);
            if left == 0 {
                break;
            }
            match self.value.take() {
                Some(value) => {
                    each(value)?;
                    left -= 1;
                }
                None => self.run()?,
            }
        }
        Ok(())
    }

    /// Reads the next run.
    fn run(&mut self) -> Result<(), String> {
        let byte = u64::from(self.from.byte()?);
        let (mut zeros, mut value) = (byte & 15, byte >> 4);
        for number in [&mut zeros, &mut value] {
            if *number == 15 {
                *number = self.from.number()?.checked_add(15).ok_or("a number beyond any")?;
            }
        }
        if zeros == 0 && value == 0 {
            return Err("a run of nothing".into());
        }
        (self.zeros, self.value) = (zeros, Some(value).filter(|value| *value > 0));
        Ok(())
    }
}

/// Bits that number `rows` rows.
fn width(rows: u64) -> u32 {
    u64::BITS - rows.saturating_sub(1).leading_zeros()
}

/// Writes the numbers of rows with as few bits each as number all of them.
pub(super) fn pack(order: &[u32], out: &mut Vec<u8>) {
    let width = width(order.len() as u64);
    let (mut held, mut bits) = (0u64, 0);
    for number in order {
        held |= u64::from(*number) << bits;
        bits += width;
        while bits >= 8 {
            out.push(held as u8);
            held >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        out.push(held as u8);
    }
}

/// Which of the records, in their order, each row of the frame is.
pub(super) struct Order<'a> {
    packed: std::slice::Iter<'a, u8>,
    width: u32,
    rows: u64,
    /// Rows that were not read.
    left: u64,
    held: u64,
    bits: u32,
}

impl<'a> Order<'a> {
    pub(super) fn new(packed: &'a [u8], rows: u64) -> Result<Self, String> {
        let width = width(rows);
        // Rows are numbered in 32 bits, as everywhere.
        let bits = rows.checked_mul(u64::from(width)).filter(|_| width <= u32::BITS);
        if bits.is_none_or(|bits| packed.len() as u64 != bits.div_ceil(8)) {
            return Err("an order of another length".into());
        }
        Ok(Self { packed: packed.iter(), width, rows, left: rows, held: 0, bits: 0 })
    }

    fn read(&mut self) -> Result<u64, String> {
        while self.bits < self.width {
            self.held |= u64::from(*self.packed.next().ok_or("an order that ends early")?) << self.bits;
            self.bits += 8;
        }
        let at = self.held & ((1 << self.width) - 1);
        self.held >>= self.width;
        self.bits -= self.width;
        if at < self.rows { Ok(at) } else { Err("an order beyond the rows".into()) }
    }
}

impl Iterator for Order<'_> {
    type Item = Result<u64, String>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some(self.read())
    }
}

/// Writes a LEB128 varint.
pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Small numbers of either sign as small numbers.
pub(super) fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

/// The number of which [`zigzag`] gives this.
pub(super) fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Bytes that are read from the front.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn byte(&mut self) -> Result<u8, String> {
        let (first, rest) = self.0.split_first().ok_or("it ends early")?;
        self.0 = rest;
        Ok(*first)
    }

    pub(super) fn number(&mut self) -> Result<u64, String> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                break;
            }
            number |= part << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("a number beyond any".into())
    }

    /// A part behind its length.
    pub(super) fn part(&mut self) -> Result<&'a [u8], String> {
        let len = usize::try_from(self.number()?).map_err(|_| "a part beyond its end")?;
        let (part, rest) = self.0.split_at_checked(len).ok_or("a part beyond its end")?;
        self.0 = rest;
        Ok(part)
    }
}
