use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    time::Duration,
};

use ureq::{Agent, AgentBuilder, ErrorKind, Response};

use super::Remote;

/// Why a connection ended before the file was complete.
pub(super) enum TransferError {
    /// The connection broke or the server had a temporary error; another attempt may succeed.
    Cut(io::Error),
    /// No connection was possible.
    Unreachable(Box<ureq::Transport>),
    /// The server refuses the file.
    Refused(u16),
    /// The server has a file of another size.
    Length(u64),
    /// The file cannot be written.
    Disk(io::Error),
}

/// The timeout of connecting and of each read.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn agent() -> Agent {
    let agent = AgentBuilder::new().timeout_connect(PATIENCE).timeout_read(PATIENCE);
    agent.try_proxy_from_env(true).user_agent(concat!("oomph/", env!("CARGO_PKG_VERSION"))).build()
}

/// Fetches the rest of `part`, which has the first `have` bytes, over one connection, and reports the progress.
pub(super) fn transfer(
    agent: &Agent,
    remote: &Remote,
    part: &mut File,
    have: u64,
    tell: &dyn Fn(u64),
) -> Result<(), TransferError> {
    // The stored bytes are wanted; the server must not compress them.
    let request = agent.get(&remote.url).set("Accept-Encoding", "identity");
    let request = if have > 0 { request.set("Range", &format!("bytes={have}-")) } else { request };
    let response = match request.call() {
        Ok(response) => response,
        // The range does not exist: the partial file is longer than the remote one, or belongs to another.
        Err(ureq::Error::Status(416, _)) => {
            restart(part)?;
            return Err(TransferError::Cut(io::Error::other("the server does not have the requested range")));
        }
        Err(ureq::Error::Status(status @ (408 | 429 | 500..), _)) => {
            return Err(TransferError::Cut(io::Error::other(format!(
                "the server answered with status {status}"
            ))));
        }
        Err(ureq::Error::Status(status, _)) => return Err(TransferError::Refused(status)),
        Err(ureq::Error::Transport(error)) => return Err(not_connected(error)),
    };
    let have = match response.status() {
        206 if goes_on(&response, have, remote.bytes) => have,
        206 => {
            restart(part)?;
            return Err(TransferError::Cut(io::Error::other("the server answered with another range")));
        }
        200 => {
            restart(part)?;
            0
        }
        status => return Err(TransferError::Refused(status)),
    };
    let length = response.header("Content-Length").and_then(|length| length.trim().parse::<u64>().ok());
    match length.map(|length| length.saturating_add(have)) {
        Some(length) if length != remote.bytes => Err(TransferError::Length(length)),
        _ => copy(response.into_reader(), part, have, remote.bytes, tell),
    }
}

/// Whether the answer to a range begins at byte `have` of a file of `total` bytes.
fn goes_on(response: &Response, have: u64, total: u64) -> bool {
    let range = response.header("Content-Range").unwrap_or_default();
    range.trim().starts_with(&format!("bytes {have}-"))
        && (range.ends_with(&format!("/{total}")) || range.ends_with("/*"))
}

fn restart(part: &mut File) -> Result<(), TransferError> {
    part.set_len(0).map_err(TransferError::Disk)
}

fn copy(
    mut body: impl Read,
    part: &mut File,
    have: u64,
    total: u64,
    tell: &dyn Fn(u64),
) -> Result<(), TransferError> {
    let mut buffer = vec![0; 1 << 16];
    let mut done = part.seek(SeekFrom::Start(have)).map_err(TransferError::Disk)?;
    tell(done);
    loop {
        let count = match body.read(&mut buffer) {
            Ok(0) if done == total => return Ok(()),
            Ok(0) => return Err(TransferError::Cut(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(TransferError::Cut(error)),
        };
        done += count as u64;
        if done > total {
            return Err(TransferError::Length(done));
        }
        part.write_all(&buffer[..count]).map_err(TransferError::Disk)?;
        tell(done);
    }
}

fn not_connected(error: ureq::Transport) -> TransferError {
    match error.kind() {
        // An established connection broke.
        ErrorKind::Io | ErrorKind::BadStatus | ErrorKind::BadHeader => {
            TransferError::Cut(io::Error::other(error))
        }
        _ => TransferError::Unreachable(Box::new(error)),
    }
}
