//! The HTTP client of the exporter: HTTP/1.1 without TLS, blocking, one connection per request.
//!
//! The exporter runs in its own thread without a runtime and sends a few requests per minute to a
//! collector in the same cluster.

use std::future::{Ready, ready};
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::pin::Pin;
use std::time::Duration;

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};

/// Upper bound for connecting, sending and receiving, each.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Upper bound for a response.
const LIMIT: u64 = 64 * 1024;

#[derive(Debug)]
pub(super) struct PlainHttp;

impl HttpClient for PlainHttp {
    fn send_bytes<'s, 'f>(
        &'s self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        let sent: Ready<Result<_, HttpError>> = ready(send(&request).map_err(Into::into));
        Box::pin(sent)
    }
}

fn send(request: &Request<Bytes>) -> io::Result<Response<Bytes>> {
    let invalid = |reason: &str| io::Error::new(io::ErrorKind::InvalidInput, reason.to_owned());
    let uri = request.uri();
    if uri.scheme_str() != Some("http") {
        return Err(invalid(
            "traces are exported over plain HTTP: use a collector at an http:// address",
        ));
    }
    let host = uri
        .host()
        .ok_or_else(|| invalid("the endpoint has no host"))?;
    let port = uri.port_u16().unwrap_or(80);
    let address = (host.trim_matches(['[', ']']), port)
        .to_socket_addrs()?
        .next();
    let address = address.ok_or_else(|| invalid("the host of the endpoint has no address"))?;
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(&head(request, host, port))?;
    stream.write_all(request.body())?;
    let mut response = Vec::new();
    stream.take(LIMIT).read_to_end(&mut response)?;
    parse(&response)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not an HTTP response"))
}

fn head(request: &Request<Bytes>, host: &str, port: u16) -> Vec<u8> {
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    let mut head = format!("POST {path} HTTP/1.1\r\nhost: {host}:{port}\r\n").into_bytes();
    for (name, value) in request.headers() {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    let length = request.body().len();
    head.extend_from_slice(
        format!("content-length: {length}\r\nconnection: close\r\n\r\n").as_bytes(),
    );
    head
}

/// Parses the status. The body of the response is ignored.
fn parse(response: &[u8]) -> Option<Response<Bytes>> {
    let line = response.split(|byte| *byte == b'\r').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let code: u16 = line
        .strip_prefix("HTTP/1.")?
        .split(' ')
        .nth(1)?
        .parse()
        .ok()?;
    Response::builder().status(code).body(Bytes::new()).ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn request(uri: &str) -> Request<Bytes> {
        let request = Request::post(uri).header("content-type", "application/x-protobuf");
        request.body(Bytes::from_static(b"spans")).unwrap()
    }

    #[test]
    fn requests_are_sent_completely() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let served = std::thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut received = [0; 1024];
            let mut text = String::new();
            while !text.ends_with("spans") {
                let count = stream.read(&mut received).unwrap();
                text.push_str(std::str::from_utf8(&received[..count]).unwrap());
            }
            stream
                .write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
                .unwrap();
            text
        });
        let response = send(&request(&format!("http://{address}/v1/traces"))).unwrap();
        assert_eq!(response.status().as_u16(), 202);
        let text = served.join().unwrap();
        assert!(text.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{text}");
        assert!(
            text.contains("\r\ncontent-type: application/x-protobuf\r\n"),
            "{text}"
        );
        assert!(text.contains("\r\ncontent-length: 5\r\n"), "{text}");
    }

    #[test]
    fn other_schemes_are_rejected() {
        let error = send(&request("https://localhost/v1/traces")).unwrap_err();
        assert!(error.to_string().contains("http://"), "{error}");
    }
}
