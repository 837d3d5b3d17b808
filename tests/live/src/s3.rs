//! A store on S3 for pipelines: a gateway, and a proxy before it that misbehaves on order.
//!
//! Owns that both start together, the gateway first. Does not own the faults (`testkit::proxy`), the gateway (`testkit::S3`), nor what a
//! pipeline file says of a store (`pipeline`).

use anyhow::Result;
use testkit::{FaultProxy, S3};

/// A gateway with an empty bucket and a proxy before it.
#[derive(Debug)]
pub struct S3Store {
    proxy: FaultProxy,
    gateway: S3,
}

impl S3Store {
    /// Starts both.
    ///
    /// # Errors
    /// When the gateway does not start.
    pub fn start() -> Result<S3Store> {
        let gateway = S3::start()?;
        let proxy = FaultProxy::start(&gateway.url())?;
        Ok(S3Store { proxy, gateway })
    }

    /// The gateway's own address, past the proxy.
    pub fn url(&self) -> String {
        self.gateway.url()
    }

    /// The proxy.
    pub fn proxy(&self) -> &FaultProxy {
        &self.proxy
    }

    /// The gateway.
    pub fn gateway(&self) -> &S3 {
        &self.gateway
    }

    /// The gateway, to be killed.
    pub fn gateway_mut(&mut self) -> &mut S3 {
        &mut self.gateway
    }
}
