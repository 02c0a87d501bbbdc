use oomph_core::Generator;

use super::proposals::{PROPOSALS, Sampler, distinct};
use crate::{Direction, Draw, Point, Space, Trial, draw::uniform};

/// Draws each parameter uniformly from its domain, or uniformly in its logarithm, whatever was tried before (Bergstra and Bengio
/// 2012).
#[derive(Clone, Copy, Debug, Default)]
pub struct Random;

impl Sampler for Random {
    fn propose(&self, space: &Space, _: &[Trial], _: Direction, draw: Draw) -> Vec<Point> {
        let point = |index| {
            // A key for each parameter: one that takes no part changes no other.
            let key = draw.key("random").with(index);
            space.fill(|parameter| {
                let mut generator = Generator::at(key.with_name(&parameter.name));
                parameter.domain.quantile(uniform(&mut generator))
            })
        };
        distinct((0..PROPOSALS as u64).map(point))
    }
}
