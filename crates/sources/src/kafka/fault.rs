//! What librdkafka's errors mean for a source. Pure.
//!
//! Owns the class of each code, whether it came with a message, by a call or from a connection. Does not own the codes of brokers that are
//! read directly (`direct::errors`), nor what follows from a class (`kafka::fetch`).

use std::ffi::c_int;

use dataflow::SourceFault;
use rdkafka_sys::rd_kafka_resp_err_t as Code;
use rdkafka_sys::rd_kafka_resp_err_t::*;

/// What an error at one partition means for the read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Everything at hand was returned.
    End,
    /// The position is not held, or the log behind it was cut.
    OutOfRange,
    /// librdkafka would step over records that it cannot read.
    Unreadable,
    /// The topic may be gone or another one.
    Missing,
    /// An operator is needed.
    Denied,
    /// It passes.
    Away,
}

/// Reads an error that came in place of a message.
pub(super) fn of_message(code: Code) -> Meaning {
    match code {
        RD_KAFKA_RESP_ERR__PARTITION_EOF => Meaning::End,
        RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET
        | RD_KAFKA_RESP_ERR__LOG_TRUNCATION
        | RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE => Meaning::OutOfRange,
        RD_KAFKA_RESP_ERR__BAD_MSG
        | RD_KAFKA_RESP_ERR__BAD_COMPRESSION
        | RD_KAFKA_RESP_ERR__NOT_IMPLEMENTED
        | RD_KAFKA_RESP_ERR_INVALID_MSG
        | RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE
        | RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE => Meaning::Unreadable,
        RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION => Meaning::Missing,
        code if is_missing(code) => Meaning::Missing,
        code if of_call(code) == SourceFault::Config => Meaning::Denied,
        // The list of codes is librdkafka's and grows; all that is not named above is retried there.
        _ => Meaning::Away,
    }
}

/// Reads the error of a call.
pub(super) fn of_call(code: Code) -> SourceFault {
    match code {
        RD_KAFKA_RESP_ERR__AUTHENTICATION
        | RD_KAFKA_RESP_ERR__SSL
        | RD_KAFKA_RESP_ERR__INVALID_ARG
        | RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE
        | RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED
        | RD_KAFKA_RESP_ERR_UNSUPPORTED_SASL_MECHANISM
        | RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED
        | RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED
        | RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED => SourceFault::Config,
        // As above: what is not named is worth another try.
        _ => SourceFault::Away,
    }
}

/// Whether a call ended because no broker answered: it says nothing that the connections' own failures do not say better.
pub(super) fn is_no_answer(code: Code) -> bool {
    matches!(
        code,
        RD_KAFKA_RESP_ERR__TIMED_OUT
            | RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE
            | RD_KAFKA_RESP_ERR__TRANSPORT
            | RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN
            | RD_KAFKA_RESP_ERR__RESOLVE
            | RD_KAFKA_RESP_ERR__WAIT_COORD
            | RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT
    )
}

/// True if the topic is not there.
pub(super) fn is_missing(code: Code) -> bool {
    matches!(
        code,
        RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART
            | RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_ID
            | RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC
            | RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION
    )
}

/// What librdkafka says of a certificate that no authority of ours vouches for.
const UNTRUSTED: &str = "certificate verify failed";

/// The property that names the authorities.
const AUTHORITY: &str = "ssl.ca.location";

/// A connection's failure, as its callback tells it: the codes that mean more than "away", and the reason with a way out.
pub(super) fn of_connection(number: c_int, mut reason: String) -> (Code, String) {
    const TOLD: [Code; 6] = [
        RD_KAFKA_RESP_ERR__AUTHENTICATION,
        RD_KAFKA_RESP_ERR__SSL,
        RD_KAFKA_RESP_ERR__RESOLVE,
        RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN,
        RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED,
        RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
    ];
    match TOLD.into_iter().find(|code| *code as c_int == number) {
        Some(code) => (code, reason),
        // A handshake that fails at its first step is reported as a broken transport, and without the advice.
        None if reason.contains(UNTRUSTED) => {
            if !reason.contains(AUTHORITY) {
                reason = format!("{reason}: check `{AUTHORITY}`");
            }
            (RD_KAFKA_RESP_ERR__SSL, reason)
        }
        None => (RD_KAFKA_RESP_ERR__TRANSPORT, reason),
    }
}
