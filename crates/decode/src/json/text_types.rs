//! Types that JSON carries as text: UUID, IPv4, IPv6, FixedString and the names of Enum8 and Enum16.
//!
//! Owns their text forms. Does not own strings themselves ([`super::scan`]).
//!
//! | column          | takes                                                  | held as                          |
//! |-----------------|--------------------------------------------------------|----------------------------------|
//! | UUID            | 8-4-4-4-12 hex digits or 32 of them, any case          | 16 bytes in the order of the text |
//! | IPv4            | `1.2.3.4`, no leading zeros                            | a host integer                   |
//! | IPv6            | every form of RFC 4291; IPv4 text becomes `::ffff:1.2.3.4` | 16 bytes, network order      |
//! | FixedString(n)  | text of at most n bytes                                | padded with zeros                |
//! | Enum8, Enum16   | a name, else a number that the type names               | the number                       |

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, UInt32Type};
use dataflow::Reason;

use super::columns::Rule;
use super::fail::{Fail, Step};
use super::numbers::{Exact, Whole, is_number_text};
use super::scan::Cursor;
use super::wide;

/// Text that becomes a fixed number of bytes.
#[derive(Clone, Debug)]
pub(super) enum FixedText {
    Uuid,
    Ipv6,
    /// FixedString of this many bytes.
    Padded(usize),
}

impl FixedText {
    /// Bytes of every value.
    pub fn width(&self) -> usize {
        match self {
            Self::Uuid | Self::Ipv6 => 16,
            Self::Padded(width) => *width,
        }
    }

    /// The type's name.
    pub fn name(&self) -> String {
        match self {
            Self::Uuid => "UUID".into(),
            Self::Ipv6 => "IPv6".into(),
            Self::Padded(width) => format!("FixedString({width})"),
        }
    }

    /// Steps over a value that is wholly plain, without searching for its end; `None` leaves the cursor where it was.
    #[inline]
    pub fn shortcut(&self, cursor: &mut Cursor<'_>) -> Option<[u8; 16]> {
        if !matches!(self, Self::Uuid) {
            return None;
        }
        // Hex digits between two quotes are neither an escape nor a control byte.
        let quoted = cursor.ahead::<38>()?;
        if quoted[0] != b'"' || quoted[37] != b'"' {
            return None;
        }
        let uuid = dashed_uuid(quoted[1..37].first_chunk()?)?;
        cursor.advance(38);
        Some(uuid)
    }

    /// Appends the value of `text` to `out`.
    pub fn text(&self, text: &[u8], at: usize, out: &mut Vec<u8>) -> Step<()> {
        match self {
            Self::Uuid => out.extend_from_slice(&uuid(text).ok_or_else(|| {
                Fail::value(at, Reason::WrongKind, "is not a UUID (32 hex digits, with or without dashes)")
            })?),
            Self::Ipv6 => out.extend_from_slice(
                &ipv6(text)
                    .ok_or_else(|| Fail::value(at, Reason::WrongKind, "is not an IPv6 or IPv4 address"))?
                    .octets(),
            ),
            Self::Padded(width) => {
                let Some(padding) = width.checked_sub(text.len()) else {
                    let rule = format!("has {} bytes and does not fit FixedString({width})", text.len());
                    return Err(Fail::value(at, Reason::OutOfRange, rule));
                };
                out.extend_from_slice(text);
                out.extend(std::iter::repeat_n(0, padding));
            }
        }
        Ok(())
    }
}

fn uuid(text: &[u8]) -> Option<[u8; 16]> {
    if let Ok(text) = <&[u8; 36]>::try_from(text) {
        return dashed_uuid(text);
    }
    let (words, _) = text.as_chunks::<8>();
    let words: &[[u8; 8]; 4] = words.try_into().ok().filter(|_| text.len() == 32)?;
    wide::hex(words.map(u64::from_le_bytes))
}

#[inline]
fn dashed_uuid(text: &[u8; 36]) -> Option<[u8; 16]> {
    let dashes = text[8] == b'-' && text[13] == b'-' && text[18] == b'-' && text[23] == b'-';
    if !dashes {
        return None;
    }
    let half =
        |at: usize| u64::from(u32::from_le_bytes([text[at], text[at + 1], text[at + 2], text[at + 3]]));
    let first = half(0) | half(4) << 32;
    let last = half(28) | half(32) << 32;
    wide::hex([first, half(9) | half(14) << 32, half(19) | half(24) << 32, last])
}

fn ipv6(text: &[u8]) -> Option<Ipv6Addr> {
    let text = std::str::from_utf8(text).ok()?;
    text.parse().ok().or_else(|| text.parse::<Ipv4Addr>().ok().map(|v4| v4.to_ipv6_mapped()))
}

/// IPv4.
#[derive(Clone, Debug)]
pub(super) struct Ipv4;

impl Rule for Ipv4 {
    type Arrow = UInt32Type;

    fn read(&mut self, cursor: &mut Cursor<'_>, scratch: &mut Vec<u8>) -> Step<u32> {
        let at = cursor.position();
        match cursor.peek() {
            b'"' => self.text(cursor.string(scratch)?, at),
            _ => Err(cursor.other_kind(at, "IPv4")),
        }
    }

    fn text(&self, text: &[u8], at: usize) -> Step<u32> {
        let address = std::str::from_utf8(text).ok().and_then(|text| text.parse::<Ipv4Addr>().ok());
        address.map(u32::from).ok_or_else(|| Fail::value(at, Reason::WrongKind, "is not an IPv4 address"))
    }
}

/// Enum8 and Enum16.
pub(super) struct Enum<A: ArrowPrimitiveType> {
    names: Arc<EnumNames<A::Native>>,
}

/// The names and numbers of an enum, each in order.
struct EnumNames<N> {
    type_name: &'static str,
    by_name: Vec<(Box<[u8]>, N)>,
    numbers: Vec<N>,
}

impl<A: ArrowPrimitiveType> Clone for Enum<A> {
    fn clone(&self) -> Self {
        Self { names: Arc::clone(&self.names) }
    }
}

impl<A> Enum<A>
where
    A: ArrowPrimitiveType,
    A::Native: Ord + TryFrom<i128>,
{
    /// The enum with these names; `None` if there are none or two are the same.
    pub fn new(type_name: &'static str, names: &[(Arc<str>, A::Native)]) -> Option<Self> {
        let mut by_name: Vec<_> = names.iter().map(|(name, n)| (Box::from(name.as_bytes()), *n)).collect();
        by_name.sort();
        let mut numbers: Vec<_> = names.iter().map(|(_, n)| *n).collect();
        numbers.sort();
        let twice = by_name.windows(2).any(|w| w[0].0 == w[1].0) || numbers.windows(2).any(|w| w[0] == w[1]);
        if twice || names.is_empty() {
            return None;
        }
        Some(Self { names: Arc::new(EnumNames { type_name, by_name, numbers }) })
    }

    fn number(&self, text: &[u8], at: usize) -> Step<A::Native> {
        let number = match Exact::read(text).map(|exact| exact.whole(0)) {
            Some(Whole::Value(value)) => A::Native::try_from(value).ok(),
            _ => None,
        };
        number.filter(|n| self.names.numbers.binary_search(n).is_ok()).ok_or_else(|| {
            let rule = format!("is not a number that this {} names", self.names.type_name);
            Fail::value(at, Reason::OutOfRange, rule)
        })
    }
}

impl<A> Rule for Enum<A>
where
    A: ArrowPrimitiveType,
    A::Native: Ord + TryFrom<i128>,
{
    type Arrow = A;

    fn read(&mut self, cursor: &mut Cursor<'_>, scratch: &mut Vec<u8>) -> Step<A::Native> {
        let at = cursor.position();
        match cursor.peek() {
            b'"' => self.text(cursor.string(scratch)?, at),
            b'-' | b'0'..=b'9' => self.number(cursor.number()?, at),
            _ => Err(cursor.other_kind(at, self.names.type_name)),
        }
    }

    fn text(&self, text: &[u8], at: usize) -> Step<A::Native> {
        let names = &self.names;
        match names.by_name.binary_search_by(|(name, _)| (**name).cmp(text)) {
            Ok(place) => Ok(names.by_name[place].1),
            // As ClickHouse has it: a number is a number in quotes too, unless it is a name.
            Err(_) if is_number_text(text) => self.number(text, at),
            Err(_) => {
                let rule = format!("is not a name of this {}", names.type_name);
                Err(Fail::value(at, Reason::OutOfRange, rule))
            }
        }
    }
}
