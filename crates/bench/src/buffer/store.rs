//! Where the log and the pipeline's store are, and what is asked of it.
//!
//! Owns the lines of a file that say where it is, and that S3 is reached through a proxy. Does not own S3 itself, the proxy (`buffer::proxy`), nor
//! prices (`buffer::costs`).

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::proxy::{Counted, Delay, Proxy};

/// A bucket of an S3 service.
#[derive(Clone)]
pub struct Bucket {
    /// `http://host:port`.
    pub endpoint: String,
    /// The bucket's name.
    pub name: String,
    /// Its region.
    pub region: String,
    /// The id of the key.
    pub access_key: String,
    /// Its secret.
    pub secret_key: String,
}

impl std::fmt::Debug for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bucket")
            .field("endpoint", &self.endpoint)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// What was asked of a store; nothing is known of a folder.
#[derive(Clone, Copy, Debug)]
pub struct Traffic(Option<Counted>);

impl Traffic {
    /// What was counted.
    pub fn counted(self) -> Option<Counted> {
        self.0
    }

    /// What was asked since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let of = |(now, before): (Counted, Counted)| Counted {
            puts: now.puts - before.puts,
            gets: now.gets - before.gets,
            put_bytes: now.put_bytes - before.put_bytes,
            objects: now.objects - before.objects,
            roots: now.roots - before.roots,
            records: now.records - before.records,
        };
        Self(self.0.zip(before.0).map(of))
    }
}

/// The place of one run.
pub struct Store {
    /// What stands before the names of its parts.
    base: String,
    /// The lines of `object_storage`; none for a folder.
    connection: String,
    proxy: Option<Proxy>,
}

impl Store {
    /// A prefix of the bucket that is new, or a folder below `dir`. The proxy listens at `port`, or at any free one if that is 0.
    ///
    /// # Errors
    /// When the proxy cannot listen or the keys cannot be written.
    pub async fn start(
        bucket: Option<&Bucket>,
        delay: Delay,
        name: &str,
        run: &str,
        dir: &Path,
        port: u16,
    ) -> anyhow::Result<Self> {
        let Some(bucket) = bucket else {
            let base = format!("file://{}", dir.display());
            return Ok(Self { base, connection: String::new(), proxy: None });
        };
        let proxy = Proxy::start(&bucket.endpoint, delay, port).await?;
        let key = |name: &str, value: &str| -> anyhow::Result<PathBuf> {
            let path = dir.join(name);
            write_private(&path, value).with_context(|| format!("cannot write `{}`", path.display()))?;
            Ok(path)
        };
        let (id, secret) = (key("access-key", &bucket.access_key)?, key("secret-key", &bucket.secret_key)?);
        let connection = format!(
            "object_storage:\n  endpoint: {}\n  region: {}\n  access_key: file:{}\n  secret_key: file:{}\n",
            proxy.url(),
            bucket.region,
            id.display(),
            secret.display()
        );
        Ok(Self { base: format!("s3://{}/{name}/{run}", bucket.name), connection, proxy: Some(proxy) })
    }

    /// The address of a part.
    pub fn url(&self, part: &str) -> String {
        format!("{}/{part}", self.base)
    }

    /// The lines of a file that say where a part is and how it is reached.
    pub fn lines(&self, part: &str) -> String {
        format!("store: {}\n{}", self.url(part), self.connection)
    }

    /// Whether it can be away: a folder cannot.
    pub fn can_be_away(&self) -> bool {
        self.proxy.is_some()
    }

    /// What can be away.
    ///
    /// # Errors
    /// When it is a folder.
    pub fn proxy(&self) -> anyhow::Result<&Proxy> {
        self.proxy.as_ref().context("a folder is never away")
    }

    /// What was asked of it so far.
    pub fn traffic(&self) -> Traffic {
        Traffic(self.proxy.as_ref().map(Proxy::counted))
    }
}

/// Writes a file that only its owner may read: the keys are those of the caller's bucket.
fn write_private(file: &Path, text: &str) -> std::io::Result<()> {
    let mut file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(file)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests;
