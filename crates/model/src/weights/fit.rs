use std::collections::BTreeSet;

use oomph_core::is_within;

use super::{
    error::{Mismatch, WeightsError},
    file::WeightFile,
    layout::TensorPart,
    naming::{InFile, Naming},
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
    /// The tensors in the file of every parameter that the file has: its rows, one behind the other.
    pub(super) sources: Named<Vec<TensorPart>>,
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
/// The file names its tensors as the model tree does, or as one of the architecture's [layouts](super::Layout). A prefix
/// that all names share, such as `module.`, is ignored. Counters of batches (`num_batches_tracked`) are ignored. If the file's head has another number of
/// outputs or is missing, the head keeps its initial values.
///
/// # Errors
/// [`WeightsError::Mismatch`] with all tensors that are missing, unexpected or of another shape or kind.
pub fn fit(file: &WeightFile, architecture: &Architecture, wanted: &[Wanted]) -> Result<Fit, WeightsError> {
    let tensors: InFile<'_> = file
        .tensors()
        .filter(|tensor| tensor.name.rsplit('.').next() != Some("num_batches_tracked"))
        .filter(|tensor| !architecture.layouts().iter().any(|layout| layout.ignores(tensor.name)))
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
        compared.add(wanted, naming.parts(&wanted.name), &tensors);
    }
    let mut fit = compared.settled(wanted);
    fit.twins = naming.twins(&tensors);
    let twins = fit.twins.iter().map(|(_, twin)| twin.as_str());
    let known: BTreeSet<&str> = naming.names().chain(twins).collect();
    let (unexpected, aside) = compared.unexpected(&tensors, &known, &naming);
    compared.mismatch.unexpected = unexpected;
    if !compared.mismatch.is_none() {
        return Err(refused(compared.mismatch));
    }
    fit.sources = compared.sources;
    let path = shown(&file.path().display().to_string());
    fit.notices.extend(compared.head.notice(&path));
    fit.notices.extend(
        (!aside.is_empty()).then(|| format!("the model has no parameter for {} of `{path}`", names(&aside))),
    );
    Ok(fit)
}

/// The comparison of the model's parameters with the file's tensors.
#[derive(Default)]
struct Compared {
    sources: Named<Vec<TensorPart>>,
    mismatch: Mismatch,
    head: Head,
}

/// The head's parameters. Those that do not fit may be for other classes.
#[derive(Default)]
struct Head {
    /// Parameters that the file lacks: their names, and those of the file.
    missing: Vec<(String, String)>,
    /// Parameters with another number of outputs: the name, the file's outputs, the model's outputs.
    resized: Vec<(String, String, [usize; 2])>,
    /// Parameters that fit.
    fitting: Vec<String>,
    /// Whether a parameter fits that comes after a missing one.
    is_torn: bool,
    /// Whether the head keeps its initial values.
    is_fresh: bool,
}

impl Compared {
    fn add(&mut self, wanted: &Wanted, parts: &[TensorPart], tensors: &InFile<'_>) {
        let absent: Vec<_> = parts.iter().filter(|part| !tensors.contains_key(part.name.as_str())).collect();
        for TensorPart { name, .. } in &absent {
            match wanted.is_of_head {
                true => self.head.missing.push((wanted.name.clone(), name.clone())),
                false => self.mismatch.missing.push(name.clone()),
            }
        }
        // Each part is looked at, so that all that differ are in one message.
        let fitting = parts.iter().filter(|part| self.fits(wanted, part, tensors)).count();
        if fitting == parts.len() {
            self.sources.insert(wanted.name.clone(), parts.to_vec());
            if wanted.is_of_head {
                self.head.is_torn |= !self.head.missing.is_empty();
                self.head.fitting.push(wanted.name.clone());
            }
        }
    }

    /// Whether a tensor is in the file, as the model needs it.
    fn fits(&mut self, wanted: &Wanted, part: &TensorPart, tensors: &InFile<'_>) -> bool {
        let Some(found) = tensors.get(part.name.as_str()) else { return false };
        if !found.is_float {
            let different = format!("`{}` is of {} and not of floats", shown(&part.name), found.kind);
            self.mismatch.different.push(different);
            return false;
        }
        let shape = part.form.shape(&part.shape);
        if found.shape == shape {
            return true;
        }
        match (found.shape.split_first(), shape.split_first()) {
            (Some((there, rest)), Some((here, other))) if wanted.is_of_head && rest == other => {
                self.head.resized.push((wanted.name.clone(), part.name.clone(), [*there, *here]));
            }
            _ => self.mismatch.different.push(different(&part.name, found.shape, &shape)),
        }
        false
    }

    /// Decides whether a head that does not fit keeps its initial values or is an error.
    fn settled(&mut self, wanted: &[Wanted]) -> Fit {
        let head = &mut self.head;
        let is_gone = head.resized.is_empty() && head.lacks_last_layers();
        let is_resized = head.missing.is_empty()
            && head
                .resized
                .split_first()
                .is_some_and(|(first, rest)| rest.iter().all(|other| other.2 == first.2));
        head.is_fresh = is_gone || is_resized;
        let mut fit = Fit::default();
        if is_gone {
            fit.fresh = head.missing.iter().map(|(own, _)| own.clone()).collect();
        } else if is_resized {
            fit.fresh = head.resized.iter().map(|(own, ..)| own.clone()).collect();
        } else {
            self.mismatch.missing.extend(head.missing.drain(..).map(|(_, name)| name));
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
        naming: &Naming<'_>,
    ) -> (Vec<String>, Vec<String>) {
        let parts: BTreeSet<Option<&str>> = known.iter().map(|name| naming.module(name)).collect();
        let unknown = tensors.keys().filter(|name| !known.contains(*name)).map(|name| (*name).to_owned());
        let is_whole = self.mismatch.is_none() && (!self.head.is_fresh || self.head.missing.is_empty());
        unknown.partition(|name| !is_whole || parts.contains(&naming.module(name)))
    }
}

fn different(name: &str, found: &[usize], wanted: &[usize]) -> String {
    format!("`{}` is {found:?} in the file and {wanted:?} in the model", shown(name))
}

impl Head {
    /// Whether parameters are missing, and they are all of the last layers: those for the classes.
    fn lacks_last_layers(&self) -> bool {
        let has_rest = |(own, _): &(String, String)| {
            let layer = own.rsplit_once('.').map_or("", |(layer, _)| layer);
            self.fitting.iter().any(|fitting| is_within(fitting, layer))
        };
        !self.missing.is_empty() && !self.is_torn && !self.missing.iter().any(has_rest)
    }

    fn notice(&self, path: &str) -> Option<String> {
        if !self.is_fresh {
            return None;
        }
        let Some((_, _, [there, here])) = self.resized.first() else {
            let missing: Vec<&str> = self.missing.iter().map(|(_, name)| name.as_str()).collect();
            let missing = names(&missing);
            return Some(format!("the weights `{path}` have no head ({missing}): it starts new"));
        };
        let resized: Vec<&str> = self.resized.iter().map(|(_, name, _)| name.as_str()).collect();
        Some(format!(
            "the head of the weights `{path}` ({}) has {there} outputs and the model {here}: it starts new",
            names(&resized)
        ))
    }
}
