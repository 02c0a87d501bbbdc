/// The nearest of `known` to `given`, if one is near enough to be meant.
pub(crate) fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // No known key is nearly this long, and the distance costs time and memory of length × length.
    if given.len() > 64 {
        return None;
    }
    let normal = |text: &str| text.to_lowercase().replace('-', "_");
    let given = normal(given);
    // Three letters or more of the beginning stand for the word.
    let begins = |known: &str| given.len() >= 3 && normal(known).starts_with(&given);
    let distance =
        |known: &str| if begins(known) { 1 } else { strsim::damerau_levenshtein(&given, &normal(known)) };
    known
        .into_iter()
        .map(|known| (distance(known), known))
        .filter(|(distance, known)| {
            *distance <= (known.chars().count().min(given.chars().count()) / 3).max(1)
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let known = ["epochs", "batch", "eval_every", "lr"];
        for (given, expected) in [
            ("epoch", Some("epochs")),
            ("bacth", Some("batch")),
            ("eval-every", Some("eval_every")),
            ("Batch", Some("batch")),
            ("learning_rate", None),
            ("eval", Some("eval_every")),
            ("", None),
        ] {
            assert_eq!(nearest(given, known), expected, "{given}");
        }
    }
}
