//! What librdkafka's errors mean for a source. Pure.

use std::ffi::c_int;

use dataflow::SourceFault;
use rdkafka_sys::rd_kafka_resp_err_t as Code;
use rdkafka_sys::rd_kafka_resp_err_t::*;

/// What an error at one partition means for the read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Everything at hand was handed out.
    End,
    /// The position is not held, or the log behind it was cut.
    OutOfRange,
    /// librdkafka would step over records that it cannot read.
    Unreadable,
    /// The topic may be gone or another one.
    Missing,
    /// A person is needed.
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

/// The codes that a connection's callback hands over as numbers and that mean more than "away".
pub(super) fn code(number: c_int) -> Code {
    const TOLD: [Code; 6] = [
        RD_KAFKA_RESP_ERR__AUTHENTICATION,
        RD_KAFKA_RESP_ERR__SSL,
        RD_KAFKA_RESP_ERR__RESOLVE,
        RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN,
        RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED,
        RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
    ];
    TOLD.into_iter().find(|code| *code as c_int == number).unwrap_or(RD_KAFKA_RESP_ERR__TRANSPORT)
}
