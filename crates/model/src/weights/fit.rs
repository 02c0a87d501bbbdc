use std::collections::{BTreeMap, BTreeSet};

use super::{
    error::{Mismatch, WeightsError},
    file::{StoredTensor, WeightFile},
    form::TensorForm,
    shown::{names, shown},
};
use crate::{Architecture, Named, Stages, lora::is_adapter};

/// A parameter that a model needs values for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its name in the model tree.
    pub name: String,
    /// The size of each dimension.
    pub shape: Vec<usize>,
    /// Whether it belongs to the last of several stages: the head, which depends on the classes.
    pub is_of_head: bool,
}

/// The parameters of a model, and its running statistics. Files have no adapters.
pub fn wanted(model: &Stages) -> Vec<Wanted> {
    let last = model.len().saturating_sub(1);
    let mut wanted = Vec::new();
    model.visit(&mut |info, tensor| {
        if is_adapter(info.name) {
            return;
        }
        let is_of_head = last > 0 && info.stage == last;
        wanted.push(Wanted { name: info.name.to_owned(), shape: tensor.dims(), is_of_head });
    });
    wanted
}

/// The assignment of the tensors of a file to the parameters of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// The name in the file of every parameter that the file has.
    pub(super) sources: Named<String>,
    /// How the file stores those that it stores in another form.
    pub(super) forms: Named<TensorForm>,
    /// Pairs of names in the file that are one parameter of the model.
    pub(super) twins: Vec<(String, String)>,
    /// Parameters of the head that keep their initial values, since the file's are for other classes or missing.
    pub fresh: Vec<String>,
    /// Notices for the user.
    pub notices: Vec<String>,
}

impl Fit {
    /// Keeps the head's initial values: the file's head has the same number of classes, but other ones. `why` becomes a
    /// notice.
    pub fn drop_head(&mut self, wanted: &[Wanted], why: String) {
        for Wanted { name, .. } in wanted.iter().filter(|wanted| wanted.is_of_head) {
            if self.sources.remove(name).is_some() {
                self.fresh.push(name.clone());
            }
        }
        self.notices.push(why);
    }
}

/// Assigns the tensors of `file` to the parameters `wanted` of a model of `architecture`.
///
/// The file names its tensors as the model tree does, or as PyTorch does (see [`Architecture::pytorch_name`]). A prefix
/// that all names share, such as `module.`, is ignored. Counters of batches (`num_batches_tracked`) are ignored. If the file's head has another number of
/// outputs or is missing, the head keeps its initial values.
///
/// # Errors
/// [`WeightsError::Mismatch`] with all tensors that are missing, unexpected or of another shape or kind.
pub fn fit(file: &WeightFile, architecture: &Architecture, wanted: &[Wanted]) -> Result<Fit, WeightsError> {
    let tensors: InFile<'_> = file
        .tensors()
        .filter(|tensor| tensor.name.rsplit('.').next() != Some("num_batches_tracked"))
        .filter(|tensor| !architecture.is_pytorch_buffer(tensor.name))
        .map(|tensor| (tensor.name, tensor))
        .collect();
    let refused = |mismatch| WeightsError::Mismatch {
        path: file.path().to_owned(),
        model: architecture.name().to_owned(),
        mismatch: Box::new(mismatch),
    };
    let Some(naming) = Naming::find(&tensors, architecture, wanted) else {
        let ours = wanted.iter().map(|wanted| architecture.pytorch_name(&wanted.name)).collect();
        let theirs = tensors.keys().map(|name| (*name).to_owned()).collect();
        return Err(refused(Mismatch { strangers: Some((theirs, ours)), ..Mismatch::default() }));
    };
    let mut compared = Compared::default();
    for wanted in wanted {
        // Every wanted parameter has a name there.
        let name = naming.names.get(&wanted.name).unwrap_or(&wanted.name);
        let form = match naming.is_pytorch {
            true => architecture.pytorch_form(&wanted.name, &wanted.shape),
            false => TensorForm::Same,
        };
        compared.add(wanted, name, form, &tensors);
    }
    let mut fit = compared.settled(wanted);
    fit.twins = naming.twins(architecture, &tensors);
    let twins = fit.twins.iter().map(|(_, twin)| twin.as_str());
    let known: BTreeSet<&str> = naming.names.values().map(String::as_str).chain(twins).collect();
    let (unexpected, aside) = compared.unexpected(&tensors, &known, naming.prefix.len());
    compared.mismatch.unexpected = unexpected;
    if !compared.mismatch.is_none() {
        return Err(refused(compared.mismatch));
    }
    (fit.sources, fit.forms) = (compared.sources, compared.forms);
    let path = shown(&file.path().display().to_string());
    fit.notices.extend(compared.head.notice(&path));
    fit.notices.extend(
        (!aside.is_empty()).then(|| format!("the model has no parameter for {} of `{path}`", names(&aside))),
    );
    Ok(fit)
}

/// The tensors of a file by name.
type InFile<'a> = BTreeMap<&'a str, StoredTensor<'a>>;

/// The file's names for the model's parameters.
struct Naming {
    /// The file's name of each parameter.
    names: Named<String>,
    /// A prefix that all names of the file have and the model's names lack.
    prefix: String,
    /// Whether they are PyTorch's.
    is_pytorch: bool,
}

impl Naming {
    /// The layout and prefix that match most of the wanted parameters; `None` if none match.
    fn find(tensors: &InFile<'_>, architecture: &Architecture, wanted: &[Wanted]) -> Option<Self> {
        let layout = |name_of: &dyn Fn(&str) -> String| {
            wanted.iter().map(|wanted| (wanted.name.clone(), name_of(&wanted.name))).collect()
        };
        let layouts: [Named<String>; 2] =
            [layout(&|name| architecture.pytorch_name(name)), layout(&str::to_owned)];
        let mut prefix = String::new();
        loop {
            let found = |layout: &Named<String>| {
                layout
                    .values()
                    .filter(|name| tensors.contains_key(format!("{prefix}{name}").as_str()))
                    .count()
            };
            // Where both match as many, the names are the same.
            let best = layouts.iter().enumerate().rev().max_by_key(|(_, layout)| found(layout));
            if let Some((index, layout)) = best.filter(|(_, layout)| found(layout) > 0) {
                let names =
                    layout.iter().map(|(own, name)| (own.clone(), format!("{prefix}{name}"))).collect();
                return Some(Self { names, prefix, is_pytorch: index == 0 });
            }
            prefix = longer_prefix(tensors, &prefix)?;
        }
    }

    /// Pairs of tensors in the file that are one parameter of the model.
    fn twins(&self, architecture: &Architecture, tensors: &InFile<'_>) -> Vec<(String, String)> {
        let pair = |(own, twin): &(String, String)| {
            let first = self.names.get(own).filter(|first| **first != *own)?;
            let twin = format!("{}{twin}", self.prefix);
            tensors.contains_key(twin.as_str()).then(|| (first.clone(), twin))
        };
        architecture.pytorch_twins().iter().filter_map(pair).collect()
    }
}

/// The prefix with one more name part, if all names share that part.
fn longer_prefix(tensors: &InFile<'_>, prefix: &str) -> Option<String> {
    let first = tensors.keys().next()?;
    let (part, _) = first.get(prefix.len()..)?.split_once('.')?;
    let longer = format!("{prefix}{part}.");
    // The names are in order, so all have the prefix that the first and the last one have.
    let last = tensors.keys().next_back()?;
    (first.starts_with(&longer) && last.starts_with(&longer)).then_some(longer)
}

/// The comparison of the model's parameters with the file's tensors.
#[derive(Default)]
struct Compared {
    sources: Named<String>,
    forms: Named<TensorForm>,
    mismatch: Mismatch,
    head: Head,
}

/// The head's parameters. Those that do not fit may be for other classes.
#[derive(Default)]
struct Head {
    /// Parameters that the file lacks.
    missing: Vec<String>,
    /// Parameters with another number of outputs: the name, the file's outputs, the model's outputs.
    resized: Vec<(String, String, [usize; 2])>,
    /// Parameters that fit.
    fitting: usize,
    /// Whether the head keeps its initial values.
    is_fresh: bool,
}

impl Compared {
    fn add(&mut self, wanted: &Wanted, name: &str, form: TensorForm, tensors: &InFile<'_>) {
        let Some(found) = tensors.get(name) else {
            let missing = if wanted.is_of_head { &mut self.head.missing } else { &mut self.mismatch.missing };
            missing.push(name.to_owned());
            return;
        };
        if !found.is_float {
            let different = format!("`{}` is of {} and not of floats", shown(name), found.kind);
            self.mismatch.different.push(different);
            return;
        }
        let shape = form.shape(&wanted.shape);
        if found.shape == shape {
            self.head.fitting += usize::from(wanted.is_of_head);
            self.sources.insert(wanted.name.clone(), name.to_owned());
            if form != TensorForm::Same {
                self.forms.insert(wanted.name.clone(), form);
            }
            return;
        }
        match (found.shape.split_first(), shape.split_first()) {
            (Some((there, rest)), Some((here, other))) if wanted.is_of_head && rest == other => {
                self.head.resized.push((wanted.name.clone(), name.to_owned(), [*there, *here]));
            }
            _ => self.mismatch.different.push(different(name, found.shape, &shape)),
        }
    }

    /// Decides whether a head that does not fit keeps its initial values or is an error.
    fn settled(&mut self, wanted: &[Wanted]) -> Fit {
        let head = &mut self.head;
        let is_gone = head.fitting == 0 && head.resized.is_empty() && !head.missing.is_empty();
        let is_resized = head.missing.is_empty()
            && head
                .resized
                .split_first()
                .is_some_and(|(first, rest)| rest.iter().all(|other| other.2 == first.2));
        head.is_fresh = is_gone || is_resized;
        let mut fit = Fit::default();
        if is_gone {
            fit.fresh =
                wanted.iter().filter(|wanted| wanted.is_of_head).map(|wanted| wanted.name.clone()).collect();
        } else if is_resized {
            fit.fresh = head.resized.iter().map(|(own, ..)| own.clone()).collect();
        } else {
            self.mismatch.missing.append(&mut head.missing);
            let shape =
                |name: &str| wanted.iter().find(|wanted| wanted.name == name).map(|wanted| &wanted.shape);
            for (own, name, [there, _]) in head.resized.drain(..) {
                let here = shape(&own).cloned().unwrap_or_default();
                let mut found = here.clone();
                found[0] = there;
                self.mismatch.different.push(different(&name, &found, &here));
            }
        }
        fit
    }

    /// Tensors unknown to the model: unexpected ones, and those of a part that the model lacks as a whole.
    fn unexpected(
        &self,
        tensors: &InFile<'_>,
        known: &BTreeSet<&str>,
        prefix: usize,
    ) -> (Vec<String>, Vec<String>) {
        let part = |name: &str| name.get(prefix..).and_then(|rest| rest.split('.').next()).map(str::to_owned);
        let parts: BTreeSet<Option<String>> = known.iter().map(|name| part(name)).collect();
        let unknown = tensors.keys().filter(|name| !known.contains(*name)).map(|name| (*name).to_owned());
        let is_whole = self.mismatch.is_none() && (!self.head.is_fresh || self.head.missing.is_empty());
        unknown.partition(|name| !is_whole || parts.contains(&part(name)))
    }
}

fn different(name: &str, found: &[usize], wanted: &[usize]) -> String {
    format!("`{}` is {found:?} in the file and {wanted:?} in the model", shown(name))
}

impl Head {
    fn notice(&self, path: &str) -> Option<String> {
        if !self.is_fresh {
            return None;
        }
        let Some((_, _, [there, here])) = self.resized.first() else {
            let missing = names(&self.missing);
            return Some(format!("the weights `{path}` have no head ({missing}): it starts new"));
        };
        let resized: Vec<&str> = self.resized.iter().map(|(_, name, _)| name.as_str()).collect();
        Some(format!(
            "the head of the weights `{path}` ({}) has {there} outputs and the model {here}: it starts new",
            names(&resized)
        ))
    }
}
