//! Addresses and networks.
//!
//! Owns the reading of `10.0.0.0/8`. Does not own how a column of addresses becomes text (`sql::operand`). IPv4 and IPv6 columns come as
//! their text; an IPv4 address within IPv6 (`::ffff:10.1.2.3`) counts as the IPv4 address that it is. A text that is not an address fails
//! its record; `ip_version(text)` is NULL for one, so that a CASE can ask first.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Answer, Arguments, Body, Definition};

/// Reads addresses.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        name: "ip_in_network",
        call: "ip_in_network(ip, '10.0.0.0/8')",
        about: "Whether the address is in the network; false if they are not of the same IP version.",
        arguments: (2, 2),
        total: true,
        body: Body::Bool(in_network),
    },
    Definition {
        name: "ip_network",
        call: "ip_network(ip, bits)",
        about: "The network of the address with a prefix of that many bits, such as `10.1.2.0/24`.",
        arguments: (2, 2),
        total: true,
        body: Body::Text(network),
    },
    Definition {
        name: "ip_to_text",
        call: "ip_to_text(ip_or_number)",
        about: "The usual text of an address, or of an IPv4 address given as a number.",
        arguments: (1, 1),
        total: true,
        body: Body::Text(to_text),
    },
    Definition {
        name: "ip_version",
        call: "ip_version(text)",
        about: "4 or 6; NULL if the text is not an address, for which the other functions reject the record.",
        arguments: (1, 1),
        total: false,
        body: Body::Int(version),
    },
];

fn read(text: &str) -> Result<IpAddr, String> {
    match text.trim().parse::<IpAddr>() {
        Ok(address) => Ok(address.to_canonical()),
        Err(_) => Err(format!("`{}` is not an IP address", dataflow::printing::escaped(text, 64))),
    }
}

/// The address as a number that begins at the left, and its bits.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, 32),
        IpAddr::V6(v6) => (u128::from(v6), 128),
    }
}

/// The first `kept` bits.
fn masked(number: u128, kept: u32) -> u128 {
    number & u128::MAX.checked_shl(128 - kept).unwrap_or(0)
}

fn in_network(arguments: Arguments) -> Answer<bool> {
    let (address, width) = bits(read(arguments[0])?);
    let (base, base_width, kept) = network_bits(arguments[1])?;
    Ok(Some(width == base_width && masked(address, kept) == masked(base, kept)))
}

/// A network: its first address, the bits of an address, and how many of them are the network's.
pub(super) fn network_bits(text: &str) -> Result<(u128, u32, u32), String> {
    let refused =
        || format!("`{}` is not a network; write `10.0.0.0/8`", dataflow::printing::escaped(text, 64));
    let (base, kept) = text.split_once('/').unwrap_or((text, ""));
    let (base, width) = bits(read(base).map_err(|_| refused())?);
    let kept = if kept.is_empty() { Ok(width) } else { kept.trim().parse::<u32>() };
    match kept {
        Ok(kept) if kept <= width => Ok((base, width, kept)),
        _ => Err(refused()),
    }
}

fn network<'a>(arguments: Arguments<'a, '_>) -> Answer<Cow<'a, str>> {
    let (number, width) = bits(read(arguments[0])?);
    let kept = arguments[1].trim().parse::<u32>().ok().filter(|kept| *kept <= width);
    let kept = kept.ok_or_else(|| {
        format!(
            "`{}` is not the length of a prefix of this address, which has `{width}` bits",
            dataflow::printing::escaped(arguments[1], 16)
        )
    })?;
    let base = masked(number, kept);
    let base = match width {
        32 => IpAddr::V4(Ipv4Addr::from((base >> 96) as u32)),
        _ => IpAddr::V6(Ipv6Addr::from(base)),
    };
    Ok(Some(Cow::Owned(format!("{base}/{kept}"))))
}

fn to_text<'a>(arguments: Arguments<'a, '_>) -> Answer<Cow<'a, str>> {
    if let Ok(number) = arguments[0].parse::<u32>() {
        return Ok(Some(Cow::Owned(Ipv4Addr::from(number).to_string())));
    }
    Ok(Some(Cow::Owned(read(arguments[0])?.to_string())))
}

fn version(arguments: Arguments) -> Answer<i64> {
    Ok(read(arguments[0]).ok().map(|address| if address.is_ipv4() { 4 } else { 6 }))
}
