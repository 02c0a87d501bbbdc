use crate::weights::element::Element;

/// A Python name that a pickle of a state dict may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Global {
    /// `collections.OrderedDict`: the type of a state dict.
    OrderedDict,
    /// `torch._utils._rebuild_tensor_v2`, and `_rebuild_tensor` before it: a tensor of a part of a storage.
    RebuildTensor,
    /// `torch._utils._rebuild_parameter`, and the class itself before it: a tensor that is trained.
    RebuildParameter,
    /// `torch.FloatStorage` and the like: the kind of a storage's elements.
    Storage(Element),
}

/// The kinds of storages, by their name in `torch`.
const STORAGES: [(&str, Element); 12] = [
    ("DoubleStorage", Element::F64),
    ("FloatStorage", Element::F32),
    ("HalfStorage", Element::F16),
    ("BFloat16Storage", Element::Bf16),
    ("LongStorage", Element::Other("int64", 8)),
    ("IntStorage", Element::Other("int32", 4)),
    ("ShortStorage", Element::Other("int16", 2)),
    ("CharStorage", Element::Other("int8", 1)),
    ("ByteStorage", Element::Other("uint8", 1)),
    ("BoolStorage", Element::Other("bool", 1)),
    ("ComplexFloatStorage", Element::Other("complex64", 8)),
    ("ComplexDoubleStorage", Element::Other("complex128", 16)),
];

/// The global of that name; `None` if no state dict needs it.
pub(super) fn find(module: &str, name: &str) -> Option<Global> {
    match (module, name) {
        ("collections", "OrderedDict") => Some(Global::OrderedDict),
        ("torch._utils", "_rebuild_tensor_v2" | "_rebuild_tensor") => Some(Global::RebuildTensor),
        ("torch._utils", "_rebuild_parameter") | ("torch.nn.parameter", "Parameter") => {
            Some(Global::RebuildParameter)
        }
        ("torch", storage) => {
            STORAGES.iter().find(|(name, _)| *name == storage).map(|(_, element)| Global::Storage(*element))
        }
        _ => None,
    }
}
