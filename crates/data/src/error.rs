use std::{
    fmt::Display,
    io,
    path::{Path, PathBuf},
};

use oomph_core::{InputSpec, Split, TargetSpec};
use oomph_parquet::{ColumnError, ColumnProblem};
use oomph_tokens::{TokenFileError, TokenizerError, VocabularyProblem};

use crate::{DownloadError, FormatError, FormatProblem, flaw::listed};

/// A sample that cannot be read, such as a file that is truncated, missing or not an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is unreadable: {reason}")]
pub struct SampleError {
    /// The file, or another name of the sample.
    pub name: String,
    /// Why it cannot be read.
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
    /// The settings do not say where the data is.
    #[error("`data.path` is missing; expected {expected}")]
    NoPath {
        /// What it leads to.
        expected: &'static str,
    },
    /// The data has another number of classes than the settings declare.
    #[error("`{}` has {found} {what}, and `data.classes` is {declared}", path.display())]
    OtherClasses {
        /// The folder or table.
        path: PathBuf,
        /// Classes or labels.
        what: &'static str,
        /// The classes that it has.
        found: usize,
        /// The classes that the settings declare.
        declared: usize,
    },
    /// The data folder does not exist.
    #[error("data folder `{}` does not exist", path.display())]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// Data was looked for at a path where nothing is.
    #[error("`{}` does not exist", path.display())]
    NothingThere {
        /// The path.
        path: PathBuf,
    },
    /// A folder was expected.
    #[error("`{}` is not a folder", path.display())]
    NotAFolder {
        /// Its path.
        path: PathBuf,
    },
    /// A folder lacks a file of the data.
    #[error("`{}` has no file `{expected}`", folder.display())]
    NoFile {
        /// The folder.
        folder: PathBuf,
        /// The first of the names that the file may have.
        expected: String,
        /// Whether `data.download` can fetch it.
        can_be_fetched: bool,
    },
    /// The file of a time series does not exist.
    #[error("there is no file `{}`", path.display())]
    NoSeries {
        /// The file.
        path: PathBuf,
    },
    /// No built-in source reads what is at a path.
    #[error("`{}` holds no data that oomph recognises", path.display())]
    NothingDetected {
        /// The file or folder.
        path: PathBuf,
    },
    /// A data file violates its format.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A download failed.
    #[error(transparent)]
    Download(#[from] DownloadError),
    /// A part of a time series is shorter than one window.
    #[error("the {split} part of `{}` has {rows} rows; a window and its target need {needed}", path.display())]
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
    /// The folder of the data has neither parts nor classes.
    #[error("`{}` has no folder `train`, nor class folders of images", path.display())]
    NoSplit {
        /// The folder of the data.
        path: PathBuf,
    },
    /// The table of labels does not exist.
    #[error("there is no file `{}` (`data.labels`)", path.display())]
    NoLabels {
        /// The file.
        path: PathBuf,
    },
    /// A label of a table has too few images for two parts.
    #[error("label `{label}` has a single image, which cannot be both trained on and held out")]
    SingleLabel {
        /// The label.
        label: String,
    },
    /// A table has too few images for two parts.
    #[error("`{}` has a single image, which cannot be both trained on and held out", path.display())]
    SingleImage {
        /// The table.
        path: PathBuf,
    },
    /// A class has too few images for two parts.
    #[error("class folder `{}` has a single image, which cannot be both trained on and held out", path.display())]
    TooFewToSplit {
        /// The folder of the class.
        path: PathBuf,
    },
    /// A given folder has no images, in subfolders neither.
    #[error("`{}` has no `.jpg`, `.jpeg`, `.png` or `.webp` files", path.display())]
    NoImages {
        /// The folder.
        path: PathBuf,
    },
    /// A part has no class folders.
    #[error("`{}` has no class folders", path.display())]
    NoClasses {
        /// The folder of the part.
        path: PathBuf,
    },
    /// A class has no images.
    #[error("class folder `{}` has no `.jpg`, `.jpeg`, `.png` or `.webp` files (other entries: {ignored})", path.display())]
    EmptyClass {
        /// The folder of the class.
        path: PathBuf,
        /// The number of entries that are not images.
        ignored: usize,
    },
    /// The two parts have different classes.
    #[error("`{}` does not have the classes of `train`: {}", path.display(), difference(missing, extra))]
    ClassMismatch {
        /// The folder of the held-out part.
        path: PathBuf,
        /// Classes that only the training part has.
        missing: Vec<String>,
        /// Classes that only the held-out part has.
        extra: Vec<String>,
    },
    /// The text does not exist.
    #[error("text `{}` does not exist", path.display())]
    NoText {
        /// The file or folder.
        path: PathBuf,
    },
    /// A folder without texts.
    #[error("`{}` has no `.txt`, `.jsonl` or `.parquet` files", path.display())]
    NoTexts {
        /// The folder.
        path: PathBuf,
    },
    /// A Parquet file that cannot be read.
    #[error("`{}`: {error}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What is wrong, and in which row.
        error: Box<ColumnError>,
    },
    /// A text with a part that is shorter than one sample.
    #[error(
        "`{}` has {} training tokens and {} held-out tokens, in {files} file{}; a sample of `data.steps` (= {steps}) needs {}",
        path.display(), tokens[0], tokens[1], if *files == 1 { "" } else { "s" }, steps + 1
    )]
    TooShort {
        /// The file or folder.
        path: PathBuf,
        /// The number of files read.
        files: usize,
        /// Training tokens and held-out tokens.
        tokens: [usize; 2],
        /// Tokens of a sample.
        steps: usize,
    },
    /// A file without a usable vocabulary.
    #[error("cannot read a vocabulary from `{}`: {problem}", path.display())]
    Vocabulary {
        /// The file.
        path: PathBuf,
        /// The reason.
        problem: VocabularyProblem,
    },
    /// A token of the text that is missing in a vocabulary without `<unk>`.
    #[error("the vocabulary `{}` has neither the token {token:?} of the text nor `<unk>`", path.display())]
    UnknownToken {
        /// The file of the vocabulary.
        path: PathBuf,
        /// The first missing token.
        token: String,
    },
    /// `data.level` is `bpe`, and its tokenizer is not there.
    #[error("{}", missing_tokenizer(path.as_deref()))]
    NoTokenizer {
        /// The file that `data.tokenizer` names; `None` without the key.
        path: Option<PathBuf>,
    },
    /// A file that is no usable tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] Box<TokenizerError>),
    /// A record of a model without a usable tokenizer.
    #[error("cannot read a tokenizer from `{}`: {problem}", path.display())]
    RecordedTokenizer {
        /// The file.
        path: PathBuf,
        /// The reason.
        problem: VocabularyProblem,
    },
    /// The tokenizer has another number of tokens than the settings declare.
    #[error("the tokenizer has {found} tokens, and `data.vocabulary` is {declared}")]
    OtherVocabulary {
        /// The tokens that it has.
        found: usize,
        /// The tokens that the settings declare.
        declared: usize,
    },
    /// The file of encoded tokens cannot be used.
    #[error(transparent)]
    TokenFile(#[from] TokenFileError),
    /// A text without a character.
    #[error("the text `{}` is empty", path.display())]
    EmptyText {
        /// The file or folder.
        path: PathBuf,
    },
    /// A file or folder that the system cannot read.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// No training image can be decoded.
    #[error("none of the {count} training images can be decoded; the first error: {first}")]
    NothingReadable {
        /// The number of images.
        count: usize,
        /// The error of the first image.
        first: SampleError,
    },
    /// A sample is unreadable and `data.on_corrupt` is `fail`.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// A label that is not a class.
    #[error("the label of {sample} is {class}, but there are only {count} classes")]
    LabelOutOfRange {
        /// The name of the sample.
        sample: String,
        /// Its label.
        class: usize,
        /// The number of classes; every label is below it.
        count: usize,
    },
    /// A token that is not in the vocabulary.
    #[error("{sample} has token {token}, but the vocabulary has {vocabulary} tokens")]
    TokenOutOfRange {
        /// The name of the sample.
        sample: String,
        /// The token.
        token: i32,
        /// The size of the vocabulary; every token is below it, and none is negative.
        vocabulary: usize,
    },
    /// An input that violates the specification of the source.
    #[error("the input of {sample} has {found}, but the source promises {expected} ({} elements)", expected.elements())]
    WrongInput {
        /// The name of the sample.
        sample: String,
        /// The returned value, in words.
        found: String,
        /// The specification.
        expected: InputSpec,
    },
    /// A target that violates the specification of the source.
    #[error("the target of {sample} has {found}, but the source promises {expected}")]
    WrongTarget {
        /// The name of the sample.
        sample: String,
        /// The returned value, in words.
        found: String,
        /// The specification.
        expected: TargetSpec,
    },
    /// The source panicked while making a sample.
    #[error("the data source panicked at {sample}: {message}")]
    Panicked {
        /// The name of the sample.
        sample: String,
        /// The message of the panic.
        message: String,
    },
    /// A user's own source could not be opened. No source of this crate returns it.
    #[error("the data source could not be opened")]
    Open {
        /// The source's own error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

fn missing_tokenizer(path: Option<&Path>) -> String {
    match path {
        Some(path) => format!("there is no tokenizer `{}` (`data.tokenizer`)", path.display()),
        None => {
            "`data.tokenizer` is missing; expected a `tokenizer.json`, since `data.level` is `bpe`".to_owned()
        }
    }
}

const SKIP: &str = "`--set data.on_corrupt=skip` leaves out such samples";

impl DataError {
    /// Whether the data is not there. Data that is there and damaged is another matter.
    pub fn is_absent(&self) -> bool {
        matches!(
            self,
            Self::NoPath { .. }
                | Self::Missing { .. }
                | Self::NoFile { .. }
                | Self::NoLabels { .. }
                | Self::NoSeries { .. }
                | Self::NoText { .. }
                | Self::NoTokenizer { .. }
        )
    }

    /// The way out, if there is one to name.
    pub fn hint(&self) -> Option<String> {
        const LAYOUT: &str = "the layout is `<path>/train/<class>/*.jpg` and `<path>/test/<class>/*.jpg` (or `val`), or `<path>/<class>/*.jpg`";
        const PATH: &str = "name the folder with `--set data.path=…`";
        let hint = match self {
            Self::NoPath { .. } => "set it in the config file or with `--set data.path=…`",
            Self::OtherClasses { .. } => {
                "correct `data.classes`, or leave it out: it is for plans without the data"
            }
            Self::Missing { .. } => return Some(format!("{PATH}; {LAYOUT}, images as jpeg, png or webp")),
            Self::NotAFolder { .. } | Self::NoSplit { .. } | Self::NoClasses { .. } => LAYOUT,
            Self::NothingThere { .. } => "name a folder or file of your data, as in `oomph init ~/photos`",
            Self::SingleLabel { .. } => "add images, or remove the row",
            Self::SingleImage { .. } => "add images, or a column `split` that divides them",
            Self::NoLabels { .. } => "name the CSV file with `--set data.labels=…`",
            Self::TooFewToSplit { .. } => "add images, or remove the class",
            Self::EmptyClass { .. } => "put images into it, or remove the class from both parts",
            Self::ClassMismatch { .. } => {
                "both parts need the same classes, since the names of the classes give their indices"
            }
            Self::NoText { .. } => {
                "name a text file with `--set data.path=…`, or fetch one with `--set data.name=tiny-shakespeare \
                 --set data.download=true`"
            }
            Self::NothingDetected { .. } => {
                "expected class folders of images, `train` and `test` with class folders, a CSV file, IDX files, CIFAR-10's binary files, or `.txt`, `.jsonl` or `.parquet` files"
            }
            Self::Parquet { error, .. } => return parquet_hint(error),
            Self::NoTexts { .. } => {
                "set `data.path` to a text file, or to a folder with `.txt`, `.jsonl` or `.parquet` files"
            }
            Self::Vocabulary { problem: VocabularyProblem::OtherLevel { found, .. }, .. } => {
                return Some(format!("set `data.level={}`", found.key()));
            }
            Self::Vocabulary { .. } => {
                "set `data.vocabulary_file` to a file that `oomph export` wrote, the `source.json` of a \
                 checkpoint, or a list of tokens in JSON"
            }
            Self::NoTokenizer { .. }
            | Self::RecordedTokenizer { .. }
            | Self::Tokenizer(_)
            | Self::TokenFile(_)
            | Self::OtherVocabulary { .. } => return Some(self.tokenizer_hint()),
            Self::EmptyText { .. } => "name a file or folder with text",
            Self::UnknownToken { .. } => "use a vocabulary with `<unk>`, which takes any text",
            Self::TooShort { .. } => "use a longer text, lower `data.steps`, or change `data.held_out`",
            Self::Sample(_) => SKIP,
            Self::LabelOutOfRange { count, .. } => {
                let last = count.saturating_sub(1);
                return Some(format!("labels start at 0: the last class is {last}"));
            }
            Self::WrongInput { .. } | Self::WrongTarget { .. } => {
                "`Source::sample` and `Source::spec` must agree"
            }
            Self::NoImages { .. } => "name the files themselves: they are read whatever their extension",
            Self::NoFile { can_be_fetched: true, .. } => {
                return Some(format!("{PATH}, or fetch the data with `--set data.download=true`"));
            }
            Self::NoFile { can_be_fetched: false, .. } => PATH,
            Self::NoSeries { .. } => "name the file with `--set data.path=…`",
            Self::Format(error) => return format_hint(&error.flaw.problem),
            Self::Download(error) => return error.hint(),
            Self::TooFewRows { .. } => "lower `data.steps` or `data.horizon`, or change `data.held_out`",
            Self::Io { .. }
            | Self::NothingReadable { .. }
            | Self::TokenOutOfRange { .. }
            | Self::Panicked { .. }
            | Self::Open { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

impl DataError {
    /// The way out where a tokenizer or its tokens are wrong.
    fn tokenizer_hint(&self) -> String {
        let hint = match self {
            Self::OtherVocabulary { found, .. } => {
                return format!(
                    "`--set data.vocabulary={found}` fits this tokenizer; or name another one with `--set data.tokenizer=…`"
                );
            }
            Self::Tokenizer(error) => error.hint(),
            Self::TokenFile(error) => error.hint(),
            _ => {
                "`oomph tokenizer TEXT --vocabulary 4096` makes one from a text; name it with \
                 `--set data.tokenizer=tokenizer.json`"
            }
        };
        hint.to_owned()
    }
}

fn parquet_hint(error: &ColumnError) -> Option<String> {
    let hint = match error.problem {
        ColumnProblem::Missing { .. } | ColumnProblem::NotText { .. } => {
            "name the column of the text with `--set data.text_key=…`"
        }
        ColumnProblem::TooLarge { .. } => "raise the limit with `--set data.max_file_bytes=…`",
        _ => error.hint()?,
    };
    Some(hint.to_owned())
}

fn format_hint(problem: &FormatProblem) -> Option<String> {
    Some(match problem {
        FormatProblem::Label { .. } => SKIP,
        FormatProblem::Fields { .. } => "`--set data.on_corrupt=skip` leaves out the windows with such rows",
        FormatProblem::NotANumber { .. } => {
            "choose numeric columns with `data.columns`; `--set data.on_corrupt=skip` leaves out the windows with such \
             rows"
        }
        FormatProblem::NoText { .. } => "name the key of the text with `--set data.text_key=…`",
        FormatProblem::TooLarge { .. } => "raise the limit with `--set data.max_file_bytes=…`",
        FormatProblem::TooManyRows { .. } => {
            "choose fewer columns with `data.columns`, or cut the file; `oomph doctor` shows the memory"
        }
        FormatProblem::NoColumn { .. } | FormatProblem::SameName { .. } => {
            "the first row names the columns; `data.columns` and `data.targets` choose those of a series, `data.file_column` and `data.label_column` those of a table of labels"
        }
        FormatProblem::Channels { found, .. } => {
            return Some(format!("use `--set data.channels={found}`, or check `data.channel_order`"));
        }
        FormatProblem::NoImage { .. } => "paths are relative to `data.path`, else to the folder of the table; `--set data.on_corrupt=skip` leaves out missing files",
        FormatProblem::LabelNotTrained { .. } => "give the label a row of the training part, or remove it; `data.label_separator` divides several labels of a field",
        FormatProblem::Mark { .. } => "list the columns that mark labels, as in `data.label_columns = [\"cat\", \"dog\"]`; `data.label_separator` reads labels from a single column",
        FormatProblem::TwoMarks { .. } => "replace one of both: a mark of uncertain labels has to become `0` or `1`",
        FormatProblem::Part { .. } => "the column has `train`, and `test`, `val`, `valid` or `validation`; `data.split_column` names another column",
        FormatProblem::NotUtf8 => "convert it with `iconv -f ENCODING -t UTF-8 OLD > NEW`; the encoding of Korean texts is often `CP949`, and of Western ones `CP1252`",
        FormatProblem::Truncated { .. } => "copy or fetch the file again; it is incomplete",
        _ => return None,
    }
    .to_owned())
}

/// A few names of classes that only one of the two parts has.
fn difference(missing: &[String], extra: &[String]) -> String {
    let list = |what: &str, names: &[String]| {
        let quoted = names.iter().map(|name| format!("`{name}`"));
        (!names.is_empty()).then(|| format!("{what} {}", listed(quoted, 5)))
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
