//! Requests in Protocol Buffers, as `opentelemetry/proto/logs/v1` numbers their fields.
//!
//! Owns the bytes. A message's length is known once its content is written, so that each level is written apart and copied behind its
//! length. Does not own the values (`workloads::buffer`), nor the reading of such requests (`formats::otlp`).

use super::Record;

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;

/// Appends a log record as a field of its scope.
pub(super) fn log_record(record: &Record, to: &mut Vec<u8>) {
    let mut log = Vec::with_capacity(record.body.len() + 400);
    fixed64(1, record.time_ns, &mut log);
    varint_field(2, u64::from(record.severity), &mut log);
    bytes(3, record.severity_text().as_bytes(), &mut log);
    let mut body = Vec::with_capacity(record.body.len() + 4);
    bytes(1, record.body.as_bytes(), &mut body);
    bytes(5, &body, &mut log);
    text(6, "n", &record.number.to_string(), &mut log);
    text(6, "http.route", &record.path, &mut log);
    int(6, "http.response.status_code", u64::from(record.status), &mut log);
    int(6, "duration_us", record.duration_us, &mut log);
    text(6, "enduser.id", &record.user.to_string(), &mut log);
    let [a, b, c, d] = record.peer.to_be_bytes();
    text(6, "client.address", &format!("{a}.{b}.{c}.{d}"), &mut log);
    bytes(9, record.trace_id.as_flattened(), &mut log);
    bytes(10, &record.span_id, &mut log);
    fixed64(11, record.time_ns, &mut log);
    bytes(2, &log, to);
}

/// Appends the records of one resource, which stand in `records` as fields of their scope, as a field of the request.
pub(super) fn resource_logs(resource: u64, records: &[u8], to: &mut Vec<u8>) {
    let mut attributes = Vec::with_capacity(512);
    text(1, "service.name", &service(resource), &mut attributes);
    text(1, "service.version", &format!("1.{}.{}", resource % 7, resource % 3), &mut attributes);
    text(1, "service.instance.id", &format!("{:032x}", crate::random::nth(7, resource)), &mut attributes);
    text(1, "deployment.environment.name", "production", &mut attributes);
    text(1, "cloud.region", ["eu-central-1", "us-east-1"][(resource % 2) as usize], &mut attributes);
    text(1, "k8s.namespace.name", ["shop", "payments", "search"][(resource % 3) as usize], &mut attributes);
    text(
        1,
        "k8s.pod.name",
        &format!("{}-{:08x}", service(resource), crate::random::nth(8, resource) as u32),
        &mut attributes,
    );
    text(1, "k8s.node.name", &format!("node-{:03}", resource % 11), &mut attributes);
    text(1, "host.arch", "amd64", &mut attributes);
    let mut scope = Vec::with_capacity(32);
    bytes(1, b"forebay.workload", &mut scope);
    bytes(2, b"1.0", &mut scope);
    let mut scope_logs = Vec::with_capacity(records.len() + 64);
    bytes(1, &scope, &mut scope_logs);
    scope_logs.extend_from_slice(records);
    let mut logs = Vec::with_capacity(scope_logs.len() + attributes.len() + 16);
    bytes(1, &attributes, &mut logs);
    bytes(2, &scope_logs, &mut logs);
    bytes(1, &logs, to);
}

/// The name of a resource's service; several resources share one.
pub(super) fn service(resource: u64) -> String {
    format!("service-{:02}", resource % 16)
}

fn text(field: u32, key: &str, value: &str, to: &mut Vec<u8>) {
    let mut any = Vec::with_capacity(value.len() + 4);
    bytes(1, value.as_bytes(), &mut any);
    pair(field, key, &any, to);
}

fn int(field: u32, key: &str, value: u64, to: &mut Vec<u8>) {
    let mut any = Vec::with_capacity(12);
    varint_field(3, value, &mut any);
    pair(field, key, &any, to);
}

fn pair(field: u32, key: &str, any: &[u8], to: &mut Vec<u8>) {
    let mut pair = Vec::with_capacity(key.len() + any.len() + 8);
    bytes(1, key.as_bytes(), &mut pair);
    bytes(2, any, &mut pair);
    bytes(field, &pair, to);
}

fn bytes(field: u32, value: &[u8], to: &mut Vec<u8>) {
    varint(u64::from(field << 3 | BYTES), to);
    varint(value.len() as u64, to);
    to.extend_from_slice(value);
}

fn fixed64(field: u32, value: u64, to: &mut Vec<u8>) {
    varint(u64::from(field << 3 | FIXED64), to);
    to.extend_from_slice(&value.to_le_bytes());
}

fn varint_field(field: u32, value: u64, to: &mut Vec<u8>) {
    varint(u64::from(field << 3 | VARINT), to);
    varint(value, to);
}

fn varint(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}
