//! Addresses of brokers.
//!
//! Owns the meaning of `pulsar://host:port` and `pulsar+ssl://host:port`. Does not own which broker serves a topic (`pulsar::client`), nor
//! connections (`pulsar::connection`). Pure.

/// The host and the port of a broker, or of a proxy before brokers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Address {
    /// A name or an address, without the brackets of IPv6.
    pub(super) host: String,
    pub(super) port: u16,
}

const CLEAR: &str = "pulsar://";
const ENCRYPTED: &str = "pulsar+ssl://";

impl Address {
    /// `host:port`.
    pub(super) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The address that a broker gives for itself.
    pub(super) fn of_url(url: &str) -> Option<Self> {
        let (rest, _) = bare(url)?;
        Self::of_authority(rest, if url.starts_with(ENCRYPTED) { 6651 } else { 6650 })
    }

    fn of_authority(text: &str, port: u16) -> Option<Self> {
        let text = text.trim_end_matches('/');
        let (host, port) = match text.rsplit_once(':') {
            // The colons of an IPv6 address are inside of brackets.
            Some((host, digits)) if !digits.contains(']') => (host, digits.parse().ok()?),
            _ => (text, port),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_name = !host.is_empty() && !host.contains(['/', '@', ' ']);
        is_name.then(|| Self { host: host.to_owned(), port })
    }
}

fn bare(url: &str) -> Option<(&str, bool)> {
    let clear = url.strip_prefix(CLEAR).map(|rest| (rest, false));
    clear.or_else(|| url.strip_prefix(ENCRYPTED).map(|rest| (rest, true)))
}

/// The addresses of `pulsar://host:port,host:port`, and whether connections to them are encrypted.
///
/// # Errors
/// A sentence that says what is wrong.
pub(super) fn service(url: &str) -> Result<(Vec<Address>, bool), String> {
    let wrong = || {
        format!(
            "`{url}` is no address of Pulsar: write `pulsar://host:6650`, or `pulsar+ssl://host:6651` for TLS"
        )
    };
    let (rest, is_encrypted) = bare(url).ok_or_else(wrong)?;
    let port = if is_encrypted { 6651 } else { 6650 };
    let addresses: Option<Vec<Address>> =
        rest.split(',').map(|text| Address::of_authority(text.trim(), port)).collect();
    Ok((addresses.filter(|addresses| !addresses.is_empty()).ok_or_else(wrong)?, is_encrypted))
}

#[cfg(test)]
mod tests;
