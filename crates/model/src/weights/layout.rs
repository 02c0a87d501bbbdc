use std::{fmt, sync::Arc};

use super::form::TensorForm;

/// A library whose files of weights have names of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// PyTorch's own layers, and torchvision.
    PyTorch,
    /// Hugging Face's `transformers`.
    HuggingFace,
}

/// A tensor of a file that is a parameter of a model, or some of its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorPart {
    /// The tensor's name.
    pub name: String,
    /// The size of each dimension in the model. The first counts the rows.
    pub shape: Vec<usize>,
    /// How the file stores the elements.
    pub form: TensorForm,
}

impl TensorPart {
    /// A whole parameter, stored as it is.
    pub fn whole(name: impl Into<String>, shape: &[usize]) -> Self {
        Self { name: name.into(), shape: shape.to_vec(), form: TensorForm::Same }
    }

    /// Tensors that are the rows of a parameter of the shape `shape`, in this order: each with its name and its number of rows.
    pub fn rows<const N: usize>(rows: [(String, usize); N], shape: &[usize]) -> Vec<Self> {
        let rest = shape.get(1..).unwrap_or_default();
        let part = |(name, rows): (String, usize)| Self::whole(name, &[&[rows][..], rest].concat());
        rows.map(part).into()
    }

    /// The elements in the model.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

type Parts = dyn Fn(&str, &[usize]) -> Vec<TensorPart> + Send + Sync;

/// The names and forms that a library's files have for the parameters of a network.
///
/// ```
/// use oomph_model::weights::{Layout, Library, TensorPart};
///
/// // A layer for both gates here, one layer for each there.
/// let layout = Layout::new(Library::PyTorch, |name, shape| match name {
///     "cell.gates.weight" => TensorPart::rows([("forget.weight".into(), 8), ("input.weight".into(), 8)], shape),
///     name => vec![TensorPart::whole(name, shape)],
/// });
/// let parts = layout.parts("cell.gates.weight", &[16, 4]);
/// assert_eq!((parts[1].name.as_str(), parts[1].shape.as_slice()), ("input.weight", &[8, 4][..]));
/// ```
#[derive(Clone)]
pub struct Layout {
    library: Library,
    parts: Arc<Parts>,
    base: &'static str,
    ignored: Vec<&'static str>,
    twins: Vec<Twin>,
}

/// A tensor that is a parameter a second time: two layers share it.
#[derive(Clone, Debug)]
pub(super) struct Twin {
    /// The parameter.
    pub(super) name: String,
    /// The second name in files.
    pub(super) twin: String,
    /// Whether files that are written have it.
    is_written: bool,
}

impl Layout {
    /// A layout in which `parts` gives the tensors of a parameter, by its name and shape.
    pub fn new(
        library: Library,
        parts: impl Fn(&str, &[usize]) -> Vec<TensorPart> + Send + Sync + 'static,
    ) -> Self {
        Self { library, parts: Arc::new(parts), base: "", ignored: Vec::new(), twins: Vec::new() }
    }

    /// A layout of PyTorch in which each parameter is a tensor of another name.
    pub fn of_names(rename: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self::new(Library::PyTorch, move |name, shape| vec![TensorPart::whole(rename(name), shape)])
    }

    /// Declares that names which begin with `base`, such as `transformer.`, lack it in files of a network without a head.
    #[must_use]
    pub fn with_base(mut self, base: &'static str) -> Self {
        self.base = base;
        self
    }

    /// Declares that files may have tensors whose names end so, and that they are no parameters.
    #[must_use]
    pub fn with_ignored(mut self, endings: &[&'static str]) -> Self {
        self.ignored = endings.to_vec();
        self
    }

    /// Declares that files may have the parameter `name` a second time, as `twin`. Files that are written have it twice too, if
    /// `is_written`.
    #[must_use]
    pub fn with_twin(mut self, name: &str, twin: &str, is_written: bool) -> Self {
        self.twins.push(Twin { name: name.into(), twin: twin.into(), is_written });
        self
    }

    /// Whose files they are.
    pub fn library(&self) -> Library {
        self.library
    }

    /// The tensors that are the parameter `name` of this shape.
    pub fn parts(&self, name: &str, shape: &[usize]) -> Vec<TensorPart> {
        (self.parts)(name, shape)
    }

    /// The second names that written files have of the parameter `name`.
    pub fn copies<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let written = self.twins.iter().filter(move |twin| twin.is_written && twin.name == name);
        written.map(|twin| twin.twin.as_str())
    }

    /// Whether a tensor of a file is no parameter.
    pub(super) fn ignores(&self, name: &str) -> bool {
        self.ignored.iter().any(|ending| name.ends_with(ending))
    }

    pub(super) fn base(&self) -> &'static str {
        self.base
    }

    pub(super) fn twins(&self) -> &[Twin] {
        &self.twins
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layout").field("library", &self.library).finish_non_exhaustive()
    }
}
