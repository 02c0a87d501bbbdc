mod csv_rows;
mod csv_table;
mod row_reader;
mod settings;

use std::{ops::Range, sync::Arc};

use oomph_core::{Bytes, InputSpec, Key, SampleSpec, Split, TargetSpec, grouped};

use self::settings::CsvSettings;
pub use self::settings::csv;
pub(crate) use self::{
    csv_rows::{CsvRows, places},
    csv_table::{CsvSelection, CsvTable},
};
use crate::{
    Columns, DataError, Flaw, FormatProblem, OpenContext, OpenSource, Sample, SampleError, Source, Target,
    Values, input::read_file, memory_images::file_name, source::Parts, transform::Statistics,
};

impl OpenSource for CsvSettings {
    fn open(&self, context: &OpenContext) -> Result<Arc<dyn Source>, DataError> {
        match context.recorded_columns() {
            Some(recorded) => self.with_columns_of(recorded).open_with(context),
            None => self.open_with(context),
        }
    }
}

impl CsvSettings {
    fn open_with(&self, context: &OpenContext) -> Result<Arc<dyn Source>, DataError> {
        if !self.path.exists() {
            return Err(DataError::NoSeries { path: self.path.clone() });
        }
        let columns = self.all_columns();
        let wanted = CsvSelection {
            columns: &columns,
            delimiter: self.delimiter,
            on_corrupt: self.on_corrupt,
            most_bytes: context.free_bytes,
        };
        let mut table = read_file(&self.path, self.max_file_bytes, |input| CsvTable::read(input, wanted))?;
        let inputs = if self.columns.is_empty() { table.names.len() } else { self.columns.len() };
        let place = |name: &String| {
            let missing = || FormatProblem::NoColumn { name: name.clone(), known: table.names.clone() };
            let known = table.names.iter().position(|known| known == name);
            known.ok_or_else(|| DataError::Format(Flaw::new(0u64, missing()).in_file(&self.path)))
        };
        let targets: Vec<_> = self.targets.iter().map(place).collect::<Result<_, _>>()?;
        let targets = if targets.is_empty() { (0..inputs).collect() } else { targets };
        let parts = self.parts(table.rows())?;
        let digest = table.digest();
        let statistics = match self.normalize {
            true => context
                .recorded_statistics(table.names.len())
                .unwrap_or_else(|| statistics(&table, &parts.train)),
            false => Statistics::default(),
        };
        table.map(|column, value| match statistics.of(column) {
            Some((mean, std)) => ((f64::from(value) - mean) / std) as f32,
            None => value,
        });
        let named = |columns: &[usize]| columns.iter().map(|&column| table.names[column].clone()).collect();
        let columns = Columns { inputs: table.names[..inputs].to_vec(), targets: named(&targets) };
        Ok(Arc::new(Series {
            spec: SampleSpec {
                input: InputSpec::Sequence { steps: self.steps, features: inputs },
                target: TargetSpec::Values { features: targets.len() },
            },
            file: file_name(&self.path),
            statistics,
            columns,
            digest,
            table,
            parts,
            steps: self.steps,
            horizon: self.horizon,
            inputs,
            targets,
        }))
    }
}

impl CsvSettings {
    /// Splits the rows into the two parts. No window crosses the border.
    fn parts(&self, rows: usize) -> Result<Parts<Range<usize>>, DataError> {
        let held_out = (rows as f64 * self.held_out).round() as usize;
        let border = rows - held_out.min(rows);
        let parts = Parts { train: 0..border, test: border..rows };
        for split in [Split::Train, Split::Test] {
            let (rows, needed) = (parts.of(split).len(), self.steps + self.horizon);
            let is_wanted = split == Split::Train || self.held_out > 0.0;
            if is_wanted && rows < needed {
                return Err(DataError::TooFewRows { path: self.path.clone(), split, rows, needed });
            }
        }
        Ok(parts)
    }
}

/// Windows of a time series, each with a target some rows later.
struct Series {
    spec: SampleSpec,
    file: String,
    /// Mean and standard deviation of each column of the table.
    statistics: Statistics,
    columns: Columns,
    /// The digest of the numbers before normalisation.
    digest: String,
    table: CsvTable,
    /// The rows of each part.
    parts: Parts<Range<usize>>,
    /// Rows of a window.
    steps: usize,
    /// Rows from the last row of a window to its target.
    horizon: usize,
    /// The first columns are the inputs.
    inputs: usize,
    /// The columns of the target.
    targets: Vec<usize>,
}

impl Series {
    fn row(&self, row: usize) -> Result<&[f32], SampleError> {
        self.table.row(row).map_err(|reason| SampleError::new(&self.file, reason))
    }
}

/// Mean and standard deviation of each column over the readable rows. A constant column gets standard deviation 1.
fn statistics(table: &CsvTable, rows: &Range<usize>) -> Statistics {
    let readable = || rows.clone().filter_map(|row| table.row(row).ok());
    let count = readable().count().max(1) as f64;
    let mean = |of: &dyn Fn(&[f32]) -> f64| readable().map(of).sum::<f64>() / count;
    let scale = |column: usize| {
        let center = mean(&|row| f64::from(row[column]));
        let std = mean(&|row| (f64::from(row[column]) - center).powi(2)).sqrt();
        (center, if std > 0.0 && std.is_finite() { std } else { 1.0 })
    };
    let (mean, std) = (0..table.names.len()).map(scale).unzip();
    Statistics { mean, std }
}

impl Source for Series {
    fn spec(&self) -> &SampleSpec {
        &self.spec
    }

    fn len(&self, split: Split) -> usize {
        let window = self.steps + self.horizon;
        (self.parts.of(split).len() + 1).saturating_sub(window)
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.statistics.clone())
    }

    fn columns(&self) -> Option<Columns> {
        Some(self.columns.clone())
    }

    fn digest(&self) -> Option<String> {
        Some(self.digest.clone())
    }

    fn sample(&self, split: Split, index: usize, _: Option<Key>) -> Result<Sample, SampleError> {
        let first = self.parts.of(split).start + index;
        let mut input = Vec::with_capacity(self.steps * self.inputs);
        for row in first..first + self.steps {
            input.extend(&self.row(row)?[..self.inputs]);
        }
        let target = self.row(first + self.steps - 1 + self.horizon)?;
        let target = self.targets.iter().map(|&column| target[column]).collect();
        Ok(Sample { input: Values::Floats(input), target: Target::Values(target) })
    }

    fn held_out_origin(&self) -> Option<String> {
        let Parts { train, test } = &self.parts;
        let (last, all) = (grouped(test.len() as u64), grouped((train.len() + test.len()) as u64));
        Some(format!("the last {last} of {all} rows (`data.held_out`)"))
    }

    fn sample_name(&self, split: Split, index: usize) -> String {
        let first = self.parts.of(split).start + index + 1;
        format!("the window from row {first} of `{}`", self.file)
    }

    fn host_bytes(&self) -> Bytes {
        Bytes::new(self.table.bytes() as u64)
    }
}
