use crate::{Direction, Draw, Point, Space, Trial, draw::uniform};
use oomph_core::Generator;

/// The most points of one proposal.
pub(super) const PROPOSALS: usize = 24;

/// Proposes points for trials.
pub trait Sampler {
    /// Points for the trial of `draw`, the best first and each once, so that a caller may plan the memory of each and take the
    /// first that fits. With another [`Draw::round`] there are further ones.
    ///
    /// There are none where all of the space was tried; only [`Grid`](super::Grid) knows that.
    ///
    /// A function of its arguments alone. The order of `trials` does not matter, and neither does the machine: what is computed
    /// with more than additions, products and roots is computed by `libm`.
    fn propose(&self, space: &Space, trials: &[Trial], direction: Direction, draw: Draw) -> Vec<Point>;
}

/// `proposal` with the values of `fixed`, such as those of a trial that a user enqueued.
///
/// Parameters that take no part any more are left out. Those that take part now and have no value are drawn from their whole
/// domain.
pub fn with_fixed(space: &Space, proposal: &Point, fixed: &Point, draw: Draw) -> Point {
    space.fill(|parameter| {
        let known = fixed.get(&parameter.name).or_else(|| proposal.get(&parameter.name));
        known.copied().unwrap_or_else(|| {
            let mut generator = Generator::at(draw.key("fixed").with_name(&parameter.name));
            parameter.domain.quantile(uniform(&mut generator))
        })
    })
}

/// Trials in the order of their numbers.
pub(super) fn by_number(trials: &[Trial]) -> Vec<&Trial> {
    let mut sorted: Vec<_> = trials.iter().collect();
    sorted.sort_by_key(|trial| trial.number);
    sorted
}

/// A point that can be looked up.
pub(super) fn bits(point: &Point) -> Vec<(&str, u64)> {
    point.iter().map(|(name, value)| (&**name, value.to_bits())).collect()
}

/// Points without those that were there before.
pub(super) fn distinct(points: impl Iterator<Item = Point>) -> Vec<Point> {
    points.fold(Vec::new(), |mut known, point| {
        if !known.contains(&point) {
            known.push(point);
        }
        known
    })
}
