use std::fmt::Write;

use super::super::document::STYLE;

/// A style rule of the picture: a selector, a property, and the name of a colour of the pages' style sheet.
const RULES: [(&str, &str, &str); 24] = [
    (".card", "fill", "card"),
    (".card", "stroke", "line"),
    (".ink", "fill", "ink"),
    (".soft", "fill", "soft"),
    (".grid", "stroke", "line"),
    (".halo", "stroke", "card"),
    (".mark", "stroke", "ink"),
    (".dot", "fill", "card"),
    (".limit", "stroke", "limit"),
    (".limit-text", "fill", "limit"),
    (".c0", "fill", "c0"),
    (".c1", "fill", "c1"),
    (".c2", "fill", "c2"),
    (".c3", "fill", "c3"),
    (".c4", "fill", "c4"),
    (".c5", "fill", "c5"),
    (".c6", "fill", "c6"),
    (".band", "fill", "band"),
    (".data", "fill", "l0"),
    (".forward", "fill", "l1"),
    (".backward", "fill", "l2"),
    (".step", "fill", "l3"),
    (".eval", "fill", "l4"),
    (".init", "fill", "band2"),
];

const SHAPES: &str = "\
text{font:13px system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",\"Liberation Sans\",Arial,sans-serif;\
font-variant-numeric:tabular-nums}\
.title{font-size:18px;font-weight:650}.bold{font-weight:600}.small{font-size:12px}\
.end{text-anchor:end}.middle{text-anchor:middle}\
.on-light{fill:#12151a}.on-dark{fill:#ffffff}\
.halo{paint-order:stroke;stroke-width:4px;stroke-linejoin:round}\
.grid,.mark{stroke-width:1}.mark{stroke-dasharray:2 3}.dot{stroke-width:2;stroke-dasharray:none}\
.limit{stroke-width:1.5;stroke-dasharray:7 4}";

/// The style sheet of the picture, with the colours of the pages, in light and in dark.
///
/// Values are written out instead of CSS variables, which some SVG renderers do not support.
pub(super) fn style() -> String {
    let (light, dark) = STYLE.split_once("prefers-color-scheme: dark").unwrap_or((STYLE, ""));
    let rules = |sheet: &str| {
        RULES.iter().fold(String::new(), |mut rules, (selector, property, name)| {
            if let Some(color) = color(sheet, name) {
                // Writing to a string cannot fail.
                let _ = write!(rules, "{selector}{{{property}:{color}}}");
            }
            rules
        })
    };
    format!("{SHAPES}{}@media (prefers-color-scheme: dark){{{}}}", rules(light), rules(dark))
}

/// The value of `--name` in a style sheet.
fn color<'a>(sheet: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = sheet.split_once(&format!("--{name}: "))?;
    rest.split_once(';').map(|(color, _)| color)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_a_color_in_light_and_in_dark() {
        let style = style();
        let (light, dark) = style.split_once("@media").unwrap();
        for (selector, property, _) in RULES {
            for sheet in [light, dark] {
                assert!(sheet.contains(&format!("{selector}{{{property}:#")), "{selector} {property}");
            }
        }
        assert!(light.contains(".c0{fill:#4477aa}") && dark.contains(".c0{fill:#5a8fc8}"));
    }
}
