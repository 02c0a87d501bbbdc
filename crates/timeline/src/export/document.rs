//! The common parts of all pages: templates, the style sheet, and text that cannot become markup.
//!
//! ```
//! use oomph_timeline::export::document::{Text, fill};
//!
//! let mut page = Vec::new();
//! fill("<h1>{{title}}</h1>", &mut page, |_, out| write!(out, "{}", Text("a < b")))?;
//! assert_eq!(page, b"<h1>a &lt; b</h1>");
//! # Ok::<(), std::io::Error>(())
//! ```

use std::{
    fmt,
    io::{self, Write},
};

use oomph_core::is_unprintable;
use serde::Serialize;

/// The style sheet of all pages.
pub const STYLE: &str = include_str!("assets/style.css");
/// What the pages with curves add to [`STYLE`]: a filter bar, charts side by side.
pub const CURVE_STYLE: &str = include_str!("assets/curves.css");
/// JavaScript of all pages that have scripts: it formats figures and makes elements.
pub const FORMAT_SCRIPT: &str = include_str!("assets/format.js");
/// JavaScript of the pages with curves: values and durations as text, axes with round ticks, buttons and tips, canvases. It
/// comes after [`FORMAT_SCRIPT`]. The scripts after it declare `palette`.
pub const CURVE_SCRIPTS: [&str; 4] = [
    include_str!("assets/numbers.js"),
    include_str!("assets/scale.js"),
    include_str!("assets/controls.js"),
    include_str!("assets/canvases.js"),
];

/// Writes `template` with each `{{name}}` replaced by what `part` writes for that name.
///
/// Braces within the replacements have no meaning.
///
/// # Errors
/// Errors of `out` and of `part`.
pub fn fill(
    template: &str,
    out: &mut dyn Write,
    mut part: impl FnMut(&str, &mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        out.write_all(before.as_bytes())?;
        let (name, behind) = after.split_once("}}").unwrap_or((after, ""));
        part(name, out)?;
        rest = behind;
    }
    out.write_all(rest.as_bytes())
}

/// An error for a template that asks for an unknown part. The tests fill every template.
pub fn unknown_part(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("the template asks for `{name}`"))
}

/// Text within HTML or SVG, in an element or a quoted attribute.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(pub &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| match letter {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            // HTML cannot express these; a browser would show a replacement too.
            control if is_unprintable(control) && !control.is_whitespace() => f.write_str("\u{fffd}"),
            other => fmt::Write::write_char(f, other),
        })
    }
}

/// Writes `value` as JSON that is safe within a `script` element.
///
/// # Errors
/// Errors of `out`, and of a value that JSON cannot express.
pub fn script_json(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(WithoutTags(out), value)?;
    Ok(())
}

/// Replaces `<`: only it can end a script element or start a comment. JSON contains it only in strings.
struct WithoutTags<'a>(&'a mut dyn Write);

impl Write for WithoutTags<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for (number, piece) in bytes.split(|&byte| byte == b'<').enumerate() {
            if number > 0 {
                self.0.write_all(b"\\u003c")?;
            }
            self.0.write_all(piece)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_in_what_is_filled_in_mean_nothing() {
        let mut out = Vec::new();
        fill("a {{x}} b {{y}} c", &mut out, |name, out| write!(out, "[{name} {{{{y}}}}]")).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a [x {{y}}] b [y {{y}}] c");
    }

    #[test]
    fn text_cannot_become_markup() {
        let hostile = "</script><b title=\"x\" id='y'>&\u{0}\u{7}";
        assert_eq!(
            Text(hostile).to_string(),
            "&lt;/script&gt;&lt;b title=&quot;x&quot; id=&#39;y&#39;&gt;&amp;\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn json_in_a_script_has_no_tags_and_means_the_same() {
        let hostile = ["</script><b>", "<!--<script>", "<", "\u{2028}\"\\"];
        let mut out = Vec::new();
        script_json(&hostile, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains('<'), "{text}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), hostile);
    }

    proptest::proptest! {
        #[test]
        fn any_text_survives_a_script(text in "\\PC{0,40}") {
            let mut out = Vec::new();
            script_json(&text, &mut out).unwrap();
            proptest::prop_assert!(!out.contains(&b'<'));
            proptest::prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }
}
