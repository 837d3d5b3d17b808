//! Runs the server alone: `chdb-server --http 127.0.0.1:8123 --path DIR`.
//!
//! Owns the command line, the two lines of standard output that scripts wait for (`token`, `listening on`), and the exit code. Does not own
//! the server's defaults or its stop (`serve`).
#![allow(clippy::disallowed_methods)]

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use chdb_server::{Config, Token};

const USAGE: &str = "\
Usage: chdb-server --path DIR [options]

Options:
  --http ADDR            where to listen; port 0 lets the system choose [default: 127.0.0.1:8123]
  --path DIR             the data folder; made if it does not exist
  --listen-anywhere      allow an address that other machines can reach
  --host-name NAME       a host name that the server may be asked under, beside its address; may be repeated
  --token TEXT           the token that clients must give as their password [default: a new one at each start]
  --no-token             ask for no token: whoever reaches the port may do everything
  --allow-files-and-network
                         allow statements that reach files or the network: file(), url(), s3(), …
  --users-config FILE    the engine's users, profiles, constraints and quotas, as in a users.xml; its grants hold, so that it needs
                         --allow-files-and-network
  --statements N         statements that run at a time [default: 16]
  --queue N              requests that may wait beyond those [default: 256]
  --max-body BYTES       the largest request body, packed or unpacked [default: 1073741824]
  --max-bodies BYTES     the largest memory of all bodies together [default: 2147483648]
  --connections N        connections open at a time [default: 1024]
  --head-wait SECONDS    the longest wait for a request's head, or for the next request [default: 30]
  --stop-wait SECONDS    how long SIGTERM waits for running requests [default: 10]
  -h, --help             this text";

fn main() -> ExitCode {
    let config = match parse(std::env::args().skip(1)) {
        Ok(Some(config)) => config,
        Ok(None) => {
            println!("{}\n\n{USAGE}", chdb_server::ABOUT);
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("error: {message}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(config: Config) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = chdb_server::termination()?;
        chdb_server::serve(config, stop, |address, token| {
            // Before the line that scripts wait for, so that whoever has seen that one has this one.
            if let Some(token) = token {
                println!("token {token}");
            }
            println!("listening on {address}");
        })
        .await?;
        Ok::<_, Box<dyn std::error::Error>>(())
    })?;
    // A statement that outlived the bound must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Config>, String> {
    let mut config = Config::new(SocketAddr::from(([127, 0, 0, 1], 8123)), "");
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("`{argument}` needs a value"));
        match argument.as_str() {
            "-h" | "--help" => return Ok(None),
            "--listen-anywhere" => config.listen_anywhere = true,
            "--host-name" => config.host_names.push(value()?),
            "--token" => config.token = Token::Given(value()?),
            "--no-token" => config.token = Token::Off,
            "--allow-files-and-network" => config.allow_files_and_network = true,
            "--users-config" => config.users_config = Some(value()?.into()),
            "--connections" => config.connections_max = number(&argument, &value()?)?,
            "--head-wait" => config.head_wait_max = Duration::from_secs(number(&argument, &value()?)?),
            "--http" => config.address = number(&argument, &value()?)?,
            "--path" => config.path = value()?.into(),
            "--statements" => config.statements_max = number(&argument, &value()?)?,
            "--queue" => config.queue_max = number(&argument, &value()?)?,
            "--max-body" => config.body_bytes_max = number(&argument, &value()?)?,
            "--max-bodies" => config.bodies_bytes_max = number(&argument, &value()?)?,
            "--stop-wait" => config.stop_wait_max = Duration::from_secs(number(&argument, &value()?)?),
            _ => return Err(format!("`{argument}` is not known")),
        }
    }
    if matches!(&config.token, Token::Given(token) if token.is_empty()) {
        return Err("the token is empty; pass --no-token if none is meant".to_owned());
    }
    if config.users_config.is_some() && !config.allow_files_and_network {
        return Err("--users-config needs --allow-files-and-network".to_owned());
    }
    if config.path.as_os_str().is_empty() {
        return Err("--path is missing".to_owned());
    }
    Ok(Some(config))
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` does not fit `{name}`"))
}
