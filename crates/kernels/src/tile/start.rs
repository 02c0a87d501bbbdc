//! What products are added to.

/// What products are added to: nothing, unless it says more.
#[derive(Clone, Copy, Default)]
pub(crate) struct Start<'a> {
    /// A row, which each row of the products begins with. It has as many numbers as a tile has columns, or more.
    pub(crate) row: Option<&'a [f32]>,
    pub(crate) onto: Onto<'a>,
}

/// The rows that the rows of products are added to.
#[derive(Clone, Copy, Default)]
pub(crate) enum Onto<'a> {
    /// None: the products overwrite what stands in their place.
    #[default]
    Nothing,
    /// What stands in their place.
    Sums,
    /// Others, which lie as those of the result do.
    Rows(&'a [f32]),
}

impl<'a> Start<'a> {
    /// Adds to what stands in the place of the products, or overwrites it.
    pub(crate) fn adding(add: bool) -> Self {
        Self { row: None, onto: if add { Onto::Sums } else { Onto::Nothing } }
    }

    /// The same, from a column of the result on.
    pub(crate) fn from(self, column: usize) -> Self {
        Self { row: self.row.map(|row| &row[column..]), onto: self.onto.skip(column) }
    }

    /// Writes some rows of sums that have no products, `stride` apart, of so many columns.
    pub(crate) fn write(self, sums: &mut [f32], stride: usize, [rows, columns]: [usize; 2]) {
        for (index, sums) in sums.chunks_mut(stride.max(1)).take(rows).enumerate() {
            let sums = &mut sums[..columns];
            match self.onto {
                Onto::Nothing => sums.fill(0.0),
                Onto::Sums => (),
                Onto::Rows(rows) => sums.copy_from_slice(&rows[index * stride..][..columns]),
            }
            if let Some(row) = self.row {
                sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
        }
    }
}

impl Onto<'_> {
    /// The same, from an element of the result on.
    pub(crate) fn skip(self, elements: usize) -> Self {
        match self {
            Onto::Rows(rows) => Onto::Rows(&rows[elements..]),
            other => other,
        }
    }
}
