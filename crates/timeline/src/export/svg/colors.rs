use super::super::document::STYLE;

/// The style sheet of the picture, a rule a line. Its variables are those of the pages' style sheet.
const PICTURE: &str = include_str!("../assets/picture.css");

/// The style sheet of the picture, with the colours of the pages, in light and in dark.
///
/// Values are written out instead of CSS variables, which some SVG renderers do not support.
pub(super) fn style() -> String {
    let (light, dark) = STYLE.split_once("prefers-color-scheme: dark").unwrap_or((STYLE, ""));
    let (colored, shapes): (Vec<&str>, Vec<&str>) = PICTURE.lines().partition(|rule| rule.contains("var("));
    let in_colors = |sheet| colored.iter().filter_map(|rule| in_color(rule, sheet)).collect::<String>();
    let (shapes, light, dark) = (shapes.concat(), in_colors(light), in_colors(dark));
    format!("{shapes}{light}@media (prefers-color-scheme: dark){{{dark}}}")
}

/// The rule with the value that the style sheet has for its variable.
fn in_color(rule: &str, sheet: &str) -> Option<String> {
    let (before, name) = rule.split_once("var(")?;
    let (name, after) = name.split_once(')')?;
    let (_, color) = sheet.split_once(&format!("{name}: "))?;
    Some(format!("{before}{}{after}", color.split_once(';')?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_a_color_in_light_and_in_dark() {
        let style = style();
        let (light, dark) = style.split_once("@media").unwrap();
        let colored: Vec<&str> =
            PICTURE.lines().filter_map(|rule| Some(rule.split_once("var(")?.0)).collect();
        assert_eq!(colored.len(), 24);
        for rule in colored {
            for sheet in [light, dark] {
                assert!(sheet.contains(&format!("{rule}#")), "{rule}");
            }
        }
        assert!(light.contains(".c0{fill:#4477aa}") && dark.contains(".c0{fill:#5a8fc8}"));
    }
}
