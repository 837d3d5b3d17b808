//! From a URL and settings to a client of the provider.
//!
//! Owns which settings each provider takes and where the rest comes from. Does not own the settings' names in a file (`model::storage`),
//! nor a request's bounds (`store::object`). Settings of the pipeline file come first, then the environment as the provider's own tools
//! read it, then what the machine gives (roles, metadata servers).
//!
//! | scheme | feature | environment                                                        |
//! |--------|---------|--------------------------------------------------------------------|
//! | `s3`   | `s3`    | `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT_URL`, `AWS_REQUEST_CHECKSUM_CALCULATION`, web identity, containers' and instances' roles |
//! | `gs`   | `gcs`   | `GOOGLE_APPLICATION_CREDENTIALS`, `GOOGLE_SERVICE_ACCOUNT`, `GOOGLE_BASE_URL`, the metadata server |
//! | `az`   | `azure` | `AZURE_STORAGE_ACCOUNT_NAME`, `AZURE_STORAGE_ACCOUNT_KEY`, `AZURE_STORAGE_ENDPOINT`, workload and managed identity |

use std::sync::Arc;

use object_store::list::PaginatedListStore;
use object_store::{ObjectStore, RetryConfig};
use tokio::sync::Semaphore;

#[cfg(feature = "s3")]
use super::answer::CHECKSUM_CALCULATION;
use super::wire::Connector;
use super::{ObjectStorage, REQUESTS_MAX};
use crate::{ErrorKind, Operation, Prefix, Remote, StoreError};

/// A bucket and the folder in it.
struct Place<'a> {
    scheme: &'a str,
    bucket: &'a str,
    root: Prefix,
}

pub(super) fn connect(url: &str, remote: &Remote) -> Result<ObjectStorage, StoreError> {
    let place = Place::parse(url)?;
    match place.scheme {
        #[cfg(feature = "s3")]
        "s3" => s3(&place, remote),
        #[cfg(feature = "gcs")]
        "gs" => gcs(&place, remote),
        #[cfg(feature = "azure")]
        "az" => azure(&place, remote),
        scheme => Err(refuse(scheme, format!("this build has no store for `{scheme}`"))),
    }
}

impl<'a> Place<'a> {
    fn parse(url: &'a str) -> Result<Self, StoreError> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let (bucket, root) = rest.split_once('/').unwrap_or((rest, ""));
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        if bucket.is_empty() || !bucket.chars().all(is_name) {
            return Err(refuse(
                scheme,
                format!("there is no bucket's name; write `{scheme}://bucket/prefix`"),
            ));
        }
        let root = Prefix::new(root.trim_end_matches('/'))
            .map_err(|error| refuse(scheme, format!("the prefix behind the bucket: {error}")))?;
        Ok(Self { scheme, bucket, root })
    }

    fn store<S: ObjectStore + PaginatedListStore>(self: &Place<'a>, store: S) -> ObjectStorage {
        let store = Arc::new(store);
        let root = self.root.as_str();
        let slash = if root.is_empty() { "" } else { "/" };
        ObjectStorage {
            objects: store.clone(),
            hashing: store.clone(),
            pages: store,
            root: self.root.clone(),
            url: format!("{}://{}{slash}{root}", self.scheme, self.bucket),
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            by_version: self.scheme == "gs",
        }
    }

    fn refuse(&self, error: &object_store::Error) -> StoreError {
        refuse(self.scheme, format!("the settings do not do: {error}"))
    }
}

fn refuse(scheme: &str, reason: String) -> StoreError {
    StoreError::new(ErrorKind::Url, Operation::Open, format!("{scheme}://…"), reason)
}

/// Each request once: a put that is repeated below the contract could answer `exists` to its own first try, and a caller
/// could not tell how long it waits.
fn once() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

fn connector(remote: &Remote) -> Connector {
    Connector { ca_pem: remote.ca_pem.clone() }
}

/// True when the endpoint is this machine, so that nothing in clear leaves it.
fn is_loopback(endpoint: &str) -> bool {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(feature = "s3")]
fn s3(place: &Place, remote: &Remote) -> Result<ObjectStorage, StoreError> {
    use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Is, Checksum};
    if place.bucket.ends_with("--x-s3") {
        let reason = "a directory bucket does not list in order, which the journal needs; use a general purpose bucket";
        return Err(refuse(place.scheme, reason.to_owned()));
    }
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(place.bucket)
        .with_retry(once())
        .with_http_connector(connector(remote))
        // The request for many deletes at once is not to be had everywhere.
        .with_disable_bulk_delete(true);
    let settings = [
        (Is::Endpoint, &remote.endpoint),
        (Is::S3Endpoint, &remote.endpoint),
        (Is::Region, &remote.region),
        (Is::AccessKeyId, &remote.access_key),
        (Is::SecretAccessKey, &remote.secret_key),
        (Is::Token, &remote.session_token),
    ];
    for (key, value) in settings {
        if let Some(value) = value {
            builder = builder.with_config(key, value);
        }
    }
    let endpoint =
        builder.get_config_value(&Is::S3Endpoint).or_else(|| builder.get_config_value(&Is::Endpoint));
    let is_here = endpoint.as_ref().is_some_and(|endpoint| is_loopback(endpoint));
    let is_plain = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
    if remote.allow_http || is_here {
        builder = builder.with_allow_http(true);
    }
    let sends_checksums = sends_checksums(std::env::var(CHECKSUM_CALCULATION).ok().as_deref());
    if sends_checksums {
        builder = builder.with_checksum_algorithm(Checksum::CRC64NVME);
    }
    let built = |builder: AmazonS3Builder| builder.build().map_err(|error| place.refuse(&error));
    let hashing = built(builder.clone().with_unsigned_payload(false))?;
    // A hash of every body is a twentieth of the CPU, and a checksum is next to nothing. TLS keeps the body as it was sent, and whoever reads it checks a checksum;
    // only on a network without TLS does the signature have to cover it.
    let signs_all = !sends_checksums || (is_plain && !is_here);
    let storage = place.store(built(builder.with_unsigned_payload(!signs_all))?);
    Ok(ObjectStorage { hashing: Arc::new(hashing), ..storage })
}

/// Whether puts go with a checksum of their body in a header, by what the environment says: a service that does not know the header may refuse it. Then their signature covers
/// the body, however long it is.
#[cfg(feature = "s3")]
fn sends_checksums(calculation: Option<&str>) -> bool {
    !calculation.is_some_and(|calculation| calculation.eq_ignore_ascii_case("when_required"))
}

#[cfg(feature = "gcs")]
fn gcs(place: &Place, remote: &Remote) -> Result<ObjectStorage, StoreError> {
    use object_store::ClientOptions;
    use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
    let mut builder = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(place.bucket)
        .with_retry(once())
        .with_http_connector(connector(remote));
    if let Some(path) = &remote.service_account {
        builder = builder.with_service_account_path(path);
    }
    if let Some(endpoint) = &remote.endpoint {
        builder = builder.with_base_url(endpoint);
    }
    let endpoint = builder.get_config_value(&GoogleConfigKey::BaseUrl);
    if remote.allow_http || endpoint.is_some_and(|endpoint| is_loopback(&endpoint)) {
        builder = builder.with_client_options(ClientOptions::new().with_allow_http(true));
    }
    builder.build().map(|store| place.store(store)).map_err(|error| place.refuse(&error))
}

#[cfg(feature = "azure")]
fn azure(place: &Place, remote: &Remote) -> Result<ObjectStorage, StoreError> {
    use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
    let mut builder = MicrosoftAzureBuilder::from_env()
        .with_container_name(place.bucket)
        .with_retry(once())
        .with_http_connector(connector(remote));
    if let Some(account) = &remote.account {
        builder = builder.with_account(account);
    }
    if let Some(key) = &remote.secret_key {
        builder = builder.with_access_key(key);
    }
    if let Some(endpoint) = &remote.endpoint {
        builder = builder.with_endpoint(endpoint.clone());
    }
    let endpoint = builder.get_config_value(&AzureConfigKey::Endpoint);
    if remote.allow_http || endpoint.is_some_and(|endpoint| is_loopback(&endpoint)) {
        builder = builder.with_allow_http(true);
    }
    builder.build().map(|store| place.store(store)).map_err(|error| place.refuse(&error))
}
