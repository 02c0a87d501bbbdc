use crate::{
    Element, Line, Vectors,
    line::{OF_TILE, SIDE},
    lines,
};
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use crate::{
    blocks::{multiply, multiply_rows},
    dots::Dots,
    pairs::{self, PairBlocks},
    tiles::WholeTiles,
    wide::{self, Wide},
};

/// What multiplies matrices of bf16 on this processor.
#[derive(Clone, Copy, Debug)]
pub struct MatrixUnit {
    /// The processor has these, and the system permits them.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    pub(crate) instructions: Instructions,
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    never: std::convert::Infallible,
}

/// Instructions for products of bf16.
#[cfg(any(test, all(target_arch = "x86_64", target_os = "linux")))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instructions {
    /// AMX: products of tiles.
    Tiles,
    /// AVX-512 BF16: dot products of pairs.
    Dots,
    /// AVX-512: products of numbers that are made 32 bits wide.
    Wide,
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
impl Instructions {
    fn are_permitted(self) -> bool {
        match self {
            Self::Tiles => crate::tiles::is_permitted(),
            Self::Dots | Self::Wide => pairs::are_possible(),
        }
    }

    /// The fastest ones of this processor.
    fn fastest() -> Option<Self> {
        let vectors = if wide::are_faster() { Self::Wide } else { Self::Dots };
        [Self::Tiles, vectors].into_iter().find(|some| some.are_permitted())
    }
}

/// The side of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operand {
    Left,
    Right,
}

impl MatrixUnit {
    /// The fastest instructions that this processor has and that the system lets this process use, if there are any.
    pub fn of_this_processor() -> Option<Self> {
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        {
            static FASTEST: std::sync::LazyLock<Option<Instructions>> =
                std::sync::LazyLock::new(Instructions::fastest);
            FASTEST.map(|instructions| Self { instructions })
        }
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        None
    }

    /// A unit of these instructions, if they are there.
    #[cfg(test)]
    pub(crate) fn by(instructions: Instructions) -> Option<Self> {
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        return instructions.are_permitted().then_some(Self { instructions });
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        return {
            let _ = instructions;
            None
        };
    }

    /// Whether products of tiles are there: several times as fast as vectors of 32 bits, even where a number takes three parts. Without them
    /// only bf16 is multiplied faster than by such vectors: its strips are half as large, and dot products may be twice as fast.
    pub fn has_tiles(self) -> bool {
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        return self.instructions == Instructions::Tiles;
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        match self.never {}
    }

    /// Packs the rows of a left matrix into strips.
    ///
    /// # Panics
    /// Panics unless `to` has the [`lines`] of the vectors.
    pub fn pack_left<E: Element>(self, rows: Vectors<'_, E>, to: &mut [Line]) {
        self.pack(Operand::Left, rows, to);
    }

    /// Packs the columns of a right matrix into strips.
    ///
    /// # Panics
    /// Panics unless `to` has the [`lines`] of the vectors.
    pub fn pack_right<E: Element>(self, columns: Vectors<'_, E>, to: &mut [Line]) {
        self.pack(Operand::Right, columns, to);
    }

    fn pack<E: Element>(self, operand: Operand, vectors: Vectors<'_, E>, to: &mut [Line]) {
        assert_eq!(
            to.len(),
            lines(vectors.count, vectors.inner, E::PARTS),
            "the lines are those of the vectors"
        );
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        // SAFETY: a processor with either instructions has those that pack, as was checked for both.
        unsafe {
            crate::packing::pack(vectors, operand == Operand::Right, to);
        }
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        match (operand, self.never) {}
    }

    /// Multiplies strips of rows by strips of columns, of `inner` elements `E` each. The products overwrite `sums`, or are added to them if
    /// `add`. For each strip of columns, `sums` has 32 columns of all rows, also of those behind the last ones of the matrices, which get
    /// zeros.
    ///
    /// # Panics
    /// Panics unless both operands are whole strips, and `sums` has as many numbers.
    pub fn multiply<E: Element>(
        self,
        [left, right]: [&[Line]; 2],
        inner: usize,
        sums: &mut [f32],
        add: bool,
    ) {
        let of_strip = lines(1, inner, E::PARTS);
        let Some([rows, columns]) = sides([left, right], of_strip) else {
            return add_nothing(sums, add);
        };
        assert_eq!(rows * columns, sums.len(), "the sums are those of all products");
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        // SAFETY: the instructions are there and permitted. The strips are whole and the sums as many, as asserted above.
        unsafe {
            match self.instructions {
                Instructions::Tiles => {
                    multiply::<E, _>(&WholeTiles::configured(), [left, right], of_strip, sums, add);
                }
                Instructions::Dots => {
                    multiply::<E, _>(&PairBlocks::<Dots>::new(), [left, right], of_strip, sums, add)
                }
                Instructions::Wide => {
                    multiply::<E, _>(&PairBlocks::<Wide>::new(), [left, right], of_strip, sums, add)
                }
            }
        }
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        match self.never {}
    }

    /// Multiplies the first `count` rows of one strip by strips of columns. `sums` has rows of all these columns, each of which begins
    /// `stride` numbers behind the one before. The products overwrite them, or are added to them if `add`. Each sum has the bits that
    /// [`multiply`](Self::multiply) gives it. Without inner indices and without `add`, all of `sums` becomes zero.
    ///
    /// # Panics
    /// Panics unless `left` is one strip, `right` has whole strips, `count` is 32 or [`FEW_ROWS`](crate::FEW_ROWS), and `sums` has the rows.
    pub fn multiply_rows<E: Element>(
        self,
        [left, right]: [&[Line]; 2],
        inner: usize,
        sums: &mut [f32],
        [count, stride]: [usize; 2],
        add: bool,
    ) {
        assert!(count == SIDE || count == OF_TILE, "the rows fill tiles");
        let of_strip = lines(1, inner, E::PARTS);
        let Some([rows, columns]) = sides([left, right], of_strip) else {
            return add_nothing(sums, add);
        };
        assert_eq!(rows, SIDE, "the rows are those of one strip");
        assert!(columns <= stride && (count - 1) * stride + columns <= sums.len(), "the sums have the rows");
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        // SAFETY: the instructions are there and permitted. The strips are whole, one of rows, and the sums have these, as asserted above.
        unsafe {
            let (strips, rows) = ([left, right], [count, stride]);
            match self.instructions {
                Instructions::Tiles => {
                    multiply_rows::<E, _>(&WholeTiles::configured(), strips, of_strip, sums, rows, add);
                }
                Instructions::Dots => {
                    multiply_rows::<E, _>(&PairBlocks::<Dots>::new(), strips, of_strip, sums, rows, add)
                }
                Instructions::Wide => {
                    multiply_rows::<E, _>(&PairBlocks::<Wide>::new(), strips, of_strip, sums, rows, add)
                }
            }
        }
        #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
        match self.never {}
    }
}

/// Rows and columns of the strips of both matrices, if a strip has lines.
///
/// # Panics
/// Panics unless both have whole strips.
fn sides(both: [&[Line]; 2], of_strip: usize) -> Option<[usize; 2]> {
    assert!(
        of_strip == 0 || both.iter().all(|lines| lines.len().is_multiple_of(of_strip)),
        "strips are whole"
    );
    (of_strip > 0).then(|| both.map(|lines| lines.len() / of_strip * SIDE))
}

/// Products without inner indices: added to sums if `add`, or in their place.
fn add_nothing(sums: &mut [f32], add: bool) {
    if !add {
        sums.fill(0.0);
    }
}
