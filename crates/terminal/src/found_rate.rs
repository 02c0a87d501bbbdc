//! The result of a learning-rate range test.

use std::path::Path;

use oomph_core::{printable, significant};
use oomph_trainer::lr_range::{LrPoint, LrRange};
use serde::Serialize;

use crate::{
    numbers::{decimal, grouped, plural, setting},
    table::{Column::Right, Table},
};

/// Rows of the table.
const ROWS: usize = 14;

/// The suggested rate and the steps of the test, as text and as JSON.
#[derive(Serialize)]
pub struct FoundRate<'a> {
    suggested: Option<f64>,
    /// The steps that were asked for.
    #[serde(skip)]
    steps: usize,
    points: Vec<Point>,
    #[serde(skip_serializing_if = "Option::is_none")]
    picture: Option<&'a Path>,
    /// The command that trains the same config.
    #[serde(skip)]
    train: String,
}

#[derive(Serialize)]
struct Point {
    lr: f64,
    loss: f64,
    smoothed: f64,
}

impl<'a> FoundRate<'a> {
    /// The result of a test of at most `steps` steps. `picture` is the file of its curve, and the command `train` trains its
    /// config.
    pub fn new(range: &LrRange, steps: usize, picture: Option<&'a Path>, train: String) -> Self {
        let point = |it: &LrPoint| Point { lr: it.lr, loss: it.loss, smoothed: it.smoothed };
        Self {
            suggested: range.suggested().map(|lr| significant(lr, 2)),
            steps,
            points: range.points().iter().map(point).collect(),
            picture,
            train,
        }
    }

    /// As a table.
    pub fn report(&self) -> String {
        let mut table = Table::new([Right("learning rate"), Right("loss"), Right("running mean")]);
        let every = self.points.len().div_ceil(ROWS).max(1);
        for point in self.points.iter().step_by(every) {
            table.row([format!("{:.1e}", point.lr), decimal(point.loss), decimal(point.smoothed)]);
        }
        let found = match self.suggested {
            Some(lr) => format!("suggested learning rate: {}  (`{} --lr {lr}`)\n", setting(lr), self.train),
            None => format!(
                "no rate to suggest: the loss does not fall clearly more than it varies from batch to batch\n\n\
                 hint: try `--steps {}`, or a larger batch\n",
                3 * self.steps
            ),
        };
        let written = |path: &Path| format!("curve written to {}\n", printable(path.display()));
        let picture = self.picture.map(written).unwrap_or_default();
        format!("{}{}\n\n{table}\n{found}{picture}", self.length(), shown(every))
    }

    /// `81 of 100 steps, until the loss diverged`
    fn length(&self) -> String {
        match self.points.len() {
            done if done < self.steps => {
                format!("{} of {}, until the loss diverged", grouped(done), plural(self.steps, "step"))
            }
            done => plural(done, "step"),
        }
    }
}

/// `; one in 6 is shown`
fn shown(every: usize) -> String {
    if every > 1 { format!("; one in {every} is shown") } else { String::new() }
}
