/// How a file stores the elements of a parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TensorForm {
    /// As the model does.
    #[default]
    Same,
    /// A matrix, transposed.
    Transposed,
    /// The same elements in this shape.
    Shaped(Vec<usize>),
}

impl TensorForm {
    /// The shape in the file of a parameter of the shape `own`.
    pub fn shape(&self, own: &[usize]) -> Vec<usize> {
        match self {
            Self::Same => own.to_vec(),
            Self::Transposed => own.iter().rev().copied().collect(),
            Self::Shaped(shape) => shape.clone(),
        }
    }

    /// The model's values from those of the file. `own` is the model's shape.
    pub fn to_own(&self, values: Vec<f32>, own: &[usize]) -> Vec<f32> {
        match (self, own) {
            (Self::Transposed, [rows, columns]) => transposed(&values, [*columns, *rows]),
            _ => values,
        }
    }

    /// The file's values from those of the model.
    pub fn to_file(&self, values: Vec<f32>, own: &[usize]) -> Vec<f32> {
        match (self, own) {
            (Self::Transposed, [rows, columns]) => transposed(&values, [*rows, *columns]),
            _ => values,
        }
    }
}

/// The transpose of a matrix of so many rows and columns.
fn transposed(values: &[f32], [rows, columns]: [usize; 2]) -> Vec<f32> {
    (0..columns).flat_map(|column| (0..rows).map(move |row| values[row * columns + column])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_undone_by_its_inverse() {
        let values: Vec<f32> = (0..6).map(|value| value as f32).collect();
        let there = TensorForm::Transposed.to_file(values.clone(), &[2, 3]);
        assert_eq!(there, [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        assert_eq!(TensorForm::Transposed.to_own(there, &[2, 3]), values);
        assert_eq!(TensorForm::Transposed.shape(&[2, 3]), [3, 2]);
        let shaped = TensorForm::Shaped(vec![1, 6]);
        assert_eq!((shaped.to_own(values.clone(), &[6]), shaped.shape(&[6])), (values, vec![1, 6]));
    }
}
