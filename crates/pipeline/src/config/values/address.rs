//! Places: stores, servers, brokers, the address to listen at.
//!
//! Owns which text is such a place, and whether it is this machine, to which a password may go in clear. Does not own whether anything
//! answers there (`wiring`).

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use super::name::name_kind;
use super::{Kind, text_kind};

name_kind!(
    /// Where journals, segments and state are kept: a path or a URL.
    StoreUrl, "store", "path, `file:///path`, `s3://bucket/prefix`, `gs://…`, `az://…` or `memory://`",
    "file:///var/lib/forebay", |text| {
        match text.split_once("://") {
            _ if text.is_empty() => Err("is empty; write a path or `file:///path`".into()),
            // A path, but hardly one that is meant.
            None => match text.split_once(':') {
                Some((scheme @ ("file" | "s3" | "gs" | "az" | "memory"), _)) => Err(format!(
                    "begins with `{scheme}:` without `//`, so it would be a folder of that name; write `{}`, or `./{scheme}:…` for the folder",
                    if scheme == "file" { "file:///path".to_owned() } else { format!("{scheme}://…") }
                )),
                _ => Ok(()),
            },
            Some(("memory", "")) => Ok(()),
            Some(("memory", _)) => Err("has more than `memory://`; a store in memory has no path".into()),
            Some(("file", path)) if path.starts_with('/') => Ok(()),
            Some(("file", _)) => Err("has no absolute path; write three slashes: `file:///path`".into()),
            Some((scheme @ ("s3" | "gs" | "az"), rest)) => bucket(scheme, rest),
            Some(_) => Err("has an unknown scheme; write a path, `file:///path`, `s3://bucket/prefix`, `gs://bucket/prefix`, \
                            `az://container/prefix` or `memory://`"
                .into()),
        }
    }
);

/// Checks what follows `s3://`: a bucket, and the folder in it.
fn bucket(scheme: &str, rest: &str) -> Result<(), String> {
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let is_name = |text: &str, more: &[char]| {
        text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(&c) || matches!(c, '-' | '_' | '.'))
    };
    if rest.contains('@') {
        return Err(
            "holds a user or password; write keys under `object_storage`, where they stay hidden".into()
        );
    }
    if bucket.is_empty() || !is_name(bucket, &[]) {
        return Err(format!("names no bucket; write `{scheme}://bucket/prefix`"));
    }
    let segments = prefix.trim_end_matches('/').split('/');
    let is_good =
        |segment: &str| !segment.is_empty() && !segment.starts_with('.') && is_name(segment, &['=']);
    if !prefix.is_empty() && !segments.clone().all(is_good) {
        return Err(
            "has a prefix with other characters than letters, digits and `-_.=`, or with an empty or dotted \
                    segment"
                .into(),
        );
    }
    Ok(())
}

impl StoreUrl {
    /// True for the store that ends with the process.
    pub fn is_memory(&self) -> bool {
        self.as_str() == "memory://"
    }

    /// `s3`, `gs` or `az`; `None` for a store on this machine.
    pub fn remote_scheme(&self) -> Option<&str> {
        let (scheme, _) = self.as_str().split_once("://")?;
        matches!(scheme, "s3" | "gs" | "az").then_some(scheme)
    }
}

name_kind!(
    /// ClickHouse's HTTP interface. User and password stand in settings of their own, where they are hidden.
    HttpUrl, "http_url", "`http://host:port` or `https://host:port`", "http://localhost:8123", |text| {
        const HOW: &str = "write `http://host:port` or `https://host:port`";
        let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        let rest = rest.ok_or_else(|| format!("does not begin with `http://` or `https://`; {HOW}"))?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err("holds a user or password; write them as `user` and `password`, where they stay hidden".into());
        }
        if rest.contains(['?', '#']) {
            return Err("holds a query or fragment; settings of inserts belong to the program".into());
        }
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err("holds a space or control character".into());
        }
        host_and_port(authority).map(|_| ()).map_err(|why| format!("{why}; {HOW}"))
    }
);

impl HttpUrl {
    /// True when the server is this machine, so that a password in clear does not leave it.
    pub fn is_loopback(&self) -> bool {
        let rest = self.as_str().split_once("://").map_or("", |(_, rest)| rest);
        let authority = rest.split('/').next().unwrap_or_default();
        match host_and_port(authority) {
            Ok((host, _)) => is_loopback(host),
            Err(_) => false,
        }
    }

    /// True when the connection is encrypted.
    pub fn is_tls(&self) -> bool {
        self.as_str().starts_with("https://")
    }
}

name_kind!(
    /// A Kafka broker to ask first.
    Broker, "broker", "`host:port`, several joined by commas", "localhost:9092", |text| {
        if text.is_empty() {
            return Err("is empty; write `host:port`".into());
        }
        for one in text.split(',') {
            let one = one.trim();
            if one.contains("://") {
                return Err("holds a scheme; write `host:port`, and `security:` for TLS".into());
            }
            host_and_port(one).map_err(|why| format!("{why}; write `host:port`"))?;
        }
        Ok(())
    }
);

impl Broker {
    /// True when all that are named are this machine, so that a password in clear does not leave it.
    pub fn is_loopback(&self) -> bool {
        self.as_str().split(',').all(|one| host_and_port(one.trim()).is_ok_and(|(host, _)| is_loopback(host)))
    }
}

name_kind!(
    /// Where Pulsar is asked first.
    PulsarUrl, "pulsar_url", "`pulsar://host:port` or `pulsar+ssl://host:port`, further hosts joined by commas", "pulsar://localhost:6650",
    |text| {
        const HOW: &str = "write `pulsar://host:6650`, or `pulsar+ssl://host:6651` for TLS";
        let rest = text.strip_prefix("pulsar://").or_else(|| text.strip_prefix("pulsar+ssl://"));
        let rest = rest.ok_or_else(|| format!("does not begin with `pulsar://` or `pulsar+ssl://`; {HOW}"))?;
        if rest.contains('@') {
            return Err("holds a user or password; tokens are written under `security`, where they stay hidden".into());
        }
        if rest.contains(['/', '?', '#']) {
            return Err(format!("has something after its hosts; {HOW}"));
        }
        for one in rest.split(',') {
            host_and_port(one.trim()).map_err(|why| format!("{why}; {HOW}"))?;
        }
        Ok(())
    }
);

impl PulsarUrl {
    /// True when all that are named are this machine, so that a token in clear does not leave it.
    pub fn is_loopback(&self) -> bool {
        let (_, rest) = self.as_str().split_once("://").unwrap_or_default();
        rest.split(',').all(|one| host_and_port(one.trim()).is_ok_and(|(host, _)| is_loopback(host)))
    }

    /// True when connections are encrypted.
    pub fn is_tls(&self) -> bool {
        self.as_str().starts_with("pulsar+ssl://")
    }
}

name_kind!(
    /// A database of a PostgreSQL server. User and password stand in settings of their own, where they are hidden.
    PostgresUrl, "postgres_url", "`postgresql://host:port/database`", "postgresql://localhost:5432/shop",
    |text| {
        const HOW: &str = "write `postgresql://host:5432/database`";
        let rest = text.strip_prefix("postgresql://").or_else(|| text.strip_prefix("postgres://"));
        let rest = rest.ok_or_else(|| format!("does not begin with `postgresql://`; {HOW}"))?;
        if rest.contains('@') {
            return Err("holds a user or password; write them as `user` and `password`, where they stay hidden".into());
        }
        if rest.contains(['?', '#']) {
            return Err("holds parameters; `sslmode` is a setting beside `url`, and others are not known".into());
        }
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err("holds a space or control character".into());
        }
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.contains(',') {
            return Err(format!("names several hosts; {HOW}, with the name of one"));
        }
        host_and_port(authority).map_err(|why| format!("{why}; {HOW}"))?;
        match database {
            "" => Err(format!("names no database; {HOW}")),
            name if name.contains(['/', '%']) => Err(format!("has something behind its database; {HOW}")),
            _ => Ok(()),
        }
    }
);

impl PostgresUrl {
    /// Host, port and database.
    pub fn parts(&self) -> (&str, u16, &str) {
        let (_, rest) = self.as_str().split_once("://").unwrap_or_default();
        let (authority, database) = rest.split_once('/').unwrap_or_default();
        let (host, port) = host_and_port(authority).unwrap_or_default();
        (host, port.unwrap_or(5432), database)
    }

    /// True when the server is this machine, so that a password in clear does not leave it.
    pub fn is_loopback(&self) -> bool {
        is_loopback(self.parts().0)
    }
}

/// Whether a host is this machine, by name or by address.
fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Where metrics and health are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Nowhere.
    None,
    /// At this address; port 0 takes a free one.
    At(SocketAddr),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::None);
        }
        let text =
            text.strip_prefix("localhost:").map_or(text.to_owned(), |port| format!("127.0.0.1:{port}"));
        text.parse().map(Self::At).map_err(|_| "is no address; write `127.0.0.1:9464` or `none`".into())
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::At(address) => address.fmt(f),
        }
    }
}

impl Kind for Listen {
    const KIND: &'static str = "listen";
    const CALLED: &'static str = "`address:port`, or `none`";
    const EXAMPLE: &'static str = "127.0.0.1:9464";
}
text_kind!(Listen);

/// Splits `host`, `host:port`, `[v6]` or `[v6]:port`.
fn host_and_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => (host, Some(rest.strip_prefix(':').ok_or("has something after `]`")?)),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() || host.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("has no host".into());
    }
    let port = match port {
        None => None,
        Some(port) => match port.parse::<u16>() {
            Ok(port) if port > 0 => Some(port),
            _ => return Err("has a port that is no number from 1 to 65535".into()),
        },
    };
    Ok((host, port))
}
