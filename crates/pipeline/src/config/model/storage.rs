//! `object_storage:`, how a store on `s3://`, `gs://` or `az://` is reached.
//!
//! Owns the keys. Does not own which go with which scheme (`config::rules`), nor what the environment adds to them (`store`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::values::{HttpUrl, Secret};

/// How a store on `s3://`, `gs://` or `az://` is reached. What is left out comes from the environment, as the provider's own
/// tools read it: `AWS_*`, `GOOGLE_*`, `AZURE_*`, or the role of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObjectStorage {
    /// Where the service is, if it is not the provider's own: MinIO, versitygw, Ceph, R2, an emulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<HttpUrl>,

    /// The bucket's region. `s3://` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,

    /// The access key's id. `s3://` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_key: Option<Secret>,

    /// The secret of `access_key`, or the key of `account`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key: Option<Secret>,

    /// The token that goes with temporary keys. `s3://` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_token: Option<Secret>,

    /// The storage account. `az://` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,

    /// Path of the service account's JSON file. `gs://` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,

    /// PEM file of the certificate authorities to trust. Default: the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,

    /// Lets `endpoint` be `http://` on another machine: records and signatures are then sent unencrypted.
    #[serde(default)]
    pub allow_http: bool,
}
