//! How to reach object storage: endpoint, region, credentials.
//!
//! Owns the settings alone, so that they exist in a build without any object storage too. Does not own what is made of them
//! (`object::connect`). What is left out comes from the environment, as each provider's own tools read it (see [`crate::url`]). Secrets do
//! not show in `Debug`.

use std::fmt;

/// Settings of a store on object storage. The default takes everything from the environment.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Remote {
    /// Where the service is, for anything but the provider's own: `http://127.0.0.1:7070`.
    pub endpoint: Option<String>,
    /// The bucket's region, as in `eu-central-1`. S3 only.
    pub region: Option<String>,
    /// Access key id of S3.
    pub access_key: Option<String>,
    /// Secret of `access_key`, or the key of Azure's `account`.
    pub secret_key: Option<String>,
    /// Token that goes with temporary keys of S3.
    pub session_token: Option<String>,
    /// The storage account. Azure only.
    pub account: Option<String>,
    /// Path of a service account's JSON file. Google only.
    pub service_account: Option<String>,
    /// Speaks to an `http://` endpoint on another machine. One on this machine needs no permission.
    pub allow_http: bool,
    /// Certificates to trust instead of the system's, PEM.
    pub ca_pem: Option<Vec<u8>>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = |secret: &Option<String>| secret.as_ref().map(|_| "***");
        f.debug_struct("Remote")
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("access_key", &hidden(&self.access_key))
            .field("secret_key", &hidden(&self.secret_key))
            .field("session_token", &hidden(&self.session_token))
            .field("account", &self.account)
            .field("service_account", &self.service_account)
            .field("allow_http", &self.allow_http)
            .field("ca_pem", &self.ca_pem.as_ref().map(Vec::len))
            .finish()
    }
}
