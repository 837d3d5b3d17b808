//! librdkafka's settings until a handle takes them.
//!
//! Owns the pointer to them. Does not own which settings there are (`kafka::config`).

use std::ffi::{CString, c_char};
use std::ptr::NonNull;

use dataflow::SourceError;
use rdkafka_sys as ffi;

use super::{ERROR_BYTES, buffer};
use crate::kafka::config::{Role, is_secret};
use crate::kafka::{KafkaOptions, config};

/// A configuration under construction.
pub(super) struct Conf(pub(super) *mut ffi::rd_kafka_conf_t);

impl Conf {
    pub(super) fn new(options: &KafkaOptions, role: Role) -> Result<Self, SourceError> {
        // SAFETY: allocates.
        let conf = Self(unsafe { ffi::rd_kafka_conf_new() });
        for (name, value) in &config::properties(options, role)? {
            conf.set(name, value)?;
        }
        Ok(conf)
    }

    fn set(&self, name: &str, value: &str) -> Result<(), SourceError> {
        let (Ok(key), Ok(text)) = (CString::new(name), CString::new(value)) else {
            return Err(config::config(format!("kafka property `{name}` contains a zero byte")));
        };
        let mut error = [0 as c_char; ERROR_BYTES];
        // SAFETY: the configuration and the texts are live; librdkafka copies them.
        let result = unsafe {
            ffi::rd_kafka_conf_set(self.0, key.as_ptr(), text.as_ptr(), error.as_mut_ptr(), error.len())
        };
        if result == ffi::rd_kafka_conf_res_t::RD_KAFKA_CONF_OK {
            return Ok(());
        }
        // librdkafka's text may quote the value.
        let why = if is_secret(name) { "its value is not accepted".into() } else { buffer(&error) };
        Err(config::config(format!("kafka property `{name}`: {why}")))
    }

    pub(super) fn into_handle(self) -> Result<NonNull<ffi::rd_kafka_t>, SourceError> {
        let mut error = [0 as c_char; ERROR_BYTES];
        let kind = ffi::rd_kafka_type_t::RD_KAFKA_CONSUMER;
        // SAFETY: the configuration is live; on success the handle owns it.
        let handle = unsafe { ffi::rd_kafka_new(kind, self.0, error.as_mut_ptr(), error.len()) };
        let Some(handle) = NonNull::new(handle) else {
            return Err(config::config(format!("kafka cannot be set up: {}", buffer(&error))));
        };
        std::mem::forget(self);
        Ok(handle)
    }
}

impl Drop for Conf {
    fn drop(&mut self) {
        // SAFETY: no handle has taken it over.
        unsafe { ffi::rd_kafka_conf_destroy(self.0) };
    }
}
