//! Which pixels of its source a convolution or a pooling reads, and the layout of copies of them: zeros surround the pixels there, so that each tap is at
//! a fixed distance from its pixel.

use std::ops::Range;

/// One dimension of a convolution. Pixel i of its grid reads the source at i·stride + low + t for tap t.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    /// Pixels of the grid.
    pub(crate) grid: usize,
    /// In the target: the index of the grid's pixel 0, and the distance between its pixels.
    pub(crate) target: [usize; 2],
    /// Pixels of the source.
    pub(crate) source: usize,
    pub(crate) stride: usize,
    pub(crate) low: isize,
    /// The index in the kernel of each tap.
    pub(crate) taps: Vec<usize>,
}

impl Axis {
    /// A convolution of `source` pixels with `kernel` taps.
    pub(crate) fn forward(source: usize, kernel: usize, stride: usize, padding: usize) -> Self {
        Self {
            grid: (source + 2 * padding).saturating_sub(kernel) / stride + 1,
            target: [0, 1],
            source,
            stride,
            low: -(padding as isize),
            taps: (0..kernel).collect(),
        }
    }

    /// The way back to the input, to those of its pixels that are `first` behind a multiple of the stride.
    ///
    /// Pixel p was read by pixel (p + padding − tap) / stride of the output, where that is a whole number.
    pub(crate) fn backward(&self, first: usize) -> Self {
        let (stride, padding) = (self.stride as isize, -self.low);
        let reached = |tap: &usize| (first as isize + padding - *tap as isize) % stride == 0;
        // The last tap reads the lowest pixel.
        let taps: Vec<usize> = self.taps.iter().copied().filter(reached).rev().collect();
        let low = taps.first().map_or(0, |tap| (first as isize + padding - *tap as isize) / stride);
        Self {
            grid: self.source.saturating_sub(first).div_ceil(self.stride),
            target: [first, self.stride],
            source: self.grid,
            stride: 1,
            low,
            taps,
        }
    }

    /// Whether it has three taps, and every pixel reads the source at its own index and its two neighbours.
    pub(crate) fn reads_three_around(&self) -> bool {
        self.taps.len() == 3 && self.stride == 1 && self.low == -1 && self.grid == self.source
    }

    /// Whether there is one tap, and every pixel reads the source at its own index.
    pub(crate) fn reads_as_it_lies(&self) -> bool {
        self.taps.len() == 1 && self.stride == 1 && self.low == 0 && self.grid == self.source
    }

    /// The pixel of the source that a pixel of the grid reads for a tap; `None` if it is a zero around the source.
    pub(crate) fn read(&self, pixel: usize, tap: usize) -> Option<usize> {
        let read = (pixel * self.stride + tap) as isize + self.low;
        usize::try_from(read).ok().filter(|read| *read < self.source)
    }

    /// The pixels of the grid that read pixels of the source for a tap.
    pub(crate) fn pixels_within(&self, tap: usize) -> Range<usize> {
        let reached = |limit: isize| {
            let ahead = limit - self.low - tap as isize;
            usize::try_from(ahead).unwrap_or(0).div_ceil(self.stride).min(self.grid)
        };
        reached(0)..reached(self.source as isize)
    }

    /// The source pixels between two neighbours of one tap that any tap reads.
    fn phases(&self) -> usize {
        self.stride.min(self.taps.len())
    }
}

/// The grids of the way back through a convolution with these axes.
pub(crate) fn backward_grids([down, across]: &[Axis; 2]) -> Vec<[Axis; 2]> {
    let firsts = (0..down.stride).flat_map(|y| (0..across.stride).map(move |x| [y, x]));
    let grids = firsts.map(|[y, x]| [down.backward(y), across.backward(x)]);
    grids.filter(|axes| axes.iter().all(|axis| axis.grid > 0 && !axis.taps.is_empty())).collect()
}

/// The index in a kernel of each tap of two axes.
pub(crate) fn kernel_indices(
    [down, across]: &[Axis; 2],
    [_, width]: [usize; 2],
) -> impl Iterator<Item = usize> {
    down.taps.iter().flat_map(move |y| across.taps.iter().map(move |x| y * width + x))
}

/// A copy of a source along an axis, with zeros where it ends, for some neighbouring pixels of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// The elements that one tap reads for neighbouring pixels are contiguous.
    ByTap {
        /// Elements of each phase.
        length: usize,
    },
    /// The elements that one pixel reads are contiguous.
    ByPixel {
        /// Pixels of the grid.
        pixels: usize,
    },
}

impl Line {
    pub(crate) fn by_tap(axis: &Axis, pixels: usize) -> Self {
        Self::ByTap { length: pixels + (axis.taps.len().max(1) - 1) / axis.stride }
    }

    /// Elements.
    pub(crate) fn length(self, axis: &Axis) -> usize {
        match self {
            Self::ByTap { length } => axis.phases() * length,
            Self::ByPixel { pixels } => (pixels.max(1) - 1) * axis.phases() + axis.taps.len(),
        }
    }

    /// The position of a pixel's first element.
    pub(crate) fn pixel(self, axis: &Axis, pixel: usize) -> usize {
        match self {
            Self::ByTap { .. } => pixel,
            Self::ByPixel { .. } => pixel * axis.phases(),
        }
    }

    /// The distance from a pixel's first element to its element for a tap.
    pub(crate) fn tap(self, axis: &Axis, tap: usize) -> usize {
        match self {
            Self::ByTap { length } => tap % axis.stride * length + tap / axis.stride,
            Self::ByPixel { .. } => tap,
        }
    }

    /// The runs of source pixels in a line that begins with pixel `from` of the grid. All other elements are zero.
    pub(crate) fn runs(self, axis: &Axis, from: usize) -> Vec<PixelRun> {
        let begin = (from * axis.stride) as isize + axis.low;
        match self {
            Self::ByTap { length } => (0..axis.phases())
                .map(|phase| {
                    PixelRun::within(axis, phase * length, length, begin + phase as isize, axis.stride)
                })
                .collect(),
            Self::ByPixel { pixels } if axis.taps.len() == 1 => {
                vec![PixelRun::within(axis, 0, pixels, begin, axis.stride)]
            }
            Self::ByPixel { pixels } if axis.phases() < axis.stride => {
                let taps = axis.taps.len();
                let of_pixel = |pixel| begin + (pixel * axis.stride) as isize;
                (0..pixels)
                    .map(|pixel| PixelRun::within(axis, pixel * taps, taps, of_pixel(pixel), 1))
                    .collect()
            }
            Self::ByPixel { .. } => vec![PixelRun::within(axis, 0, self.length(axis), begin, 1)],
        }
    }
}

/// Elements of a line that are pixels of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PixelRun {
    /// The index of its first pixel in the line.
    pub(crate) at: usize,
    pub(crate) length: usize,
    /// The index of its first pixel in the source.
    pub(crate) source: usize,
    /// The distance between its pixels in the source.
    pub(crate) step: usize,
}

impl PixelRun {
    /// What the pixels `columns` of a line of a grid read for a tap, from a source with lines of `width` pixels; `None` if that is zeros alone.
    /// `at`: the place of the first of them in the copy.
    pub(crate) fn read(
        [down, across]: &[Axis; 2],
        width: usize,
        [line, at]: [usize; 2],
        columns: Range<usize>,
        tap: [usize; 2],
    ) -> Option<Self> {
        let within = across.pixels_within(tap[1]);
        let begin = columns.start.max(within.start);
        let length = columns.end.min(within.end).checked_sub(begin)?;
        let source = down.read(line, tap[0])? * width + across.read(begin, tap[1])?;
        Some(Self { at: at + begin - columns.start, length, source, step: across.stride })
    }

    /// Copies the pixels of a source to a line.
    #[inline(always)]
    pub(crate) fn copy<E: Copy>(self, source: &[E], line: &mut [E]) {
        let (from, to) = (&source[self.source..], &mut line[self.at..self.at + self.length]);
        match self.step {
            1 => copy_few(&from[..self.length], to),
            step => to.iter_mut().zip(from.iter().step_by(step)).for_each(|(to, from)| *to = *from),
        }
    }

    /// The part within the source of `length` elements at `at`, which hold the pixels from `first` on.
    fn within(axis: &Axis, at: usize, length: usize, first: isize, step: usize) -> Self {
        let before = usize::try_from(-first).unwrap_or(0).div_ceil(step).min(length);
        let begin = (first + (before * step) as isize).max(0) as usize;
        let inside = axis.source.saturating_sub(begin).div_ceil(step);
        Self { at: at + before, length: inside.min(length - before), source: begin, step }
    }
}

/// Copies a run, which mostly has few pixels: a call for each would take longer than the copy.
#[inline(always)]
fn copy_few<E: Copy>(from: &[E], to: &mut [E]) {
    match from.len() {
        64.. => to.copy_from_slice(from),
        32.. => copy_ends::<E, 32>(from, to),
        16.. => copy_ends::<E, 16>(from, to),
        8.. => copy_ends::<E, 8>(from, to),
        4.. => copy_ends::<E, 4>(from, to),
        _ => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
    }
}

/// Copies the first and the last `COUNT` elements, which may overlap.
#[inline(always)]
fn copy_ends<E: Copy, const COUNT: usize>(from: &[E], to: &mut [E]) {
    if let (Some(to), Some(from)) = (to.first_chunk_mut::<COUNT>(), from.first_chunk()) {
        *to = *from;
    }
    if from.len() > COUNT
        && let (Some(to), Some(from)) = (to.last_chunk_mut::<COUNT>(), from.last_chunk())
    {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source pixels by place in the line, `None` for zeros.
    fn held(line: Line, axis: &Axis, from: usize) -> Vec<Option<usize>> {
        let mut held = vec![None; line.length(axis)];
        for run in line.runs(axis, from) {
            (0..run.length).for_each(|i| held[run.at + i] = Some(run.source + i * run.step));
        }
        held
    }

    fn check(axis: &Axis) {
        for pixels in 1..=axis.grid {
            for line in [Line::by_tap(axis, pixels), Line::ByPixel { pixels }] {
                for from in 0..=axis.grid - pixels {
                    let held = held(line, axis, from);
                    for pixel in 0..pixels {
                        for tap in 0..axis.taps.len() {
                            let source = ((from + pixel) * axis.stride + tap) as isize + axis.low;
                            let right = usize::try_from(source).ok().filter(|source| *source < axis.source);
                            let found = held[line.pixel(axis, pixel) + line.tap(axis, tap)];
                            assert_eq!(found, right, "{axis:?} {line:?} from {from}: {pixel}, {tap}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_tap_of_every_pixel_finds_what_it_reads() {
        for kernel in [1, 2, 3, 5, 7] {
            for stride in [1, 2, 3] {
                for padding in 0..=3 {
                    for source in [1, 2, 5, 8, 9] {
                        if source + 2 * padding >= kernel {
                            let axis = Axis::forward(source, kernel, stride, padding);
                            check(&axis);
                            (0..stride).for_each(|first| check(&axis.backward(first)));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_way_back_leads_to_what_was_read() {
        for (source, kernel, stride, padding) in [(8, 3, 2, 1), (9, 7, 2, 3), (5, 1, 2, 0), (6, 3, 1, 1)] {
            let forward = Axis::forward(source, kernel, stride, padding);
            let mut pairs = Vec::new();
            for pixel in 0..forward.grid {
                for tap in 0..kernel {
                    let read = (pixel * stride + tap) as isize - padding as isize;
                    if (0..source as isize).contains(&read) {
                        pairs.push((read as usize, tap, pixel));
                    }
                }
            }
            let mut back = Vec::new();
            for first in 0..stride {
                let axis = forward.backward(first);
                for pixel in 0..axis.grid {
                    for (tap, kernel) in axis.taps.iter().enumerate() {
                        let read = pixel as isize + axis.low + tap as isize;
                        if (0..forward.grid as isize).contains(&read) {
                            back.push((first + pixel * stride, *kernel, read as usize));
                        }
                    }
                }
            }
            pairs.sort_unstable();
            back.sort_unstable();
            assert_eq!(pairs, back);
        }
    }
}
