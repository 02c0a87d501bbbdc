use burn::tensor::{bf16, f16};

/// The element type of a stored tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    F64,
    F32,
    F16,
    Bf16,
    /// A type that weights never have: its name, and the bytes of one element.
    Other(&'static str, usize),
}

impl Element {
    /// The bytes of one element.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Other(_, size) => size,
        }
    }

    /// Its name in PyTorch.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F64 => "float64",
            Self::F32 => "float32",
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
            Self::Other(name, _) => name,
        }
    }

    /// Whether it can hold weights.
    pub(crate) fn is_float(self) -> bool {
        !matches!(self, Self::Other(..))
    }

    /// Appends the elements in `bytes` to `values`: halves exactly, doubles rounded to the nearest. Other types than floats
    /// append nothing.
    pub(crate) fn decode(self, bytes: &[u8], values: &mut Vec<f32>) {
        match self {
            Self::F64 => values.extend(arrays(bytes).map(|bytes| f64::from_le_bytes(bytes) as f32)),
            Self::F32 => values.extend(arrays(bytes).map(f32::from_le_bytes)),
            Self::F16 => values.extend(arrays(bytes).map(|bytes| f16::from_le_bytes(bytes).to_f32())),
            Self::Bf16 => values.extend(arrays(bytes).map(|bytes| bf16::from_le_bytes(bytes).to_f32())),
            Self::Other(..) => {}
        }
    }
}

fn arrays<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks().0.iter().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(element: Element, bytes: &[u8]) -> Vec<f32> {
        let mut values = Vec::new();
        element.decode(bytes, &mut values);
        values
    }

    #[test]
    fn every_kind_of_float_becomes_32_bits() {
        let values = [1.5f32, -0.25, 65_504.0];
        let bytes = |each: fn(f32) -> Vec<u8>| values.into_iter().flat_map(each).collect::<Vec<_>>();
        assert_eq!(decoded(Element::F32, &bytes(|value| value.to_le_bytes().into())), values);
        assert_eq!(decoded(Element::F64, &bytes(|value| f64::from(value).to_le_bytes().into())), values);
        assert_eq!(decoded(Element::F16, &bytes(|value| f16::from_f32(value).to_le_bytes().into())), values);
        let exact = bytes(|value| bf16::from_f32(value).to_le_bytes().into());
        assert_eq!(decoded(Element::Bf16, &exact)[..2], values[..2]);
        // 65,504 needs more than the 8 significant bits of bf16.
        assert_eq!(decoded(Element::Bf16, &exact)[2], 65_536.0);
        assert_eq!(decoded(Element::F64, &0.1f64.to_le_bytes()), [0.1f32]);
        assert!(decoded(Element::Other("int64", 8), &[0; 8]).is_empty());
    }
}
