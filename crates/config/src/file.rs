//! Config files: finding and reading them.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use oomph_core::{Bytes, open_file};

use crate::{
    error::ConfigError,
    origin::Origin,
    parse::{Flat, parse},
    value::Value,
};

/// A config that is built into the binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Embedded {
    /// Its file name, such as `resnet.toml`.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// The text of a config and its place, before parsing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    place: FilePlace,
    text: String,
    is_stored: bool,
    /// The config that it extends.
    parent: Option<Box<ConfigFile>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum FilePlace {
    Path(PathBuf),
    Memory(String),
}

/// The config that is used when none is named.
pub const DEFAULT_CONFIG: &str = "resnet.toml";

/// The key, before all sections, that names the config which a file extends.
const EXTENDS: &str = "extends";

/// The folder in which configs are looked up by their bare name.
const FOLDER: &str = "configs";

/// The largest file that is read into memory.
const MAX_SIZE: Bytes = Bytes::mib(1);

/// Finds a config by its name: as a path, then in `configs/`, both with and without `.toml`, then among the embedded
/// ones. Without a name it is [`DEFAULT_CONFIG`].
///
/// The config that it `extends` is found the same way, and first of all in its own folder.
///
/// # Errors
/// The config does not exist, or cannot be read; or the one that it extends.
pub fn resolve(name: Option<&str>, embedded: &[Embedded]) -> Result<ConfigFile, ConfigError> {
    resolve_in(Path::new(""), name.unwrap_or(DEFAULT_CONFIG), embedded)?.with_parent(embedded)
}

fn resolve_in(directory: &Path, name: &str, embedded: &[Embedded]) -> Result<ConfigFile, ConfigError> {
    let with_extension = format!("{name}.toml");
    let candidates = [
        directory.join(name),
        directory.join(&with_extension),
        directory.join(FOLDER).join(name),
        directory.join(FOLDER).join(&with_extension),
    ];
    let usable = |path: &&PathBuf| path.exists() && !path.is_dir();
    if let Some(path) = candidates.iter().find(usable).filter(|_| !name.is_empty()) {
        return ConfigFile::read(path);
    }
    if let Some(found) =
        embedded.iter().find(|embedded| embedded.name == name || embedded.name == with_extension)
    {
        return Ok(ConfigFile::from_text(found.name, found.text));
    }
    match candidates.into_iter().find(|path| path.is_dir() && !name.is_empty()) {
        Some(path) => Err(ConfigError::Directory { path }),
        None => Err(ConfigError::NotFound {
            name: name.to_owned(),
            embedded: embedded.iter().map(|embedded| embedded.name.to_owned()).collect(),
        }),
    }
}

impl ConfigFile {
    /// Reads a file of at most 1 MiB of UTF-8 text.
    ///
    /// # Errors
    /// A directory, a file that is larger or not UTF-8, or one that the system does not let us read.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        if path.is_dir() {
            return Err(ConfigError::Directory { path: path.to_owned() });
        }
        let failed = |source| ConfigError::Read { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        let file = open_file(path).map_err(failed)?;
        let read = file.take(MAX_SIZE.get() + 1).read_to_end(&mut bytes).map_err(failed)?;
        if read as u64 > MAX_SIZE.get() {
            return Err(ConfigError::TooLarge { path: path.to_owned(), limit: MAX_SIZE });
        }
        let text = String::from_utf8(bytes).map_err(|error| ConfigError::NotText {
            path: path.to_owned(),
            offset: error.utf8_error().valid_up_to(),
        })?;
        Ok(Self { place: FilePlace::Path(path.to_owned()), text, is_stored: false, parent: None })
    }

    /// A config in memory. Messages call it `name`.
    pub fn from_text(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { place: FilePlace::Memory(name.into()), text: text.into(), is_stored: false, parent: None }
    }

    /// Marks a configuration that oomph itself wrote, into a run directory or a checkpoint. An earlier version may have
    /// written it: its retired keys are translated, where those of a user's file are refused.
    pub fn stored(self) -> Self {
        Self { is_stored: true, ..self }
    }

    pub(crate) fn is_stored(&self) -> bool {
        self.is_stored
    }

    /// The file name without its extension: `resnet` for `configs/resnet.toml`.
    pub fn stem(&self) -> String {
        let path = match &self.place {
            FilePlace::Path(path) => path.as_path(),
            FilePlace::Memory(name) => Path::new(name),
        };
        path.file_stem().map_or_else(|| "config".to_owned(), |stem| stem.to_string_lossy().into_owned())
    }

    /// The unparsed text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The path or name, as messages show it.
    pub fn place(&self) -> String {
        match &self.place {
            FilePlace::Path(path) => path.display().to_string(),
            FilePlace::Memory(name) => name.clone(),
        }
    }

    /// The path of the file; `None` for a config in memory.
    pub fn path(&self) -> Option<&Path> {
        match &self.place {
            FilePlace::Path(path) => Some(path),
            FilePlace::Memory(_) => None,
        }
    }

    /// Finds the config that this one extends.
    fn with_parent(self, embedded: &[Embedded]) -> Result<Self, ConfigError> {
        // What is wrong with the text is told where it is read.
        let Ok(flat) = self.flat_alone() else { return Ok(self) };
        let Some(setting) = flat.settings.get(EXTENDS) else { return Ok(self) };
        let Value::String(name) = &setting.value else {
            let (setting, expected) = (Box::new(setting.clone()), "the name of a config".to_owned());
            return Err(ConfigError::WrongKind { setting, expected });
        };
        let beside = self.path().and_then(Path::parent).unwrap_or(Path::new(""));
        let found = match resolve_in(beside, name, &[]) {
            Err(ConfigError::NotFound { .. }) => resolve_in(Path::new(""), name, embedded),
            found => found,
        };
        let parent = found.map_err(|problem| ConfigError::Parent {
            setting: Box::new(setting.clone()),
            problem: Box::new(problem),
        })?;
        Ok(Self { parent: Some(Box::new(parent)), ..self })
    }

    fn flat_alone(&self) -> Result<Flat, ConfigError> {
        parse(self.text(), &self.place(), |line| self.origin(line))
    }

    /// The settings of the file over those of the config that it extends.
    pub(crate) fn flat(&self) -> Result<Flat, ConfigError> {
        let mut own = self.flat_alone()?;
        let extends = own.settings.remove(EXTENDS);
        let Some(parent) = &self.parent else {
            return match extends {
                Some(setting) => Err(ConfigError::ParentUnknown { setting: Box::new(setting) }),
                None => Ok(own),
            };
        };
        let mut merged =
            parse(parent.text(), &parent.place(), |line| Origin::Parent(Box::new(parent.origin(line))))?;
        if let Some(setting) = merged.settings.remove(EXTENDS) {
            return Err(ConfigError::Grandparent { setting: Box::new(setting) });
        }
        for (key, setting) in own.settings {
            setting.stack_on(&mut merged.settings, &key);
        }
        merged.tables.extend(own.tables);
        Ok(merged)
    }

    pub(crate) fn origin(&self, line: usize) -> Origin {
        match &self.place {
            FilePlace::Path(path) => Origin::File { path: path.clone(), line },
            FilePlace::Memory(name) => Origin::Embedded { name: name.clone(), line },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const EMBEDDED: [Embedded; 2] = [
        Embedded { name: "resnet.toml", text: "# built in" },
        Embedded { name: "lstm.toml", text: "# built in" },
    ];

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("configs")).unwrap();
        fs::create_dir(folder.path().join("lstm")).unwrap();
        fs::create_dir(folder.path().join("runs")).unwrap();
        fs::write(folder.path().join("mine.toml"), "# a path").unwrap();
        fs::write(folder.path().join("configs/resnet.toml"), "# configs").unwrap();
        folder
    }

    #[test]
    fn a_name_is_a_path_then_in_configs_then_embedded() {
        let folder = folder();
        for (name, text) in [
            ("mine.toml", "# a path"),
            ("configs/resnet.toml", "# configs"),
            ("resnet.toml", "# configs"),
            ("resnet", "# configs"),
            ("lstm.toml", "# built in"),
            // A directory of that name is ignored.
            ("lstm", "# built in"),
        ] {
            assert_eq!(resolve_in(folder.path(), name, &EMBEDDED).unwrap().text(), text, "{name}");
        }
    }

    #[test]
    fn without_a_name_it_is_the_default_config() {
        assert_eq!(resolve(None, &EMBEDDED).unwrap(), resolve(Some("resnet.toml"), &EMBEDDED).unwrap());
        assert_eq!(resolve(None, &EMBEDDED).unwrap().stem(), "resnet");
    }

    #[test]
    fn a_config_that_is_not_there_lists_those_that_are() {
        let folder = folder();
        let error = |name| resolve_in(folder.path(), name, &EMBEDDED).unwrap_err();
        insta::assert_snapshot!(error("resent"), @"there is no config `resent`");
        insta::assert_snapshot!(
            error("resent").hint().unwrap(),
            @"did you mean `resnet`? the built-in configs are `resnet.toml` and `lstm.toml`"
        );
        // A path in a clone, where there is none.
        insta::assert_snapshot!(
            error("configs/lstm.toml").hint().unwrap(),
            @"did you mean `lstm.toml`? the built-in configs are `resnet.toml` and `lstm.toml`"
        );
        insta::assert_snapshot!(
            error("vgg").hint().unwrap(),
            @"give the path of a TOML file or the name of a built-in config; the built-in configs are `resnet.toml` and `lstm.toml`"
        );
        assert!(matches!(error("runs"), ConfigError::Directory { .. }));
        assert!(matches!(error(""), ConfigError::NotFound { .. }));
    }

    #[test]
    fn files_that_are_no_config_are_refused() {
        let folder = folder();
        let read = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            let error = ConfigFile::read(&path).unwrap_err().to_string();
            error.replace(&*folder.path().to_string_lossy(), "DIR")
        };
        insta::assert_snapshot!(
            read("large.toml", &vec![b'#'; (1 << 20) + 1]),
            @"`DIR/large.toml` is larger than 1.00 MiB, too large for a config file"
        );
        insta::assert_snapshot!(
            read("binary.toml", b"a = 1 # \xff"),
            @"`DIR/binary.toml` is not UTF-8 text: the byte at offset 8 is invalid"
        );
        let error = ConfigFile::read(&folder.path().join("none.toml")).unwrap_err();
        assert!(matches!(error, ConfigError::Read { .. }));
        assert!(ConfigFile::read(folder.path()).unwrap_err().hint().is_some());
    }

    #[test]
    fn the_largest_config_is_read() {
        let folder = folder();
        let path = folder.path().join("large.toml");
        fs::write(&path, vec![b'#'; 1 << 20]).unwrap();
        assert_eq!(ConfigFile::read(&path).unwrap().text().len(), 1 << 20);
    }
}
