//! Why a broker cannot be used, in words for whoever reads the log. Pure.
//!
//! Owns the translation of librdkafka's sentences about connections, and which of its log lines they are. Does not own what an error means
//! for a read (`kafka::fault`). Its own words guess at wrong settings or an old broker where the broker is merely away, and its log reports
//! one failure up to three times.
//!
//! | librdkafka says                                   | said here                                        |
//! |---------------------------------------------------|--------------------------------------------------|
//! | `Connect to ipv4#… failed: Connection refused`    | connection refused                               |
//! | `Failed to resolve '…': …`                        | the name cannot be resolved, with the reason      |
//! | `Connection setup timed out in state CONNECT`     | nothing answers at this address                   |
//! | the same in another state, `ApiVersionRequest failed` | connected, but no answer                     |
//! | `Disconnected…`                                   | the broker closed the connection, and when        |
//! | `Invalid response size …`, of the bytes of HTTP or TLS | that it speaks another protocol             |
//! | anything else, all of TLS and logins              | the same, without the time that it took           |

/// The settings of the source that decide whether a broker's listener understands us.
const LISTENER: &str = "it may be no Kafka broker, or its listener may need another `security.protocol`";

/// The lines of librdkafka's log about connections and requests that failed. They are reported here, once and in other words.
const TOLD_ELSEWHERE: &[&str] = &["FAIL", "ERROR", "REQTMOUT", "TELEMETRY", "GETSUBSCRIPTIONS"];

/// Whether a line of this facility repeats what an error here says.
pub(super) fn is_reported_elsewhere(facility: &str) -> bool {
    TOLD_ELSEWHERE.contains(&facility)
}

/// Whether a line of the log tells why a connection cannot be used; one that was in use may merely have been idle.
pub(super) fn is_failure(facility: &str, level: i32, line: &str) -> bool {
    /// The level of syslog for warnings.
    const WARNING: i32 = 4;
    facility == "FAIL" && (level <= WARNING || line.contains("in state ") && !line.contains("in state UP"))
}

/// A broker's failure out of one sentence of librdkafka: its address, if it is named, and the reason.
pub(super) fn of(sentence: &str) -> (Option<&str>, String) {
    let sentence = match sentence.strip_prefix("[thrd:").and_then(|rest| rest.split_once("]: ")) {
        Some((_, rest)) => rest,
        None => sentence,
    };
    let (address, said) = split_address(sentence);
    // The time is in the log already, and what was left out of a log is no news.
    let (said, state) = match said.rsplit_once(" (after ") {
        Some((said, after)) if after.ends_with(')') => {
            (said, after.split("in state ").nth(1).and_then(|s| s.split([',', ')']).next()))
        }
        _ => (said, None),
    };
    (address, words(said, address, state.unwrap_or_default()))
}

/// `[protocol://]host:port/id: what`, or with a name of librdkafka's own before the address (`GroupCoordinator: host:port: what`).
fn split_address(sentence: &str) -> (Option<&str>, &str) {
    let mut rest = sentence;
    for _ in 0..2 {
        let Some((name, what)) = rest.split_once(": ") else { break };
        let bare = name.split_once("://").map_or(name, |(_, bare)| bare);
        let bare = bare.split('/').next().unwrap_or(bare);
        let port = bare.rsplit_once(':').map(|(_, port)| port);
        let is_address = port.is_some_and(|port| port.parse::<u16>().is_ok()) && !bare.contains(' ');
        if is_address {
            return (Some(bare), what);
        }
        if name.contains(' ') {
            break;
        }
        rest = what;
    }
    (None, sentence)
}

fn words(said: &str, address: Option<&str>, state: &str) -> String {
    if said.contains("Too many open files") {
        return "this process has no file descriptor left, and the broker is not at fault: raise its limit (`ulimit -n`, `LimitNOFILE=` of a unit)".into();
    }
    if let Some((at, why)) = said.strip_prefix("Connect to ").and_then(|rest| rest.split_once(" failed: ")) {
        // `ipv4#127.0.0.1:9092`: worth saying where a name stands for several addresses.
        let at = at.split_once('#').map_or(at, |(_, at)| at);
        let why = lower_first(why);
        return if Some(at) == address { why } else { format!("{why} (at `{at}`)") };
    }
    if let Some(rest) = said.strip_prefix("Failed to resolve ") {
        let why = rest.split_once("': ").map_or(rest, |(_, why)| why);
        return format!("the name cannot be resolved: {}", lower_first(why));
    }
    if said.starts_with("Connection setup timed out in state CONNECT") {
        return "nothing answers at this address: no connection within `socket.connection.setup.timeout.ms`"
            .into();
    }
    if said.starts_with("Connection setup timed out") || said.starts_with("ApiVersionRequest failed") {
        return format!("connected, but no answer: {LISTENER}");
    }
    if said.starts_with("Disconnected") {
        let early = ["APIVERSION_QUERY", "SSL_HANDSHAKE", "AUTH_LEGACY", "AUTH_HANDSHAKE", "AUTH_REQ"];
        if early.contains(&state) {
            return format!(
                "the broker closed the connection before it answered: it is starting or stopping, or {LISTENER}"
            );
        }
        return "the broker closed the connection".into();
    }
    other_protocol(said).map_or_else(|| said.to_owned(), str::to_owned)
}

/// What answers, if the first bytes of its answer, which librdkafka takes for a length, are those of another protocol: that its
/// `receive.message.max.bytes` should be raised is no way out then.
fn other_protocol(said: &str) -> Option<&'static str> {
    let (_, after) = said.split_once("Invalid response size ")?;
    let size: i32 = after.split([' ', ':']).next()?.parse().ok()?;
    match size.to_be_bytes() {
        [b'H', b'T', b'T', b'P'] => {
            Some("it speaks HTTP, and is no Kafka broker: check the address and the port")
        }
        [0x14..=0x17, 3, ..] => {
            Some("its listener speaks TLS: set `security.protocol` to `ssl` or `sasl_ssl`")
        }
        _ => None,
    }
}

/// A sentence's beginning as the middle of ours; an abbreviation stays.
fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain([second]).chain(chars).collect()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
