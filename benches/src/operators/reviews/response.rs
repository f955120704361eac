//! A minimal parser of HTTP/1.1 responses with a content length or chunks. A general client would
//! use more CPU time than some of the servers.

use std::borrow::Cow;

use anyhow::{Context as _, Result, bail, ensure};

/// Upper bound for the size of a response. Valid ones have some hundreds of bytes.
const LARGEST: usize = 64 * 1024;

/// One response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Response<'b> {
    pub(super) status: u16,
    pub(super) body: Cow<'b, [u8]>,
    /// The connection can be reused.
    pub(super) is_kept: bool,
    /// The number of bytes on the connection.
    pub(super) size: usize,
}

/// The status and the relevant headers.
struct Head {
    status: u16,
    is_kept: bool,
    framing: Framing,
}

/// The framing of the body.
#[derive(Clone, Copy)]
enum Framing {
    Length(usize),
    Chunks,
}

/// Parses the response at the start of the received bytes; `None` if it is incomplete.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<Response<'_>>> {
    let response = parse_whole(bytes)?;
    let has_end = response.is_some() || bytes.len() <= LARGEST;
    ensure!(has_end, "the response exceeds {LARGEST} bytes");
    Ok(response)
}

fn parse_whole(bytes: &[u8]) -> Result<Option<Response<'_>>> {
    let Some(end) = find(bytes, b"\r\n\r\n") else {
        return Ok(None);
    };
    let (head, body) = bytes.split_at(end + 4);
    let head = parse_head(head)?;
    let (body, size) = match head.framing {
        Framing::Length(length) => match body.get(..length) {
            Some(body) => (Cow::Borrowed(body), length),
            None => return Ok(None),
        },
        Framing::Chunks => match join(body)? {
            Some((joined, size)) => (Cow::Owned(joined), size),
            None => return Ok(None),
        },
    };
    Ok(Some(Response {
        status: head.status,
        body,
        is_kept: head.is_kept,
        size: end + 4 + size,
    }))
}

fn parse_head(head: &[u8]) -> Result<Head> {
    let head = std::str::from_utf8(head).context("the headers are not UTF-8")?;
    let mut lines = head.split("\r\n").take_while(|line| !line.is_empty());
    let (version, status) = lines
        .next()
        .and_then(|line| line.strip_prefix("HTTP/1.")?.split_once(' '))
        .context("not an HTTP/1 response")?;
    let status = status.split(' ').next().unwrap_or_default();
    ensure!(status.len() == 3, "invalid status {status:?}");
    let status = status.parse().context("invalid status")?;
    let mut is_kept = version != "0";
    let mut framing = None;
    for line in lines {
        let (name, value) = line.split_once(':').context("a header has no colon")?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            let length = value.parse().context("invalid content length")?;
            ensure!(length < LARGEST, "the body has {length} bytes");
            // Chunked encoding takes precedence.
            framing.get_or_insert(Framing::Length(length));
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            let is_known = value.eq_ignore_ascii_case("chunked");
            ensure!(is_known, "unsupported transfer encoding {value}");
            framing = Some(Framing::Chunks);
        } else if name.eq_ignore_ascii_case("connection") {
            let has = |wanted: &str| {
                let mut options = value.split(',').map(str::trim);
                options.any(|option| option.eq_ignore_ascii_case(wanted))
            };
            is_kept = !has("close") && (is_kept || has("keep-alive"));
        }
    }
    Ok(Head {
        status,
        is_kept,
        framing: framing.context("neither a content length nor chunks")?,
    })
}

/// Returns the joined chunks and their size on the connection; `None` if they are incomplete.
fn join(body: &[u8]) -> Result<Option<(Vec<u8>, usize)>> {
    let mut joined = Vec::new();
    let mut rest = body;
    loop {
        let Some((line, after)) = split_line(rest)? else {
            return Ok(None);
        };
        let digits = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(digits, 16)
            .ok()
            .filter(|size| joined.len().saturating_add(*size) <= LARGEST)
            .with_context(|| format!("invalid chunk size {digits:?}"))?;
        rest = after;
        if size == 0 {
            break;
        }
        let Some((chunk, after)) = rest.split_at_checked(size) else {
            return Ok(None);
        };
        joined.extend_from_slice(chunk);
        match after {
            [b'\r', b'\n', after @ ..] => rest = after,
            [] | [b'\r'] => return Ok(None),
            _ => bail!("a chunk is longer than its size"),
        }
    }
    // Trailers have the format of headers.
    loop {
        match split_line(rest)? {
            None => return Ok(None),
            Some(("", after)) => return Ok(Some((joined, body.len() - after.len()))),
            Some((_, after)) => rest = after,
        }
    }
}

fn split_line(bytes: &[u8]) -> Result<Option<(&str, &[u8])>> {
    let Some(end) = find(bytes, b"\r\n") else {
        return Ok(None);
    };
    let (line, after) = bytes.split_at(end);
    let line = std::str::from_utf8(line).context("a line is not UTF-8")?;
    Ok(Some((line, after.get(2..).unwrap_or_default())))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_kept(head: &str) -> bool {
        let text = format!("{head}content-length: 0\r\n\r\n");
        parse(text.as_bytes()).unwrap().unwrap().is_kept
    }

    #[test]
    fn bodies_end_by_their_length() {
        let text = b"HTTP/1.1 200 OK\r\nDate: x: y\r\nCONTENT-length:  5 \r\n\r\nhelloHTTP/1.1";
        let response = parse(text).unwrap().unwrap();
        assert_eq!((response.status, response.size), (200, text.len() - 8));
        assert_eq!(response.body, Cow::Borrowed(b"hello"));
        assert!(response.is_kept);
        let empty = parse(b"HTTP/1.1 503 \r\nContent-Length: 0\r\n\r\n").unwrap();
        let empty = empty.unwrap();
        assert!(empty.status == 503 && empty.body.is_empty());
    }

    #[test]
    fn bodies_end_by_their_last_chunk() {
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: Chunked\r\n\r\n";
        for chunks in [
            "5\r\nhello\r\n0\r\n\r\n",
            "2;name=value\r\nhe\r\n003\r\nllo\r\n0;x\r\nsome: trailer\r\n\r\n",
        ] {
            let text = format!("{head}{chunks}");
            let next = format!("{text}next");
            let response = parse(next.as_bytes()).unwrap().unwrap();
            assert_eq!(response.body, Cow::Borrowed(b"hello"));
            assert_eq!(response.size, text.len());
        }
        let binary = [head.as_bytes(), b"A\r\n\r\n0\r\n\r\n\xFF\n\r\r\n0\r\n\r\n"].concat();
        let response = parse(&binary).unwrap().unwrap();
        assert_eq!(response.body, Cow::Borrowed(b"\r\n0\r\n\r\n\xFF\n\r"));
    }

    #[test]
    fn responses_can_arrive_in_pieces() {
        for text in [
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhell\r\n1\r\no\r\n0\r\na: b\r\n\r\n",
        ] {
            for end in 0..text.len() {
                let part = parse(&text.as_bytes()[..end]);
                assert_eq!(part.unwrap(), None, "{:?}", &text[..end]);
            }
            let response = parse(text.as_bytes()).unwrap().unwrap();
            assert_eq!(response.body, Cow::Borrowed(b"hello"));
        }
    }

    #[test]
    fn connections_are_kept_by_default() {
        assert!(is_kept("HTTP/1.1 200 OK\r\n"));
        assert!(is_kept("HTTP/1.1 200 OK\r\nconnection: keep-alive\r\n"));
        assert!(is_kept("HTTP/1.0 200 OK\r\nConnection: te, Keep-Alive\r\n"));
        assert!(!is_kept("HTTP/1.0 200 OK\r\n"));
        assert!(!is_kept("HTTP/1.1 200 OK\r\nConnection: Close\r\n"));
    }

    #[test]
    fn invalid_responses_are_rejected() {
        let head = "HTTP/1.1 200 OK\r\n";
        for text in [
            "SSH-2.0-x\r\n\r\n".to_owned(),
            "HTTP/2 200\r\n\r\n".to_owned(),
            "HTTP/1.1 20 OK\r\ncontent-length: 0\r\n\r\n".to_owned(),
            "HTTP/1.1 abc\r\ncontent-length: 0\r\n\r\n".to_owned(),
            format!("{head}\r\nuntil it is closed"),
            format!("{head}no colon\r\n\r\n"),
            format!("{head}content-length: -1\r\n\r\n"),
            format!("{head}content-length: 99999999999\r\n\r\n"),
            format!("{head}transfer-encoding: gzip\r\n\r\n"),
            format!("{head}transfer-encoding: chunked\r\n\r\nxyz\r\n"),
            format!("{head}transfer-encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n"),
            format!("{head}transfer-encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n"),
            "x".repeat(LARGEST + 1),
            format!(
                "{head}transfer-encoding: chunked\r\n\r\n0\r\n{}",
                "a: b\r\n".repeat(LARGEST / 6)
            ),
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text:.80}");
        }
        assert!(parse(b"HTTP/1.1 200 \xFF\r\ncontent-length: 0\r\n\r\n").is_err());
    }
}
