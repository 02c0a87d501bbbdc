//! What is searched: a function or a table.

use std::{fs, path::Path};

use oomph_search::{Choice, Direction, Domain, Parameter, Point, Space};
use serde::Deserialize;

use crate::{
    Error,
    functions::{FUNCTIONS, Function},
};

/// A problem.
pub(crate) struct Problem {
    pub(crate) name: String,
    pub(crate) space: Space,
    pub(crate) direction: Direction,
    /// The best value that there is.
    pub(crate) best: f64,
    values: Values,
}

enum Values {
    Function(fn(&[f64]) -> f64),
    /// One value for each configuration; the last parameter changes fastest.
    Table {
        parameters: Vec<TableParameter>,
        values: Vec<f64>,
    },
}

#[derive(Deserialize)]
struct TableFile {
    name: String,
    direction: String,
    parameters: Vec<TableParameter>,
    values: Vec<f64>,
}

#[derive(Deserialize)]
struct TableParameter {
    name: String,
    count: usize,
    is_choice: bool,
}

impl Problem {
    /// All problems: the functions, and the tables of a folder.
    pub(crate) fn all(folder: &Path) -> Result<Vec<Self>, Error> {
        let mut problems: Vec<_> = FUNCTIONS.iter().map(Self::of_function).collect::<Result<_, _>>()?;
        let paths =
            fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, Error>>()?;
        let mut tables: Vec<_> =
            paths.into_iter().filter(|path| path.extension().is_some_and(|it| it == "json")).collect();
        tables.sort();
        for path in tables {
            let file = oomph_core::read_text(&path)?;
            let table =
                serde_json::from_str(&file).map_err(|error| format!("`{}`: {error}", path.display()))?;
            problems.push(Self::of_table(table)?);
        }
        Ok(problems)
    }

    fn of_function(function: &Function) -> Result<Self, Error> {
        let float = |[low, high]: [f64; 2]| Domain::Float { low, high, step: None, log: false };
        let parameters = function.bounds.iter().enumerate();
        let parameters =
            parameters.map(|(index, bounds)| Parameter::new(format!("x{index:02}"), float(*bounds)));
        Ok(Self {
            name: function.name.to_owned(),
            space: Space::new(parameters.collect())?,
            direction: Direction::Minimize,
            best: function.least,
            values: Values::Function(function.value),
        })
    }

    fn of_table(table: TableFile) -> Result<Self, Error> {
        let direction = if table.direction == "minimize" { Direction::Minimize } else { Direction::Maximize };
        let domain = |parameter: &TableParameter| match parameter.is_choice {
            true => Domain::Choice((0..parameter.count as i64).map(Choice::Integer).collect()),
            false => Domain::Integer { low: 0, high: parameter.count as i64 - 1, step: 1, log: false },
        };
        let parameters = table.parameters.iter().map(|it| Parameter::new(it.name.clone(), domain(it)));
        let best =
            table.values.iter().copied().min_by(|a, b| direction.loss(*a).total_cmp(&direction.loss(*b)));
        Ok(Self {
            space: Space::new(parameters.collect())?,
            direction,
            best: best.ok_or_else(|| format!("`{}` has no values", table.name))?,
            name: table.name,
            values: Values::Table { parameters: table.parameters, values: table.values },
        })
    }

    pub(crate) fn value(&self, point: &Point) -> f64 {
        match &self.values {
            // The names of the coordinates sort as they are numbered.
            Values::Function(value) => value(&point.values().copied().collect::<Vec<_>>()),
            Values::Table { parameters, values } => {
                let cell = parameters.iter().fold(0, |cell, it| cell * it.count + point[&it.name] as usize);
                values[cell]
            }
        }
    }

    /// How much worse `value` is than the best.
    pub(crate) fn regret(&self, value: f64) -> f64 {
        self.direction.loss(value) - self.direction.loss(self.best)
    }
}
