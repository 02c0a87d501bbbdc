//! The points of a grid over a space, numbered.

use super::{Domain, Parameter, Point, Space};

impl Space {
    /// The number of points of a grid; `None` if it is 2^64 or more.
    ///
    /// A domain with a step, and a choice, has all its values in it. A range without a step has `most` points, and so has a
    /// logarithmic range of integers that has more values. Parameters that take no part in a point are not counted in it.
    pub fn grid_points(&self, most: u64) -> Option<u64> {
        self.cells(None, most)
    }

    /// Point `index` of the grid. Indices from [`grid_points`](Self::grid_points) on are those of earlier points again.
    pub fn grid_point(&self, index: u64, most: u64) -> Point {
        let mut point = Point::new();
        self.place(None, index, most, &mut point);
        point
    }

    /// The parameters that depend on the value `on` of a parameter; without one, those that depend on none.
    fn children(&self, on: Option<(&str, usize)>) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(move |parameter| match (&parameter.when, on) {
            (Some(when), Some((name, choice))) => when.parameter == name && when.choices.contains(&choice),
            (None, None) => true,
            _ => false,
        })
    }

    /// The number of points of all parameters that depend on `on`, directly or by way of others.
    fn cells(&self, on: Option<(&str, usize)>, most: u64) -> Option<u64> {
        self.children(on)
            .try_fold(1_u64, |product, parameter| product.checked_mul(self.cells_of(parameter, most)?))
    }

    fn cells_of(&self, parameter: &Parameter, most: u64) -> Option<u64> {
        match &parameter.domain {
            Domain::Choice(choices) => (0..choices.len()).try_fold(0_u64, |sum, choice| {
                sum.checked_add(self.cells(Some((&parameter.name, choice)), most)?)
            }),
            domain => Some(domain.cells(most)),
        }
    }

    fn place(&self, on: Option<(&str, usize)>, mut index: u64, most: u64, point: &mut Point) {
        for parameter in self.children(on) {
            // A grid of 2^64 points or more is truncated.
            let cells = self.cells_of(parameter, most).unwrap_or(u64::MAX).max(1);
            let mut cell = index % cells;
            index /= cells;
            let Domain::Choice(choices) = &parameter.domain else {
                point.insert(parameter.name.clone(), parameter.domain.cell(cell, most));
                continue;
            };
            for choice in 0..choices.len() {
                let below = self.cells(Some((&parameter.name, choice)), most).unwrap_or(u64::MAX);
                if cell < below {
                    point.insert(parameter.name.clone(), choice as f64);
                    self.place(Some((&parameter.name, choice)), cell, most, point);
                    break;
                }
                cell -= below;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{Choice, When};

    #[test]
    fn every_index_is_another_point_of_the_space() {
        let choice = |count: i64| Domain::Choice((0..count).map(Choice::Integer).collect());
        let when = |name: &str, domain, on: &str, choices: &[usize]| Parameter {
            when: Some(When { parameter: on.to_owned(), choices: choices.to_vec() }),
            ..Parameter::new(name, domain)
        };
        let space = Space::new(vec![
            Parameter::new("a", choice(3)),
            when("b", choice(2), "a", &[0, 2]),
            when("c", Domain::Float { low: 1e-3, high: 1.0, step: None, log: true }, "b", &[1]),
            when("d", Domain::Integer { low: 1, high: 1_000_000, step: 1, log: true }, "a", &[1]),
            Parameter::new("e", Domain::Integer { low: 0, high: 8, step: 4, log: false }),
        ])
        .unwrap();
        // Of `a`: 0 and 2 have 1 + 4 points of `b` and `c`, 1 has 4 of `d`; times 3 of `e`.
        assert_eq!(space.grid_points(4), Some((5 + 4 + 5) * 3));
        let points: Vec<_> = (0..42).map(|index| space.grid_point(index, 4)).collect();
        assert!(points.iter().all(|point| space.check(point).is_ok()));
        let texts: BTreeSet<String> = points.iter().map(|point| format!("{point:?}")).collect();
        assert_eq!(texts.len(), 42);
        assert!(points.iter().any(|point| point.get("d") == Some(&100.0)));
    }

    #[test]
    fn a_grid_beyond_counting_has_no_number() {
        let parameters = (0..5).map(|index| {
            Parameter::new(
                format!("p{index}"),
                Domain::Integer { low: 0, high: 1 << 20, step: 1, log: false },
            )
        });
        let space = Space::new(parameters.collect()).unwrap();
        assert_eq!(space.grid_points(10), None);
        assert!(space.check(&space.grid_point(u64::MAX, 10)).is_ok());
    }
}
