//! What an answer of object storage means: exists, absent, and for all else whether it may have happened.
//!
//! Owns the sorting of statuses and error codes. Does not own the requests (`store::object`), nor what a caller does when the effect is
//! unknown. Pure.
//!
//! | status and code                                       | put               | effect of a put  |
//! |-------------------------------------------------------|-------------------|------------------|
//! | 412; 409 `BlobAlreadyExists`                          | exists            | –                |
//! | 409 `ConditionalRequestConflict`, `OperationAborted`  | [`ErrorKind::Io`] | none             |
//! | 409 `BlobImmutableDueToPolicy`                        | [`ErrorKind::NotSupported`] | none   |
//! | other 409                                             | [`ErrorKind::Conflict`] | none       |
//! | 401, 403, 400 with an expired token                   | [`ErrorKind::Permission`] | none     |
//! | 403 `RequestTimeTooSkewed`, or Azure's of a date header | [`ErrorKind::Io`] | none           |
//! | 404 with a missing bucket; 409 `ContainerBeingDeleted` | [`ErrorKind::Missing`] | none       |
//! | 404 with a text of no store; 302, 303, 307 without a code | [`ErrorKind::Io`] | **unknown**  |
//! | 307 with a code                                       | [`ErrorKind::Io`] | none             |
//! | other 3xx; 400 with a wrong region, or a name that no bucket has | [`ErrorKind::Url`] | none       |
//! | 413, 507, 501                                         | too large, full, not supported | none |
//! | 429, other 4xx                                        | [`ErrorKind::Io`] | none             |
//! | 408, 5xx                                              | [`ErrorKind::Io`] | **unknown**      |
//! | no connection                                         | [`ErrorKind::Io`] | none             |
//! | no answer, or half an answer                          | [`ErrorKind::Io`] | **unknown**      |
//!
//! A status of 5xx may come from a gateway in between, after the store has done its work; so its effect is unknown. A get
//! or a list has no effect in any case.

use std::error::Error;

use object_store::client::{HttpError, HttpErrorKind};

use super::wire::Refusal;
use crate::{ErrorKind, Operation, StoreError};
use dataflow::Effect;

/// S3's code for a request whose time is too far from the store's.
const SKEWED: &str = "RequestTimeTooSkewed";

/// Azure's code for whatever it cannot prove; only a detail beside it tells a wrong time from a wrong key.
const UNPROVEN: &str = "AuthenticationFailed";

/// By this variable of the environment the provider's own tools are told to send checksums only where they must, and so is this store.
pub(super) const CHECKSUM_CALCULATION: &str = "AWS_REQUEST_CHECKSUM_CALCULATION";

/// Characters of a provider's own words that go into a message.
const WORDS_MAX: usize = 300;

/// An answer that is no success, or the lack of one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The store said no.
    Status { status: u16, code: String, words: String },
    /// Nothing was sent.
    NotSent,
    /// Something may have been sent, and nothing whole came back.
    Lost,
}

impl Answer {
    /// What lies inside of `object_store`'s error.
    pub(super) fn of(error: &object_store::Error) -> Self {
        let mut cause: Option<&(dyn Error + 'static)> = Some(error);
        let mut answer = Self::Lost;
        // A chain of errors ends; more links than this are a circle.
        for _ in 0..16 {
            let Some(one) = cause else { break };
            if let Some(refusal) = one.downcast_ref::<Refusal>() {
                return Self::status(refusal.status, &refusal.body);
            }
            if one.downcast_ref::<HttpError>().is_some_and(|e| e.kind() == HttpErrorKind::Connect) {
                answer = Self::NotSent;
            }
            cause = one.source();
        }
        // Where the mark is lost on the way, `object_store` has sorted the answer by itself.
        match error {
            object_store::Error::NotFound { .. } => Self::status(404, ""),
            object_store::Error::Unauthenticated { .. } | object_store::Error::PermissionDenied { .. } => {
                Self::status(403, "")
            }
            _ => answer,
        }
    }

    pub(super) fn status(status: u16, body: &str) -> Self {
        // S3 and Azure answer in XML; Google does too on the interface that is used here.
        let code = element(body, "Code").unwrap_or_default();
        let of_date = element(body, "AuthenticationErrorDetail").filter(|detail| says_date(detail));
        let words = of_date.or_else(|| element(body, "Message")).unwrap_or(body);
        let words: String =
            words.chars().take(WORDS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
        Self::Status { status, code: code.to_owned(), words: words.trim().to_owned() }
    }

    /// True if the object that was to be put is there already.
    pub(super) fn is_exists(&self) -> bool {
        match self {
            Self::Status { status: 412, .. } => true,
            Self::Status { status: 409, code, .. } => code == "BlobAlreadyExists",
            Self::Status { .. } | Self::NotSent | Self::Lost => false,
        }
    }

    /// True if there is no such object, in a bucket that is there.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Self::Status { status: 404, code, .. } if !is_bucket_missing(code))
            && !self.is_foreign()
    }

    /// Whether an answer is that of something before the store: a 404 of a proxy that has lost its way to it, or a page to log in at. Every store says what is
    /// missing by a code, or nothing at all, as to a HEAD; an emulator of Google's says these two words. None sends elsewhere for a while without a code.
    fn is_foreign(&self) -> bool {
        let Self::Status { status, code, words } = self else { return false };
        match *status {
            404 => code.is_empty() && !words.is_empty() && words != "Not Found",
            302 | 303 | 307 => code.is_empty(),
            _ => false,
        }
    }

    /// Whether the request's time is too far from the store's. No access was refused then: a clock is wrong, perhaps only until it has been set at the
    /// machine's start.
    fn is_skewed(&self) -> bool {
        matches!(self, Self::Status { status: 403, code, words }
            if code == SKEWED || (code == UNPROVEN && says_date(words)))
    }

    /// Whether the service may not know the header of a put's checksum.
    fn may_be_of_checksum(&self, operation: Operation) -> bool {
        let Self::Status { status: 400 | 501, code, words } = self else { return false };
        let says_checksum = words.to_ascii_lowercase().contains("checksum");
        operation == Operation::Put && (says_checksum || code == "NotImplemented")
    }

    fn kind(&self) -> ErrorKind {
        let Self::Status { status, code, .. } = self else { return ErrorKind::Io };
        if self.is_foreign() || self.is_skewed() {
            return ErrorKind::Io;
        }
        match (*status, code.as_str()) {
            (400, "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired") | (401 | 403, _) => {
                ErrorKind::Permission
            }
            // Azure says so of a container until its name is free again.
            (404, _) | (409, "ContainerBeingDeleted") => ErrorKind::Missing,
            (409, "ConditionalRequestConflict" | "OperationAborted") => ErrorKind::Io,
            // Neither a root can be replaced there, nor anything be deleted; nothing foreign has a name of ours.
            (409, "BlobImmutableDueToPolicy") => ErrorKind::NotSupported,
            (409, _) => ErrorKind::Conflict,
            (413, _) | (400, "EntityTooLarge") => ErrorKind::TooLarge,
            (416, _) => ErrorKind::OutOfRange,
            (501, _) => ErrorKind::NotSupported,
            (507, _) | (_, "QuotaExceeded") => ErrorKind::Full,
            // S3 says so of a new bucket until its name is known everywhere.
            (307, _) => ErrorKind::Io,
            (300..=399, _)
            | (
                400,
                "InvalidBucketName"
                | "InvalidResourceName"
                | "AuthorizationHeaderMalformed"
                | "IllegalLocationConstraintException",
            ) => ErrorKind::Url,
            _ => ErrorKind::Io,
        }
    }

    fn effect(&self, operation: Operation) -> Effect {
        match operation {
            Operation::Put | Operation::Delete => {}
            Operation::Open | Operation::Get | Operation::List | Operation::Harden => return Effect::None,
        }
        match self {
            Self::NotSent => Effect::None,
            Self::Lost => Effect::Unknown,
            // An earlier try of whatever answered may have come through.
            Self::Status { .. } if self.is_foreign() => Effect::Unknown,
            // What is not implemented was not done; any other 5xx may stand before a store that did it.
            Self::Status { status: 408 | 500 | 502..=599, .. } => Effect::Unknown,
            Self::Status { .. } => Effect::None,
        }
    }

    /// The store's error; `error` gives the words where the store gave none.
    pub(super) fn into_error(
        self,
        operation: Operation,
        place: &str,
        error: object_store::Error,
    ) -> StoreError {
        let reason = match &self {
            Self::Status { status, words, .. } if self.is_foreign() => {
                format!("something before the store answered {status}: {words}")
            }
            Self::Status { status, code, words } if self.is_skewed() => {
                format!("it answered {status} `{code}`: {words}; set this machine's clock")
            }
            Self::Status { status, code, words } if self.may_be_of_checksum(operation) => format!(
                "it answered {status} `{code}`: {words}. If the service does not know the header `x-amz-checksum-crc64nvme`, set {CHECKSUM_CALCULATION}=when_required in the \
                 environment, so that no checksum is sent"
            ),
            Self::Status { status, code, words } if code.is_empty() => {
                format!("it answered {status}{}{words}", if words.is_empty() { "" } else { ": " })
            }
            Self::Status { status, code, words } => format!("it answered {status} `{code}`: {words}"),
            Self::NotSent => format!("it cannot be reached: {}", innermost(&error)),
            Self::Lost => format!("no whole answer: {}", innermost(&error)),
        };
        StoreError::new(self.kind(), operation, place, reason).with_effect(self.effect(operation))
    }
}

fn is_bucket_missing(code: &str) -> bool {
    matches!(code, "NoSuchBucket" | "ContainerNotFound" | "ResourceNotFound")
}

/// Whether Azure says that a request is too old, or of a time to come: `Request date header too old: …`, `The Date header in the request is incorrect.`
fn says_date(words: &str) -> bool {
    words.to_ascii_lowercase().contains("date header")
}

/// The text of the first element of that name.
fn element<'a>(body: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = body.split_once(&format!("<{name}>"))?;
    Some(rest.split_once("</")?.0)
}

/// The last cause in the chain, which says most.
fn innermost(error: &object_store::Error) -> String {
    let mut cause: &(dyn Error + 'static) = error;
    for _ in 0..16 {
        let Some(source) = cause.source() else { break };
        cause = source;
    }
    cause.to_string().chars().take(WORDS_MAX).collect()
}

#[cfg(test)]
mod tests;
