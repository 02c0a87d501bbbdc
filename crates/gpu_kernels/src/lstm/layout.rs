//! How the rows of a batch and the columns of the recurrent product are divided among cubes and threads.
//!
//! The steps of a row depend on each other, those of different rows do not. So a cube owns some rows for the whole run and
//! synchronises its own threads only. At each step it reads all recurrent weights, which stay in the second-level cache:
//! - A thread owns a column of vectors, so that neighbouring threads read neighbouring weights, and a slice of the inner
//!   dimension, so that a narrow layer has work for many threads too. Slices are summed in their order.
//! - Each weight that was read is multiplied with all rows of the cube. A thread has a sum for each row and part.
//! - More rows a cube read the weights less often, and more cubes work on more multiprocessors.

use std::iter;

use burn_cubecl::{CubeRuntime, tensor::CubeTensor};

/// Bytes of shared memory that every CUDA card gives to a cube. More would divide sums in another way on newer cards.
const SHARED_BYTES: usize = 48 << 10;

/// What the division depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Card {
    multiprocessors: usize,
    /// Shared memory of a cube.
    shared_bytes: usize,
    /// Threads of a cube.
    threads: usize,
}

impl Card {
    /// The card of a tensor.
    pub(super) fn of<R: CubeRuntime>(tensor: &CubeTensor<R>) -> Self {
        let hardware = &tensor.client.properties().hardware;
        Self {
            // Vulkan does not tell.
            multiprocessors: hardware.num_streaming_multiprocessors.unwrap_or(1) as usize,
            shared_bytes: hardware.max_shared_memory_size.min(SHARED_BYTES),
            threads: hardware.max_units_per_cube as usize,
        }
    }
}

/// The product of the state of some rows with the recurrent weights, in vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Product {
    /// Vectors of a row of U units.
    pub(super) units: usize,
    /// Elements of a vector.
    pub(super) width: usize,
    /// Rows of U units side by side in the result: the four gates forward, the hidden units backward.
    pub(super) parts: usize,
    /// Vectors of a row of the factor: U units forward, four gates of them backward.
    pub(super) inner: usize,
    /// Whether the factor may be divided into chunks that are in shared memory one after the other.
    pub(super) has_chunks: bool,
}

/// A division of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Layout {
    pub(super) product: Product,
    /// Rows of a cube.
    pub(super) rows: usize,
    /// Columns of vectors that are computed at once.
    pub(super) columns: usize,
    /// Slices of the inner dimension.
    pub(super) slices: usize,
    /// Vectors of each row's factor that are in shared memory at once.
    pub(super) chunk: usize,
}

impl Layout {
    /// The division for a batch.
    ///
    /// # Panics
    /// Panics if the state of one row does not fit into shared memory.
    pub(super) fn new(product: Product, batch: usize, card: Card) -> Self {
        let most = most_rows(batch, card.multiprocessors);
        // Four rows with 128 threads would wait for memory most of the time: rows give way to threads.
        let many = [4, 2, 1].into_iter().filter(|rows| *rows <= most);
        let threads = || [512, 256].into_iter().filter(|threads| *threads <= card.threads);
        let many = many.flat_map(|rows| threads().map(move |threads| Self::of(product, rows, threads)));
        let chunks = iter::successors(Some(product.inner), |chunk| Some(chunk.div_ceil(2)));
        let chunks = chunks.take(if product.has_chunks { 16 } else { 1 });
        let few = chunks.map(|chunk| Self { chunk, ..Self::of(product, 1, 128) });
        many.chain(few).find(|layout| layout.shared_bytes() <= card.shared_bytes).unwrap_or_else(|| {
            // Documented: nothing smaller than one row of one step is left to try.
            panic!(
                "an LSTM of {} units needs more shared memory than a GPU has",
                product.units * product.width
            )
        })
    }

    fn of(product: Product, rows: usize, threads: usize) -> Self {
        // More slices would have little to sum.
        const MOST_SLICES: usize = 16;
        let columns = product.units.min(threads);
        let slices = (threads / columns).min(MOST_SLICES).min(product.inner);
        Self { product, rows, columns, slices, chunk: product.inner }
    }

    /// Groups of columns that are computed one after the other.
    pub(super) fn tiles(&self) -> usize {
        self.product.units.div_ceil(self.columns)
    }

    /// Chunks of the factor.
    pub(super) fn chunks(&self) -> usize {
        self.product.inner.div_ceil(self.chunk)
    }

    /// Rows whose results a thread sums over the slices: those of its column, from its slice's number on.
    pub(super) fn rows_of_thread(&self) -> usize {
        self.rows.div_ceil(self.slices)
    }

    /// Copies of the factor. Forward, the next state must not overwrite one that another tile still reads; backward, the
    /// factor is complete before the first tile.
    pub(super) fn copies(&self) -> usize {
        if self.product.parts > 1 && self.tiles() > 1 { 2 } else { 1 }
    }

    /// Vectors of one copy of the factor.
    pub(super) fn factor_vectors(&self) -> usize {
        self.rows * self.chunk
    }

    /// Vectors of the sums of all slices.
    pub(super) fn sum_vectors(&self) -> usize {
        self.slices * self.rows * self.product.parts * self.columns
    }

    /// Bytes of shared memory.
    pub(super) fn shared_bytes(&self) -> usize {
        let vectors = self.copies() * self.factor_vectors() + self.sum_vectors();
        vectors * self.product.width * size_of::<f32>()
    }
}

/// Rows of a cube, so that cubes leave half of the multiprocessors free: with more of them, all wait for the second-level
/// cache, which gives one multiprocessor about twice its share. Four rows cost as much arithmetic as reading their weights
/// costs time.
fn most_rows(batch: usize, multiprocessors: usize) -> usize {
    [1, 2].into_iter().find(|rows| 2 * batch.div_ceil(*rows) <= multiprocessors).unwrap_or(4)
}

/// The most elements of a vector, up to `most`, that divide `elements`.
pub(super) fn width(elements: usize, most: usize) -> usize {
    [4, 2].into_iter().find(|width| *width <= most && elements.is_multiple_of(*width)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lstm_units::{ON_CUDA, ON_VULKAN};

    const CARD: Card = Card { multiprocessors: 40, shared_bytes: SHARED_BYTES, threads: 1024 };

    /// The least that Vulkan asks of a card.
    const SMALLEST: Card = Card { multiprocessors: 1, shared_bytes: 16 << 10, threads: 128 };

    fn most_units(card: &Card) -> usize {
        if card.shared_bytes == SHARED_BYTES { ON_CUDA } else { ON_VULKAN }
    }

    fn product(units: usize, is_forward: bool) -> Product {
        let width = width(units, if is_forward { 2 } else { 4 });
        let units = units / width;
        let (parts, inner) = if is_forward { (4, units) } else { (1, 4 * units) };
        Product { units, width, parts, inner, has_chunks: !is_forward }
    }

    #[test]
    fn every_layout_fits_and_covers_the_product() {
        let wide = [128, 255, 256, 300, 510, 512, 777, 1024, 1023, 2048, 4096];
        for units in (1..70).chain(wide).chain([ON_VULKAN, ON_CUDA - 1, ON_CUDA]) {
            for (batch, is_forward) in
                [(1, true), (40, true), (4096, true), (1, false), (40, false), (4096, false)]
            {
                let product = product(units, is_forward);
                for card in [CARD, SMALLEST].into_iter().filter(|card| units <= most_units(card)) {
                    let layout = Layout::new(product, batch, card);
                    assert!(layout.shared_bytes() <= card.shared_bytes, "{layout:?}");
                    assert!(layout.columns * layout.slices <= card.threads.min(512), "{layout:?}");
                    assert!(layout.tiles() * layout.columns >= product.units, "{layout:?}");
                    assert!(layout.chunks() * layout.chunk >= product.inner, "{layout:?}");
                }
            }
        }
    }

    #[test]
    fn rows_share_a_cube_when_cubes_are_many() {
        let rows = |batch| Layout::new(product(256, true), batch, CARD).rows;
        assert_eq!([1, 20, 21, 40, 41, 1000].map(rows), [1, 1, 2, 2, 4, 4]);
    }

    #[test]
    fn a_wide_factor_is_divided_into_chunks() {
        assert_eq!(Layout::new(product(1024, false), 1, CARD).chunks(), 1);
        assert!(Layout::new(product(4096, false), 1, CARD).chunks() > 1);
    }

    #[test]
    #[should_panic(expected = "an LSTM of 8192 units needs more shared memory")]
    fn a_state_beyond_shared_memory_is_refused() {
        Layout::new(product(8192, true), 1, CARD);
    }
}
