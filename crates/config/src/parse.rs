//! TOML to flat settings.

use std::collections::BTreeMap;

use oomph_core::printable;
use toml::de::{DeTable, DeValue};

use crate::{
    error::{ConfigError, Forbidden, MAX_KEY},
    origin::Origin,
    section_names::{PARAMETER_KEYS, SECTIONS, SPACE, TUNE},
    setting::Setting,
    value::{Value, shortened},
};

/// The content of one source: each setting by its dotted key, and the top-level tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flat {
    pub(crate) settings: BTreeMap<String, Setting>,
    pub(crate) tables: Vec<(String, Origin)>,
}

/// Reads a text of TOML. `origin` gives the origin of a line; errors of syntax call the text `name`.
pub(crate) fn parse(text: &str, name: &str, origin: impl Fn(usize) -> Origin) -> Result<Flat, ConfigError> {
    let lines = Lines::of(text);
    let table = DeTable::parse(text).map_err(|error| {
        let (line, column) = lines.position(text, error.span().map_or(0, |span| span.start));
        ConfigError::Syntax { name: printable(name), line, column, message: joined(error.message()) }
    })?;
    let mut flat = Flat::default();
    for (key, value) in table.get_ref() {
        let origin = origin(lines.line(key.span().start));
        if value.get_ref().is_table() {
            flat.tables.push((shortened(key.get_ref()), origin));
        }
    }
    flatten(table.get_ref(), "", &|offset| origin(lines.line(offset)), &mut flat.settings)?;
    Ok(flat)
}

/// Reads one value as typed on the command line. A text that is not TOML is a string, such as `../data`, `adam` or
/// `24GiB`, unless it begins as a list, a table or a quoted string.
pub(crate) fn parse_typed(key: &str, text: &str, origin: &Origin) -> Result<Flat, ConfigError> {
    let text = text.trim();
    let mut flat = Flat::default();
    // Keys of the space may be quoted, as in a file.
    let bare = key.replace(['"', '\''], "");
    let key = if below_space(&bare).is_some() { bare.as_str() } else { key };
    if !key.split('.').all(is_part) {
        return Err(bad_key(key, origin));
    }
    match DeValue::parse(text).map(toml::Spanned::into_inner) {
        Ok(DeValue::Table(table)) if is_parameter(key, &table) => {
            let value = parameter(&table, key, origin)?;
            insert(&mut flat.settings, key, value, origin.clone())?;
        }
        Ok(DeValue::Table(table)) => flatten(&table, key, &|_| origin.clone(), &mut flat.settings)?,
        // A date is a string here: `--set run.directory=2026-01-31` means the directory.
        Ok(DeValue::Datetime(_)) => insert(&mut flat.settings, key, Value::from(text), origin.clone())?,
        Ok(value) => insert(&mut flat.settings, key, plain(&value, key, origin)?, origin.clone())?,
        Err(error) if text.starts_with(['[', '{', '"', '\'']) => {
            let typed = Setting::new(key, Value::from(text), origin.clone());
            let option = typed.place().trim_end_matches(": ").to_owned();
            return Err(ConfigError::MalformedValue { option, message: joined(error.message()) });
        }
        Err(_) => insert(&mut flat.settings, key, Value::from(text), origin.clone())?,
    }
    Ok(flat)
}

fn flatten(
    table: &DeTable<'_>,
    prefix: &str,
    origin: &impl Fn(usize) -> Origin,
    settings: &mut BTreeMap<String, Setting>,
) -> Result<(), ConfigError> {
    for (part, value) in table {
        let origin_here = origin(part.span().start);
        // `"optimizer.lr"` names a key that is searched.
        let may_have_dots = prefix == TUNE || prefix == SPACE || below_space(prefix).is_some();
        let is_key =
            if may_have_dots { part.get_ref().split('.').all(is_part) } else { is_part(part.get_ref()) };
        if !is_key {
            return Err(bad_key(part.get_ref(), &origin_here));
        }
        let key = if prefix.is_empty() {
            part.get_ref().to_string()
        } else {
            format!("{prefix}.{}", part.get_ref())
        };
        match value.get_ref() {
            DeValue::Table(inner) if is_parameter(&key, inner) => {
                let value = parameter(inner, &key, &origin_here)?;
                insert(settings, &key, value, origin_here)?;
            }
            DeValue::Table(inner) => flatten(inner, &key, origin, settings)?,
            value => {
                let value = plain(value, &key, &origin_here)?;
                insert(settings, &key, value, origin_here)?;
            }
        }
    }
    Ok(())
}

/// Adds a setting. TOML itself refuses a key that is there twice, unless one of the two is written in quotes.
fn insert(
    settings: &mut BTreeMap<String, Setting>,
    key: &str,
    value: Value,
    origin: Origin,
) -> Result<(), ConfigError> {
    let setting = Setting::new(key, value, origin);
    match settings.insert(key.to_owned(), setting.clone()) {
        Some(other) => Err(ConfigError::Clash {
            setting: Box::new(setting),
            other: Box::new(other),
            rule: "a key is set once",
            fix: "remove one of the two",
        }),
        None => Ok(()),
    }
}

/// What follows `tune.space.` in a key.
fn below_space(key: &str) -> Option<&str> {
    key.strip_prefix(SPACE)?.strip_prefix('.')
}

/// Whether the table of this key describes a parameter, as `{ low = 1, high = 8 }` does. Other tables group parameters:
/// the `optimizer` of `[tune.space.optimizer]`.
fn is_parameter(key: &str, table: &DeTable<'_>) -> bool {
    let Some(searched) = below_space(key) else { return false };
    if SECTIONS.contains(&searched) {
        return false;
    }
    let is_table = |value: &toml::Spanned<DeValue<'_>>| value.get_ref().is_table();
    let describes = PARAMETER_KEYS.iter().any(|name| table.get(*name).is_some_and(|value| !is_table(value)));
    let groups = || table.values().any(|value| is_table(value) || value.get_ref().is_array());
    describes || searched.contains('.') && !groups()
}

/// The table of a parameter, in the order in which it is written.
fn parameter(table: &DeTable<'_>, key: &str, origin: &Origin) -> Result<Value, ConfigError> {
    let mut written: Vec<_> = table.iter().collect();
    written.sort_by_key(|(name, _)| name.span().start);
    let entry = |(name, value): (&toml::Spanned<std::borrow::Cow<'_, str>>, &toml::Spanned<DeValue<'_>>)| {
        let (name, key) = (name.get_ref().as_ref(), format!("{key}.{}", name.get_ref()));
        if !is_part(name) {
            return Err(bad_key(name, origin));
        }
        let value = match value.get_ref() {
            DeValue::Table(inner) => parameter(inner, &key, origin)?,
            value => plain(value, &key, origin)?,
        };
        Ok((name.to_owned(), value))
    };
    Ok(Value::Table(written.into_iter().map(entry).collect::<Result<_, _>>()?))
}

/// The value, unless it is of a kind that no key takes.
fn plain(value: &DeValue<'_>, key: &str, origin: &Origin) -> Result<Value, ConfigError> {
    let forbidden = |found| ConfigError::Forbidden { key: shortened(key), origin: origin.clone(), found };
    Ok(match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Boolean(boolean) => Value::Boolean(*boolean),
        DeValue::Integer(integer) => i128::from_str_radix(integer.as_str(), integer.radix())
            .ok()
            .filter(|integer| (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(integer))
            .map(Value::Integer)
            .ok_or_else(|| forbidden(Forbidden::HugeInteger))?,
        DeValue::Float(float) => float
            .as_str()
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
            .map(Value::Number)
            .ok_or_else(|| forbidden(Forbidden::NotFinite))?,
        DeValue::Array(values) => Value::List(
            values.iter().map(|value| plain(value.get_ref(), key, origin)).collect::<Result<_, _>>()?,
        ),
        DeValue::Datetime(_) => return Err(forbidden(Forbidden::Date)),
        DeValue::Table(_) => return Err(forbidden(Forbidden::Tables)),
    })
}

fn is_part(part: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=MAX_KEY).contains(&part.len()) && part.bytes().all(allowed)
}

fn bad_key(key: &str, origin: &Origin) -> ConfigError {
    ConfigError::BadKey { key: shortened(key), origin: origin.clone() }
}

/// The parser's message, which may have several lines, as one.
fn joined(message: &str) -> String {
    printable(message.lines().map(str::trim).collect::<Vec<_>>().join(", "))
}

/// The byte offsets at which lines start.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self(std::iter::once(0).chain(newlines.map(|(index, _)| index + 1)).collect())
    }

    /// The line of a byte, from 1.
    fn line(&self, offset: usize) -> usize {
        self.0.partition_point(|start| *start <= offset)
    }

    /// The line and the column in characters of a byte, each from 1.
    fn position(&self, text: &str, offset: usize) -> (usize, usize) {
        let line = self.line(offset);
        let start = self.0[line - 1]; // The first line starts at 0, so `line` is at least 1.
        let before = text.as_bytes().get(start..offset).unwrap_or_default();
        (line, String::from_utf8_lossy(before).chars().count() + 1)
    }
}
