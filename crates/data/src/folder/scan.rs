use std::{
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
};

use oomph_core::{Bytes, Generator, Key};

use super::settings::Holdout;
use crate::{DataError, digest::Digest, source::Parts};

/// Both parts of a data folder.
pub(super) struct FolderListing {
    pub(super) classes: Vec<String>,
    pub(super) train: FolderPart,
    pub(super) test: FolderPart,
    /// How the held-out part was chosen.
    pub(super) held_out: String,
    /// The labels of each group of files of a part, where images have any number of labels.
    pub(super) label_sets: Option<Parts<Vec<Box<[usize]>>>>,
}

/// The images of one part, ordered by class and name. Images with any number of labels have those with the same labels as a class.
pub(super) struct FolderPart {
    root: PathBuf,
    layout: Layout,
    classes: Vec<ClassFiles>,
    /// The index of each class's first image.
    starts: Vec<usize>,
    images: usize,
}

/// Where the files of a part are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// In a folder for each class.
    ClassFolders,
    /// At paths relative to the root, as a table of labels has them.
    Labels,
}

/// The files of a class.
pub(super) struct ClassFiles {
    pub(super) name: OsString,
    pub(super) files: Vec<OsString>,
}

/// The names of a held-out part, the first that is there counts.
pub(super) const HELD_OUT: [&str; 4] = ["test", "val", "valid", "validation"];

/// Lists a data folder. It opens no image and no folder below the classes, so loops of symbolic links are harmless.
pub(super) fn scan(root: &Path, holdout: &Holdout) -> Result<FolderListing, DataError> {
    check_folder(root)?;
    let train = root.join("train");
    if !train.exists() {
        let whole = FolderPart::scan(root.to_owned()).map_err(|error| match error {
            DataError::NoClasses { path } | DataError::EmptyClass { path, .. }
                if !path.join("train").exists() =>
            {
                DataError::NoSplit { path: root.to_owned() }
            }
            error => error,
        })?;
        return split(whole, holdout);
    }
    let train = FolderPart::scan(train)?;
    let Some(test) = HELD_OUT.iter().map(|name| root.join(name)).find(|part| part.exists()) else {
        return split(train, holdout);
    };
    let held_out = format!("the folder `{}`", test.display());
    holdout.note_unused(&held_out);
    let test = FolderPart::scan(test)?;
    let classes = train.class_names();
    let of_test = test.class_names();
    if classes != of_test {
        let lacking = |names: &[String], other: &[String]| {
            names.iter().filter(|name| !other.contains(name)).cloned().collect()
        };
        return Err(DataError::ClassMismatch {
            missing: lacking(&classes, &of_test),
            extra: lacking(&of_test, &classes),
            path: test.root,
        });
    }
    Ok(FolderListing { classes, train, test, held_out, label_sets: None })
}

/// Holds a share of each class out, at least one image, and leaves at least one to train on.
pub(super) fn split(whole: FolderPart, holdout: &Holdout) -> Result<FolderListing, DataError> {
    let classes = whole.class_names();
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for ClassFiles { name, files } in whole.classes {
        if files.len() < 2 {
            return Err(match whole.layout {
                Layout::ClassFolders => DataError::TooFewToSplit { path: whole.root.join(name) },
                Layout::Labels => DataError::SingleLabel { label: name.display().to_string() },
            });
        }
        let count = (files.len() as f64 * holdout.share).round() as usize;
        let count = count.clamp(1, files.len() - 1);
        let of_class = Key::new(holdout.seed).with_name(&name.to_string_lossy());
        let mut ranked: Vec<_> = files
            .into_iter()
            .map(|file| (Generator::at(of_class.with_name(&file.to_string_lossy())).below(usize::MAX), file))
            .collect();
        ranked.sort_unstable();
        let sorted = |part: &[(usize, OsString)]| {
            let mut files: Vec<_> = part.iter().map(|(_, file)| file.clone()).collect();
            files.sort_unstable();
            ClassFiles { name: name.clone(), files }
        };
        let (held_out, rest) = ranked.split_at(count);
        test.push(sorted(held_out));
        train.push(sorted(rest));
    }
    let part = |classes| FolderPart::new(whole.root.clone(), classes, whole.layout);
    let held_out = holdout.origin("each class");
    Ok(FolderListing { classes, train: part(train), test: part(test), held_out, label_sets: None })
}

fn check_folder(path: &Path) -> Result<(), DataError> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(DataError::NotAFolder { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(DataError::Missing { path: path.to_owned() })
        }
        Err(source) => Err(DataError::Io { path: path.to_owned(), source }),
    }
}

impl FolderPart {
    fn scan(root: PathBuf) -> Result<Self, DataError> {
        check_folder(&root)?;
        let mut classes = Vec::new();
        for (name, kind) in sorted_entries(&root)? {
            let path = root.join(&name);
            if !is_hidden(&name) && (kind.is_dir() || kind.is_symlink() && path.is_dir()) {
                classes.push(ClassFiles::scan(name, path)?);
            }
        }
        if classes.is_empty() {
            return Err(DataError::NoClasses { path: root });
        }
        Ok(Self::new(root, classes, Layout::ClassFolders))
    }

    pub(super) fn new(root: PathBuf, classes: Vec<ClassFiles>, layout: Layout) -> Self {
        let mut images = 0;
        let starts = classes.iter().map(|class| {
            images += class.files.len();
            images - class.files.len()
        });
        Self { starts: starts.collect(), root, layout, classes, images }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn len(&self) -> usize {
        self.images
    }

    pub(super) fn class(&self, index: usize) -> usize {
        // The first start is 0. Of classes with the same start, the last one has the image.
        self.starts.partition_point(|&start| start <= index) - 1
    }

    pub(super) fn path(&self, index: usize) -> PathBuf {
        let (class, file) = self.file(index);
        match self.layout {
            Layout::ClassFolders => self.root.join(class).join(file),
            Layout::Labels => self.root.join(file),
        }
    }

    /// The name of an image in messages: its path within the data folder.
    pub(super) fn name(&self, index: usize) -> String {
        let (class, file) = self.file(index);
        let part = self.root.file_name().unwrap_or_default();
        let path = match self.layout {
            Layout::ClassFolders => Path::new(part).join(class).join(file),
            Layout::Labels => file.into(),
        };
        path.display().to_string()
    }

    /// Adds the names and classes of the images to a digest.
    pub(super) fn add_to(&self, digest: &mut Digest) {
        for index in 0..self.len() {
            digest.add(self.name(index).as_bytes());
            if self.layout == Layout::Labels {
                digest.add(self.file(index).0.as_encoded_bytes());
            }
        }
    }

    pub(super) fn host_bytes(&self) -> Bytes {
        let files = self.classes.iter().flat_map(|class| &class.files);
        let bytes: usize = files.map(|file| size_of::<OsString>() + file.capacity()).sum();
        Bytes::new(bytes as u64)
    }

    fn file(&self, index: usize) -> (&OsStr, &OsStr) {
        let class = self.class(index);
        (&self.classes[class].name, &self.classes[class].files[index - self.starts[class]])
    }

    pub(super) fn class_names(&self) -> Vec<String> {
        self.classes.iter().map(|class| class.name.display().to_string()).collect()
    }
}

impl ClassFiles {
    fn scan(name: OsString, path: PathBuf) -> Result<Self, DataError> {
        let entries = sorted_entries(&path)?;
        let count = entries.len();
        let mut files = Vec::new();
        for (mut name, kind) in entries {
            if is_image(&name) && !is_hidden(&name) && !kind.is_dir() {
                name.shrink_to_fit();
                files.push(name);
            }
        }
        if files.is_empty() {
            return Err(DataError::EmptyClass { path, ignored: count });
        }
        files.shrink_to_fit();
        Ok(Self { name, files })
    }
}

/// The entries of a folder, sorted by name. The kind is that of the entry itself; symbolic links are not followed.
pub(crate) fn sorted_entries(path: &Path) -> Result<Vec<(OsString, fs::FileType)>, DataError> {
    let named = |entry: fs::DirEntry| Ok((entry.file_name(), entry.file_type()?));
    let read = || fs::read_dir(path)?.map(|entry| named(entry?)).collect::<io::Result<Vec<_>>>();
    let mut entries = read().map_err(|source| DataError::Io { path: path.to_owned(), source })?;
    entries.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    Ok(entries)
}

pub(super) fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

pub(crate) fn is_image(name: &OsStr) -> bool {
    let extension = Path::new(name).extension().unwrap_or_default();
    ["jpg", "jpeg", "png", "webp"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}
