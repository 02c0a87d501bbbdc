use std::{
    fs,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
};

use flate2::bufread::GzDecoder;
use oomph_core::{Bytes, files::create_fresh, open_file};
use tar::Archive;

use super::DownloadError;

/// Extracts files from a `.tar.gz`.
///
/// Only regular files with the requested names are extracted. Other entries and their paths are ignored, so an archive
/// cannot write anywhere else.
#[derive(Clone, Copy, Debug)]
pub struct Unpack<'a> {
    /// The archive.
    pub archive: &'a Path,
    /// The limit for one file; the limit for the whole archive is a hundred times as large.
    pub most_bytes: Bytes,
}

impl Unpack<'_> {
    /// Extracts the files `wanted` to the same paths in `folder`. Each is written under another name and then renamed.
    ///
    /// # Errors
    /// A file that is missing or too large, an unreadable archive, or a disk that cannot be written.
    pub fn files(&self, wanted: &[String], folder: &Path) -> Result<(), DownloadError> {
        let unreadable = |error| DownloadError::io("unpack", self.archive)(error);
        let packed = open_file(self.archive).map_err(unreadable)?;
        let most = self.most_bytes.get().saturating_mul(100);
        let mut archive = Archive::new(GzDecoder::new(BufReader::new(packed)).take(most));
        let mut missing: Vec<_> = wanted.iter().collect();
        for entry in archive.entries().map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.path_bytes().into_owned();
            let name = name.strip_prefix(b"./").unwrap_or(&name);
            let found = missing.iter().position(|wanted| wanted.as_bytes() == name);
            let Some(found) = found.filter(|_| entry.header().entry_type().is_file()) else { continue };
            let name = missing.swap_remove(found);
            self.write(name, entry, &folder.join(name))?;
            if missing.is_empty() {
                return Ok(());
            }
        }
        missing.first().map_or(Ok(()), |&file| {
            Err(DownloadError::NotInArchive { archive: self.archive.to_owned(), file: file.clone() })
        })
    }

    fn write(&self, name: &str, entry: impl Read, path: &Path) -> Result<(), DownloadError> {
        let folder = path.parent().unwrap_or(Path::new(""));
        fs::create_dir_all(folder).map_err(DownloadError::io("create", folder))?;
        let beside = PathBuf::from(format!("{}.part", path.display()));
        let mut file = create_fresh(&beside).map_err(DownloadError::io("write", &beside))?;
        let limit = self.most_bytes;
        let copied = io::copy(&mut entry.take(limit.get().saturating_add(1)), &mut file);
        // The incomplete file is useless. If it cannot be removed either, the first error is reported.
        let copied = copied
            .inspect_err(|_| drop(fs::remove_file(&beside)))
            .map_err(DownloadError::io("unpack", self.archive))?;
        if copied > limit.get() {
            fs::remove_file(&beside).map_err(DownloadError::io("remove", &beside))?;
            let (archive, file) = (self.archive.to_owned(), name.to_owned());
            return Err(DownloadError::TooLarge { archive, file, limit });
        }
        file.sync_all().map_err(DownloadError::io("write", &beside))?;
        fs::rename(&beside, path).map_err(DownloadError::io("write", path))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use flate2::{Compression, write::GzEncoder};
    use tar::{Builder, EntryType, Header};

    use super::*;

    /// An archive of entries with any name and type, even those that no tool writes.
    fn archive(entries: &[(&str, EntryType, &[u8])]) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("x.tar.gz");
        let file = File::create(&path).expect("a file");
        let mut builder = Builder::new(GzEncoder::new(file, Compression::fast()));
        for (name, kind, bytes) in entries {
            let mut header = Header::new_gnu();
            header.as_gnu_mut().expect("a GNU header").name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(bytes.len() as u64);
            header.set_entry_type(*kind);
            header.set_mode(0o644);
            header.set_cksum();
            builder.append(&header, *bytes).expect("written");
        }
        builder.into_inner().expect("written").finish().expect("written");
        (directory, path)
    }

    fn unpack(path: &Path, most_bytes: u64, wanted: &[&str]) -> Result<PathBuf, DownloadError> {
        let folder = path.with_file_name("out");
        let wanted: Vec<_> = wanted.iter().map(|name| (*name).to_owned()).collect();
        Unpack { archive: path, most_bytes: Bytes::new(most_bytes) }.files(&wanted, &folder)?;
        Ok(folder)
    }

    #[test]
    fn only_what_is_asked_for_is_written() {
        let (directory, path) = archive(&[
            ("../evil", EntryType::Regular, b"out of the folder"),
            ("/tmp/oomph-evil", EntryType::Regular, b"anywhere"),
            ("d/link", EntryType::Symlink, b""),
            ("./d/a", EntryType::Regular, b"alpha"),
            ("d/b", EntryType::Regular, b"beta"),
            ("d/more", EntryType::Regular, b"not asked for"),
        ]);
        let folder = unpack(&path, 100, &["d/b", "d/a"]).expect("both are there");
        assert_eq!(fs::read(folder.join("d/a")).expect("written"), b"alpha");
        assert_eq!(fs::read(folder.join("d/b")).expect("written"), b"beta");
        let names = |folder: &Path| fs::read_dir(folder).expect("a folder").count();
        assert_eq!((names(directory.path()), names(&folder), names(&folder.join("d"))), (2, 1, 2));
        assert!(!Path::new("/tmp/oomph-evil").exists());
    }

    #[test]
    fn a_link_with_the_right_name_is_not_the_file() {
        let (_directory, path) = archive(&[("d/a", EntryType::Symlink, b"")]);
        let error = unpack(&path, 100, &["d/a"]).expect_err("a link");
        assert!(error.to_string().ends_with("holds no `d/a`"), "{error}");
    }

    #[test]
    fn a_file_that_is_too_large_is_not_kept() {
        let (_directory, path) = archive(&[("a", EntryType::Regular, &[7; 5000])]);
        let error = unpack(&path, 4999, &["a"]).expect_err("5000 bytes");
        assert!(matches!(error, DownloadError::TooLarge { .. }), "{error}");
        assert_eq!(fs::read_dir(path.with_file_name("out")).expect("a folder").count(), 0);
    }

    #[test]
    fn an_archive_that_is_cut_is_refused() {
        let (_directory, path) = archive(&[("a", EntryType::Regular, &[7; 5000])]);
        let bytes = fs::read(&path).expect("written");
        fs::write(&path, &bytes[..bytes.len() / 2]).expect("cut");
        assert!(matches!(unpack(&path, 5000, &["a"]), Err(DownloadError::Io { .. })));
    }
}
