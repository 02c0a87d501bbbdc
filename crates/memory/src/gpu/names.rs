//! Names of GPUs, as users and drivers write them.

/// The parts of a name, equal for all spellings.
pub(super) struct Words {
    /// `["a100"]`, `["4070", "ti", "super"]`, `["3g"]`.
    pub(super) model: Vec<String>,
    /// The form factor, if named: `sxm`, `pcie` or `nvl`.
    pub(super) form: Option<&'static str>,
    /// The size in the name.
    pub(super) gb: Option<u32>,
}

/// Words that do not identify the model.
const NOISE: &str = "nvidia geforce tesla quadro rtx gtx gpu generation blackwell hopper workstation server edition \
                     tensor core hbm2 hbm2e hbm3e mig";

impl Words {
    pub(super) fn of(text: &str) -> Self {
        let mut words = Self { model: Vec::new(), form: None, gb: None };
        let lower = text.to_lowercase();
        let mut parts: Vec<&str> =
            lower.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty()).collect();
        parts = parts.into_iter().flat_map(without_prefix).collect();
        let mut parts = parts.into_iter().peekable();
        while let Some(part) = parts.next() {
            let spaced = parts.peek().is_some_and(|next| matches!(*next, "gb" | "gib"));
            if let Some(gb) = size(part, spaced) {
                words.gb = Some(gb);
                if spaced {
                    parts.next();
                }
            } else if let Some(form) = form(part) {
                words.form = Some(form);
            } else if !NOISE.split(' ').any(|noise| noise == part) {
                words.model.extend(split_suffix(part).into_iter().map(str::to_owned));
            }
        }
        words.settle();
        words
    }

    /// Removes the parts that only the driver's names have.
    fn settle(&mut self) {
        let profile = self.model.iter().find(|word| is_slice(word)).cloned();
        match profile {
            // The size of a slice is in the profile's name, not in the card's.
            Some(slice) => self.model = vec![slice],
            // For a GH200 the driver names the memory of its processor.
            None if self.model == ["gh200"] && self.gb == Some(480) => self.gb = Some(96),
            None => {}
        }
    }
}

/// `rtx4090` is `rtx 4090`.
fn without_prefix(part: &str) -> Vec<&str> {
    match part.strip_prefix("rtx").or_else(|| part.strip_prefix("gtx")) {
        Some("") | None => vec![part],
        Some(rest) => vec![rest],
    }
}

/// `4090ti` is `4090 ti`, `4070tisuper` is `4070 ti super`.
fn split_suffix(part: &str) -> Vec<&str> {
    let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
    let (number, rest) = part.split_at(digits);
    match rest {
        "ti" | "super" | "ada" if !number.is_empty() => vec![number, rest],
        "tisuper" if !number.is_empty() => vec![number, "ti", "super"],
        _ => vec![part],
    }
}

/// `80gb`, or `80` before a `gb`.
fn size(part: &str, spaced: bool) -> Option<u32> {
    let digits = part.strip_suffix("gb").or_else(|| part.strip_suffix("gib")).or(spaced.then_some(part))?;
    digits.parse().ok()
}

fn form(part: &str) -> Option<&'static str> {
    match part {
        "pcie" => Some("pcie"),
        "nvl" => Some("nvl"),
        // The driver calls an H100 for this socket `H100 80GB HBM3`.
        "sxm" | "sxm2" | "sxm3" | "sxm4" | "sxm5" | "hbm3" => Some("sxm"),
        _ => None,
    }
}

/// `3g` of `3g.20gb`.
fn is_slice(word: &str) -> bool {
    word.strip_suffix('g')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, model: &[&str], form: Option<&str>, gb: Option<u32>) {
        let words = Words::of(text);
        assert_eq!(words.model, model, "{text}");
        assert_eq!((words.form, words.gb), (form, gb), "{text}");
    }

    #[test]
    fn a_name_is_taken_apart() {
        check("NVIDIA A100-SXM4-80GB", &["a100"], Some("sxm"), Some(80));
        check("RTX4070TiSUPER 16 GiB", &["4070", "ti", "super"], None, Some(16));
        check("NVIDIA H100 NVL", &["h100"], Some("nvl"), None);
        check("H100 MIG 1g.10gb+me", &["1g"], None, Some(10));
        check("NVIDIA GH200 480GB", &["gh200"], None, Some(96));
        check("", &[], None, None);
    }
}
