use std::{fmt::Display, io, path::PathBuf};

use oomph_core::{InputSpec, Split, TargetSpec};

use crate::{DownloadError, FormatError, FormatProblem, VocabularyProblem};

/// One sample that cannot be read: a file that is truncated, not an image, gone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is unreadable: {reason}")]
pub struct SampleError {
    /// The file, or what else names the sample.
    pub name: String,
    /// What is wrong with it.
    pub reason: String,
}

impl SampleError {
    /// The sample called `name` cannot be read because of `reason`.
    pub fn new(name: impl Into<String>, reason: impl Display) -> Self {
        Self { name: name.into(), reason: reason.to_string() }
    }
}

/// Data that cannot be opened or loaded.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The folder of the data is not there.
    #[error("data folder `{}` does not exist", path.display())]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// A folder was expected.
    #[error("`{}` is not a folder", path.display())]
    NotAFolder {
        /// What is there instead.
        path: PathBuf,
    },
    /// A file was expected.
    #[error("`{}` is not a file", path.display())]
    NotAFile {
        /// What is there instead.
        path: PathBuf,
    },
    /// A folder lacks a file of the data.
    #[error("`{}` holds no `{expected}`", folder.display())]
    NoFile {
        /// The folder.
        folder: PathBuf,
        /// The file, by the first of the names that it may have.
        expected: String,
        /// Whether `data.download` would fetch it.
        can_be_fetched: bool,
    },
    /// The file of a time series is not there.
    #[error("there is no file `{}`", path.display())]
    NoSeries {
        /// The file.
        path: PathBuf,
    },
    /// A data file is not what its format says.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Data could not be fetched.
    #[error(transparent)]
    Download(#[from] DownloadError),
    /// A part of a time series has not one window.
    #[error("the {split} part of `{}` has {rows} rows; a window and its target take {needed}", path.display())]
    TooFewRows {
        /// The file.
        path: PathBuf,
        /// The part.
        split: Split,
        /// Rows of the part.
        rows: usize,
        /// Rows from the first of a window to its target.
        needed: usize,
    },
    /// The folder of the data lacks one of its parts.
    #[error("`{}` has no folder {expected}", path.display())]
    NoSplit {
        /// The folder of the data.
        path: PathBuf,
        /// The names that were looked for.
        expected: &'static str,
    },
    /// A folder that was named has no images in it, nor in folders below.
    #[error("`{}` holds no `.jpg`, `.jpeg` or `.png` files", path.display())]
    NoImages {
        /// The folder.
        path: PathBuf,
    },
    /// A part has no class folders.
    #[error("`{}` holds no class folders", path.display())]
    NoClasses {
        /// The folder of the part.
        path: PathBuf,
    },
    /// A class has no images.
    #[error("class folder `{}` holds no `.jpg`, `.jpeg` or `.png` files (other entries: {ignored})", path.display())]
    EmptyClass {
        /// The folder of the class.
        path: PathBuf,
        /// How many entries it holds that are not images.
        ignored: usize,
    },
    /// The two parts do not have the same classes.
    #[error("`{}` does not have the classes of `train`: {}", path.display(), difference(missing, extra))]
    ClassMismatch {
        /// The folder of the held-out part.
        path: PathBuf,
        /// Classes that only the training part has.
        missing: Vec<String>,
        /// Classes that only the held-out part has.
        extra: Vec<String>,
    },
    /// The text is not there.
    #[error("text `{}` does not exist", path.display())]
    NoText {
        /// The file or folder.
        path: PathBuf,
    },
    /// A folder of texts has none.
    #[error("`{}` holds no `.txt` files", path.display())]
    NoTexts {
        /// The folder.
        path: PathBuf,
    },
    /// A text that gives no sample, in one of its parts or both.
    #[error(
        "`{}` has {} tokens to train on and {} held out, in {files} file{}: a sample of `data.steps` (= {steps}) needs {}",
        path.display(), tokens[0], tokens[1], if *files == 1 { "" } else { "s" }, steps + 1
    )]
    TooShort {
        /// The file or folder.
        path: PathBuf,
        /// How many files were read.
        files: usize,
        /// To train on, and held out.
        tokens: [usize; 2],
        /// Tokens of a sample.
        steps: usize,
    },
    /// A file gives no vocabulary.
    #[error("`{}` gives no vocabulary: {problem}", path.display())]
    Vocabulary {
        /// The file.
        path: PathBuf,
        /// Why not.
        problem: VocabularyProblem,
    },
    /// A token of the text is not in a vocabulary that has none for such.
    #[error("the text has the token {token:?}, which is not in the vocabulary `{}`; nor is `<unk>`", path.display())]
    UnknownToken {
        /// The file of the vocabulary.
        path: PathBuf,
        /// The first such token.
        token: String,
    },
    /// The system refused to read a file or folder.
    #[error("`{}` could not be read", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Not one image of the training part could be decoded.
    #[error("none of the {count} training images can be decoded; the first: {first}")]
    NothingReadable {
        /// How many there are.
        count: usize,
        /// What is wrong with the first.
        first: SampleError,
    },
    /// A sample is unreadable and `data.on_corrupt` is `fail`.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// A label that is not a class.
    #[error("label of {sample} is {class}, but there are {count} classes")]
    LabelOutOfRange {
        /// What names the sample.
        sample: String,
        /// Its label.
        class: usize,
        /// The number of classes; every label is below it.
        count: usize,
    },
    /// A token that is not in the vocabulary.
    #[error("{sample} has token {token}, but the vocabulary has {vocabulary}")]
    TokenOutOfRange {
        /// What names the sample.
        sample: String,
        /// The token.
        token: i32,
        /// The size of the vocabulary; every token is below it, and none is negative.
        vocabulary: usize,
    },
    /// An input that is not what the source's specification says.
    #[error("input of {sample} has {found}, but the source promises {expected} ({} elements)", expected.elements())]
    WrongInput {
        /// What names the sample.
        sample: String,
        /// What the source returned.
        found: String,
        /// What the source promises.
        expected: InputSpec,
    },
    /// A target that is not what the source's specification says.
    #[error("target of {sample} has {found}, but the source promises {expected}")]
    WrongTarget {
        /// What names the sample.
        sample: String,
        /// What the source returned.
        found: String,
        /// What the source promises.
        expected: TargetSpec,
    },
    /// The source panicked while it made a sample.
    #[error("the data source panicked at {sample}: {message}")]
    Panicked {
        /// What names the sample.
        sample: String,
        /// The message of the panic.
        message: String,
    },
    /// A source of the user's own could not be opened. No source of this crate returns it.
    #[error("the data source could not be opened")]
    Open {
        /// The source's own error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

const SKIP: &str = "`--set data.on_corrupt=skip` leaves such samples out";

impl DataError {
    /// What to do about it, where that can be said.
    pub fn hint(&self) -> Option<String> {
        const LAYOUT: &str =
            "the layout is `<path>/train/<class>/*.jpg` and `<path>/test/<class>/*.jpg` (or `val`)";
        match self {
            Self::Missing { .. } => {
                Some(format!("name the folder with `--set data.path=…`; {LAYOUT}, images as jpeg or png"))
            }
            Self::NotAFolder { .. } | Self::NoSplit { .. } | Self::NoClasses { .. } => {
                Some(LAYOUT.to_owned())
            }
            Self::EmptyClass { .. } => {
                Some("put images into it, or remove the class from both parts".to_owned())
            }
            Self::ClassMismatch { .. } => {
                Some("the index of a class follows from its name, so both parts need the same".to_owned())
            }
            Self::NoText { .. } => Some(
                "name a text file with `--set data.path=…`; with `--set data.name=tiny-shakespeare --set \
                 data.download=true` one is fetched"
                    .to_owned(),
            ),
            Self::NoTexts { .. } => {
                Some("`data.path` is a text file, or a folder with `.txt` files in it".to_owned())
            }
            Self::Vocabulary { problem: VocabularyProblem::OtherLevel { found, .. }, .. } => {
                Some(format!("set `data.level={}`", found.key()))
            }
            Self::Vocabulary { .. } => Some(
                "`data.vocabulary_file` is a file that `oomph export` wrote, the `source.json` of a checkpoint, or a \
                 list of tokens in JSON"
                    .to_owned(),
            ),
            Self::UnknownToken { .. } => {
                Some("a vocabulary that knows `<unk>` takes any text".to_owned())
            }
            Self::TooShort { .. } => {
                Some("take a longer text, a smaller `data.steps`, or another `data.held_out`".to_owned())
            }
            Self::Sample(_) => Some(SKIP.to_owned()),
            Self::LabelOutOfRange { count, .. } => {
                Some(format!("labels start at 0: the last class is {}", count.saturating_sub(1)))
            }
            Self::WrongInput { .. } | Self::WrongTarget { .. } => {
                Some("`Source::sample` and `Source::spec` must agree".to_owned())
            }
            Self::NoImages { .. } => {
                Some("a file is read whatever its name, where it is named itself".to_owned())
            }
            Self::NoFile { can_be_fetched, .. } => Some(match can_be_fetched {
                true => {
                    "name the folder with `--set data.path=…`; `--set data.download=true` fetches the data"
                        .to_owned()
                }
                false => "name the folder with `--set data.path=…`".to_owned(),
            }),
            Self::NoSeries { .. } => Some("name the file with `--set data.path=…`".to_owned()),
            Self::Format(error) => format_hint(&error.flaw.problem),
            Self::Download(error) => error.hint(),
            Self::TooFewRows { .. } => {
                Some("lower `data.steps` or `data.horizon`, or change `data.held_out`".to_owned())
            }
            Self::Io { .. }
            | Self::NotAFile { .. }
            | Self::NothingReadable { .. }
            | Self::TokenOutOfRange { .. }
            | Self::Panicked { .. }
            | Self::Open { .. } => None,
        }
    }
}

fn format_hint(problem: &FormatProblem) -> Option<String> {
    Some(match problem {
        FormatProblem::Label { .. } => SKIP,
        FormatProblem::Fields { .. } => "`--set data.on_corrupt=skip` leaves the windows with such rows out",
        FormatProblem::NotANumber { .. } => {
            "choose columns of numbers by `data.columns`; `--set data.on_corrupt=skip` leaves the windows with such \
             rows out"
        }
        FormatProblem::TooLarge { .. } => "raise it by `--set data.max_file_bytes=…`",
        FormatProblem::NoColumn { .. } | FormatProblem::SameName { .. } => {
            "`data.columns` and `data.targets` name columns as the first row of the file does"
        }
        FormatProblem::Channels { found, .. } => {
            return Some(format!("`--set data.channels={found}` if they are right; see also `data.channel_order`"));
        }
        FormatProblem::NotUtf8 => "`iconv -t UTF-8` writes a text anew",
        FormatProblem::Truncated { .. } => "was it copied or fetched whole?",
        _ => return None,
    }
    .to_owned())
}

/// Names the classes of which only one part knows, a few of each kind.
fn difference(missing: &[String], extra: &[String]) -> String {
    const SHOWN: usize = 5;
    let list = |what: &str, names: &[String]| {
        let shown: Vec<_> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
        let more = names.len().saturating_sub(SHOWN);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        (!names.is_empty()).then(|| format!("{what} {}{more}", shown.join(", ")))
    };
    [list("missing", missing), list("extra", extra)].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_mismatch_names_what_is_missing_and_what_is_extra() {
        let error = DataError::ClassMismatch {
            path: "data/test".into(),
            missing: vec!["cat".to_owned()],
            extra: (0..7).map(|index| format!("c{index}")).collect(),
        };
        assert_eq!(
            error.to_string(),
            "`data/test` does not have the classes of `train`: \
             missing `cat`; extra `c0`, `c1`, `c2`, `c3`, `c4` and 2 more"
        );
    }

    #[test]
    fn a_missing_folder_hints_at_the_key_to_set() {
        let error = DataError::Missing { path: "nowhere".into() };
        assert_eq!(error.to_string(), "data folder `nowhere` does not exist");
        assert!(error.hint().is_some_and(|hint| hint.contains("--set data.path=")));
    }
}
