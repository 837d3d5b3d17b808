//! Whether a server's certificates are valid at a time, for the log: clients refuse those that are not.
//!
//! Owns the question and its words. Does not own when it is asked (`listener::tls`).

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, Error, RootCertStore};

/// What is wrong with the first of these certificates whose time is over, or has not come.
pub(super) fn complaint(
    path: &Path,
    certificates: &[CertificateDer<'static>],
    now: UnixTime,
) -> Option<String> {
    let whole = |(number, certificate)| Some((number, outside(certificate, now)?));
    let (number, why) = (1..).zip(certificates).find_map(whole)?;
    Some(format!("certificate {number} of `{}` {why}: clients refuse it", path.display()))
}

/// A certificate is asked for its time before anything else, so it serves as its own authority.
fn outside(certificate: &CertificateDer<'static>, now: UnixTime) -> Option<String> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).ok()?;
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().ok()?;
    let name = ServerName::try_from("localhost").ok()?;
    let error = match verifier.verify_server_cert(certificate, &[], &name, &[], now).err()? {
        Error::InvalidCertificate(error) => error,
        _ => return None,
    };
    match error {
        CertificateError::ExpiredContext { time, not_after } => {
            Some(format!("expired {} ago", time_between(not_after, time)))
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            Some(format!("is not valid for another {}", time_between(time, not_before)))
        }
        CertificateError::Expired => Some("has expired".to_owned()),
        CertificateError::NotValidYet => Some("is not valid yet".to_owned()),
        _ => None,
    }
}

/// In whole days, or hours below two days.
fn time_between(from: UnixTime, to: UnixTime) -> String {
    let hours = to.as_secs().saturating_sub(from.as_secs()) / 3_600;
    if hours < 48 { format!("{hours} hours") } else { format!("{} days", hours / 24) }
}
