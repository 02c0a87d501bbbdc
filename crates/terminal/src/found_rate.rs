//! The result of a learning-rate range test.

use std::path::Path;

use oomph_core::{printable, significant};
use oomph_trainer::lr_range::{LrPoint, LrRange};
use serde::Serialize;

use crate::{
    numbers::{decimal, plural, setting},
    table::{Column::Right, Table},
};

/// Rows of the table.
const ROWS: usize = 14;

/// The suggested rate and the steps of the test, as text and as JSON.
#[derive(Serialize)]
pub struct FoundRate<'a> {
    suggested: Option<f64>,
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
    /// The result of a test. `picture` is the file of its curve, and the command `train` trains its config.
    pub fn new(range: &LrRange, picture: Option<&'a Path>, train: String) -> Self {
        let point = |it: &LrPoint| Point { lr: it.lr, loss: it.loss, smoothed: it.smoothed };
        Self {
            suggested: range.suggested().map(|lr| significant(lr, 2)),
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
            table.row([setting(significant(point.lr, 2)), decimal(point.loss), decimal(point.smoothed)]);
        }
        let found = match self.suggested {
            Some(lr) => format!("suggested learning rate: {}  (`{} --lr {lr}`)\n", setting(lr), self.train),
            None => "the loss falls nowhere: try smaller rates, or more steps\n".to_owned(),
        };
        let written = |path: &Path| format!("curve written to {}\n", printable(path.display()));
        let picture = self.picture.map(written).unwrap_or_default();
        format!("{}\n\n{table}\n{found}{picture}", plural(self.points.len(), "step"))
    }
}
