//! What the schema of a gateway's file cannot say: rules over several keys.
//!
//! Owns their messages. Does not own single values (their types) or the keys ([`super`]).

use std::collections::BTreeMap;

use super::super::model::source::NO_QUOTE;
use super::super::values::{Identifier, Listen, StoreUrl};
use super::{Gateway, Otlp, StreamFormat};

/// Characters of a stream's name.
const STREAM_MAX: usize = 128;

const FORGETS: &str = "`memory://` forgets what was answered when the process ends; give a path";

/// The room of a stream for its longest message or line: escaped, and beside those of others.
const ROOM_OF_MESSAGE: u64 = 8;

/// The room of a stream, and of all, for the largest body: as it came, inflated and as records, each with what its place takes beside it.
pub(super) const ROOM_OF_BODY: u64 = 4;

/// Finds what the schema cannot say; `fault` takes the path of a key and the message.
pub fn rules(gateway: &Gateway, fault: &mut dyn FnMut(&str, String)) {
    let also =
        gateway.also_listen.iter().enumerate().map(|(at, listen)| (format!("also_listen[{at}]"), *listen));
    let mut remote = None;
    for (path, listen) in std::iter::once(("listen".to_owned(), gateway.listen)).chain(also) {
        match listen {
            Listen::None if path == "listen" => without_http(gateway, fault),
            Listen::None => fault(&path, "leave it out, or write an address".to_owned()),
            Listen::At(address) if !address.ip().is_loopback() => remote = remote.or(Some((path, listen))),
            Listen::At(_) => {}
        }
    }
    let is_remote = remote.is_some();
    let asks = !gateway.clients.is_empty() || gateway.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    if let (Some((path, listen)), false, false) = (&remote, asks, gateway.allow_anyone) {
        let message = format!(
            "`{}` can be reached by other machines, and there are no `clients`: add some, or write `allow_anyone: true`",
            listen
        );
        fault(path, message);
    }
    if is_remote && !gateway.clients.is_empty() && gateway.tls.is_none() && !gateway.allow_plaintext {
        let message = "tokens and passwords are sent in clear by other machines; add `tls`, or write `allow_plaintext: true` behind a proxy that \
                       ends TLS";
        fault("clients", message.to_owned());
    }
    for (name, client) in &gateway.clients {
        let path = format!("clients.{name}");
        if client.user.is_some() != client.password_file.is_some() {
            fault(&path, "`user` and `password_file` go together".to_owned());
        }
        for (at, stream) in client.streams.iter().flatten().enumerate() {
            if !gateway.streams.contains_key(stream) {
                fault(&format!("{path}.streams[{at}]"), format!("there is no stream `{stream}`"));
            }
        }
        if let Some(tenant) = &client.tenant
            && !is_word(tenant.as_str(), &['-', '_'], 64)
        {
            let message = "a tenant's name has 1 to 64 letters, digits, `-` and `_`";
            fault(&format!("{path}.tenant"), message.to_owned());
        }
    }
    if let Some(name) = &gateway.tenant_header
        && !is_word(name, &['-', '_'], 64)
    {
        fault("tenant_header", "is no name of a header".to_owned());
    }
    syslog(gateway, fault);
    files(gateway, fault);
    streams(gateway, fault);
    otlp(gateway, fault);
}

/// A gateway that listens nowhere is filled by syslog and files.
fn without_http(gateway: &Gateway, fault: &mut dyn FnMut(&str, String)) {
    if !gateway.also_listen.is_empty() {
        fault(
            "listen",
            "`also_listen` has further addresses of a gateway that listens: write one of them here"
                .to_owned(),
        );
    } else if gateway.syslog.is_empty() && gateway.files.is_empty() {
        fault(
            "listen",
            "nothing would fill the streams: write an address, or add `syslog` or `files`".to_owned(),
        );
    }
}

/// A stream that OTLP fills has the format of its signal, and one that the file names is there.
fn otlp(gateway: &Gateway, fault: &mut dyn FnMut(&str, String)) {
    let (own, usual) = (&gateway.otlp, Otlp::default());
    for (key, named, usual, format, word) in [
        ("logs", &own.logs, usual.logs, StreamFormat::OtlpLogs, "otlp_logs"),
        ("traces", &own.traces, usual.traces, StreamFormat::OtlpTraces, "otlp_traces"),
        ("metrics", &own.metrics, usual.metrics, StreamFormat::OtlpMetrics, "otlp_metrics"),
    ] {
        // Those of tenants too.
        let is_meant = |name: &Identifier| {
            let front = name.as_str().strip_suffix(named.as_str());
            front.is_some_and(|front| front.is_empty() || front.ends_with('.'))
        };
        let mut meant = gateway.streams.iter().filter(|(name, _)| is_meant(name)).peekable();
        if meant.peek().is_none() && *named != usual {
            fault(&format!("otlp.{key}"), format!("there is no stream `{named}`"));
        }
        for (name, _) in meant.filter(|(_, stream)| stream.format != format) {
            let message = format!(
                "`/v1/{key}` fills this stream: write `format: {word}`, or name another one at `otlp.{key}`"
            );
            fault(&format!("streams.{name}.format"), message);
        }
    }
}

fn files(gateway: &Gateway, fault: &mut dyn FnMut(&str, String)) {
    for (at, files) in gateway.files.iter().enumerate() {
        let path = format!("files[{at}]");
        let name = &files.stream;
        match gateway.streams.get(name) {
            None => fault(&format!("{path}.stream"), format!("there is no stream `{name}`")),
            Some(stream) if stream.format != StreamFormat::Json => {
                fault(&format!("{path}.stream"), format!("stream `{name}` does not take JSON"));
            }
            Some(stream) if stream.memory.bytes / ROOM_OF_MESSAGE < files.line.bytes => {
                let message = format!("is more than an eighth of the `memory` of stream `{name}`");
                fault(&format!("{path}.line"), message);
            }
            Some(_) => {}
        }
        if gateway.files[..at].iter().any(|before| before.stream == *name) {
            let message =
                format!("other files fill stream `{name}`: add the paths there, or name another stream");
            fault(&format!("{path}.stream"), message);
        }
    }
}

fn syslog(gateway: &Gateway, fault: &mut dyn FnMut(&str, String)) {
    let asks = gateway.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    for (at, syslog) in gateway.syslog.iter().enumerate() {
        let path = format!("syslog[{at}]");
        for (key, listen, asks) in
            [("udp", &syslog.udp, false), ("tcp", &syslog.tcp, syslog.encrypted && asks)]
        {
            match listen {
                Some(Listen::None) => {
                    fault(&format!("{path}.{key}"), "leave it out, or write an address".to_owned())
                }
                Some(Listen::At(address))
                    if !address.ip().is_loopback() && !asks && !gateway.allow_anyone =>
                {
                    let message = format!(
                        "`{address}` can be reached by other machines, and syslog knows no login: use `tcp` with `encrypted: true` and \
                         `tls.client_ca`, or write `allow_anyone: true`"
                    );
                    fault(&format!("{path}.{key}"), message);
                }
                Some(Listen::At(_)) | None => {}
            }
        }
        if syslog.udp.is_none() && syslog.tcp.is_none() {
            fault(&path, "needs an address: write `udp`, `tcp`, or both".to_owned());
        }
        if syslog.encrypted && (syslog.tcp.is_none() || gateway.tls.is_none()) {
            let message = "only `tcp` can be encrypted, by the gateway's `tls`".to_owned();
            fault(&format!("{path}.encrypted"), message);
        }
        match gateway.streams.get(&syslog.stream) {
            None => fault(&format!("{path}.stream"), format!("there is no stream `{}`", syslog.stream)),
            Some(stream) if stream.format != StreamFormat::Json => {
                fault(&format!("{path}.stream"), format!("stream `{}` does not take JSON", syslog.stream));
            }
            Some(stream) if stream.memory.bytes / ROOM_OF_MESSAGE < syslog.message.bytes => {
                let message = format!("is more than an eighth of the `memory` of stream `{}`", syslog.stream);
                fault(&format!("{path}.message"), message);
            }
            Some(_) => {}
        }
    }
}

fn streams(gateway: &Gateway, fault: &mut dyn FnMut(&str, String)) {
    let mut places: BTreeMap<(String, u32), &Identifier> = BTreeMap::new();
    if gateway.store.is_memory() && gateway.streams.values().any(|stream| stream.log.is_none()) {
        fault("store", FORGETS.to_owned());
    }
    for (name, stream) in &gateway.streams {
        let path = format!("streams.{name}");
        if !is_word(name.as_str(), &['-', '_', '.'], STREAM_MAX) || name.as_str().starts_with('.') {
            let message = format!(
                "`{}` cannot be the name of a stream: it has 1 to {STREAM_MAX} letters, digits, `-`, `_` and `.`, and no dot first",
                dataflow::printing::escaped(name.as_str(), STREAM_MAX)
            );
            fault(&path, message);
        }
        if stream.log.as_ref().is_some_and(StoreUrl::is_memory) {
            fault(&format!("{path}.log"), FORGETS.to_owned());
        }
        if let Some(other) = places.insert((folder_of(&gateway.log_of(name)), stream.partition), name) {
            fault(&path, format!("stream `{other}` fills that partition of the log too"));
        }
        for (memory, setting) in
            [(stream.memory, "the stream's `memory`"), (gateway.limits.memory, "`limits.memory`")]
        {
            if let Some(body) = stream.body
                && memory.bytes / ROOM_OF_BODY < body.bytes
            {
                let message = format!(
                    "bodies of `{body}` could never be taken: a quarter of {setting} is less; write a smaller `body`, or more memory"
                );
                fault(&format!("{path}.body"), message);
            }
        }
        match (stream.format, stream.columns.is_empty()) {
            (StreamFormat::Csv, true) => {
                fault(&path, "CSV needs the names of its fields: write `columns: [id, name]`".to_owned());
            }
            (_, false) if stream.format != StreamFormat::Csv => {
                fault(&format!("{path}.columns"), "`columns` go with `format: csv`".to_owned());
            }
            _ => {}
        }
        match (stream.format, &stream.schema_file) {
            (StreamFormat::Avro, None) => {
                let message = "Avro needs the schema that pipelines read the records by: write `schema_file: orders.avsc`; or `format: json`, which takes \
                               object container files of any schema and makes JSON of their records";
                fault(&path, message.to_owned());
            }
            (format, Some(_)) if format != StreamFormat::Avro => {
                fault(&format!("{path}.schema_file"), "`schema_file` goes with `format: avro`".to_owned());
            }
            _ => {}
        }
        let is_one =
            |text: &str| matches!(text.as_bytes(), [byte] if byte.is_ascii() && !b"\r\n".contains(byte));
        if !is_one(&stream.delimiter) {
            let message = "`delimiter` is one ASCII character and no line break; `\"\\t\"` is a tab";
            fault(&format!("{path}.delimiter"), message.to_owned());
        }
        if stream.quote != NO_QUOTE && (!is_one(&stream.quote) || stream.quote == stream.delimiter) {
            let message = "`quote` is one ASCII character, neither a line break nor the delimiter; `none` gives quotes no meaning";
            fault(&format!("{path}.quote"), message.to_owned());
        }
        if stream.keep.is_some_and(|keep| keep < stream.keys_for) {
            let message = "records go before their `Idempotency-Key` does; give `keys_for` or more";
            fault(&format!("{path}.keep"), message.to_owned());
        }
    }
}

/// The folder of a log in one spelling: `./l`, `l/` and its whole path are one.
fn folder_of(url: &str) -> String {
    match url.split_once("://").unwrap_or(("file", url)) {
        ("file", path) => {
            // Also where the working folder is gone, what is written is compared.
            let whole = std::path::absolute(path).unwrap_or_else(|_| path.into());
            // Without the slash at the end.
            whole.components().collect::<std::path::PathBuf>().display().to_string()
        }
        _ => url.trim_end_matches('/').to_owned(),
    }
}

fn is_word(text: &str, more: &[char], chars_max: usize) -> bool {
    let is_known = |c: char| c.is_ascii_alphanumeric() || more.contains(&c);
    (1..=chars_max).contains(&text.len()) && text.chars().all(is_known)
}
