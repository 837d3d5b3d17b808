//! A session with a server.
//!
//! Owns the connection: its encryption, its login, and that it is polled beside what is asked. Does not own what is asked, nor the sentence for an error ([`crate::fault`]).
//!
//! Encryption is agreed on before the first message, as PostgreSQL does it: we ask, the server answers with one byte, and the handshake follows. A server that answers that it has none is
//! refused: nothing is sent in clear that was to be encrypted.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dataflow::Runtime;
use futures::future::{Either, select};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_postgres::config::{ChannelBinding, SslMode};
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{Client, Config, Connection, NoTls};

use crate::Server;
use crate::wire::Bounded;

/// Whom a connection trusts: made anew for each, so that a renewed certificate counts from the next one on.
pub type Trust = Arc<dyn Fn() -> Result<Arc<ClientConfig>, String> + Send + Sync>;

/// A connection with its encryption and login takes so long at the most: a server that is busy takes a second.
const CONNECT_MAX: Duration = Duration::from_secs(15);
/// What the server still says to a session that ends is waited for so long.
const CLOSE_MAX: Duration = Duration::from_secs(1);
/// The question whether the server encrypts: eight bytes long, with the number that stands for it.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// Why a session did not come to its end.
#[derive(Debug)]
pub(crate) enum Error {
    /// No connection.
    Connect(io::Error),
    /// No connection within [`CONNECT_MAX`].
    Slow,
    /// The server does not encrypt.
    Clear,
    /// The handshake, or the files for it.
    Tls(String),
    /// What the server or its client says.
    Postgres(tokio_postgres::Error),
    /// Types that are not read, as a whole sentence.
    Types(String),
    /// More bytes than there is memory for.
    TooLong,
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
    }
}

trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// A session. It moves only while something is asked.
pub(crate) struct Session {
    connection: Connection<Bounded<Box<dyn Io>>, NoTlsStream>,
    is_over: Arc<AtomicBool>,
}

impl Session {
    /// Connects and logs in. Messages of rows may have `bytes_max` bytes.
    pub async fn open(
        server: &Server,
        runtime: &Arc<dyn Runtime>,
        bytes_max: usize,
    ) -> Result<(Client, Self), Error> {
        let opened = async {
            let (stream, is_over) = Bounded::new(stream(server).await?, bytes_max);
            let mut config = Config::new();
            config.user(&server.user).dbname(&server.database).application_name("forebay");
            // The stream is encrypted already, if it is to be.
            config.ssl_mode(SslMode::Disable).channel_binding(ChannelBinding::Disable);
            if let Some(password) = &server.password {
                config.password(password);
            }
            let (client, connection) = config.connect_raw(stream, NoTls).await?;
            Ok((client, Self { connection, is_over }))
        };
        runtime.timeout(CONNECT_MAX, opened).await.unwrap_or(Err(Error::Slow))
    }

    /// What `asked` gives, while the connection moves.
    pub async fn beside<T>(&mut self, asked: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let asked = pin!(asked);
        let result = match select(asked, &mut self.connection).await {
            Either::Left((result, _)) => result,
            // Why it ended says more than that it has.
            Either::Right((Err(error), _)) => Err(error.into()),
            Either::Right((Ok(()), asked)) => asked.await,
        };
        match result {
            Err(_) if self.is_over.load(Ordering::Relaxed) => Err(Error::TooLong),
            result => result,
        }
    }

    /// What the server said of itself at the login.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.connection.parameter(name)
    }

    /// Says goodbye, so that the server notes no broken connection.
    pub async fn close(self, client: Client, runtime: &Arc<dyn Runtime>) {
        drop(client);
        let _ = runtime.timeout(CLOSE_MAX, self.connection).await;
    }
}

async fn stream(server: &Server) -> Result<Box<dyn Io>, Error> {
    let mut socket = TcpStream::connect((server.host.as_str(), server.port)).await.map_err(Error::Connect)?;
    let _ = socket.set_nodelay(true);
    let Some(trust) = &server.tls else { return Ok(Box::new(socket)) };
    let config = trust().map_err(Error::Tls)?;
    let name = ServerName::try_from(server.host.clone())
        .map_err(|_| Error::Tls(format!("`{}` is no name that a certificate could hold", server.host)))?;
    socket.write_all(&SSL_REQUEST).await.map_err(Error::Connect)?;
    // One byte and no more: what came behind it in clear would be taken for encrypted.
    match socket.read_u8().await.map_err(Error::Connect)? {
        b'S' => {}
        _ => return Err(Error::Clear),
    }
    let connector = tokio_rustls::TlsConnector::from(config);
    let encrypted = connector.connect(name, socket).await.map_err(|error| Error::Tls(error.to_string()))?;
    Ok(Box::new(encrypted))
}
