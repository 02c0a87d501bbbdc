use oomph_model::Summary;

/// The shapes of the outputs of a model's stages. The rows of an output are as many for each sample.
#[derive(Clone, Debug, Default)]
pub struct StageOutputs {
    samples: usize,
    shapes: Vec<Vec<usize>>,
}

impl StageOutputs {
    /// The outputs of a summary's stages.
    pub fn of(summary: &Summary) -> Self {
        Self {
            samples: summary.batch.max(1),
            shapes: summary.stages().map(|row| row.output.clone()).collect(),
        }
    }

    /// The shape of a stage's output for so many samples; empty for a stage that there is not.
    pub fn shape(&self, stage: usize, samples: usize) -> Vec<usize> {
        let mut shape = self.shapes.get(stage).cloned().unwrap_or_default();
        if let Some(rows) = shape.first_mut() {
            *rows = *rows / self.samples * samples;
        }
        shape
    }

    /// The elements of each stage's output for so many samples.
    pub(super) fn elements(&self, samples: usize) -> impl Iterator<Item = usize> {
        (0..self.shapes.len()).map(move |stage| self.shape(stage, samples).iter().product())
    }
}
