/// The bytes that recompute of a stage frees, and the seconds that it costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Offer {
    pub(super) bytes: u64,
    pub(super) seconds: f64,
}

/// The offers with at least `bytes` bytes together and the least time; `None` if all offers together have less.
///
/// Dynamic programming over bytes, in 2,048 steps. The bytes of an offer are rounded down to whole steps, so the chosen
/// offers have at least `bytes` bytes.
pub(super) fn cheapest_cover(offers: &[Offer], bytes: u64) -> Option<Vec<bool>> {
    const STEPS: usize = 2048;
    let step = bytes.div_ceil(STEPS as u64).max(1);
    let target = bytes.div_ceil(step) as usize;
    // For each number of steps: the least seconds that reach it, and the offers.
    let mut best: Vec<Option<(f64, Vec<usize>)>> = vec![None; target + 1];
    best[0] = Some((0.0, Vec::new()));
    for (index, offer) in offers.iter().enumerate().filter(|(_, offer)| offer.bytes >= step) {
        let gain = (offer.bytes / step) as usize;
        for from in (0..=target).rev() {
            let Some((seconds, chosen)) = best[from].clone() else { continue };
            let to = (from + gain).min(target);
            let seconds = seconds + offer.seconds;
            if to > from && best[to].as_ref().is_none_or(|(known, _)| seconds < *known) {
                let chosen = chosen.into_iter().chain([index]).collect();
                best[to] = Some((seconds, chosen));
            }
        }
    }
    let (_, chosen) = best.pop()??;
    Some((0..offers.len()).map(|index| chosen.contains(&index)).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_cover_is_the_cheapest_there_is(
            offers in prop::collection::vec((0u64..1000, 1u32..100), 1..9),
            bytes in 1u64..2000,
        ) {
            let offers: Vec<Offer> = offers.into_iter()
                .map(|(bytes, seconds)| Offer { bytes, seconds: f64::from(seconds) })
                .collect();
            let of = |chosen: &[bool]| offers.iter().zip(chosen).filter(|(_, chosen)| **chosen)
                .fold((0, 0.0), |(bytes, seconds), (offer, _)| (bytes + offer.bytes, seconds + offer.seconds));
            let least = (0..1u32 << offers.len())
                .map(|bits| of(&(0..offers.len()).map(|index| bits >> index & 1 == 1).collect::<Vec<_>>()))
                .filter(|(have, _)| *have >= bytes)
                .map(|(_, seconds)| seconds)
                .min_by(f64::total_cmp);
            let found = cheapest_cover(&offers, bytes).map(|chosen| of(&chosen));
            prop_assert_eq!(found.map(|(_, seconds)| seconds), least);
            prop_assert!(found.is_none_or(|(have, _)| have >= bytes));
        }
    }
}
