use burn::tensor::ops::ConvOptions;

/// Stride and padding of a convolution, equal in both dimensions.
#[derive(Clone, Copy, Debug)]
pub struct Slide {
    /// Pixels between two positions of the kernel.
    pub stride: usize,
    /// Pixels of zeros on each side of the image.
    pub padding: usize,
}

impl Slide {
    /// The options of Burn's operations.
    pub fn options(self) -> ConvOptions<2> {
        ConvOptions::new([self.stride; 2], [self.padding; 2], [1, 1], 1)
    }
}
