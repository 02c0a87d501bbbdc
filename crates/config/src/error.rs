//! Errors and their hints.

use std::path::PathBuf;

use oomph_core::Bytes;

use crate::{nearest::nearest, origin::Origin, section_names::SPACE, setting::Setting, value::Value};

/// Why a configuration was refused.
///
/// Displayed as one line that names the place, the value and what was expected; [`hint`](Self::hint) gives the way out.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value of the right kind that is out of range or impossible.
    #[error("{}expected {expected}", .setting.head())]
    Invalid {
        /// The setting.
        setting: Box<Setting>,
        /// The expected values, in words.
        expected: String,
    },
    /// A value of another kind, such as a string for an integer.
    #[error("{}expected {expected}", .setting.head_with_kind())]
    WrongKind {
        /// The setting.
        setting: Box<Setting>,
        /// The expected values, in words.
        expected: String,
    },
    /// A number of tokens that is no number of samples.
    #[error("{}expected a multiple of `data.steps`, which is `{steps}`", .setting.head())]
    BatchTokens {
        /// The setting.
        setting: Box<Setting>,
        /// The tokens of a sample.
        steps: usize,
        /// The nearest multiple below, which may be 0.
        below: usize,
    },
    /// A string that is not among those allowed.
    #[error("{}expected {}", .setting.head(), one_of(.allowed))]
    NotAllowed {
        /// The setting.
        setting: Box<Setting>,
        /// The strings allowed.
        allowed: Vec<String>,
    },
    /// A config file that cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A key that cannot be edited in a text.
    #[error("{place}: `{key}` cannot be written there: {reason}")]
    NotEditable {
        /// The file or text.
        place: String,
        /// The full key.
        key: String,
        /// Why.
        reason: String,
    },
    /// A config without a file, which cannot be edited.
    #[error("cannot write into the config `{name}`: it is built into the program")]
    NoFile {
        /// Its name.
        name: String,
    },
    /// A required key that is absent.
    #[error("`{key}` is missing; expected {expected}")]
    Missing {
        /// The full key.
        key: String,
        /// The expected values, in words.
        expected: String,
    },
    /// A key that no reader asks for.
    #[error("{}`{}` is not a known key", .setting.place(), .setting.key)]
    UnknownKey {
        /// The setting.
        setting: Box<Setting>,
        /// The full key that was probably meant.
        nearest: Option<String>,
        /// The keys of its section.
        known: Vec<String>,
    },
    /// A key that has a new name.
    #[error("{}`{}` is no longer a key", .setting.place(), .setting.key)]
    RetiredKey {
        /// The setting.
        setting: Box<Setting>,
        /// The new full key.
        replacement: &'static str,
    },
    /// A section that does not exist.
    #[error("{place}: `[{name}]` is not a known section")]
    UnknownSection {
        /// The name.
        name: String,
        /// Its place, such as `configs/x.toml:3` or `--set trian.batch=1`.
        place: String,
        /// The known sections.
        known: Vec<String>,
    },
    /// The config that a file extends is not there, or cannot be read.
    #[error("{}`extends` is `{}`; {problem}", .setting.place(), .setting.value.shown())]
    Parent {
        /// The setting.
        setting: Box<Setting>,
        /// What is wrong with it.
        problem: Box<ConfigError>,
    },
    /// A config that another one extends, extends a third one.
    #[error("{}a config that another one extends cannot extend a third one", .setting.place())]
    Grandparent {
        /// The setting.
        setting: Box<Setting>,
    },
    /// A text extends a config, and was not found by its name.
    #[error("{}`extends` works in config files that are found by their name", .setting.place())]
    ParentUnknown {
        /// The setting.
        setting: Box<Setting>,
    },
    /// A key before the first section.
    #[error("{}`{}` is outside of any section", .setting.place(), .setting.key)]
    OutsideSections {
        /// The setting.
        setting: Box<Setting>,
        /// The full key that was probably meant.
        nearest: Option<String>,
    },
    /// A value where a section belongs.
    #[error("{}`{}` is a section, not a key", .setting.place(), .setting.key)]
    SectionAsKey {
        /// The setting.
        setting: Box<Setting>,
    },
    /// A key of another choice, such as a setting of another optimizer.
    #[error(
        "{}it applies to {} only, and {}",
        .setting.head(), listed(.owners, "and"), .chooser.mention()
    )]
    DoesNotApply {
        /// The setting that does not apply.
        setting: Box<Setting>,
        /// The choice made.
        chooser: Box<Setting>,
        /// The choices to which the setting applies.
        owners: Vec<String>,
    },
    /// Two settings that exclude each other.
    #[error("{}{rule}, and {}", .setting.head(), .other.mention())]
    Clash {
        /// The setting that is refused.
        setting: Box<Setting>,
        /// The setting that it clashes with.
        other: Box<Setting>,
        /// The rule they break.
        rule: &'static str,
        /// The way out.
        fix: &'static str,
    },
    /// Another of these errors, at a point of a space, with a way out of its own.
    #[error("{error}")]
    AtPoint {
        /// The error.
        error: Box<ConfigError>,
        /// The way out, as a sentence.
        fix: String,
    },
    /// A key that no study can search.
    #[error("{}`{key}` cannot be searched: {reason}", .setting.place())]
    NotSearchable {
        /// Its parameter in `[tune.space]`.
        setting: Box<Setting>,
        /// The key.
        key: String,
        /// Why, as a sentence.
        reason: &'static str,
    },
    /// A value that a later version will support.
    #[error("{}supported: {supported}", not_yet(.setting))]
    NotYetSupported {
        /// The setting.
        setting: Box<Setting>,
        /// The supported values, in words.
        supported: &'static str,
    },
    /// A text that is not TOML.
    #[error("{}:{line}:{column}: {message}", .name)]
    Syntax {
        /// The file or text.
        name: String,
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// The message of the parser.
        message: String,
    },
    /// A TOML value of a kind that no key takes.
    #[error("{}`{key}` is {found}, which no key takes", .origin.place())]
    Forbidden {
        /// The full key.
        key: String,
        /// Its place.
        origin: Origin,
        /// The kind of value.
        found: Forbidden,
    },
    /// A key with characters that keys cannot have.
    #[error("{}`{key}` is not a key; each part of a key has 1 to {MAX_KEY} letters, digits, `_` and `-`", .origin.place())]
    BadKey {
        /// The key, shortened.
        key: String,
        /// Its place.
        origin: Origin,
    },
    /// A key that is a value in one layer and a table in another.
    #[error("{}`{}` is one value, but {}", .setting.place(), .setting.key, .inner.mention())]
    Overlap {
        /// The value.
        setting: Box<Setting>,
        /// The setting beneath it.
        inner: Box<Setting>,
    },
    /// An argument of `--set` that is not `key=value`.
    #[error("--set {text}: expected `--set section.key=value`")]
    MalformedSet {
        /// The argument, shortened.
        text: String,
    },
    /// A value on the command line that begins as a list, table or quoted string and is none.
    #[error("{option}: {message}")]
    MalformedValue {
        /// The option as typed, shortened.
        option: String,
        /// The message of the parser.
        message: String,
    },
    /// No config of this name.
    #[error("there is no config `{name}`")]
    NotFound {
        /// The requested name.
        name: String,
        /// The names of the built-in configs.
        embedded: Vec<String>,
    },
    /// A directory where a config file was expected.
    #[error("`{}` is a directory; expected a config file", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// A file too large to be a config.
    #[error("`{}` is larger than {limit}, too large for a config file", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The largest size read.
        limit: Bytes,
    },
    /// A file that is not text.
    #[error("`{}` is not UTF-8 text: the byte at offset {offset} is invalid", .path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// The offset of the first byte that is wrong.
        offset: usize,
    },
    /// A file that cannot be read.
    #[error("cannot read the config file `{}`", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// The longest part of a key between two dots.
pub(crate) const MAX_KEY: usize = 64;

/// A kind of TOML value that no key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// A date or a time.
    #[error("a date or time")]
    Date,
    /// `[[section]]`, or tables within a list.
    #[error("a list of tables")]
    Tables,
    /// An infinite number or NaN.
    #[error("an infinite number or NaN")]
    NotFinite,
    /// An integer of more than 64 bits.
    #[error("an integer of more than 64 bits")]
    HugeInteger,
}

impl ConfigError {
    /// The way out, as one sentence without a final period.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotAllowed { setting, allowed } => {
                let allowed = || allowed.iter().map(String::as_str);
                let wrong = match &setting.value {
                    Value::List(items) => {
                        items.iter().map(Value::shown).find(|item| allowed().all(|known| known != item))?
                    }
                    value => value.shown(),
                };
                let meant = nearest(&wrong, allowed())?;
                Some(format!("did you mean `{meant}`?"))
            }
            Self::BatchTokens { steps, below, .. } => {
                let nearest = [*below, below.saturating_add(*steps)].into_iter().filter(|tokens| *tokens > 0);
                let nearest: Vec<_> = nearest.map(|tokens| format!("{tokens} tokens")).collect();
                Some(format!("set it to {}", listed(&nearest, "or")))
            }
            Self::WrongKind { setting, .. } => unquoted_list(setting),
            Self::Missing { key, .. } if key == SPACE => Some(
                "add `[tune.space]` and a line such as `\"optimizer.lr\" = { low = 1e-4, high = 0.1, log = true }`"
                    .to_owned(),
            ),
            Self::Missing { key, .. } => Some(format!("set it in the config file or with `--set {key}=…`")),
            Self::UnknownKey { nearest: Some(meant), .. }
            | Self::OutsideSections { nearest: Some(meant), .. } => Some(format!("did you mean `{meant}`?")),
            Self::UnknownKey { setting, known, .. } => {
                let section = setting.key.split('.').next().unwrap_or_default();
                let keys = format!("the keys of `[{section}]` are {}", listed(known, "and"));
                let condition = "; a `when` limits a parameter to choices that have its key";
                let condition = if setting.origin.is_of_space() { condition } else { "" };
                (!known.is_empty()).then(|| format!("{keys}{condition}"))
            }
            Self::Parent { problem, .. } => problem.hint(),
            Self::Grandparent { .. } => Some("copy its settings, or extend the third one".to_owned()),
            Self::RetiredKey { replacement, .. } => Some(format!("use `{replacement}`")),
            Self::UnknownSection { name, known, .. } => {
                Some(match nearest(name, known.iter().map(String::as_str)) {
                    Some(meant) => format!("did you mean `[{meant}]`?"),
                    None => format!("the sections are {}", listed(known, "and")),
                })
            }
            Self::OutsideSections { .. } => Some("put it under a section such as `[train]`".to_owned()),
            Self::SectionAsKey { setting } => Some(match setting.origin.is_typed() {
                true => format!("set one of its keys, as in `--set {}.key=value`", setting.key),
                false => format!("write `[{}]` on a line of its own and its keys below", setting.key),
            }),
            Self::AtPoint { fix, .. } => Some(fix.clone()),
            // One device has no strategy.
            Self::DoesNotApply { setting, chooser, .. }
                if chooser.key == "device.strategy" && chooser.value == "auto".into() =>
            {
                Some(format!("name several devices, as in `--devices cpu,cpu`, or remove `{}`", setting.key))
            }
            Self::DoesNotApply { setting, chooser, .. } => {
                Some(format!("remove `{}` or change `{}`", setting.key, chooser.key))
            }
            Self::Clash { fix, .. } => Some((*fix).to_owned()),
            Self::NotFound { name, embedded } => Some(not_found_hint(name, embedded)),
            Self::NoFile { .. } => Some(
                "write it to a file with `oomph config --config NAME > my.toml`, then use `--config my.toml`"
                    .to_owned(),
            ),
            Self::Directory { path } => Some(format!(
                "name a TOML file in it, or write a config for the data in it by `oomph init {}`",
                path.display()
            )),
            _ => None,
        }
    }
}

/// `[stem, layer1]` on the command line is not TOML, and so it is read as a string.
fn unquoted_list(setting: &Setting) -> Option<String> {
    let Value::String(text) = &setting.value else { return None };
    let items = text.strip_prefix('[')?.strip_suffix(']')?;
    let quoted: Vec<_> =
        items.split(',').map(|item| format!("{:?}", item.trim().trim_matches('"'))).collect();
    Some(format!("strings need their quotes: `--set '{}=[{}]'`", setting.key, quoted.join(", ")))
}

fn not_found_hint(name: &str, embedded: &[String]) -> String {
    if embedded.is_empty() {
        return "give the path of a TOML file".to_owned();
    }
    let known = listed(embedded, "and");
    // `configs/resnet.toml` is a path in a clone alone.
    let in_folder = name.rsplit_once('/').map(|(_, file)| embedded.iter().find(|known| *known == file));
    // Without the ending, which makes all names alike.
    let stem = |name| str::trim_end_matches(name, ".toml");
    let likeliest = || nearest(stem(name), embedded.iter().map(|known| stem(known.as_str())));
    match in_folder.map_or_else(likeliest, |known| known.map(String::as_str)) {
        Some(meant) => format!("did you mean `{meant}`? the built-in configs are {known}"),
        None => format!(
            "give the path of a TOML file or the name of a built-in config; the built-in configs are {known}"
        ),
    }
}

fn not_yet(setting: &Setting) -> String {
    let head = setting.head();
    if setting.origin.is_typed() {
        return format!("{head}this version of oomph does not support it yet; ");
    }
    format!("{}, which this version of oomph does not support yet; ", head.trim_end_matches("; "))
}

/// `` one of `a`, `b` or `c` ``, or `` `a` or `b` ``.
pub fn one_of<T: AsRef<str>>(names: &[T]) -> String {
    match names {
        few @ ([_] | [_, _]) => listed(few, "or"),
        several => format!("one of {}", listed(several, "or")),
    }
}

/// `` `a`, `b` and `c` ``.
pub(crate) fn listed<T: AsRef<str>>(names: &[T], conjunction: &str) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    match quoted.as_slice() {
        [] => "none".to_owned(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} {conjunction} {last}", first.join(", ")),
    }
}
