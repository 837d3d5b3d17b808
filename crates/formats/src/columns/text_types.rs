//! Types that formats carry as text, or as bytes: UUID, IPv4, IPv6, FixedString and the names of Enum8 and Enum16.
//!
//! Owns their text forms. Does not own the grammar of a format's strings.
//!
//! | column          | takes                                                  | held as                          |
//! |-----------------|--------------------------------------------------------|----------------------------------|
//! | UUID            | 8-4-4-4-12 hex digits or 32 of them, any case          | 16 bytes in the order of the text |
//! | IPv4            | `1.2.3.4`, no leading zeros                            | a host integer                   |
//! | IPv6            | every form of RFC 4291; IPv4 text becomes `::ffff:1.2.3.4` | 16 bytes, network order      |
//! | FixedString(n)  | text of at most n bytes                                | padded with zeros                |
//! | Enum8, Enum16   | a name, else a number that the type names               | the number                       |

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, UInt32Type};

use super::numbers::{Exact, Whole, is_number_text};
use super::rules::{Fit, Misfit, Rule};
use crate::wide;

/// Text that becomes a fixed number of bytes.
#[derive(Clone, Debug)]
pub(crate) enum FixedText {
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

    /// Appends the value of `text` to `out`.
    pub fn text(&self, text: &[u8], out: &mut Vec<u8>) -> Fit<()> {
        match self {
            Self::Uuid => {
                let no_uuid = || Misfit::form("is not a UUID (32 hex digits, with or without dashes)");
                out.extend_from_slice(&uuid(text).ok_or_else(no_uuid)?);
            }
            Self::Ipv6 => {
                let no_address = || Misfit::form("is not an IPv6 or IPv4 address");
                out.extend_from_slice(&ipv6(text).ok_or_else(no_address)?.octets());
            }
            Self::Padded(width) => pad(text, *width, out)?,
        }
        Ok(())
    }

    /// Appends the value of bytes that are no text to `out`.
    pub fn bytes(&self, bytes: &[u8], out: &mut Vec<u8>) -> Fit<()> {
        match (self, bytes) {
            (Self::Uuid | Self::Ipv6, [_, ..]) if bytes.len() == 16 => out.extend_from_slice(bytes),
            (Self::Ipv6, [a, b, c, d]) => {
                out.extend_from_slice(&Ipv4Addr::new(*a, *b, *c, *d).to_ipv6_mapped().octets());
            }
            (Self::Uuid | Self::Ipv6, _) => {
                let wanted = if matches!(self, Self::Uuid) { "16" } else { "16 or 4" };
                let rule = format!("has {} bytes; {} takes {wanted}", bytes.len(), self.name());
                return Err(Misfit::range(rule));
            }
            (Self::Padded(width), _) => pad(bytes, *width, out)?,
        }
        Ok(())
    }
}

fn pad(bytes: &[u8], width: usize, out: &mut Vec<u8>) -> Fit<()> {
    let Some(padding) = width.checked_sub(bytes.len()) else {
        return Err(Misfit::range(format!(
            "has {} bytes and does not fit FixedString({width})",
            bytes.len()
        )));
    };
    out.extend_from_slice(bytes);
    out.extend(std::iter::repeat_n(0, padding));
    Ok(())
}

fn uuid(text: &[u8]) -> Option<[u8; 16]> {
    if let Ok(text) = <&[u8; 36]>::try_from(text) {
        return dashed_uuid(text);
    }
    let (words, _) = text.as_chunks::<8>();
    let words: &[[u8; 8]; 4] = words.try_into().ok().filter(|_| text.len() == 32)?;
    wide::hex(words.map(u64::from_le_bytes))
}

/// The UUID of its usual form, 8-4-4-4-12.
#[inline]
pub(crate) fn dashed_uuid(text: &[u8; 36]) -> Option<[u8; 16]> {
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
pub(crate) struct Ipv4;

impl Rule for Ipv4 {
    type Arrow = UInt32Type;

    fn type_name(&self) -> Cow<'static, str> {
        "IPv4".into()
    }

    fn text(&self, text: &[u8]) -> Fit<u32> {
        let address = std::str::from_utf8(text).ok().and_then(|text| text.parse::<Ipv4Addr>().ok());
        address.map(u32::from).ok_or_else(|| Misfit::form("is not an IPv4 address"))
    }

    fn bytes(&self, bytes: &[u8]) -> Fit<u32> {
        let octets = <[u8; 4]>::try_from(bytes);
        octets
            .map(u32::from_be_bytes)
            .map_err(|_| Misfit::range(format!("has {} bytes; IPv4 takes 4", bytes.len())))
    }
}

/// Enum8 and Enum16.
pub(crate) struct Enum<A: ArrowPrimitiveType> {
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

    /// The value of a number's text whose form was checked.
    pub fn number(&self, text: &[u8]) -> Fit<A::Native> {
        let number = match Exact::read(text).map(|exact| exact.whole(0)) {
            Some(Whole::Value(value)) => A::Native::try_from(value).ok(),
            _ => None,
        };
        self.named(number)
    }

    fn named(&self, number: Option<A::Native>) -> Fit<A::Native> {
        number
            .filter(|n| self.names.numbers.binary_search(n).is_ok())
            .ok_or_else(|| Misfit::range(format!("is not a number that this {} names", self.names.type_name)))
    }
}

impl<A> Rule for Enum<A>
where
    A: ArrowPrimitiveType,
    A::Native: Ord + TryFrom<i128>,
{
    type Arrow = A;

    fn type_name(&self) -> Cow<'static, str> {
        self.names.type_name.into()
    }

    fn text(&self, text: &[u8]) -> Fit<A::Native> {
        let names = &self.names;
        match names.by_name.binary_search_by(|(name, _)| (**name).cmp(text)) {
            Ok(place) => Ok(names.by_name[place].1),
            // As ClickHouse has it: a number is a number in quotes too, unless it is a name.
            Err(_) if is_number_text(text) => self.number(text),
            Err(_) => Err(Misfit::range(format!("is not a name of this {}", names.type_name))),
        }
    }

    fn signed(&self, value: i64) -> Fit<A::Native> {
        self.named(A::Native::try_from(i128::from(value)).ok())
    }
}
