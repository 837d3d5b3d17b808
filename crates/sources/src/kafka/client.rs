//! A librdkafka handle: made, asked and destroyed.
//!
//! Owns the unsafe calls around one handle: settings, callbacks, topic descriptions, offsets. Does not own fetching
//! (`fetch`). Every call here blocks up to its bound, so callers are threads, never async tasks.

mod callbacks;
mod conf;

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dataflow::{Partition, Position, Runtime, SourceError, SourceFault};
use rdkafka_sys as ffi;

use super::config::Role;
use super::list::List;
use super::{KafkaOptions, config, fault};
use callbacks::{Context, on_error, on_log, on_token};
use conf::Conf;

/// Bytes for an error's text; librdkafka's own examples use 512.
const ERROR_BYTES: usize = 512;

/// A topic as the cluster describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Topic {
    /// The topic's id in base64; empty if the cluster is too old to have ids.
    pub(super) id: String,
    /// Numbers of its partitions, ascending.
    pub(super) partitions: Vec<u32>,
    /// `host:port` of each partition's leader; partitions without one are left out.
    pub(super) leaders: BTreeMap<u32, String>,
}

/// One handle.
pub(super) struct Client {
    handle: NonNull<ffi::rd_kafka_t>,
    context: Box<Context>,
}

// SAFETY: librdkafka's handles may be used by several threads at once; the context is behind a lock or never changes.
unsafe impl Send for Client {}

unsafe impl Sync for Client {}

impl Client {
    /// Makes a handle; connects in the background.
    pub(super) fn new(
        options: &KafkaOptions,
        role: Role,
        runtime: Arc<dyn Runtime>,
    ) -> Result<Self, SourceError> {
        let context = Box::new(Context {
            failures: Mutex::default(),
            brokers: options.brokers.clone(),
            token: options.token.clone(),
            runtime,
        });
        let conf = Conf::new(options, role)?;
        let opaque: *const Context = &*context;
        // SAFETY: the configuration is live; the box keeps the context in place until the handle is gone.
        unsafe {
            ffi::rd_kafka_conf_set_opaque(conf.0, opaque.cast_mut().cast());
            ffi::rd_kafka_conf_set_log_cb(conf.0, Some(on_log));
            ffi::rd_kafka_conf_set_error_cb(conf.0, Some(on_error));
            if options.token.is_some() {
                ffi::rd_kafka_conf_set_oauthbearer_token_refresh_cb(conf.0, Some(on_token));
                ffi::rd_kafka_conf_enable_sasl_queue(conf.0, 1);
            }
        }
        let handle = conf.into_handle()?;
        let client = Self { handle, context };
        // SAFETY: the handle is live.
        unsafe {
            if options.token.is_some() {
                take_error(ffi::rd_kafka_sasl_background_callbacks_enable(client.raw()))
                    .map_err(|(_, text)| config::config(format!("kafka cannot refresh tokens: {text}")))?;
            }
            if role == Role::Read {
                ffi::rd_kafka_poll_set_consumer(client.raw());
            }
        }
        Ok(client)
    }

    /// The handle itself; lives as long as this client.
    pub(super) fn raw(&self) -> *mut ffi::rd_kafka_t {
        self.handle.as_ptr()
    }

    /// The newest failures of connections since the last call.
    pub(super) fn take_failure(&self) -> Option<(ffi::rd_kafka_resp_err_t, String)> {
        std::mem::take(&mut *self.context.failures.lock().unwrap_or_else(PoisonError::into_inner)).reported()
    }

    /// Serves the callbacks of a handle that has no fetch thread.
    fn serve(&self) {
        // SAFETY: the handle is live. Callbacks run inside this call.
        unsafe { ffi::rd_kafka_poll(self.raw(), 0) };
    }

    /// The whole sentence for a call that failed, with the connection's own failure if there was one.
    pub(super) fn failed(&self, what: &str, code: ffi::rd_kafka_resp_err_t, text: &str) -> SourceError {
        self.serve();
        let newest = self.context.failures.lock().unwrap_or_else(PoisonError::into_inner).reported();
        match newest {
            // The connection's failure says more than "timed out", and a wrong password shows only there. That the call timed out as
            // well would only hide it.
            Some((inner, why)) if fault::is_no_answer(code) => {
                SourceError::new(fault::of_call(inner), format!("kafka: {what}: {why}"))
            }
            Some((inner, why)) if fault::of_call(code) == SourceFault::Away => {
                SourceError::new(fault::of_call(inner), format!("kafka: {what}: {text}: {why}"))
            }
            None if fault::is_no_answer(code) => {
                let brokers = self.context.brokers.join("`, `");
                SourceError::new(
                    SourceFault::Away,
                    format!("kafka: {what}: no answer from `{brokers}`: {text}"),
                )
            }
            _ => SourceError::new(fault::of_call(code), format!("kafka: {what}: {text}")),
        }
    }

    /// The topics as they are now; those that do not exist are left out. Asks whether to go on every tenth of a second.
    pub(super) fn describe(
        &self,
        topics: &[String],
        wait_max: Duration,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<BTreeMap<String, Topic>, SourceError> {
        let names: Vec<CString> = topics.iter().map(|topic| text(topic)).collect();
        let mut pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let wait_ms = wait_max.as_millis() as c_int;
        // SAFETY: every pointer comes from the call before it and is destroyed once; the names live to the end; the
        // queue is destroyed after its last event.
        unsafe {
            let queue = ffi::rd_kafka_queue_new(self.raw());
            let op = ffi::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
            let admin = ffi::rd_kafka_AdminOptions_new(self.raw(), op);
            let mut error = [0 as c_char; ERROR_BYTES];
            ffi::rd_kafka_AdminOptions_set_request_timeout(admin, wait_ms, error.as_mut_ptr(), error.len());
            let collection =
                ffi::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len());
            ffi::rd_kafka_DescribeTopics(self.raw(), collection, admin, queue);
            ffi::rd_kafka_TopicCollection_destroy(collection);
            ffi::rd_kafka_AdminOptions_destroy(admin);
            // The request's own bound ends it; one second more for the event to arrive.
            let mut slices = wait_ms / 100 + 10;
            let mut event: *mut ffi::rd_kafka_event_t = null_mut();
            while event.is_null() && slices > 0 && go_on() {
                event = ffi::rd_kafka_queue_poll(queue, 100);
                slices -= 1;
            }
            let result = if event.is_null() {
                let code = ffi::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__TIMED_OUT;
                Err(self.failed("cannot describe the topics", code, "no answer"))
            } else {
                self.described(event)
            };
            ffi::rd_kafka_event_destroy(event);
            ffi::rd_kafka_queue_destroy(queue);
            result
        }
    }

    /// # Safety
    /// `event` is the live result of a topic description.
    unsafe fn described(
        &self,
        event: *mut ffi::rd_kafka_event_t,
    ) -> Result<BTreeMap<String, Topic>, SourceError> {
        let mut topics = BTreeMap::new();
        // SAFETY: as promised; what the event returns lives as long as it.
        unsafe {
            let code = ffi::rd_kafka_event_error(event);
            if code != NO_ERROR {
                let why = string(ffi::rd_kafka_event_error_string(event));
                return Err(self.failed("cannot describe the topics", code, &why));
            }
            let result = ffi::rd_kafka_event_DescribeTopics_result(event);
            let mut count = 0;
            let list = ffi::rd_kafka_DescribeTopics_result_topics(result, &mut count);
            for index in 0..count {
                let topic = *list.add(index);
                let name = string(ffi::rd_kafka_TopicDescription_name(topic));
                let error = ffi::rd_kafka_TopicDescription_error(topic);
                let code = if error.is_null() { NO_ERROR } else { ffi::rd_kafka_error_code(error) };
                if fault::is_missing(code) {
                    continue;
                }
                if code != NO_ERROR {
                    let why = string(ffi::rd_kafka_error_string(error));
                    return Err(self.failed(&format!("cannot describe topic `{name}`"), code, &why));
                }
                topics.insert(name, description(topic));
            }
        }
        // The cluster answers: an older failure of a connection explains nothing any more.
        self.serve();
        self.take_failure();
        Ok(topics)
    }

    /// The first position held and the one after the newest record that may be read.
    pub(super) fn watermarks(
        &self,
        partition: &Partition,
        wait_max: Duration,
    ) -> Result<(u64, u64), SourceError> {
        let topic = text(&partition.stream);
        let (mut low, mut high) = (-1, -1);
        let wait_ms = wait_max.as_millis() as c_int;
        // SAFETY: the handle, the name and the two numbers are live.
        let code = unsafe {
            let index = partition.index as i32;
            ffi::rd_kafka_query_watermark_offsets(
                self.raw(),
                topic.as_ptr(),
                index,
                &mut low,
                &mut high,
                wait_ms,
            )
        };
        if code != NO_ERROR {
            let what = format!("cannot ask for the range of `{partition}`");
            return Err(self.failed(&what, code, &name_of(code)).at(partition));
        }
        Ok((u64::try_from(low).unwrap_or(0), u64::try_from(high).unwrap_or(0)))
    }

    /// For each partition the first position whose time is at least `time_ms`; `None` if all are earlier.
    pub(super) fn offsets_at(
        &self,
        partitions: &[Partition],
        time_ms: i64,
        wait_max: Duration,
    ) -> Result<Vec<Option<u64>>, SourceError> {
        let mut list = List::new(partitions.len());
        for partition in partitions {
            list.add(partition, time_ms, None);
        }
        // SAFETY: the handle and the list are live.
        let code =
            unsafe { ffi::rd_kafka_offsets_for_times(self.raw(), list.raw(), wait_max.as_millis() as c_int) };
        if code != NO_ERROR {
            return Err(self.failed("cannot ask for positions by time", code, &name_of(code)));
        }
        self.offsets(&list, "cannot ask for a position by time")
    }

    /// Commits positions for lag tools.
    pub(super) fn commit(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        let mut list = List::new(positions.len());
        for (partition, next) in positions {
            list.add(partition, i64::try_from(*next).unwrap_or(i64::MAX), None);
        }
        self.serve();
        // SAFETY: the handle and the list are live; the call waits for the answer.
        let code = unsafe { ffi::rd_kafka_commit(self.raw(), list.raw(), 0) };
        if code != NO_ERROR {
            return Err(self.failed("cannot commit offsets", code, &name_of(code)));
        }
        Ok(())
    }

    /// The positions committed last, for those that have one.
    pub(super) fn committed(
        &self,
        partitions: &[Partition],
        wait_max: Duration,
    ) -> Result<Vec<Option<u64>>, SourceError> {
        let mut list = List::new(partitions.len());
        for partition in partitions {
            list.add(partition, i64::from(ffi::RD_KAFKA_OFFSET_INVALID), None);
        }
        // SAFETY: the handle and the list are live.
        let code = unsafe { ffi::rd_kafka_committed(self.raw(), list.raw(), wait_max.as_millis() as c_int) };
        if code != NO_ERROR {
            return Err(self.failed("cannot ask for committed offsets", code, &name_of(code)));
        }
        self.offsets(&list, "cannot ask for a committed offset")
    }

    fn offsets(&self, list: &List, what: &str) -> Result<Vec<Option<u64>>, SourceError> {
        let offset = |element: &ffi::rd_kafka_topic_partition_t| match element.err {
            NO_ERROR => Ok(u64::try_from(element.offset).ok()),
            code => Err(self.failed(what, code, &name_of(code))),
        };
        list.elements().iter().map(offset).collect()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: nothing else has the handle any more. There is no group to leave, so closing the consumer is left out:
        // it would wait for a broker that may be away.
        unsafe { ffi::rd_kafka_destroy_flags(self.raw(), ffi::RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE) };
    }
}

/// Checks names and values of all properties without connecting.
pub(super) fn check(options: &KafkaOptions) -> Result<(), SourceError> {
    Conf::new(options, Role::Read).map(drop)
}

/// Shorthand for librdkafka's success.
pub(super) const NO_ERROR: ffi::rd_kafka_resp_err_t = ffi::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;

/// # Safety
/// `topic` is live.
unsafe fn description(topic: *const ffi::rd_kafka_TopicDescription_t) -> Topic {
    // SAFETY: as promised; what the topic returns lives as long as it.
    unsafe {
        let id = ffi::rd_kafka_TopicDescription_topic_id(topic);
        let has_id = !id.is_null()
            && (ffi::rd_kafka_Uuid_most_significant_bits(id) != 0
                || ffi::rd_kafka_Uuid_least_significant_bits(id) != 0);
        // librdkafka writes ids in base64's plain alphabet, Kafka's own tools in the one for URLs.
        let id = if has_id { string(ffi::rd_kafka_Uuid_base64str(id)) } else { String::new() };
        let id = id.trim_end_matches('=').replace('+', "-").replace('/', "_");
        let mut count = 0;
        let list = ffi::rd_kafka_TopicDescription_partitions(topic, &mut count);
        let (mut partitions, mut leaders) = (Vec::with_capacity(count), BTreeMap::new());
        for index in 0..count {
            let info = *list.add(index);
            let number = ffi::rd_kafka_TopicPartitionInfo_partition(info) as u32;
            partitions.push(number);
            let leader = ffi::rd_kafka_TopicPartitionInfo_leader(info);
            if !leader.is_null() {
                let (host, port) = (string(ffi::rd_kafka_Node_host(leader)), ffi::rd_kafka_Node_port(leader));
                leaders.insert(number, address(&host, port));
            }
        }
        partitions.sort_unstable();
        Topic { id, partitions, leaders }
    }
}

/// A broker's host and port as one address; a bare IPv6 address gets its brackets.
pub(super) fn address(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Takes over librdkafka's error object, if there is one.
///
/// # Safety
/// `error` is null or live and nobody else's.
pub(super) unsafe fn take_error(
    error: *mut ffi::rd_kafka_error_t,
) -> Result<(), (ffi::rd_kafka_resp_err_t, String)> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: as promised.
    unsafe {
        let taken = (ffi::rd_kafka_error_code(error), string(ffi::rd_kafka_error_string(error)));
        ffi::rd_kafka_error_destroy(error);
        Err(taken)
    }
}

/// A topic's name for C. Names are checked when the options are.
pub(super) fn text(name: &str) -> CString {
    CString::new(name).unwrap_or_default()
}

/// # Safety
/// `text` is null or a live string.
pub(super) unsafe fn string(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as promised.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// What librdkafka calls an error.
pub(super) fn name_of(code: ffi::rd_kafka_resp_err_t) -> String {
    // SAFETY: returns a static string.
    unsafe { string(ffi::rd_kafka_err2str(code)) }
}

fn buffer(error: &[c_char; ERROR_BYTES]) -> String {
    // SAFETY: librdkafka ends its texts with a zero within the size that it was given; the buffer began as zeros.
    unsafe { string(error.as_ptr()) }
}
