use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    time::Duration,
};

use ureq::{Agent, AgentBuilder, ErrorKind, Response};

use super::Remote;

/// How one connection ended that did not bring the whole file.
pub(super) enum Ended {
    /// It was cut, or the server was in trouble: worth another try.
    Cut(io::Error),
    /// There was no connection.
    Unreachable(Box<ureq::Transport>),
    /// The server does not give the file.
    Refused(u16),
    /// The server has a file of another size.
    Length(u64),
    /// The disk does not take it.
    Disk(io::Error),
}

/// Waits that long for a connection, and for each piece of what comes.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn agent() -> Agent {
    let agent = AgentBuilder::new().timeout_connect(PATIENCE).timeout_read(PATIENCE);
    agent.try_proxy_from_env(true).user_agent(concat!("oomph/", env!("CARGO_PKG_VERSION"))).build()
}

/// Fetches what `part` lacks, of which it has the first `have` bytes, by one connection; tells how far it is.
pub(super) fn transfer(
    agent: &Agent,
    remote: &Remote,
    part: &mut File,
    have: u64,
    tell: &dyn Fn(u64),
) -> Result<(), Ended> {
    // What is fetched is what was stored: no server may pack it on the way.
    let request = agent.get(&remote.url).set("Accept-Encoding", "identity");
    let request = if have > 0 { request.set("Range", &format!("bytes={have}-")) } else { request };
    let response = match request.call() {
        Ok(response) => response,
        // There is no such range: what is here is longer than what is there, or of another file.
        Err(ureq::Error::Status(416, _)) => {
            restart(part)?;
            return Err(Ended::Cut(io::Error::other("the server has no bytes from there on")));
        }
        Err(ureq::Error::Status(status @ (408 | 429 | 500..), _)) => {
            return Err(Ended::Cut(io::Error::other(format!("the server answered with status {status}"))));
        }
        Err(ureq::Error::Status(status, _)) => return Err(Ended::Refused(status)),
        Err(ureq::Error::Transport(error)) => return Err(not_connected(error)),
    };
    let have = match response.status() {
        206 => {
            if !goes_on(&response, have, remote.bytes) {
                restart(part)?;
                return Err(Ended::Cut(io::Error::other("the server answered with another range")));
            }
            have
        }
        200 => {
            restart(part)?;
            0
        }
        status => return Err(Ended::Refused(status)),
    };
    let length = response.header("Content-Length").and_then(|length| length.trim().parse::<u64>().ok());
    match length.map(|length| length.saturating_add(have)) {
        Some(length) if length != remote.bytes => Err(Ended::Length(length)),
        _ => copy(response.into_reader(), part, have, remote.bytes, tell),
    }
}

/// Whether the answer to a range begins at byte `have` of a file of `total` bytes.
fn goes_on(response: &Response, have: u64, total: u64) -> bool {
    let range = response.header("Content-Range").unwrap_or_default();
    range.trim().starts_with(&format!("bytes {have}-"))
        && (range.ends_with(&format!("/{total}")) || range.ends_with("/*"))
}

fn restart(part: &mut File) -> Result<(), Ended> {
    part.set_len(0).map_err(Ended::Disk)
}

fn copy(
    mut body: impl Read,
    part: &mut File,
    have: u64,
    total: u64,
    tell: &dyn Fn(u64),
) -> Result<(), Ended> {
    let mut buffer = vec![0; 1 << 16];
    let mut done = part.seek(SeekFrom::Start(have)).map_err(Ended::Disk)?;
    tell(done);
    loop {
        let count = match body.read(&mut buffer) {
            Ok(0) if done == total => return Ok(()),
            Ok(0) => return Err(Ended::Cut(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Ended::Cut(error)),
        };
        done += count as u64;
        if done > total {
            return Err(Ended::Length(done));
        }
        part.write_all(&buffer[..count]).map_err(Ended::Disk)?;
        tell(done);
    }
}

fn not_connected(error: ureq::Transport) -> Ended {
    match error.kind() {
        // The connection was there and broke.
        ErrorKind::Io | ErrorKind::BadStatus | ErrorKind::BadHeader => Ended::Cut(io::Error::other(error)),
        _ => Ended::Unreachable(Box::new(error)),
    }
}
