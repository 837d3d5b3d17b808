//! `forebay clickhouse`: ClickHouse's own engine behind its HTTP interface, for development, demos and tests.
//!
//! Owns the options, and where the token comes from. Does not own the server, which is the crate `chdb_server`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::console::{Exit, print};

/// Runs ClickHouse's engine as a development server.
#[derive(Debug, Args)]
#[command(
    long_about = "\
Runs ClickHouse's engine (libchdb) behind ClickHouse's HTTP interface: a development server in this process, for demos \
and tests. Real clients insert, query and get their error codes; the data stays in the folder and survives kill -9.

Each start generates a token, prints it, and accepts it as the password of every user. Requests from web pages are \
refused, and so are statements that access files or the network (`file()`, `url()`, `s3()`, …).

It differs from a real server: there are no users, no native TCP port and no replicated tables, `async_insert` has no \
effect, and request bodies are held in memory whole. Do not use it in production.",
    after_help = "\
Examples:
  forebay clickhouse
  forebay clickhouse --http 127.0.0.1:18123 --path /tmp/ch --token secret
  curl 'http://127.0.0.1:18123/?password=secret' --data-binary 'SELECT version()'

The library is the file that FOREBAY_LIBCHDB names, else `libchdb.so` beside this program, else the one that `scripts/setup` \
has downloaded into the project that this program was built in, else the one in /usr/local/lib or /usr/lib. \
On SIGTERM or SIGINT it closes the database and exits with code 0."
)]
pub struct Clickhouse {
    /// The address to listen at; port 0 for any free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8123")]
    http: SocketAddr,

    /// The data folder; created if it does not exist.
    #[arg(long, value_name = "DIR", default_value = "./forebay-clickhouse")]
    path: PathBuf,

    /// Allows an address that other machines can reach. The token is then sent unencrypted.
    #[arg(long)]
    listen_anywhere: bool,

    /// A host name that requests may use, besides `localhost` and the listening address.
    #[arg(long, value_name = "NAME")]
    host_name: Vec<String>,

    /// The token that clients must give as their password; without it each start generates a new one.
    #[arg(
        long,
        value_name = "TEXT",
        env = "FOREBAY_CLICKHOUSE_TOKEN",
        hide_env_values = true,
        value_parser = clap::builder::NonEmptyStringValueParser::new()
    )]
    token: Option<String>,

    /// Requires no token: every process on this machine can then read and write the data.
    #[arg(long)]
    no_token: bool,

    /// Allows statements that access files or the network: `file()`, `url()`, `s3()`, engines of other servers.
    #[arg(long)]
    allow_files_and_network: bool,
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
            config.host_names = self.host_name.clone();
            config.allow_files_and_network = self.allow_files_and_network;
            config.token = match (&self.token, self.no_token) {
                // The word on the command line counts more than a variable that was set for another start.
                (_, true) => chdb_server::Token::Off,
                (Some(token), false) => chdb_server::Token::Given(token.clone()),
                (None, false) => chdb_server::Token::Drawn,
            };
            let stop = chdb_server::termination()?;
            let server = chdb_server::Server::start(config).await?;
            // A token that was given is known to its giver, and need not be in a log.
            if let (Some(token), None) = (server.token(), &self.token) {
                print(&format!("token {token}\n"))?;
            }
            // Scripts wait for this line, and with port 0 learn the port from it.
            print(&format!("ClickHouse {} listens at http://{}\n", server.version(), server.address()))?;
            server.run(stop).await?;
            Ok(Exit::Done)
        })
    }
}
