//! The one place where a connection to a broker is made.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_connect::egress::EgressError;
use lapin::auth::AuthProvider;
use lapin::tcp::OwnedTLSConfig;
use lapin::types::{LongString, ShortString};
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use lapin::{AsyncTcpStream, Connection, ConnectionProperties, ErrorKind};

use crate::{AmqpError, Broker};

/// From the first packet to the end of the handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Seconds after which a silent broker counts as gone.
const HEARTBEAT: u16 = 20;

/// Connects, or says why not. Dropped halfway, it leaves nothing behind.
pub(crate) async fn connect(broker: &Broker, name: &str) -> Result<Connection, AmqpError> {
    let late = |_| unreachable(broker, format!("no answer for {} seconds", CONNECT_TIMEOUT.as_secs()));
    tokio::time::timeout(CONNECT_TIMEOUT, reach(broker, name)).await.map_err(late)?
}

fn unreachable(broker: &Broker, why: String) -> AmqpError {
    AmqpError::Unreachable { address: broker.url.clone(), why }
}

async fn reach(broker: &Broker, name: &str) -> Result<Connection, AmqpError> {
    let url = &broker.url;
    // What was judged is what is dialled: the name is not asked for again.
    let addresses = broker.judge.addresses(&url.host, url.port).await.map_err(|error| match error {
        EgressError::Denied => AmqpError::Denied { address: url.clone() },
        EgressError::DeniedPort(_) => AmqpError::DeniedPort { address: url.clone() },
        error => unreachable(broker, error.to_string()),
    })?;
    let uri = AMQPUri {
        scheme: if url.tls { AMQPScheme::AMQPS } else { AMQPScheme::AMQP },
        authority: AMQPAuthority {
            // The library shows this in places; so the user is there, and the password comes another way.
            userinfo: AMQPUserInfo { username: broker.username.clone(), password: String::new() },
            host: url.host.clone(),
            port: url.port,
        },
        vhost: url.vhost.clone(),
        query: AMQPQueryString { heartbeat: Some(HEARTBEAT), ..AMQPQueryString::default() },
    };
    let properties = ConnectionProperties::default()
        .with_connection_name(LongString::from(name))
        .with_auth_provider(Plain(broker.clone()));
    let tls = OwnedTLSConfig { identity: None, cert_chain: broker.ca.clone() };
    let runtime = lapin::runtime::default_runtime().map_err(|error| unreachable(broker, error.to_string()))?;
    let wire = Wire::default();
    let mut guard = CutUnlessDone { wire: wire.clone(), done: false };
    let dialing = runtime.clone();
    let dial = async move |uri: AMQPUri, _| {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for &address in &addresses {
            match AsyncTcpStream::connect(&dialing, address).await {
                Ok(stream) => {
                    if let AsyncTcpStream::Plain(socket) = &stream {
                        wire.hold(socket.get_ref().as_fd().try_clone_to_owned()?);
                    }
                    if uri.scheme == AMQPScheme::AMQP {
                        return Ok(stream);
                    }
                    return Ok(stream.into_tls(&uri.authority.host, tls.as_ref()).await?);
                }
                Err(error) => last = error,
            }
        }
        Err(last.into())
    };
    match Connection::connector(uri, runtime, dial, properties).await {
        Ok(connection) => {
            guard.done = true;
            Ok(connection)
        }
        Err(error) => Err(match error.kind() {
            // 403: the login; 530: the virtual host; 402: the same, as older brokers say it.
            ErrorKind::ProtocolError(said) if matches!(said.get_id(), 402 | 403 | 530) => {
                AmqpError::NotLetIn { address: url.clone(), why: said.get_message().to_string() }
            }
            _ => unreachable(broker, error.to_string()),
        }),
    }
}

/// User and password as SASL PLAIN wants them, put together at the moment they are needed.
struct Plain(Broker);

impl AuthProvider for Plain {
    fn mechanism(&self) -> ShortString {
        "PLAIN".into()
    }

    fn auth_starter(&self) -> Result<LongString, String> {
        Ok(LongString::from(format!("\0{}\0{}", self.0.username, self.0.password.reveal())))
    }
}

/// A second hand on the socket. The library waits in a thread of its own for a broker that accepts and then says nothing; it
/// gives up only when the socket does.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<Option<OwnedFd>>>);

impl Wire {
    fn hold(&self, socket: OwnedFd) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(socket);
    }

    fn take(&self) -> Option<OwnedFd> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

struct CutUnlessDone {
    wire: Wire,
    done: bool,
}

impl Drop for CutUnlessDone {
    fn drop(&mut self) {
        if let Some(socket) = self.wire.take()
            && !self.done
        {
            // It fails for a socket that is cut already.
            let _ = TcpStream::from(socket).shutdown(Shutdown::Both);
        }
    }
}
