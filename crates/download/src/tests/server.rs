//! A local HTTP server for tests that can misbehave on request.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use sha2::{Digest, Sha256};

use oomph_download::Remote;

/// How one request is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// The requested bytes, ranges included.
    Whole,
    /// At most this number of bytes, then a broken connection.
    Cut(usize),
    /// The whole file, ignoring the requested range.
    NoRanges,
    /// Another range than the requested one.
    WrongRange,
    /// A status without a body.
    Status(u16),
    /// No length, and this number of extra bytes.
    Longer(usize),
}

/// Serves one file at any path. The requests get the given answers in order; later ones get the last answer again.
pub(crate) struct Server {
    address: String,
    /// The first requested byte of each request so far.
    requests: Arc<Mutex<Vec<usize>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(file: Vec<u8>, answers: &[Answer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let (requests, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let thread = thread::spawn({
            let (requests, stop, answers) = (requests.clone(), stop.clone(), answers.to_vec());
            move || {
                for connection in listener.incoming() {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let number = requests.lock().expect("no panic").len();
                    let answer = answers[number.min(answers.len() - 1)];
                    let connection = connection.expect("a connection");
                    // Counted before the answer: a client with the answer may read the count.
                    serve(connection, &file, answer, |start| requests.lock().expect("no panic").push(start));
                }
            }
        });
        Self { address, requests, stop, thread: Some(thread) }
    }

    /// The file under its own checksum.
    pub(crate) fn remote(&self, file: &[u8]) -> Remote {
        let checksum = format!("{:x}", Sha256::digest(file));
        Remote::new(format!("http://{}/files/data.bin", self.address), file.len() as u64, checksum)
    }

    pub(crate) fn requests(&self) -> Vec<usize> {
        self.requests.lock().expect("no panic").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A connection wakes the server's thread.
        drop(TcpStream::connect(&self.address));
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Answers one request, after it reports the first requested byte.
fn serve(mut connection: TcpStream, file: &[u8], answer: Answer, asked: impl FnOnce(usize)) {
    let mut start = 0;
    let mut lines = BufReader::new(connection.try_clone().expect("a handle")).lines();
    while let Some(Ok(line)) = lines.next().filter(|line| line.as_ref().is_ok_and(|line| !line.is_empty())) {
        let range = line.to_lowercase();
        if let Some(range) = range.strip_prefix("range: bytes=") {
            start = range.trim_end_matches('-').parse().expect("a range without an end");
        }
    }
    asked(start);
    let ranged = |from: usize| {
        let rest = &file[from..];
        let range = format!("Content-Range: bytes {from}-{}/{}\r\n", file.len() - 1, file.len());
        match from {
            0 => (format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", rest.len()), rest.to_vec()),
            _ => (
                format!("HTTP/1.1 206 Partial Content\r\n{range}Content-Length: {}\r\n", rest.len()),
                rest.to_vec(),
            ),
        }
    };
    let (head, body) = match answer {
        _ if start > file.len() => ("HTTP/1.1 416 Range Not Satisfiable\r\n".to_owned(), Vec::new()),
        Answer::Whole => ranged(start),
        Answer::Cut(bytes) => {
            let (head, mut body) = ranged(start);
            body.truncate(bytes);
            (head, body)
        }
        Answer::NoRanges => ranged(0),
        Answer::WrongRange => ranged(start + 1),
        Answer::Status(status) => (format!("HTTP/1.1 {status} No\r\nContent-Length: 0\r\n"), Vec::new()),
        Answer::Longer(more) => {
            let body = [file, &vec![0; more]].concat();
            ("HTTP/1.1 200 OK\r\n".to_owned(), body)
        }
    };
    // The client may have closed the connection.
    let _ = connection.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes());
    let _ = connection.write_all(&body);
}
