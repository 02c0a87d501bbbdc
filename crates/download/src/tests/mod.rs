mod server;

use std::{cell::RefCell, fs, net::TcpListener, path::PathBuf};

use self::server::{Answer, Server};
use super::{DownloadError, Remote, download};
use crate::OpenEvent;

fn file() -> Vec<u8> {
    (0..300_000u32).flat_map(|value| value.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

/// A folder for downloads.
struct DownloadDir(tempfile::TempDir);

impl DownloadDir {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    fn target(&self) -> PathBuf {
        self.0.path().join("deeper/data.bin")
    }

    fn part(&self) -> PathBuf {
        self.0.path().join("deeper/data.bin.part")
    }

    fn write_part(&self, bytes: &[u8]) {
        fs::create_dir_all(self.part().parent().expect("deeper")).expect("a folder");
        fs::write(self.part(), bytes).expect("a file");
    }

    fn fetch(&self, remote: &Remote) -> Result<(), DownloadError> {
        download(remote, &self.target(), &|_| {})
    }

    /// Neither the final file nor a partial one exists.
    fn assert_empty(&self) {
        assert!(!self.target().exists() && !self.part().exists());
    }
}

#[test]
fn a_file_arrives_whole_and_is_fetched_once() {
    let (file, place) = (file(), DownloadDir::new());
    let server = Server::start(file.clone(), &[Answer::Whole]);
    let told = RefCell::new(Vec::new());
    let tell = |event: &OpenEvent<'_>| match *event {
        OpenEvent::Downloading { done, total, .. } => told.borrow_mut().push((done, total)),
        OpenEvent::Downloaded { bytes, path, .. } => {
            assert_eq!((bytes, path), (1_200_000, place.target().as_path()));
        }
        OpenEvent::Unpacking { .. } => panic!("it is no archive"),
        OpenEvent::Encoding { .. } | OpenEvent::Encoded { .. } => panic!("it is no text"),
    };
    download(&server.remote(&file), &place.target(), &tell).expect("a whole file");
    assert_eq!(fs::read(place.target()).expect("fetched"), file);
    assert!(!place.part().exists());
    let told = told.into_inner();
    assert_eq!((told.first(), told.last()), (Some(&(0, 1_200_000)), Some(&(1_200_000, 1_200_000))));
    assert!(told.is_sorted());
    place.fetch(&server.remote(&file)).expect("it is there");
    assert_eq!(server.requests(), [0]);
}

#[test]
fn a_connection_that_is_cut_is_taken_up_where_it_ended() {
    let (file, place) = (file(), DownloadDir::new());
    let answers = [Answer::Cut(500_000), Answer::Cut(0), Answer::Status(503), Answer::Cut(1), Answer::Whole];
    let server = Server::start(file.clone(), &answers);
    place.fetch(&server.remote(&file)).expect("it comes in pieces");
    assert_eq!(fs::read(place.target()).expect("fetched"), file);
    let requests = server.requests();
    assert_eq!((requests.len(), requests[0]), (5, 0));
    // Bytes in flight may be lost when a connection breaks.
    assert!(requests.is_sorted() && requests[1] > 0 && requests[4] <= 500_001, "{requests:?}");
}

#[test]
fn a_later_process_goes_on_too() {
    let (file, place) = (file(), DownloadDir::new());
    let server =
        Server::start(file.clone(), &[Answer::Cut(0), Answer::Cut(0), Answer::Cut(0), Answer::Whole]);
    place.write_part(&file[..700_000]);
    let error = place.fetch(&server.remote(&file)).expect_err("nothing comes");
    assert!(matches!(error, DownloadError::Cut { done: 700_000, total: 1_200_000, .. }), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("resumes")));
    place.fetch(&server.remote(&file)).expect("the rest comes");
    assert_eq!(fs::read(place.target()).expect("fetched"), file);
    assert_eq!(server.requests(), [700_000; 4]);
}

#[test]
fn a_server_without_ranges_sends_all_of_it_again() {
    let (file, place) = (file(), DownloadDir::new());
    let server = Server::start(file.clone(), &[Answer::NoRanges]);
    place.write_part(&[9; 1000]);
    place.fetch(&server.remote(&file)).expect("from the start");
    assert_eq!(fs::read(place.target()).expect("fetched"), file);
}

#[test]
fn a_range_that_was_not_asked_for_is_not_taken() {
    let (file, place) = (file(), DownloadDir::new());
    let server = Server::start(file.clone(), &[Answer::WrongRange, Answer::Whole]);
    place.write_part(&file[..1000]);
    place.fetch(&server.remote(&file)).expect("from the start");
    assert_eq!(fs::read(place.target()).expect("fetched"), file);
    assert_eq!(server.requests(), [1000, 0]);
}

#[test]
fn a_part_that_is_too_long_is_begun_anew() {
    let (file, place) = (file(), DownloadDir::new());
    let server = Server::start(file.clone(), &[Answer::Whole]);
    place.write_part(&[1; 1_200_001]);
    place.fetch(&server.remote(&file)).expect("from the start");
    assert_eq!(server.requests(), [0]);
}

#[test]
fn wrong_bytes_are_removed_whoever_sent_them() {
    let (file, place) = (file(), DownloadDir::new());
    let mut wrong = file.clone();
    wrong[1_000_000] ^= 1;
    let server = Server::start(wrong, &[Answer::Whole]);
    let error = place.fetch(&server.remote(&file)).expect_err("another file");
    assert!(matches!(error, DownloadError::Checksum { .. }), "{error}");
    place.assert_empty();
    // A partial download of another file: the whole is refused, and the next attempt starts over.
    let server = Server::start(file.clone(), &[Answer::Whole]);
    place.write_part(&[1; 5000]);
    assert!(matches!(place.fetch(&server.remote(&file)), Err(DownloadError::Checksum { .. })));
    place.assert_empty();
    place.fetch(&server.remote(&file)).expect("from the start");
    assert_eq!(server.requests(), [5000, 0]);
}

#[test]
fn a_file_of_another_length_is_refused() {
    let (file, place) = (file(), DownloadDir::new());
    for (served, answer, found) in [
        (&file[..1_199_999], Answer::Whole, Some(1_199_999)),
        (&[&file[..], b"more"].concat()[..], Answer::Whole, Some(1_200_004)),
        (&file[..], Answer::Longer(1), Some(1_200_001)),
    ] {
        let server = Server::start(served.to_vec(), &[answer]);
        let mut remote = server.remote(&file);
        remote.bytes = 1_200_000;
        match place.fetch(&remote) {
            Err(DownloadError::Length { found: length, expected: 1_200_000, .. }) => {
                assert!(found.is_none_or(|found| found == length), "{length}");
            }
            other => panic!("{other:?}"),
        }
        place.assert_empty();
    }
}

#[test]
fn what_is_not_there_is_told_with_what_to_do() {
    let (file, place) = (file(), DownloadDir::new());
    let server = Server::start(file.clone(), &[Answer::Status(404)]);
    let error = place.fetch(&server.remote(&file)).expect_err("it is not there");
    assert!(error.to_string().ends_with("with status 404"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("deeper/data.bin")), "{:?}", error.hint());
    assert_eq!(server.requests().len(), 1);
    place.assert_empty();
}

#[test]
fn without_a_network_the_error_says_where_to_put_the_file() {
    let place = DownloadDir::new();
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound");
    for url in [format!("http://{free}/x"), "http://does-not-exist.invalid/x".to_owned()] {
        let error = place.fetch(&Remote::new(url, 1, "")).expect_err("nobody is there");
        assert!(matches!(error, DownloadError::Unreachable { .. }), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("network") && hint.contains("data.bin")));
        place.assert_empty();
    }
}

#[test]
fn a_file_that_is_there_and_is_another_is_not_touched() {
    let (file, place) = (file(), DownloadDir::new());
    place.write_part(b"");
    fs::write(place.target(), b"the user's own").expect("a file");
    let server = Server::start(file.clone(), &[Answer::Whole]);
    let error = place.fetch(&server.remote(&file)).expect_err("another file");
    assert!(matches!(error, DownloadError::OtherFile { .. }), "{error}");
    assert_eq!(fs::read(place.target()).expect("still there"), b"the user's own");
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn two_processes_do_not_write_one_file() {
    let (file, place) = (file(), DownloadDir::new());
    place.write_part(b"");
    let other = fs::File::open(place.part()).expect("a file");
    other.lock().expect("nobody else has it");
    let error = place.fetch(&Remote::new("http://127.0.0.1:1/x", file.len() as u64, "")).expect_err("locked");
    assert!(matches!(error, DownloadError::Busy { .. }), "{error}");
}
