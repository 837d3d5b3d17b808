//! `forebay clickhouse`: ClickHouse's own engine behind its HTTP interface, for development, demos and tests.
//!
//! Owns the options. The server itself is `chdb-server`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::cli::{Exit, print};

/// Runs ClickHouse's engine as a development server.
#[derive(Debug, Args)]
#[command(
    long_about = "\
Runs ClickHouse's engine (libchdb) behind ClickHouse's HTTP interface: a development server in this process, for demos \
and tests. Real clients insert, query and get their error codes; the data stays in the folder and survives kill -9.

It differs from a real server: there is no login and no native TCP port, bodies are held in memory whole, \
`async_insert` has no effect, and there are no replicated tables. Do not run production on it.",
    after_help = "\
Examples:
  forebay clickhouse
  forebay clickhouse --http 127.0.0.1:18123 --path /tmp/ch
  curl http://127.0.0.1:8123/ --data-binary 'SELECT version()'

The library is looked for where FOREBAY_LIBCHDB says, and then where `scripts/setup` puts it.
SIGTERM or SIGINT closes the database and ends with code 0."
)]
pub struct Clickhouse {
    /// The address to listen at; port 0 for any free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8123")]
    http: SocketAddr,

    /// The folder of the data; made if it is not there.
    #[arg(long, value_name = "DIR", default_value = "./forebay-clickhouse")]
    path: PathBuf,

    /// Allows an address that other machines can reach. There is no login.
    #[arg(long)]
    listen_anywhere: bool,
}

impl Clickhouse {
    /// Runs the command.
    ///
    /// # Errors
    /// When the engine or the listener does not start.
    pub fn execute(&self) -> anyhow::Result<Exit> {
        super::runtime()?.block_on(async {
            let mut config = chdb_server::Config::new(self.http, &self.path);
            config.listen_anywhere = self.listen_anywhere;
            let stop = chdb_server::termination()?;
            let server = chdb_server::Server::start(config).await?;
            // Scripts wait for this line, and with port 0 learn the port from it.
            print(&format!("ClickHouse {} listens at http://{}\n", server.version(), server.address()))?;
            server.run(stop).await?;
            Ok(Exit::Done)
        })
    }
}
