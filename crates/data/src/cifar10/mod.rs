mod parse;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use oomph_config::{ConfigError, Section};
use oomph_core::{Bytes, SampleSpec, TargetSpec};

pub(crate) use self::parse::{CLASSES, SHAPE, class_names, read};
use crate::{
    DataError, OnCorrupt, OpenContext, OpenEvent, OpenSource, Source,
    declared::Declared,
    download::{Remote, Unpack, download},
    input::read_file,
    memory_images::{Classes, ImagePart, LabelRule, MemoryImages, file_name},
    options::max_file_bytes,
    place::required_path,
    source::Parts,
    transform::TransformSettings,
};

const TRAIN: [&str; 5] =
    ["data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"];
const TEST: &str = "test_batch.bin";
const NAMES: &str = "batches.meta.txt";
/// The folder in the archive; it may also be in `data.path`.
const FOLDER: &str = "cifar-10-batches-bin";
const ARCHIVE: &str = "cifar-10-binary.tar.gz";

/// The archive on the authors' server.
const HOME: &str = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz";
const ARCHIVE_BYTES: u64 = 170_052_171;
const SHA256: &str = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd";

/// Reads the settings of CIFAR-10 in [its binary format](https://www.cs.toronto.edu/~kriz/cifar.html):
/// `data_batch_1.bin` to `data_batch_5.bin` for training and `test_batch.bin` held out, with 3×32×32 images of ten
/// classes. The names of the classes come from `batches.meta.txt` if it exists.
///
/// | key | default | meaning |
/// |---|---|---|
/// | `path` | | the folder that holds the files, or the folder `cifar-10-batches-bin` with them |
/// | `download` | `false` | fetches the archive into `path` and unpacks it if files are missing |
/// | `max_file_bytes` | `4GiB` | a larger file, plain or decompressed, is refused |
/// | `normalize`, `mean`, `std` | `auto` | see [`TransformSettings`] |
/// | `crop_padding`, `flip`, `augment` | off | see [`TransformSettings`] |
///
/// # Errors
/// A value of the wrong type or out of its range. [`open`](crate::OpenSource::open) checks the files.
pub fn cifar10(section: &Section) -> Result<Box<dyn OpenSource + Send + Sync>, ConfigError> {
    Ok(Box::new(Cifar10Settings::read(section)?))
}

struct Cifar10Settings {
    path: PathBuf,
    /// The archive to fetch, with `data.download`.
    remote: Option<Remote>,
    max_file_bytes: Bytes,
    transform: TransformSettings,
    on_corrupt: OnCorrupt,
}

impl Cifar10Settings {
    fn read(section: &Section) -> Result<Self, ConfigError> {
        let expected = "the folder that holds `data_batch_1.bin`";
        let remote = || Remote::new(HOME.to_owned(), ARCHIVE_BYTES, SHA256);
        Ok(Self {
            path: required_path(section, "path", expected)?,
            remote: section.boolean("download", false)?.then(remote),
            max_file_bytes: max_file_bytes(section)?,
            transform: TransformSettings::read(section, SHAPE.channels)?,
            on_corrupt: OnCorrupt::read(section)?,
        })
    }

    /// The folder with all files.
    fn folder(&self) -> Result<PathBuf, DataError> {
        let within = self.path.join(FOLDER);
        let folder = if within.is_dir() { &within } else { &self.path };
        match files().find(|name| !folder.join(name).exists()) {
            None => Ok(folder.clone()),
            Some(name) => {
                let (folder, expected) = (folder.clone(), name.to_owned());
                Err(DataError::NoFile { folder, expected, can_be_fetched: true })
            }
        }
    }

    /// Fetches, unpacks and removes the archive.
    fn fetch(&self, remote: &Remote, context: &OpenContext) -> Result<(), DataError> {
        let archive = self.path.join(ARCHIVE);
        download(remote, &archive, &|event| context.tell(event))?;
        context.tell(&OpenEvent::Unpacking { archive: &archive });
        let wanted: Vec<_> = files().chain([NAMES]).map(|name| format!("{FOLDER}/{name}")).collect();
        Unpack { archive: &archive, most_bytes: self.max_file_bytes }.files(&wanted, &self.path)?;
        std::fs::remove_file(&archive).map_err(|source| DataError::Io { path: archive, source })
    }

    /// Reads the files of the training set or of the held-out set.
    fn part(&self, folder: &Path, names: &[&str]) -> Result<ImagePart, DataError> {
        let rule = LabelRule { first: 0, classes: CLASSES, on_corrupt: self.on_corrupt };
        let mut part = ImagePart::default();
        for name in names {
            let path = folder.join(name);
            let file = file_name(&path);
            read_file(&path, self.max_file_bytes, |input| read(input, file, rule, &mut part))?;
        }
        Ok(part)
    }

    /// The names of the classes, if the file with them exists.
    fn class_names(&self, folder: &Path) -> Result<Option<Vec<String>>, DataError> {
        const MOST: Bytes = Bytes::mib(1);
        let path = folder.join(NAMES);
        let read =
            || read_file(&path, MOST.min(self.max_file_bytes), |mut input| class_names(&input.rest()?));
        path.exists().then(read).transpose()
    }
}

fn files() -> impl Iterator<Item = &'static str> {
    TRAIN.into_iter().chain([TEST])
}

impl OpenSource for Cifar10Settings {
    fn open(&self, context: &OpenContext) -> Result<Arc<dyn Source>, DataError> {
        let folder = match (self.folder(), &self.remote) {
            (Err(DataError::NoFile { .. }), Some(remote)) => {
                self.fetch(remote, context)?;
                self.folder()?
            }
            (folder, _) => folder?,
        };
        let classes = Classes { count: CLASSES, names: self.class_names(&folder)? };
        let parts = Parts { train: self.part(&folder, &TRAIN)?, test: self.part(&folder, &[TEST])? };
        Ok(Arc::new(MemoryImages::new(parts, SHAPE, u8::MAX, classes, &self.transform, context)))
    }

    fn declared(&self) -> Option<Arc<dyn Source>> {
        let spec = SampleSpec { input: SHAPE.into(), target: TargetSpec::Class { count: CLASSES } };
        Some(Arc::new(Declared { spec, samples: [50_000, 10_000], is_continuous: false }))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Mutex};

    use flate2::{Compression, write::GzEncoder};
    use oomph_core::Split;

    use super::*;
    use crate::{
        DownloadError,
        server::{Answer, Server},
    };

    /// An archive like that of CIFAR-10, with one image per file.
    fn archive() -> Vec<u8> {
        let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        let mut add = |name: &str, bytes: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, format!("{FOLDER}/{name}"), bytes).expect("written to memory");
        };
        for (label, name) in files().enumerate() {
            add(name, &[vec![label as u8], vec![7; SHAPE.elements()]].concat());
        }
        add(NAMES, b"a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
        add("readme.html", b"<html>");
        builder.into_inner().expect("whole").finish().expect("written to memory")
    }

    fn settings(path: &Path, remote: Option<Remote>) -> Cifar10Settings {
        let text = format!("path = '{}'", path.display());
        let section = Section::from_toml("data", &text).expect("valid TOML");
        Cifar10Settings { remote, ..Cifar10Settings::read(&section).expect("valid settings") }
    }

    #[test]
    fn the_archive_is_fetched_and_unpacked_once() {
        let (archive, place) = (archive(), tempfile::tempdir().expect("a temporary directory"));
        let server = Server::start(archive.clone(), &[Answer::Cut(100), Answer::Whole]);
        let path = place.path().join("cifar10");
        let events = Arc::new(Mutex::new(Vec::new()));
        let told = events.clone();
        let tell = move |event: &OpenEvent<'_>| {
            let name = format!("{event:?}").split(' ').next().unwrap_or_default().to_owned();
            told.lock().expect("no panic").push(name);
        };
        let context = OpenContext::new("unused", 0).with_observer(Arc::new(tell));
        for _ in 0..2 {
            let source = settings(&path, Some(server.remote(&archive))).open(&context).expect("fetched");
            assert_eq!((source.len(Split::Train), source.len(Split::Test)), (5, 1));
            assert_eq!(source.class_names().expect("named")[1], "b");
        }
        assert_eq!(server.requests().len(), 2);
        let mut events = events.lock().expect("no panic").clone();
        events.dedup();
        assert_eq!(events, ["Downloading", "Downloaded", "Unpacking"]);
        // Only the data files: neither the archive nor its other files.
        assert_eq!(fs::read_dir(&path).expect("a folder").count(), 1);
        assert_eq!(fs::read_dir(path.join(FOLDER)).expect("a folder").count(), 7);
    }

    #[test]
    fn nothing_is_trained_on_that_is_not_the_right_archive() {
        let (archive, place) = (archive(), tempfile::tempdir().expect("a temporary directory"));
        let server = Server::start(archive.clone(), &[Answer::Whole]);
        let remote = Remote { sha256: "0".repeat(64), ..server.remote(&archive) };
        let error = settings(place.path(), Some(remote)).open(&OpenContext::new("unused", 0));
        assert!(matches!(error.err(), Some(DataError::Download(DownloadError::Checksum { .. }))));
        assert_eq!(fs::read_dir(place.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn nothing_is_fetched_by_default() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let error = settings(place.path(), None).open(&OpenContext::new("unused", 0)).err();
        assert!(matches!(error, Some(DataError::NoFile { can_be_fetched: true, .. })));
    }
}
