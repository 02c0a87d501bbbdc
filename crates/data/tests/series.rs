//! Time series in CSV files.

use std::{fmt::Write, fs, path::PathBuf, sync::Arc};

use oomph_config::Section;
use oomph_core::{InputSpec, Split, TargetSpec};
use oomph_data::{DataError, OpenContext, Sample, Source, Target, Values, csv};

struct File(tempfile::TempDir);

impl File {
    fn new(text: &str) -> Self {
        let file = Self(tempfile::tempdir().expect("a temporary directory"));
        fs::write(file.path(), text).expect("a file");
        file
    }

    /// Rows `time, time², constant`, from time 0.
    fn squares(rows: usize) -> Self {
        let mut text = "time,square,constant\n".to_owned();
        (0..rows).for_each(|time| writeln!(text, "{time},{},5", time * time).expect("written to memory"));
        Self::new(&text)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("series.csv")
    }

    fn open(&self, text: &str) -> Result<Arc<dyn Source>, DataError> {
        let text = format!("path = '{}'\n{text}", self.path().display());
        let section = Section::from_toml("data", &text).expect("valid TOML");
        csv(&section).expect("valid settings").open(&OpenContext::new("unused", 0))
    }
}

fn sample(source: &dyn Source, split: Split, index: usize) -> (Vec<f32>, Vec<f32>) {
    match source.sample(split, index, None).expect("a whole window") {
        Sample { input: Values::Floats(input), target: Target::Values(target) } => (input, target),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_window_goes_with_what_comes_after_it() {
    let file = File::squares(20);
    let text = "columns = ['square', 'time']\ntargets = ['time']\nsteps = 3\nhorizon = 2\n\
                held_out = 0.5\nnormalize = 'none'";
    let source = file.open(text).expect("whole");
    assert_eq!(source.spec().input, InputSpec::Sequence { steps: 3, features: 2 });
    assert_eq!(source.spec().target, TargetSpec::Values { features: 1 });
    assert_eq!(sample(&*source, Split::Train, 1), (vec![1.0, 1.0, 4.0, 2.0, 9.0, 3.0], vec![5.0]));
    assert_eq!(source.sample_name(Split::Train, 1), "the window from row 2 of `series.csv`");
    let all = file.open("steps = 3\nnormalize = 'none'").expect("whole");
    assert_eq!(all.spec().target, TargetSpec::Values { features: 3 });
}

#[test]
fn no_window_reaches_from_one_part_into_the_other() {
    for (rows, held_out, steps, horizon) in [(20, 0.25, 3, 2), (20, 0.5, 1, 1), (101, 0.2, 4, 7)] {
        let file = File::squares(rows);
        let text = format!(
            "columns = ['time']\nsteps = {steps}\nhorizon = {horizon}\nheld_out = {held_out}\nnormalize = 'none'"
        );
        let source = file.open(&text).expect("whole");
        let boundary = (rows as f64 * (1.0 - held_out)).round() as f32;
        let mut seen = 0;
        for (split, first, end) in [(Split::Train, 0.0, boundary), (Split::Test, boundary, rows as f32)] {
            let count = source.len(split);
            assert_eq!(count, (end - first) as usize + 1 - steps - horizon);
            assert_eq!(sample(&*source, split, 0).0[0], first);
            assert_eq!(sample(&*source, split, count - 1).1, [end - 1.0]);
            seen += count;
        }
        assert_eq!(seen, rows + 2 - 2 * (steps + horizon));
    }
}

#[test]
fn values_are_normalised_by_the_training_part_alone() {
    let file = File::squares(100);
    let source = file.open("columns = ['time', 'constant']\nsteps = 1").expect("whole");
    // 0 to 79: mean 39.5, variance (80² - 1) / 12.
    let std = (f64::from(80 * 80 - 1) / 12.0).sqrt();
    let expected = |time: f64| ((time - 39.5) / std) as f32;
    let (input, target) = sample(&*source, Split::Test, 19 - 1);
    assert_eq!(input, [expected(98.0), 0.0]);
    assert_eq!(target, [expected(99.0), 0.0]);
    // Held-out rows do not affect the statistics.
    let text = fs::read_to_string(file.path()).expect("written").replace("99,9801,5", "1e9,0,0");
    let other = File::new(&text).open("columns = ['time', 'constant']\nsteps = 1").expect("whole");
    assert_eq!(sample(&*other, Split::Train, 7), sample(&*source, Split::Train, 7));
}

#[test]
fn what_is_wrong_is_named_with_line_and_byte() {
    let says = |file: &File, text: &str| {
        let error = file.open(text).err().expect("it is wrong");
        (
            error.to_string().replace(&format!("{}/", file.0.path().display()), ""),
            error.hint().unwrap_or_default(),
        )
    };
    let squares = File::squares(20);
    let (message, hint) = says(&squares, "columns = ['tiem']");
    assert_eq!(
        message,
        "`series.csv`, byte 0: there is no column `tiem`; the columns are `time`, `square`, `constant`"
    );
    assert!(hint.contains("data.columns"), "{hint}");
    assert_eq!(
        says(&squares, "targets = ['tiem']").0,
        "`series.csv`, byte 0: there is no column `tiem`; the columns are `time`, `square`, `constant`"
    );
    let (message, hint) = says(&squares, "steps = 16");
    assert_eq!(message, "the train part of `series.csv` has 16 rows; a window and its target need 17");
    assert!(hint.contains("data.steps"), "{hint}");
    let dates = File::new("date,temp\n2026-01-01,3.5\n");
    let (message, hint) = says(&dates, "");
    assert_eq!(message, "`series.csv`, byte 10: line 2: `date` is `2026-01-01`; expected a finite number");
    assert!(hint.contains("data.columns"), "{hint}");
    assert!(
        says(&File::squares(100), "max_file_bytes = 50").0.contains("above `data.max_file_bytes` of 50 B")
    );
    fs::remove_file(squares.path()).expect("written");
    assert_eq!(says(&squares, "").0, "there is no file `series.csv`");
}

#[test]
fn windows_with_a_row_that_cannot_be_read_can_be_left_out() {
    let text =
        fs::read_to_string(File::squares(20).path()).expect("written").replace("\n5,25,5\n", "\n5,?,5\n");
    let file = File::new(&text);
    assert!(file.open("steps = 2").is_err());
    let source = file.open("steps = 2\nhorizon = 2\non_corrupt = 'skip'").expect("the others are whole");
    // Windows of rows i and i + 1, targets at i + 3.
    let unusable: Vec<_> = (0..source.len(Split::Train))
        .filter(|&index| source.sample(Split::Train, index, None).is_err())
        .collect();
    assert_eq!(unusable, [2, 4, 5]);
    let error = source.sample(Split::Train, 4, None).expect_err("row 5 is broken");
    assert!(error.to_string().contains("line 7 (byte "), "{error}");
    assert!(
        file.open("columns = ['time']\nsteps = 2").is_ok(),
        "columns that are not chosen may hold anything"
    );
}
