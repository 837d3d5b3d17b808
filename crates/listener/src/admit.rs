//! Whether a request was meant for this server, or was sent by a web page that its user happened to open. Pure.
//!
//! Owns the names under which a server may be asked, and the judgement of those three headers. Does not own tokens and passwords (the
//! service's), nor the answer's form.
//!
//! A page from anywhere can make a browser send requests to `127.0.0.1`. What gives it away:
//!
//! | the page                                        | what the browser sends            | refused as              |
//! |-------------------------------------------------|-----------------------------------|-------------------------|
//! | points its own host name at this machine        | `Host: evil.example`              | [`Refusal::Host`]       |
//! | posts a form, or fetches across sites           | `Origin: https://evil.example`    | [`Refusal::Origin`]     |
//! | embeds an image or a link to this server        | `Sec-Fetch-Site: cross-site`      | [`Refusal::Site`]       |
//!
//! Clients that are no browsers send none of the last two, and name the server by the address they connect to.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Uri, header};

/// The names under which a server may be asked.
#[derive(Debug, Clone)]
pub struct Names {
    /// Where it listens.
    listens_at: IpAddr,
    /// Names that its operator allows beside those, in lower case.
    allowed: Vec<String>,
    /// Any address will do. A page can only ever bring a *name* to this machine.
    any_address: bool,
}

/// Why a request is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The request names the server by a host name that is not its own.
    Host,
    /// A page of another origin sent it.
    Origin,
    /// A browser says that another site caused it.
    Site,
}

impl Refusal {
    /// The reply to the client.
    pub fn message(self) -> &'static str {
        match self {
            Refusal::Host => {
                "this server is asked under a host name that is not its own; use its address or `localhost`"
            }
            Refusal::Origin => {
                "a web page of another origin sent this request; this server answers none of those"
            }
            Refusal::Site => "a page of another site caused this request; open the address by itself instead",
        }
    }
}

impl Names {
    /// Loopback names, and the address that the server listens at. One that listens at every address (`0.0.0.0`, `[::]`)
    /// may be asked under any.
    pub fn of(listens_at: IpAddr) -> Names {
        Names { listens_at, allowed: Vec::new(), any_address: listens_at.is_unspecified() }
    }

    /// Allows every address, for a server that a proxy on another address may stand before.
    pub fn any_address(self) -> Names {
        Names { any_address: true, ..self }
    }

    /// Allows one more host name.
    pub fn allow(mut self, name: &str) -> Names {
        self.allowed.push(name.trim_end_matches('.').to_ascii_lowercase());
        self
    }

    /// Checks one request by its target and its headers.
    ///
    /// # Errors
    /// When it was not meant for this server.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        // A target with a host of its own counts as the header does: clients of proxies send both.
        if uri.host().is_some_and(|host| !self.is_ours(host)) {
            return Err(Refusal::Host);
        }
        // HTTP/1.0 knows no such header, and browsers do not speak it.
        let hosts = texts(headers, &header::HOST);
        if hosts.len() > 1 || hosts.iter().any(|host| host.is_none_or(|host| !self.is_ours(host_of(host)))) {
            return Err(Refusal::Host);
        }
        // HTTP/2 names the server in the target alone.
        let own = hosts.first().copied().flatten().or(uri.authority().map(Authority::as_str));
        for origin in texts(headers, &header::ORIGIN) {
            if !origin.is_some_and(|origin| is_same_origin(origin, own)) {
                return Err(Refusal::Origin);
            }
        }
        for site in texts(headers, &HeaderName::from_static("sec-fetch-site")) {
            // `none` is a person who typed the address or opened a bookmark.
            if !matches!(site, Some("none" | "same-origin")) {
                return Err(Refusal::Site);
            }
        }
        Ok(())
    }

    fn is_ours(&self, host: &str) -> bool {
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return self.any_address
                || address.to_canonical().is_loopback()
                || address.to_canonical() == self.listens_at.to_canonical();
        }
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        name == "localhost" || self.allowed.contains(&name)
    }
}

/// The values of a header; `None` for one that is no text.
fn texts<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<Option<&'a str>> {
    headers.get_all(name).iter().map(|value| value.to_str().ok().map(str::trim)).collect()
}

/// A `Host` without its port.
fn host_of(host: &str) -> &str {
    match host.find(']') {
        Some(end) if host.starts_with('[') => &host[..=end],
        _ => host.split(':').next().unwrap_or_default(),
    }
}

/// Whether an `Origin` is the very server that `host` names. Its scheme does not matter: behind a proxy it may be another.
fn is_same_origin(origin: &str, host: Option<&str>) -> bool {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    rest.is_some() && rest.map(str::to_ascii_lowercase) == host.map(str::to_ascii_lowercase)
}

#[cfg(test)]
mod tests;
