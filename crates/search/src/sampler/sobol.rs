use oomph_core::Generator;

use super::proposals::{PROPOSALS, Sampler, distinct};
use crate::{Direction, Draw, Point, Space, Trial};

/// Points that fill the space more evenly than random ones: trial n has point n of a Sobol sequence, scrambled as Owen did, by the
/// seed ([Burley 2020](https://jcgt.org/published/0009/04/01/)).
///
/// Each further proposal for a trial is the same point of another scrambling. So whichever proposals are taken, they are points of
/// few sequences, each even. A parameter that takes no part in a point has its dimension nevertheless. Sequences have 2^16 points,
/// and begin again after them with another scrambling; beyond 256 parameters, dimensions come from further scramblings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sobol;

const DIMENSIONS: usize = sobol_burley::NUM_DIMENSIONS as usize;
const LENGTH: usize = 1 << 16;

impl Sampler for Sobol {
    fn propose(&self, space: &Space, _: &[Trial], _: Direction, draw: Draw) -> Vec<Point> {
        let of_all = Draw { number: draw.number / LENGTH, ..draw };
        let point = |proposal| {
            space.fill(|parameter| {
                let name = &parameter.name;
                let index = space.parameters().iter().position(|other| other.name == *name).unwrap_or(0);
                let key = of_all.key("sobol").with(proposal).with((index / DIMENSIONS) as u64);
                let seed = Generator::at(key).bits() as u32;
                let number = (draw.number % LENGTH) as u32;
                let share = sobol_burley::sample(number, (index % DIMENSIONS) as u32, seed);
                parameter.domain.quantile(share.into())
            })
        };
        distinct((0..PROPOSALS as u64).map(point))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Domain, Parameter};

    #[test]
    fn the_first_64_trials_have_one_point_in_each_64th_of_each_axis_and_each_eighth_of_each_pair() {
        let domain = || Domain::Float { low: 0.0, high: 1.0, step: None, log: false };
        let space = Space::new(vec![Parameter::new("a", domain()), Parameter::new("b", domain())]).unwrap();
        for seed in 0..20 {
            let draw = |number| Draw { seed, number, round: 0 };
            let points = (0..64)
                .map(|number| Sobol.propose(&space, &[], Direction::Minimize, draw(number)).swap_remove(0));
            let points: Vec<_> = points.collect();
            for cell in [
                |p: &Point| (p["a"] * 64.0) as u32,
                |p: &Point| (p["b"] * 64.0) as u32,
                |p: &Point| (p["a"] * 8.0) as u32 * 8 + (p["b"] * 8.0) as u32,
            ] {
                let mut cells: Vec<_> = points.iter().map(cell).collect();
                cells.sort_unstable();
                assert_eq!(cells, (0..64).collect::<Vec<_>>(), "seed {seed}");
            }
        }
    }
}
