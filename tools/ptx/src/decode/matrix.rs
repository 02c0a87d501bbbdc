//! Tensor-core instructions.

use super::Decoder;
use super::modifiers::{Modifiers, Type};
use crate::error::PtxError;
use crate::parse::syntax::Statement;
use crate::program::{Element, HalfKind, List, Matrix, MatrixOp, Op, Shape, Slot, Space};

impl<'a> Decoder<'_, 'a> {
    pub(super) fn matrix(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        match m.head {
            "ldmatrix" | "stmatrix" => self.shared_matrix(s, m),
            "mma" => self.mma(s, m),
            _ if m.has("load") => self.fragment_load(s, m),
            _ if m.has("store") => self.fragment_store(s, m),
            _ => self.fragment_mma(s, m),
        }
    }

    fn shared_matrix(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        m.allow(&["sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "shared::cta"])?;
        let load = m.head == "ldmatrix";
        let count = m.pick(&[("x1", 1), ("x2", 2), ("x4", 4)])?;
        let transpose = m.has("trans");
        // Without a state space the address is generic.
        let address = self.address(s, usize::from(load), m.space())?;
        let place = usize::from(!load);
        if self.parts(s, place).len() != count {
            return Err(self.misfit(s, place, "as many registers as there are matrices"));
        }
        if load {
            let to = self.destinations(s)?;
            return Ok(Op::Matrix(MatrixOp::LoadMatrix { address, transpose, to }));
        }
        let slots = self.sources(s, place)?;
        Ok(Op::Matrix(MatrixOp::StoreMatrix { address, transpose, from: self.list(&slots) }))
    }

    fn destinations(&mut self, s: &Statement<'a>) -> Result<List, PtxError> {
        let mut slots = Vec::new();
        for part in self.parts(s, 0) {
            slots.push(Slot::Word(self.to_word_of(s, 0, part)?));
        }
        Ok(self.list(&slots))
    }

    fn sources(&mut self, s: &Statement<'a>, place: usize) -> Result<Vec<Slot>, PtxError> {
        let mut slots = Vec::new();
        for part in self.parts(s, place) {
            slots.push(Slot::Word(self.word_of(s, place, part, Type::F32)?));
        }
        Ok(slots)
    }

    /// D, A, B and C as one list, each of as many registers as its elements fill.
    fn operands_of_product(&mut self, s: &Statement<'a>, expected: [usize; 4]) -> Result<List, PtxError> {
        for (place, expected) in expected.into_iter().enumerate() {
            if self.parts(s, place).len() != expected {
                return Err(self.misfit(s, place, "as many registers as the fragment fills"));
            }
        }
        let mut slots = Vec::new();
        for part in self.parts(s, 0) {
            slots.push(Slot::Word(self.to_word_of(s, 0, part)?));
        }
        for place in 1..4 {
            slots.extend(self.sources(s, place)?);
        }
        Ok(self.list(&slots))
    }

    fn mma(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        let shape = m.pick(&[
            ("m16n8k4", Shape { m: 16, n: 8, k: 4 }),
            ("m16n8k8", Shape { m: 16, n: 8, k: 8 }),
            ("m16n8k16", Shape { m: 16, n: 8, k: 16 }),
        ])?;
        m.allow(&["sync", "aligned", "m16n8k4", "m16n8k8", "m16n8k16", "row", "col"])?;
        let &[d, a, b, c] = m.types.as_slice() else { return Err(m.unsupported()) };
        let [Some(d), Some(ab), Some(_), Some(c)] = [d, a, b, c].map(element) else {
            return Err(m.unsupported());
        };
        let exists = match ab {
            Element::F16 => shape.k >= 8,
            Element::Bf16 => shape.k >= 8 && (d, c) == (Element::F32, Element::F32),
            Element::Tf32 => shape.k <= 8 && (d, c) == (Element::F32, Element::F32),
            Element::F32 => false,
        };
        if !exists || a != b || m.rest.ends_with(&["col", "row"]) {
            return Err(m.unsupported());
        }
        let registers = self.operands_of_product(s, product_registers(shape, ab, d, c))?;
        Ok(Op::Matrix(MatrixOp::Mma { shape, ab, c, d, registers }))
    }

    fn fragment_shape(&self, m: &Modifiers<'a>) -> Result<Shape, PtxError> {
        m.pick(&[
            ("m16n16k16", Shape { m: 16, n: 16, k: 16 }),
            ("m8n32k16", Shape { m: 8, n: 32, k: 16 }),
            ("m32n8k16", Shape { m: 32, n: 8, k: 16 }),
            ("m16n16k8", Shape { m: 16, n: 16, k: 8 }),
        ])
    }

    /// The distance between rows, or columns: dense where it is left out.
    fn stride(&mut self, s: &Statement<'a>, dense: usize) -> Result<crate::program::Word, PtxError> {
        if s.operands.len() == 3 { self.bits(s, 2) } else { Ok(self.word_constant(dense as u32)) }
    }

    fn fragment_load(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        let shape = self.fragment_shape(m)?;
        let matrix = m.pick(&[("a", Matrix::A), ("b", Matrix::B), ("c", Matrix::Accumulator)])?;
        let element = element(m.ty()?).ok_or_else(|| m.unsupported())?;
        let (column_major, address) = (m.has("col"), self.address(s, 1, self.fragment_space(m)?)?);
        let (rows, columns) = shape.of(matrix);
        let stride = self.stride(s, if column_major { rows } else { columns })?;
        if self.parts(s, 0).len() != fragment_registers(shape, matrix, element) {
            return Err(self.misfit(s, 0, "as many registers as the fragment has"));
        }
        let to = self.destinations(s)?;
        Ok(Op::Matrix(MatrixOp::FragmentLoad { shape, matrix, element, column_major, address, stride, to }))
    }

    fn fragment_space(&self, m: &Modifiers<'a>) -> Result<Space, PtxError> {
        let space = m.space();
        if matches!(space, Space::Generic | Space::Global | Space::Shared) {
            Ok(space)
        } else {
            Err(m.unsupported())
        }
    }

    fn fragment_store(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        let shape = self.fragment_shape(m)?;
        let element = element(m.ty()?).ok_or_else(|| m.unsupported())?;
        let (column_major, address) = (m.has("col"), self.address(s, 0, self.fragment_space(m)?)?);
        let (rows, columns) = shape.of(Matrix::Accumulator);
        let stride = self.stride(s, if column_major { rows } else { columns })?;
        if self.parts(s, 1).len() != fragment_registers(shape, Matrix::Accumulator, element) {
            return Err(self.misfit(s, 1, "as many registers as the fragment has"));
        }
        let slots = self.sources(s, 1)?;
        let from = self.list(&slots);
        Ok(Op::Matrix(MatrixOp::FragmentStore { shape, element, column_major, address, stride, from }))
    }

    /// Layouts of A and B do not matter: fragments hold their elements in one order.
    fn fragment_mma(&mut self, s: &Statement<'a>, m: &Modifiers<'a>) -> Result<Op, PtxError> {
        let shape = self.fragment_shape(m)?;
        m.allow(&["mma", "sync", "aligned", "row", "col", "m16n16k16", "m8n32k16", "m32n8k16", "m16n16k8"])?;
        let elements: Option<Vec<Element>> = m.types.iter().map(|&ty| element(ty)).collect();
        // Products of binary16 only name the types of the accumulators.
        let (d, ab, c) = match elements.ok_or_else(|| m.unsupported())?.as_slice() {
            [d, c] => (*d, Element::F16, *c),
            [d, a, b, c] if a == b => (*d, *a, *c),
            _ => return Err(m.unsupported()),
        };
        if (ab == Element::Tf32) != (shape.k == 8) || ab == Element::F32 {
            return Err(m.unsupported());
        }
        let registers = self.operands_of_product(
            s,
            [
                fragment_registers(shape, Matrix::Accumulator, d),
                fragment_registers(shape, Matrix::A, ab),
                fragment_registers(shape, Matrix::B, ab),
                fragment_registers(shape, Matrix::Accumulator, c),
            ],
        )?;
        Ok(Op::Matrix(MatrixOp::FragmentMma { shape, ab, c, d, registers }))
    }
}

fn product_registers(shape: Shape, ab: Element, d: Element, c: Element) -> [usize; 4] {
    [
        shape.registers(Matrix::Accumulator, d),
        shape.registers(Matrix::A, ab),
        shape.registers(Matrix::B, ab),
        shape.registers(Matrix::Accumulator, c),
    ]
}

/// Registers of a `wmma` fragment: those of binary16 always have eight, of which a small matrix leaves some unused.
fn fragment_registers(shape: Shape, matrix: Matrix, element: Element) -> usize {
    match (matrix, element) {
        (Matrix::A | Matrix::B, Element::F16) => 8,
        _ => shape.registers(matrix, element),
    }
}

fn element(ty: Type) -> Option<Element> {
    match ty {
        Type::Half(HalfKind::F16) => Some(Element::F16),
        Type::Half(HalfKind::Bf16) => Some(Element::Bf16),
        Type::Tf32 => Some(Element::Tf32),
        Type::F32 => Some(Element::F32),
        _ => None,
    }
}
