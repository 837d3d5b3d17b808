//! What librdkafka calls back.
//!
//! Owns the context that a handle's callbacks share, and the failures that they note. Does not own who reports them ([`super::Client`]).

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null;
use std::sync::{Arc, Mutex, PoisonError};

use dataflow::{Runtime, SourceFault};
use rdkafka_sys as ffi;

use super::{ERROR_BYTES, NO_ERROR, buffer, string};
use crate::kafka::{fault, reason};
use crate::token::TokenSource;

/// Brokers whose failures are reported at a time: the first few say as much as all.
const FAILURES_MAX: usize = 3;

/// Why connections failed.
#[derive(Clone, Default)]
pub(super) struct Failures {
    /// The newest failure's code; one that needs an operator stays before one that passes.
    code: Option<ffi::rd_kafka_resp_err_t>,
    /// The newest reason of each broker; what concerns none of them under an empty address.
    why: BTreeMap<String, String>,
}

impl Failures {
    fn note(&mut self, code: ffi::rd_kafka_resp_err_t, sentence: &str) {
        // "All brokers are down" follows the failures that tell why.
        let is_summary = code == ffi::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN;
        if is_summary && self.code.is_some() {
            return;
        }
        let is_worse = self.code.is_some_and(|held| fault::of_call(held) == SourceFault::Config);
        if !is_worse || fault::of_call(code) == SourceFault::Config {
            self.code = Some(code);
        }
        let (address, why) = reason::of(sentence);
        let address = address.unwrap_or_default();
        if self.why.len() < FAILURES_MAX || self.why.contains_key(address) {
            self.why.insert(address.to_owned(), why);
        }
        if !is_summary {
            self.why.retain(|address, why| !address.is_empty() || !why.ends_with("brokers are down"));
        }
    }

    pub(super) fn reported(&self) -> Option<(ffi::rd_kafka_resp_err_t, String)> {
        let each = |(address, why): (&String, &String)| {
            if address.is_empty() { why.clone() } else { format!("broker `{address}`: {why}") }
        };
        Some((self.code?, self.why.iter().map(each).collect::<Vec<_>>().join("; ")))
    }
}

/// What the callbacks of a handle see; lives in a box that outlives the handle.
pub(super) struct Context {
    /// The newest failures of connections: what a mere "timed out" does not say.
    pub(super) failures: Mutex<Failures>,
    /// The brokers that the pipeline names.
    pub(super) brokers: Vec<String>,
    pub(super) token: Option<TokenSource>,
    pub(super) runtime: Arc<dyn Runtime>,
}

impl Context {
    fn note(&self, code: ffi::rd_kafka_resp_err_t, why: &str) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).note(code, why);
    }
}

/// librdkafka's log. Its own secrets are masked by itself.
pub(super) unsafe extern "C" fn on_log(
    handle: *const ffi::rd_kafka_t,
    level: c_int,
    facility: *const c_char,
    line: *const c_char,
) {
    // SAFETY: librdkafka hands over two live strings.
    let (facility, line) = unsafe { (string(facility), string(line)) };
    if reason::is_reported_elsewhere(&facility) {
        // Connections that time out or are closed while they are set up are reported in the log only.
        let is_new = reason::is_failure(&facility, level, &line) && !handle.is_null();
        // SAFETY: the opaque is this handle's context, which outlives it, or null before it is set.
        let context =
            if is_new { unsafe { ffi::rd_kafka_opaque(handle).cast::<Context>().as_ref() } } else { None };
        if let Some(context) = context {
            let (code, sentence) = fault::of_connection(
                ffi::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__TRANSPORT as c_int,
                line.clone(),
            );
            context.note(code, &sentence);
        }
        tracing::debug!(target: "librdkafka", facility, "{line}");
        return;
    }
    match level {
        0..=3 => tracing::error!(target: "librdkafka", facility, "{line}"),
        4 => tracing::warn!(target: "librdkafka", facility, "{line}"),
        5 | 6 => tracing::info!(target: "librdkafka", facility, "{line}"),
        _ => tracing::debug!(target: "librdkafka", facility, "{line}"),
    }
}

pub(super) unsafe extern "C" fn on_error(
    _: *mut ffi::rd_kafka_t,
    code: c_int,
    reason: *const c_char,
    opaque: *mut c_void,
) {
    // SAFETY: the opaque is this handle's context, which outlives it; the reason is a live string.
    let (context, reason) = unsafe { (&*opaque.cast::<Context>(), string(reason)) };
    let (code, reason) = fault::of_connection(code, reason);
    context.note(code, &reason);
}

pub(super) unsafe extern "C" fn on_token(
    handle: *mut ffi::rd_kafka_t,
    _: *const c_char,
    opaque: *mut c_void,
) {
    // SAFETY: the opaque is this handle's context, which outlives it.
    let context = unsafe { &*opaque.cast::<Context>() };
    let Some(source) = &context.token else { return };
    let token = source.get(context.runtime.wall_ms()).map_err(|why| why.to_string());
    let token = token.and_then(|token| hand_over(handle, &token));
    if let Err(why) = token {
        let why = format!("no token from {source}: {why}");
        tracing::warn!(why, "kafka cannot be logged in to; a token is asked for again");
        let text = CString::new(why.as_str()).unwrap_or_default();
        // SAFETY: the handle is live inside its callback; the text is copied.
        unsafe { ffi::rd_kafka_oauthbearer_set_token_failure(handle, text.as_ptr()) };
        // librdkafka reports the same failure once only, however long it lasts.
        context.note(ffi::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__AUTHENTICATION, &why);
    }
}

fn hand_over(handle: *mut ffi::rd_kafka_t, token: &crate::token::Token) -> Result<(), String> {
    let (Ok(value), Ok(principal)) =
        (CString::new(token.value.as_str()), CString::new(token.principal.as_str()))
    else {
        return Err("the token contains a zero byte".into());
    };
    let mut error = [0 as c_char; ERROR_BYTES];
    // SAFETY: the handle is live inside its callback; the texts are copied; there are no extensions.
    let code = unsafe {
        ffi::rd_kafka_oauthbearer_set_token(
            handle,
            value.as_ptr(),
            token.expires_ms,
            principal.as_ptr(),
            null::<*const c_char>().cast_mut(),
            0,
            error.as_mut_ptr(),
            error.len(),
        )
    };
    if code == NO_ERROR { Ok(()) } else { Err(format!("the token is not accepted: {}", buffer(&error))) }
}
