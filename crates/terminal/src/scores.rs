//! The scores of an evaluation: rows, tables, JSON, and the confusion matrix as a picture.

use std::fmt::Write as _;

use oomph_core::printable;
use oomph_scores::{Averages, ClassScores, LabelScores, Scores};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::{
    numbers::{decimal, grouped, percent},
    table::{
        Column::{Left, Right},
        Table,
    },
};

/// More classes than this have no table: the JSON has them all.
const MOST_ROWS: usize = 100;
/// A matrix of more classes than this is wider than a terminal.
const MOST_COLUMNS: usize = 12;

/// Scores with the names of their classes.
pub struct NamedScores<'a> {
    /// The scores.
    pub scores: &'a Scores,
    /// The names of the classes, if they have names.
    pub names: Option<&'a [String]>,
}

impl NamedScores<'_> {
    fn name(&self, class: usize) -> String {
        let name = self.names.and_then(|names| names.get(class));
        let what = if matches!(self.scores, Scores::Labels(_)) { "label" } else { "class" };
        name.map_or_else(|| format!("{what} {class}"), printable)
    }

    /// The averages, a row each.
    pub fn rows(&self) -> Vec<(&'static str, Option<String>)> {
        match self.scores {
            Scores::Classes(classes) => {
                let averages = classes.averages();
                vec![
                    ("top-5 accuracy", classes.top_5().map(percent)),
                    ("macro precision", Some(percent(averages.precision))),
                    ("macro recall", Some(percent(averages.recall))),
                    ("macro F1", Some(percent(averages.f1))),
                ]
            }
            Scores::Labels(labels) => {
                let (micro, averages) = (labels.micro(), labels.averages());
                vec![
                    ("label accuracy", Some(percent(labels.label_accuracy()))),
                    ("micro precision", Some(percent(micro.precision))),
                    ("micro recall", Some(percent(micro.recall))),
                    ("micro F1", Some(percent(micro.f1))),
                    ("macro precision", Some(percent(averages.precision))),
                    ("macro recall", Some(percent(averages.recall))),
                    ("macro F1", Some(percent(averages.f1))),
                    ("mAP", labels.mean_average_precision().map(percent)),
                ]
            }
            Scores::Values(values) => vec![
                ("MAE", Some(decimal(values.mae()))),
                ("RMSE", Some(decimal(values.rmse()))),
                ("R²", Some(decimal(values.r2()))),
            ],
        }
    }

    /// The table of classes and the confusion matrix, or that of labels, as far as they fit on a screen.
    pub fn tables(&self) -> String {
        let classes = match self.scores {
            Scores::Classes(classes) => classes,
            Scores::Labels(labels) if labels.labels() <= MOST_ROWS => {
                return format!("\n{}", self.labels(labels));
            }
            Scores::Labels(_) | Scores::Values(_) => return String::new(),
        };
        let mut text = String::new();
        if classes.classes() <= MOST_ROWS {
            let _ = write!(text, "\n{}", self.classes(classes)); // Writing to a string cannot fail.
        }
        if classes.classes() <= MOST_COLUMNS {
            let _ =
                write!(text, "\nsamples by class (rows) and prediction (columns)\n{}", self.matrix(classes));
        }
        text
    }

    fn classes(&self, classes: &ClassScores) -> Table<5> {
        let mut table =
            Table::new([Left("class"), Right("samples"), Right("precision"), Right("recall"), Right("F1")]);
        for (class, score) in classes.of_classes().into_iter().enumerate() {
            table.row([
                self.name(class),
                grouped(score.samples as usize),
                percent(score.precision),
                percent(score.recall),
                percent(score.f1),
            ]);
        }
        table
    }

    fn labels(&self, labels: &LabelScores) -> Table<9> {
        let mut table = Table::new([
            Left("label"),
            Right("samples"),
            Right("tp"),
            Right("fp"),
            Right("fn"),
            Right("precision"),
            Right("recall"),
            Right("F1"),
            Right("AP"),
        ]);
        for (label, score) in labels.of_labels().into_iter().enumerate() {
            table.row([
                self.name(label),
                grouped(score.samples as usize),
                grouped(score.true_positives as usize),
                grouped(score.false_positives as usize),
                grouped(score.false_negatives as usize),
                percent(score.precision),
                percent(score.recall),
                percent(score.f1),
                score.average_precision.map(percent).unwrap_or_default(),
            ]);
        }
        table.without_empty_columns()
    }

    /// The number of columns is known only now, so it is no [`Table`].
    fn matrix(&self, classes: &ClassScores) -> String {
        let all = 0..classes.classes();
        let names: Vec<_> = all.clone().map(|class| self.name(class)).collect();
        let counts = |truth| classes.row(truth).into_iter().map(|count| grouped(count as usize));
        let widths: Vec<_> = all
            .clone()
            .map(|column| {
                let counts = all.clone().map(|row| grouped(classes.count(row, column) as usize).len());
                counts.chain([names[column].chars().count()]).max().unwrap_or(0)
            })
            .collect();
        let first = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let line = |head: &str, cells: Vec<String>| {
            let cells = cells.into_iter().zip(&widths).map(|(cell, width)| format!("  {cell:>width$}"));
            format!("{head:first$}{}\n", cells.collect::<String>())
        };
        let rows = all.clone().map(|truth| line(&names[truth], counts(truth).collect()));
        line("", names.clone()) + &rows.collect::<String>()
    }

    /// The confusion matrix as an SVG picture; `None` for a regression and for labels. The shade of a cell is its share of the samples of its
    /// row.
    pub fn picture(&self) -> Option<String> {
        /// Pixels of a cell, at most, and of a letter.
        const CELL: usize = 44;
        const LETTER: usize = 7;
        const WIDEST: usize = 1400;
        let Scores::Classes(classes) = self.scores else { return None };
        let all = 0..classes.classes();
        let names: Vec<_> = all.clone().map(|class| escaped(&self.name(class))).collect();
        let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).min(24);
        let (cell, left) = ((WIDEST / classes.classes().max(1)).clamp(2, CELL), longest * LETTER + 16);
        let shows_text = cell == CELL;
        let side = classes.classes() * cell;
        let (width, height) = (left + side + 16, left + side + 40);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"8\" y=\"18\" font-size=\"14\" font-weight=\"600\">Confusion matrix: classes in rows, predictions in columns</text>\n"
        );
        let top = left + 28;
        for truth in all.clone() {
            let row = classes.row(truth);
            let samples: u64 = row.iter().sum();
            for (predicted, count) in row.into_iter().enumerate() {
                let share = if samples == 0 { 0.0 } else { count as f64 / samples as f64 };
                let (x, y) = (left + predicted * cell, top + truth * cell);
                // From white to a dark blue.
                let shade = |light: f64, dark: f64| (light + (dark - light) * share).round();
                let [red, green, blue] = [shade(247.0, 8.0), shade(251.0, 48.0), shade(255.0, 107.0)];
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{cell}\" height=\"{cell}\" fill=\"rgb({red},{green},{blue})\"><title>{} as {}: {count}</title></rect>",
                    names[truth], names[predicted]
                );
                if shows_text && count > 0 {
                    let ink = if share > 0.5 { "white" } else { "#222" };
                    let (x, y) = (x + cell / 2, y + cell / 2 + 4);
                    let _ = writeln!(
                        svg,
                        "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" fill=\"{ink}\">{count}</text>"
                    );
                }
            }
        }
        if shows_text {
            for (class, name) in names.iter().enumerate() {
                let middle = class * cell + cell / 2 + 4;
                let _ = writeln!(
                    svg,
                    "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{name}</text>",
                    left - 8,
                    top + middle
                );
                let (x, y) = (left + middle, top - 8);
                let _ = writeln!(svg, "<text transform=\"translate({x} {y}) rotate(-90)\">{name}</text>");
            }
        }
        svg.push_str("</svg>\n");
        Some(svg)
    }

    fn class_record<'a>(&'a self, classes: &'a ClassScores) -> ClassRecord<'a> {
        let each = |(class, score)| json!({ "class": self.names.and_then(|names| names.get(class)), "index": class, "score": score });
        ClassRecord {
            classes: classes.of_classes().into_iter().enumerate().map(each).collect(),
            confusion: Confusion(classes),
            averages: classes.averages(),
            micro: classes.accuracy(),
            top_5_accuracy: classes.top_5(),
        }
    }
}

/// All of it.
impl Serialize for NamedScores<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.scores {
            Scores::Classes(classes) => self.class_record(classes).serialize(serializer),
            Scores::Labels(labels) => {
                let each = |(label, score)| json!({ "label": self.names.and_then(|names| names.get(label)), "index": label, "score": score });
                let of_labels: Vec<_> = labels.of_labels().into_iter().enumerate().map(each).collect();
                let record = json!({
                    "label_accuracy": labels.label_accuracy(),
                    "micro": labels.micro(),
                    "macro": labels.averages(),
                    "map": labels.mean_average_precision(),
                    "labels": of_labels,
                });
                record.serialize(serializer)
            }
            Scores::Values(values) => {
                json!({ "mae": values.mae(), "rmse": values.rmse(), "r2": values.r2() }).serialize(serializer)
            }
        }
    }
}

#[derive(Serialize)]
struct ClassRecord<'a> {
    classes: Vec<Value>,
    confusion: Confusion<'a>,
    #[serde(rename = "macro")]
    averages: Averages,
    micro: f64,
    top_5_accuracy: Option<f64>,
}

/// The confusion matrix. It is written row by row: as a [`Value`] the entries of 4,096 classes would take 500 MiB.
struct Confusion<'a>(&'a ClassScores);

impl Serialize for Confusion<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((0..self.0.classes()).map(|class| self.0.row(class)))
    }
}

/// The text as content of an element.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
