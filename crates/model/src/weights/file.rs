use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    path::{Path, PathBuf},
};

use oomph_core::open_file;
use serde::de::DeserializeOwned;

use super::{
    error::{FormatError, WeightsError},
    header::check_name,
    pytorch, safetensors,
    source::{FileBytes, ReadAt},
    stored::Stored,
};

/// A file of weights. Opening it reads the list of tensors; each tensor is read on request.
///
/// Its format is known from its bytes, not from its name: safetensors, or that of `torch.save`. Nothing in it is ever run.
///
/// ```
/// use oomph_model::weights::{WeightFile, WeightsError};
///
/// # let folder = std::env::temp_dir().join(format!("oomph-weights-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("weights.safetensors");
/// # let header = br#"{"scale":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}"#;
/// # let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
/// # bytes.extend(header);
/// # bytes.extend([0x00, 0x3c, 0x00, 0xb8]);
/// # std::fs::write(&path, bytes)?;
/// let file = WeightFile::open(&path)?;
/// let tensors: Vec<_> = file.tensors().collect();
/// assert_eq!((tensors[0].name, tensors[0].shape, tensors[0].kind), ("scale", &[2][..], "float16"));
/// assert_eq!(file.read("scale")?, Some(vec![1.0, -0.5]));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WeightFile {
    path: PathBuf,
    /// One, but for a folder whose weights are in several.
    files: Vec<OpenFile>,
}

/// A file whose list of tensors is read.
struct OpenFile {
    path: PathBuf,
    bytes: Box<dyn ReadAt + Send + Sync>,
    contents: Contents,
}

/// The tensors and notes of a file.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) tensors: BTreeMap<String, Stored>,
    /// The metadata of a safetensors file.
    pub(super) notes: HashMap<String, String>,
}

/// A tensor in a file.
#[derive(Clone, Copy, Debug)]
pub struct StoredTensor<'a> {
    /// Its name in the file.
    pub name: &'a str,
    /// The size of each dimension.
    pub shape: &'a [usize],
    /// Its element type, by PyTorch's name: `float32`.
    pub kind: &'static str,
    /// Whether it holds floats, as weights do.
    pub is_float: bool,
}

impl WeightFile {
    /// Opens a file, or those of a folder of Hugging Face, and reads the list of tensors, without their values.
    ///
    /// # Errors
    /// A file is missing, or holds no weights.
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        let paths = if path.is_dir() { files_of(path)? } else { vec![path.to_owned()] };
        let files = paths.into_iter().map(OpenFile::open).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { path: path.to_owned(), files })
    }

    /// The path of the file or folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The paths of its files: one, but for a folder whose weights are in several.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    /// The tensors of each file, in the order of names.
    pub fn tensors(&self) -> impl Iterator<Item = StoredTensor<'_>> {
        self.files.iter().flat_map(|file| &file.contents.tensors).map(|(name, stored)| StoredTensor {
            name,
            shape: &stored.shape,
            kind: stored.element.name(),
            is_float: stored.element.is_float(),
        })
    }

    /// The metadata under `key`, parsed from JSON. Only safetensors files have metadata.
    ///
    /// # Errors
    /// The metadata does not parse as a `T`.
    pub fn note<T: DeserializeOwned>(&self, key: &'static str) -> Result<Option<T>, WeightsError> {
        let read = |note: &String| {
            serde_json::from_str(note).map_err(|source| WeightsError::Format {
                path: self.path.clone(),
                problem: FormatError::Note { key, source },
            })
        };
        self.files.iter().find_map(|file| file.contents.notes.get(key)).map(read).transpose()
    }

    /// All elements of a float tensor in row-major order, in 32 bits; `None` if the file has no such tensor.
    ///
    /// # Errors
    /// The file cannot be read, or was truncated after it was opened.
    pub fn read(&self, name: &str) -> Result<Option<Vec<f32>>, WeightsError> {
        for OpenFile { path, bytes, contents } in &self.files {
            if let Some(stored) = contents.tensors.get(name).filter(|stored| stored.element.is_float()) {
                let read = stored.read(&**bytes);
                return read.map(Some).map_err(|source| WeightsError::Io { path: path.clone(), source });
            }
        }
        Ok(None)
    }
}

impl fmt::Debug for WeightFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeightFile")
            .field("path", &self.path)
            .field("tensors", &self.tensors().count())
            .finish()
    }
}

impl OpenFile {
    fn open(path: PathBuf) -> Result<Self, WeightsError> {
        let refused = |source| WeightsError::Io { path: path.clone(), source };
        let bytes = open_file(&path).and_then(FileBytes::new).map_err(refused)?;
        let contents = index(&bytes).map_err(|problem| match problem {
            FormatError::Io(source) => refused(source),
            problem => WeightsError::Format { path: path.clone(), problem },
        })?;
        Ok(Self { path, bytes: Box::new(bytes), contents })
    }
}

/// The files of weights in a folder, as Hugging Face names them: one, or `model-00001-of-00003.safetensors` and so on.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, WeightsError> {
    /// The second is of earlier versions of `transformers`.
    const NAMES: [(&str, &str); 2] = [("model", ".safetensors"), ("pytorch_model", ".bin")];
    let mut wholes = NAMES.iter().map(|(stem, ending)| folder.join(format!("{stem}{ending}")));
    if let Some(whole) = wholes.find(|path| path.exists()) {
        return Ok(vec![whole]);
    }
    let refused = |source| WeightsError::Io { path: folder.to_owned(), source };
    let entries = folder.read_dir().map_err(refused)?;
    let mut names: Vec<_> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    for (stem, ending) in NAMES {
        // The number of files that the name of each has.
        let counts = names.iter().filter_map(|name| {
            let (number, count) =
                name.strip_prefix(stem)?.strip_prefix('-')?.strip_suffix(ending)?.split_once("-of-")?;
            number.parse::<usize>().ok()?;
            Some((folder.join(name), count.parse::<usize>().ok()?))
        });
        let (paths, counts): (Vec<_>, Vec<_>) = counts.unzip();
        if let Some(&count) = counts.first() {
            let is_whole = paths.len() == count && counts.iter().all(|other| *other == count);
            let incomplete =
                || WeightsError::Incomplete { folder: folder.to_owned(), found: paths.len(), count };
            return if is_whole { Ok(paths) } else { Err(incomplete()) };
        }
    }
    Err(WeightsError::NoFile { folder: folder.to_owned() })
}

/// Reads all tensors from the bytes of a weight file, as [`WeightFile`] does, and returns the number of elements. For
/// fuzz tests.
///
/// # Errors
/// The defect of the bytes.
pub fn read_bytes(bytes: &[u8]) -> Result<usize, FormatError> {
    let contents = index(&bytes)?;
    contents
        .tensors
        .values()
        .try_fold(0usize, |elements, stored| Ok(elements.saturating_add(stored.read(&bytes)?.len())))
}

fn index(bytes: &dyn ReadAt) -> Result<Contents, FormatError> {
    /// Enough bytes to recognise every format, a tar archive included.
    const HEAD: u64 = 262;
    // At most `HEAD`.
    let mut head = vec![0; bytes.len().min(HEAD) as usize];
    bytes.read_at(0, &mut head)?;
    let of_pytorch = |tensors: BTreeMap<String, Stored>| -> Result<_, FormatError> {
        tensors.keys().try_for_each(|name| check_name(name))?;
        Ok(Contents { tensors, ..Contents::default() })
    };
    match head.as_slice() {
        [] => Err(FormatError::Empty),
        [b'P', b'K', 3, 4, ..] => pytorch::index_archive(bytes).and_then(of_pytorch),
        head if pytorch::is_legacy(head) => pytorch::index_legacy(bytes).and_then(of_pytorch),
        head if safetensors::is_safetensors(head, bytes.len()) => safetensors::index(bytes),
        head if head.ends_with(b"ustar") => Err(FormatError::Tar),
        [0x80, 2..=5, ..] => Err(FormatError::BarePickle),
        _ => Err(FormatError::Unknown),
    }
}
