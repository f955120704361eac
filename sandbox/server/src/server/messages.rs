//! The messages over a WebSocket: one per event of a watch, or the output of a command.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{FutureExt as _, SinkExt as _, StreamExt as _};
use http_body::Body;
use http_body_util::BodyExt as _;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use kopf_sandbox_api::body::ExecOutput;
use tokio::io::AsyncWriteExt as _;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

/// Maximum size of a received message. Clients of watches have nothing to send.
const MAX_RECEIVED: usize = 64 * 1024;

/// A close frame with the code 1000.
const CLOSE_NORMAL: [u8; 4] = [0x88, 0x02, 0x03, 0xe8];

/// The channels of the output of a command.
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
/// Maximum size of the content of a message of a command.
const MAX_SENT: usize = 16 << 10;
/// Time for the exchange of the output of a command.
const CLOSING: Duration = Duration::from_secs(30);

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Sends each line of a body as a message, until the body ends or the client leaves.
pub(super) async fn forward<B>(upgrade: OnUpgrade, mut body: Pin<Box<B>>)
where
    B: Body<Data = Bytes>,
{
    let Some(mut socket) = upgraded(upgrade).await else {
        return;
    };
    // The client may be gone; then there is nothing left to send.
    if let Err(error) = exchange(&mut socket, &mut body).await {
        tracing::debug!(%error, "WebSocket ended");
    }
}

async fn upgraded(upgrade: OnUpgrade) -> Option<Socket> {
    let upgraded = match upgrade.await {
        Ok(upgraded) => TokioIo::new(upgraded),
        Err(error) => {
            tracing::debug!(%error, "cannot upgrade to a WebSocket");
            return None;
        }
    };
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_RECEIVED))
        .max_frame_size(Some(MAX_RECEIVED));
    Some(WebSocketStream::from_raw_socket(upgraded, Role::Server, Some(config)).await)
}

/// Sends the output of a command, and reads until the client closes. Its input is ignored.
pub(super) async fn send_output(upgrade: OnUpgrade, output: ExecOutput) {
    let Some(mut socket) = upgraded(upgrade).await else {
        return;
    };
    let sent = async {
        for (channel, content) in [
            (STDOUT, output.stdout),
            (STDERR, output.stderr),
            (STATUS, output.status),
        ] {
            for part in content.chunks(MAX_SENT) {
                let message = [&[channel], part].concat();
                socket.feed(Message::Binary(Bytes::from(message))).await?;
            }
        }
        socket.close(Some(normal())).await?;
        while let Some(Ok(_)) = socket.next().await {}
        Ok::<(), Error>(())
    };
    match tokio::time::timeout(CLOSING, sent).await {
        Ok(Ok(())) | Err(_) => {}
        Ok(Err(error)) => tracing::debug!(%error, "WebSocket ended"),
    }
}

fn normal() -> CloseFrame {
    CloseFrame {
        code: CloseCode::Normal,
        reason: Utf8Bytes::default(),
    }
}

async fn exchange<B>(socket: &mut Socket, body: &mut Pin<Box<B>>) -> Result<(), Error>
where
    B: Body<Data = Bytes>,
{
    let mut unsent = BytesMut::new();
    loop {
        tokio::select! {
            received = socket.next() => match received {
                Some(Ok(message)) if message.is_close() => return acknowledge(socket).await,
                // The library queues the response to a ping; other messages are ignored. Reading
                // continues when the response is sent: a client that only sends could otherwise
                // fill the memory.
                Some(Ok(_)) => socket.flush().await?,
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            },
            frame = body.frame().map(|frame| frame.map(Result::ok)) => {
                let chunk = match frame {
                    Some(Some(frame)) => frame.into_data().unwrap_or_default(),
                    // The body has broken the connection.
                    Some(None) => return Ok(()),
                    None => break,
                };
                unsent.extend_from_slice(&chunk);
                while let Some(end) = unsent.iter().position(|byte| *byte == b'\n') {
                    let line = unsent.split_to(end + 1).freeze();
                    socket.feed(message(line)).await?;
                }
                socket.flush().await?;
            }
        }
    }
    if !unsent.is_empty() {
        socket.send(message(unsent.freeze())).await?;
    }
    socket.close(Some(normal())).await
}

/// Responds to the close frame of a client. The library would repeat the client's code; real
/// servers send 1000. All other data has been flushed, so the frame is written directly.
async fn acknowledge(socket: &mut Socket) -> Result<(), Error> {
    let stream = socket.get_mut();
    stream.write_all(&CLOSE_NORMAL).await?;
    Ok(stream.shutdown().await?)
}

fn message(line: Bytes) -> Message {
    match Utf8Bytes::try_from(line.clone()) {
        Ok(text) => Message::Text(text),
        Err(_) => Message::Binary(line),
    }
}
